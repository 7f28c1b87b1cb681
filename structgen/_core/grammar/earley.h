// Earley sets: the parser positions after a prefix that ends with a complete lexeme (Earley, 1970).
//
// A set is a few (kernel, origin) pairs; an origin is an older set (see grammar/item_sets.h). It is immutable except
// for cached results, and lives in the arena of the matcher that made it. Right recursion costs the same at any length:
// if a completed rule only completes another one in an older set, the older set is used directly, and this link is
// stored (Leo, "A general context-free parsing algorithm running in linear time on every LR(k) grammar without using
// lookahead", 1991). The same holds for a rule that completes several rules in several sets, if all of these lead to
// one in the end: an ambiguous right recursion is as cheap.
//
// `Reads` records what the construction of a mask looked up in older sets. Masks are cached under these answers alone,
// so equal positions inside different texts share a mask.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/item_sets.h"
#include "util/arena.h"
#include "util/flat_index.h"
#include "util/inline_vector.h"
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
  // subtle: these members change. They are written while the space is held, and are correct at any time.
  mutable Symbol linked = 0;                // completing this rule here ...
  mutable Symbol to = 0;                    // ... is completing that one ...
  mutable const EarleySet *link = nullptr;  // ... in there; null: no rule is stored. Others: `Links`.
  mutable Hash128 rest{};                   // of what its items still need; zero: not known yet
  // The last `Reads` that met this set, and the number that it gave.
  mutable uint64_t read_by = 0;
  mutable uint32_t label = 0;
  mutable const EarleySet *kept = nullptr;  // its copy in longer-lived memory
};

// Where completing a rule in a set leads, for rules beyond the one that the set itself stores: several right recursions
// may run in parallel. A cache of fixed size. Entries of sets that no longer exist are never found, since ids are not
// reused.
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

// The dependencies of one mask: queries to older sets while it was built, in order, with their answers.
//
// A query is: where does completing one symbol in one set lead, and which items does it move there? Nothing else of a
// set is used. Only the set that the mask is built for may be known as a *whole*, by its shape; then it needs no
// queries.
class Reads {
 public:
  struct Question {
    uint32_t set;  // as numbered by earlier answers; 0: the set that the mask is made for
    Symbol symbol;
  };
  Reads(const EarleySet *first, bool is_whole, const IndentLevel *indent, uint32_t brackets);

  uint32_t label(const EarleySet *s) const {
    return s->read_by == id_ ? s->label : UINT32_MAX;
  }  // or one made meanwhile
  bool is_whole(uint32_t label) const { return label == 0 && is_whole_; }
  // Are only answers known of the set?
  bool is_open(const EarleySet *s) const { return s->read_by == id_ && !is_whole(s->label); }
  const EarleySet *set(uint32_t label) const { return sets_[label]; }
  // The number of an older set. Sets with equal continuations have one number, since parses in them are merged.
  uint32_t number(const EarleySet *s);
  // Records that `symbol` in a set leads to `as` in `to`, with these moves.
  void ask(uint32_t label, Symbol symbol, const EarleySet *to, Symbol as, const Hash128 &moves);
  // Records how the open blocks compare with a line's column, or all open blocks if a token has changed them.
  static constexpr uint32_t INDENTATION = UINT32_MAX;  // the "set" of that question, the column its symbol
  static constexpr uint32_t ALL_INDENTATION = UINT32_MAX - 2;
  void ask_indentation(const IndentLevel *indent, uint32_t column);
  static Hash128 indentation_answer(const IndentLevel *indent, uint32_t column);
  static Hash128 all_indentation_answer(const IndentLevel *indent);
  // Records how the number of open brackets compares with the number that a token closes.
  static constexpr uint32_t BRACKETS = UINT32_MAX - 3;
  void ask_brackets(uint32_t open);  // one of them is closed now
  void ask_all_brackets();
  static Hash128 brackets_answer(uint32_t open, uint32_t closed);
  // Records all of the first set.
  static constexpr uint32_t IDENTITY = UINT32_MAX - 1;
  void ask_identity();
  const std::vector<std::pair<Question, Hash128>> &asked() const { return asked_; }
  // Where completing a symbol in a numbered set leads; null: not known yet.
  struct Target {
    const EarleySet *set;
    Symbol symbol;
  };
  const Target *resolved(uint32_t label, Symbol symbol) const {
    const auto it = resolved_.find(key({label, symbol}));
    return it == resolved_.end() ? nullptr : &it->second;
  }
  void resolve(uint32_t label, Symbol symbol, Target to) { resolved_[key({label, symbol})] = to; }
  // What the items of a set still need, by the answers; zero: not known yet.
  Hash128 &rest(const EarleySet *s) { return rests_[s->id]; }

 private:
  static uint64_t key(Question q) { return static_cast<uint64_t>(q.set) << 32 | static_cast<uint32_t>(q.symbol); }
  bool has_question(Question question);
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
    size_t index_of(const EarleySet *origin);  // of its entry; the number of entries: it has no entry yet
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

  // Where completing `symbol` in `s` leads in the end: to itself, or to the end of a chain of last symbols.
  std::pair<const EarleySet *, Symbol> resolve(const EarleySet *s, Symbol symbol, Reads *reads);

  // Do two sets have the same continuations, as far as their items show it? What counts is what an item still needs,
  // and where its completion leads in the end: sets that differ only in the depth of a right recursion are the same.
  // `reads` records the queries on which the result depends.
  bool same_rest(const EarleySet *a, const EarleySet *b, Reads *reads) {
    return a->accepting == b->accepting && a->outlook == b->outlook && rest(a, reads) == rest(b, reads);
  }
  const Hash128 &rest(const EarleySet *s, Reads *reads);

  // A hash of all that completing `symbol` in a set can lead to, independent of the set where it is completed; the set
  // may be an origin, too. Where a name may follow a name, a name may end at each byte, and names that begin there
  // mostly agree.
  Hash128 outcome(const EarleySet *s, Symbol symbol);

  // A hash of what completing `symbol` does in a set: the kernels that it moves, and the sets that these belong to.
  // Rules that are parts of others, such as the first of a list, differ only by name.
  Hash128 moves(const EarleySet *s, Symbol symbol, Reads &reads);

  // Records the moves of sets in `trace` from here on; null: stops recording.
  void record(EarleyTrace *trace) { trace_ = trace; }

  ItemSets &items() { return items_; }
  size_t work() const { return work_; }  // moves that were made for any set

 private:
  // Looks up a stored link. False: there is no link.
  bool linked(const EarleySet *s, Symbol symbol, const EarleySet **to, Symbol *as) const;
  void link(const EarleySet *s, Symbol symbol, const EarleySet *to, Symbol as);

  // Where completing `symbol` in `s` leads if it only completes one rule in one older set; otherwise to itself.
  struct Target {
    const EarleySet *set;
    Symbol symbol;
    bool searched = false;  // several rules are completed, and their ends were searched
  };
  Target next_target(const EarleySet *s, Symbol symbol, Reads *reads);

  // Moves that one position may take for each entry that it may have. If rules can end in many ways at many positions,
  // the moves grow with the square of the entries.
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
  int nested_ = 0;  // searches of `next_target` inside each other
  Links links_;
  struct Outcome {  // the last results
    uint64_t of = 0;
    Symbol symbol = 0;
    Hash128 outcome{};
  };
  static constexpr size_t OUTCOMES = 512;
  std::vector<Outcome> outcomes_;
};

}  // namespace structgen
