// Earley sets: the parser positions after a prefix that ends with a complete lexeme (Earley, 1970).
//
// A set is a few (kernel, origin) pairs; an origin is an older set (see grammar/item_sets.h). It is immutable except
// for cached results, and lives in the arena of the matcher that made it. Right recursion costs the same at any length:
// if a completed rule only completes another one in an older set, the older set is used directly, and this link is
// stored (Leo, "A general context-free parsing algorithm running in linear time on every LR(k) grammar without using
// lookahead", 1991). The same holds for a rule that completes several rules in several sets, if all of these lead to
// one in the end: an ambiguous right recursion is as cheap.
//
// `MaskDependencies` records what the construction of a mask looked up in older sets. These answers alone are the key
// of a cached mask, so equal positions inside different texts share a mask.
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
  Hash128 shape;     // of the kernels, without the origins
  uint32_t serial;   // greater than that of any set before it
  uint32_t count;
  Outlook outlook;
  bool accepting;  // the text so far is a text of the grammar
  const Kernel *kernels;
  const EarleySet *const *origins;
  // The previous set, and the terminal between the two: of the first parse, if several parses lead here. Null for the
  // first set.
  const EarleySet *before = nullptr;
  Symbol by = 0;
  uint64_t id = next_serial();  // a copy has an id of its own
  // subtle: these members change. They are written while the space is held, and are correct at any time.
  // Completing the rule `linked` here equals completing the rule `to` in the set `link`. Null: no rule is stored. The
  // links of further rules are in `Links`.
  mutable Symbol linked = 0;
  mutable Symbol to = 0;
  mutable const EarleySet *link = nullptr;
  mutable Hash128 rest{};  // of the rests of its items (`Earley::rest`); zero: not known yet
  // The last `MaskDependencies` that labelled this set, and the label.
  mutable uint64_t labelled_by = 0;
  mutable uint32_t label = 0;
  mutable const EarleySet *kept = nullptr;  // its copy in longer-lived memory
};

// A cache of fixed size: where completing a rule in a set leads, for rules beyond the one that the set itself stores,
// since several right recursions may run in parallel. Entries of deleted sets are never found, since ids are not
// reused.
class Links {
 public:
  struct Link {
    const EarleySet *set;
    Symbol symbol;
  };
  const Link *find(const EarleySet *set, Symbol symbol) const {
    if (slots_.empty()) return nullptr;
    const Slot &slot = slots_[slot_of(set, symbol)];
    return slot.of == set->id && slot.symbol == symbol ? &slot.link : nullptr;
  }
  void put(const EarleySet *set, Symbol symbol, Link link) {
    if (slots_.empty()) slots_.resize(COUNT);
    slots_[slot_of(set, symbol)] = {set->id, symbol, link};
  }

 private:
  static constexpr size_t COUNT = 2048;
  struct Slot {
    uint64_t of = 0;
    Symbol symbol = 0;
    Link link{};
  };
  static size_t slot_of(const EarleySet *set, Symbol symbol) {
    return mix(set->id, static_cast<uint32_t>(symbol)) % COUNT;
  }
  std::vector<Slot> slots_;
};

// The dependencies of one mask: the queries to older sets while it was built, in order, with their answers.
//
// A query asks where completing one symbol in one set leads, and which items it moves there. Nothing else of a set is
// used. Each set that was met has a *label*, its number in the order of first use. Only the set that the mask is built
// for may be known as a *whole*, by its shape. That set needs no queries.
class MaskDependencies {
 public:
  struct Query {
    uint32_t set;  // its label; 0: the set that the mask is built for
    Symbol symbol;
  };
  MaskDependencies(const EarleySet *first, bool is_whole, const IndentLevel *indent, uint32_t brackets);

  // UINT32_MAX: the set has no label, for instance since it was made by the same token.
  uint32_t label(const EarleySet *s) const { return s->labelled_by == id_ ? s->label : UINT32_MAX; }
  bool is_whole(uint32_t label) const { return label == 0 && is_whole_; }
  // Does the mask know this set only by the answers to its queries?
  bool is_partly_known(const EarleySet *s) const { return s->labelled_by == id_ && !is_whole(s->label); }
  const EarleySet *set(uint32_t label) const { return sets_[label]; }
  // Labels an older set. Sets with equal continuations have the same label, since parses in them are merged.
  uint32_t assign_label(const EarleySet *s);
  // Records that completing `symbol` in a set leads to completing `as` in `to`, with these moves.
  void record_completion(uint32_t label, Symbol symbol, const EarleySet *to, Symbol as, const Hash128 &moves);
  // Records how the open blocks compare with a line's column, or all open blocks if a token has changed them. In such a
  // query `INDENTATION` stands for the set, and the column for the symbol.
  static constexpr uint32_t INDENTATION = UINT32_MAX;
  static constexpr uint32_t ALL_INDENTATION = UINT32_MAX - 2;
  void record_indentation(const IndentLevel *indent, uint32_t column);
  static Hash128 indentation_answer(const IndentLevel *indent, uint32_t column);
  static Hash128 all_indentation_answer(const IndentLevel *indent);
  // Records how the number of open brackets compares with the number that a token closes.
  static constexpr uint32_t BRACKETS = UINT32_MAX - 3;
  void record_brackets(uint32_t open);  // one of them is closed now
  void record_all_brackets();
  static Hash128 brackets_answer(uint32_t open, uint32_t closed);
  // Records that the mask depends on everything that can follow the set that it is built for.
  static constexpr uint32_t IDENTITY = UINT32_MAX - 1;
  void record_identity();
  const std::vector<std::pair<Query, Hash128>> &queries() const { return queries_; }
  // Where completing a symbol in a labelled set leads; null: not known yet.
  struct Target {
    const EarleySet *set;
    Symbol symbol;
  };
  const Target *resolved(uint32_t label, Symbol symbol) const {
    const auto it = resolved_.find(key({label, symbol}));
    return it == resolved_.end() ? nullptr : &it->second;
  }
  void resolve(uint32_t label, Symbol symbol, Target to) { resolved_[key({label, symbol})] = to; }
  // `Earley::rest` of a set, as far as the recorded answers tell; zero: not known yet.
  Hash128 &rest(const EarleySet *s) { return rests_[s->id]; }

 private:
  static uint64_t key(Query q) { return static_cast<uint64_t>(q.set) << 32 | static_cast<uint32_t>(q.symbol); }
  bool has_query(Query query);
  const uint64_t id_ = next_serial();
  const bool is_whole_;
  const IndentLevel *indent_;
  const uint32_t brackets_;
  std::vector<const EarleySet *> sets_;
  std::vector<std::pair<Query, Hash128>> queries_;
  std::unordered_map<uint64_t, Target> resolved_;
  std::unordered_map<uint64_t, Hash128> rests_;
};

class Earley {
 public:
  Earley(const Grammar &grammar, ItemSets &items, size_t most_entries)
      : g_(grammar), items_(items), most_entries_(most_entries) {}

  const EarleySet *start(Arena &arena);

  // Builds the set after one or more symbols, each recognised from an older set to the current position.
  class Builder {
   public:
    Builder(Earley &earley, MaskDependencies *dependencies) : e_(earley), dependencies_(dependencies) {}
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
    MaskDependencies *dependencies_;
    struct Recognised {
      const EarleySet *since;
      Symbol symbol;
    };
    InlineVector<Entry, 4> entries_;
    InlineVector<Recognised, 8> done_;
    InlineVector<Recognised, 4> work_;
    FlatIndex by_origin_, done_index_;  // used when there are many
    bool accepting_ = false;
    const EarleySet *before_ = nullptr;
    Symbol by_ = 0;
    std::vector<std::pair<const EarleySet *, Symbol>> recorded_;  // for a trace: what was recognised
    uint32_t serial_ = 0;
    size_t moves_ = 0;
  };

  // Follows links to where completing `symbol` in `s` leads in the end. The result is (`s`, `symbol`) itself if the
  // completion moves items there, or does anything else than complete one rule in one older set.
  std::pair<const EarleySet *, Symbol> resolve(const EarleySet *s, Symbol symbol, MaskDependencies *dependencies);

  // Do two sets have the same continuations, by their `rest`? Sets that differ only in the depth of a right recursion
  // do. `dependencies` records the queries on which the result depends.
  bool same_rest(const EarleySet *a, const EarleySet *b, MaskDependencies *dependencies) {
    return a->accepting == b->accepting && a->outlook == b->outlook && rest(a, dependencies) == rest(b, dependencies);
  }

  // A hash of the symbols that each item of a set still needs, and of where completing its rule leads in the end.
  const Hash128 &rest(const EarleySet *s, MaskDependencies *dependencies);

  // A hash of everything that completing `symbol` can lead to, if it began at `s`. Two sets with one outcome can share
  // a parse of the symbol. Example: if a name may follow a name, then a name may end at each byte, and the names that
  // begin at these bytes mostly have the same outcome.
  Hash128 outcome(const EarleySet *s, Symbol symbol);

  // A hash of what completing `symbol` does in a set: the kernels that it moves, and their origins. It does not depend
  // on the symbol's name: a helper rule, such as the first item of a list, does the same under any name.
  Hash128 moves(const EarleySet *s, Symbol symbol, MaskDependencies &dependencies);

  // Records the moves of sets in `trace` from here on; null: stops recording.
  void record(EarleyTrace *trace) { trace_ = trace; }

  ItemSets &items() { return items_; }
  size_t work() const { return work_; }  // moves that were made for any set

 private:
  // Looks up a stored link. Returns false if it is not stored.
  bool linked(const EarleySet *s, Symbol symbol, const EarleySet **to, Symbol *as) const;
  void link(const EarleySet *s, Symbol symbol, const EarleySet *to, Symbol as);

  // One link of `resolve`: the rule and the older set, if completing `symbol` in `s` only completes one rule in one
  // older set; otherwise (`s`, `symbol`) itself.
  struct Target {
    const EarleySet *set;
    Symbol symbol;
    bool searched = false;  // several rules are completed, and their ends were searched
  };
  Target next_target(const EarleySet *s, Symbol symbol, MaskDependencies *dependencies);

  // Bounds the moves at one position: this many for each entry that a set may have. If rules can begin at many
  // positions and end here, the number of moves grows with the square of the entries.
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
  int nested_ = 0;  // the depth of recursion of `next_target`
  Links links_;
  struct Outcome {  // a cache of the latest results of `outcome`
    uint64_t of = 0;
    Symbol symbol = 0;
    Hash128 outcome{};
  };
  static constexpr size_t OUTCOMES = 512;
  std::vector<Outcome> outcomes_;
};

}  // namespace structgen
