// Earley sets: what the text read so far can be the beginning of, at a place where a lexeme has ended.
//
// A set is a few (kernel, origin) pairs, an origin being an older set; see grammar/item_sets.h. It is immutable but for
// what is remembered of it, and lives in the arena of the matcher that made it. Right recursion costs the same at
// any length: a completed rule that does nothing but complete another one in an older set is looked up there
// directly, and the way is remembered (Leo, "A general context-free parsing algorithm running in linear time on
// every LR(k) grammar without using lookahead", 1991). So is one that completes several rules in several sets, where all
// of these lead to one in the end: an ambiguous right recursion is as cheap.
//
// `Reads` records what the making of a mask looked up in sets that were there before: masks are remembered under
// just these answers, so the same place inside other text around it shares its mask.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "util/arena.h"
#include "util/flat_index.h"
#include "util/inline_vector.h"
#include "grammar/item_sets.h"
#include "util/serial.h"

namespace structgen {

struct IndentLevel {  // an open block
  const IndentLevel *below;
  uint32_t column;
  Hash128 identity;
};
class EarleyTrace;

struct EarleySet {
  Hash128 identity;  // of all that can follow
  Hash128 shape;     // of the kernels alone
  uint32_t serial;   // greater than that of any set before it
  uint32_t count;
  Outlook outlook;
  bool accepting;  // the text so far is a text of the grammar
  const Kernel *kernels;
  const EarleySet *const *origins;
  // The set before, and the terminal between them; of the first one where several readings lead here. Null: the first.
  const EarleySet *before = nullptr;
  Symbol by = 0;
  uint64_t id = next_serial();  // of a copy: another one
  // subtle: what changes; written under the turn on the space, and never wrong.
  mutable Symbol linked = 0;  // completing this rule here ...
  mutable Symbol to = 0;      // ... is completing that one ...
  mutable const EarleySet *link = nullptr;  // ... in there; null: no rule is remembered. Others: `Links`.
  mutable Hash128 rest{};  // of what its items still need; nothing: not known yet
  // Likewise, the last `Reads` that met this set, and the number that it gave.
  mutable uint64_t read_by = 0;
  mutable uint32_t label = 0;
  mutable const EarleySet *kept = nullptr;  // its copy in longer-lived memory
};

// Where completing a rule in a set leads, beyond the one rule that the set itself remembers: where several right
// recursions go on side by side. At most so many; a set that is gone is met no more, since its number is not given again.
class Links {
 public:
  struct Link {
    const EarleySet *set;
    Symbol symbol;
  };
  const Link *find(const EarleySet *set, Symbol symbol) const {
    if (slots_.empty()) return nullptr;
    const Slot &slot = slots_[place(set, symbol)];
    return slot.of == set->id && slot.symbol == symbol ? &slot.link : nullptr;
  }
  void put(const EarleySet *set, Symbol symbol, Link link) {
    if (slots_.empty()) slots_.resize(COUNT);
    slots_[place(set, symbol)] = {set->id, symbol, link};
  }

 private:
  static constexpr size_t COUNT = 2048;
  struct Slot {
    uint64_t of = 0;
    Symbol symbol = 0;
    Link link{};
  };
  static size_t place(const EarleySet *set, Symbol symbol) {
    return mix(set->id, static_cast<uint32_t>(symbol)) % COUNT;
  }
  std::vector<Slot> slots_;
};

// Questions to older sets while one mask is made, in order, with their answers.
//
// A question is where completing one symbol in one set leads, and what it moves there; nothing else of a set is known. Only
// the set that the mask is made for may be known as a *whole*: by its shape, so that it is asked no questions.
class Reads {
 public:
  struct Question {
    uint32_t set;  // as numbered by earlier answers; 0: the set that the mask is made for
    Symbol symbol;
  };
  Reads(const EarleySet *first, bool is_whole, const IndentLevel *indent, uint32_t brackets);

  uint32_t label(const EarleySet *s) const { return s->read_by == id_ ? s->label : UINT32_MAX; }  // or one made meanwhile
  bool is_whole(uint32_t label) const { return label == 0 && is_whole_; }
  // Is nothing but answers known of the set?
  bool is_open(const EarleySet *s) const { return s->read_by == id_ && !is_whole(s->label); }
  const EarleySet *set(uint32_t label) const { return sets_[label]; }
  // The number of an older set. Sets of which the same follows have one, since readings in them are merged.
  uint32_t number(const EarleySet *s);
  // `symbol` in a set leads to `as` in `to`, which makes these moves.
  void ask(uint32_t label, Symbol symbol, const EarleySet *to, Symbol as, const Hash128 &moves);
  // How the open blocks compare with a line's column; all of them, where a token has read them before.
  static constexpr uint32_t INDENTATION = UINT32_MAX;  // the "set" of that question, the column its symbol
  static constexpr uint32_t ALL_INDENTATION = UINT32_MAX - 2;
  void ask_indentation(const IndentLevel *indent, uint32_t column);
  static Hash128 indentation_answer(const IndentLevel *indent, uint32_t column);
  static Hash128 all_indentation_answer(const IndentLevel *indent);
  // How the number of open brackets compares with that of those that a token closes.
  static constexpr uint32_t BRACKETS = UINT32_MAX - 3;
  void ask_brackets(uint32_t open);  // of which one is closed now
  void ask_all_brackets();
  static Hash128 brackets_answer(uint32_t open, uint32_t closed);
  // All of the first set.
  static constexpr uint32_t IDENTITY = UINT32_MAX - 1;
  void ask_identity();
  const std::vector<std::pair<Question, Hash128>> &asked() const { return asked_; }
  // Where completing a symbol in a set that has a number leads; null: that has not been found out.
  struct Target {
    const EarleySet *set;
    Symbol symbol;
  };
  const Target *resolved(uint32_t label, Symbol symbol) const {
    const auto it = resolved_.find(key({label, symbol}));
    return it == resolved_.end() ? nullptr : &it->second;
  }
  void resolve(uint32_t label, Symbol symbol, Target to) { resolved_[key({label, symbol})] = to; }
  // What the items of a set still need, by the answers; nothing: not known yet.
  Hash128 &rest(const EarleySet *s) { return rests_[s->id]; }

 private:
  static uint64_t key(Question q) { return static_cast<uint64_t>(q.set) << 32 | static_cast<uint32_t>(q.symbol); }
  bool was_asked(Question question);
  const uint64_t id_ = next_serial();
  const bool is_whole_;
  const IndentLevel *indent_;
  const uint32_t brackets_;
  std::vector<const EarleySet *> sets_;
  std::vector<std::pair<Question, Hash128>> asked_;
  std::unordered_map<uint64_t, Target> resolved_;
  std::unordered_map<uint64_t, Hash128> rests_;
};

class Earley {
 public:
  Earley(const Grammar &grammar, ItemSets &items, size_t most_entries)
      : g_(grammar), items_(items), most_entries_(most_entries) {}

  const EarleySet *start(Arena &arena);

  // The set after some symbols, each recognised since some set.
  class Builder {
   public:
    Builder(Earley &earley, Reads *reads) : e_(earley), reads_(reads) {}
    void recognised(const EarleySet *since, Symbol symbol);
    const EarleySet *finish(Arena &arena);  // null: no item is left
    // May the text end after these symbols?
    bool accepting() const { return accepting_; }
    void clear();

   private:
    friend class Earley;
    struct Entry {
      const EarleySet *origin;
      Kernel kernel;
    };
    void add(const EarleySet *origin, Kernel kernel);
    size_t place(const EarleySet *origin);  // of its entry; as many as there are: it has none yet
    bool seen(const EarleySet *set, Symbol symbol);
    Earley &e_;
    Reads *reads_;
    struct Recognised {
      const EarleySet *since;
      Symbol symbol;
    };
    InlineVector<Entry, 4> entries_;
    InlineVector<Recognised, 8> done_;
    InlineVector<Recognised, 4> work_;
    FlatIndex by_origin_, done_index_;  // where there are many
    bool accepting_ = false;
    const EarleySet *before_ = nullptr;
    Symbol by_ = 0;
    std::vector<std::pair<const EarleySet *, Symbol>> recorded_;  // for a trace: what was recognised
    uint32_t serial_ = 0;
    size_t moves_ = 0;
  };

  // Where completing `symbol` in `s` really leads: itself, or the end of a chain of last symbols.
  std::pair<const EarleySet *, Symbol> resolve(const EarleySet *s, Symbol symbol, Reads *reads);

  // Can the same follow, as far as that shows without reading on? What an item still needs counts, and where its
  // completion really leads: so sets that differ in how far a right recursion has come are the same. A mask that is made
  // writes down the questions on which that depends.
  bool same_rest(const EarleySet *a, const EarleySet *b, Reads *reads) {
    return a->accepting == b->accepting && a->outlook == b->outlook && rest(a, reads) == rest(b, reads);
  }
  const Hash128 &rest(const EarleySet *s, Reads *reads);

  // Of all that completing `symbol` in a set can lead to, in whatever set it stands: with this set as an origin, too. Where a name
  // may follow a name, every place in it is an end, and names that begin at those places are mostly alike.
  Hash128 outcome(const EarleySet *s, Symbol symbol);

  // What completing `symbol` does in a set: the kernels that it moves, and the sets of which they are. Rules that are parts
  // of others, such as the first of a list, differ only by name.
  Hash128 moves(const EarleySet *s, Symbol symbol, Reads &reads);

  // From here on the moves of sets are written down there; null: no more.
  void record(EarleyTrace *trace) { trace_ = trace; }

  ItemSets &items() { return items_; }
  size_t work() const { return work_; }  // moves that were made for any set

 private:
  // What is remembered of that; false: nothing.
  bool linked(const EarleySet *s, Symbol symbol, const EarleySet **to, Symbol *as) const;
  void link(const EarleySet *s, Symbol symbol, const EarleySet *to, Symbol as);

  // Where completing `symbol` in `s` leads, if it is nothing but completing one rule in one older set; otherwise to itself.
  struct Way {
    const EarleySet *set;
    Symbol symbol;
    bool searched = false;  // several rules are completed, and it was looked where they lead
  };
  Way way_on(const EarleySet *s, Symbol symbol, Reads *reads);

  // Moves that one place may take for each entry that it may have: where rules can be ended in many ways at many
  // places, their number is the square of that of the entries.
  static constexpr size_t MOVES = 100;

  const Grammar &g_;
  ItemSets &items_;
  size_t most_entries_;
  size_t work_ = 0;
  EarleyTrace *trace_ = nullptr;
  static constexpr int MOST_NESTED = 256;
  struct Nested {
    explicit Nested(int &depth) : depth_(++depth) {}
    ~Nested() { --depth_; }
    int &depth_;
  };
  int nested_ = 0;  // searches of `way_on` inside each other
  Links links_;
  struct Outcome {  // what was found last
    uint64_t of = 0;
    Symbol symbol = 0;
    Hash128 outcome{};
  };
  static constexpr size_t OUTCOMES = 512;
  std::vector<Outcome> outcomes_;
};

}  // namespace structgen
