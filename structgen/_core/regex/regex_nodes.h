// The implementation of RegexSpace: hash-consed nodes and their tables. Only regex_*.cpp include it.
//
//   regex/regex_nodes.cpp      the table of nodes, the space's constructor, descriptions
//   regex/regex_build.cpp      smart constructors: expressions stay small and canonical
//   regex/regex_literals.cpp   tries of literals
//   regex/regex_merge.cpp      unions of counted repetitions
//   regex/regex_derive.cpp     derivatives of all bytes at once, rows
//   regex/regex_look.cpp       look-arounds: explicit continuations, states that run in parallel
//   regex/regex_source.cpp     languages that are unfolded as they are read
//   regex/regex_emptiness.cpp  which states are alive; witnesses
//   regex/regex_alphabet.cpp   the bytes of an expression's texts; expressions restricted to them
//   regex/regex_shortest.cpp   shortest texts, by structure
//   regex/regex_lengths.cpp    lengths of accepted texts
//
// Invariants. A node never changes its language. The derivatives of a node (`Steps`) are made once, from those of its
// parts, without recursion. So shared parts are derived once, and no nesting overflows the stack. Only *open* and
// *marked* nodes are handled by recursion; their depth is limited, and results are memoised.
#pragma once

#include <algorithm>
#include <deque>
#include <limits>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "regex/literal_set.h"
#include "regex/regex.h"
#include "util/hashing.h"
#include "util/work.h"

namespace structgen {

enum class ReKind : uint8_t {
  Empty,
  Epsilon,
  Class,       // ranges; `pending` continuation bytes still to come (0: a whole character)
  Concat,      // parts: head, tail (the head is no Concat: right-associated)
  Alternate,   // parts, sorted
  Intersect,   // parts, sorted
  Difference,  // parts: a derivative of ANY_TEXT, what is taken away
  Repeat,      // parts: body; lo, hi (hi < 0: unbounded)
  Literals,    // a node of a trie of literals; lo: a literal ends here; parts: byte, child, byte, child, ...
               // index: of the run that has no parts yet, plus one (regex/regex_literals.cpp)
  Machine,     // index of the machine; lo: its state
  Source,      // index of the source; lo: its state
  LookAhead,   // parts: body; index: negative. Open: it has a meaning only before a continuation
  LookBehind,  // parts: the derivative of "any text, then the body" by the text so far; index: negative
  Loop,        // parts: an open body, what follows the loop; lo, hi
  Guard,       // parts: like LookBehind, but with look-aheads inside; what follows
  Scope,       // parts: an expression whose look-behinds do not see the text before it
  Mark,        // the position of a look-behind, inside its own expression
};

// Bytes from `from` up to that of the next step lead to `to`.
struct Step {
  Re to;
  uint8_t from;
};
using Steps = std::span<const Step>;

// Assumed: a search gave up, so the state counts as alive.
enum class Life : uint8_t { Unknown, Alive, Dead, Assumed };

struct ReNode {
  ReKind kind = ReKind::Empty;
  uint8_t pending = 0;
  bool nullable = false;
  bool plain = true;             // nothing inside can make it empty, so it is alive unless it is EMPTY
  bool open = false;             // holds a look-ahead whose continuation is not known yet
  bool has_look_behind = false;  // holds a look-behind that has to follow the text
  bool loops = false;            // holds a Loop: Boolean combinations need a normal form to stay finite
  bool marked = false;           // holds a Mark
  bool counted = false;          // a repetition with a count, or a sequence that holds one
  bool unfolds = false;          // holds a Source, which is not unfolded without need
  bool one_text = false;         // Literals: of a single text that is not empty
  Life life = Life::Unknown;
  uint16_t depth = 0;  // nesting, of open and marked nodes
  uint16_t step_count = 0;
  uint32_t index = 0;
  uint32_t begin = 0, count = 0;  // parts
  const Step *steps = nullptr;
  int64_t lo = 0, hi = 0;
};

// Numbers of characters, as sorted intervals that do not touch.
struct Lengths {
  static constexpr int64_t FOREVER = std::numeric_limits<int64_t>::max() / 4;
  struct Interval {
    int64_t lo, hi;
  };
  std::vector<Interval> intervals;
  bool known = true;  // false: too many intervals, or not a plain expression
};

// The characters whose first byte is one of `bytes`.
std::vector<CodeRange> characters_led_by(const std::bitset<256> &bytes);
// The intersection of two sorted lists of disjoint ranges.
std::vector<CodeRange> in_both(const std::vector<CodeRange> &a, const std::vector<CodeRange> &b);

struct RegexSpace::Impl {
  // What one search (for emptiness, a witness, a length) may cost: visited states, merged derivatives and new nodes,
  // each up to a multiple of emptiness_budget.
  class Budget {
   public:
    Budget(const Impl &space, size_t states)
        : space_(space), states_(states), work_(space.work + states * 40), nodes_(space.nodes.size() + states * 8) {}
    bool exceeded(size_t states) const {
      return states > states_ || space_.work > work_ || space_.nodes.size() > nodes_;
    }

   private:
    const Impl &space_;
    size_t states_;
    uint64_t work_;
    size_t nodes_;
  };

  std::bitset<256> spellable;
  std::vector<CodeRange> spellable_characters;  // by their first byte
  bool continuations_complete = true;
  bool ascii_complete = true;
  RegexLimits limits;
  Re any_character = 0, mark = 0;

  std::vector<ReNode> nodes;
  std::vector<Re> parts;
  // Open addressing over nodes. The hash is here, too, so that most look-ups, and a wider table, need no node.
  struct Slot {
    Re node = EMPTY;  // EMPTY: free, since it is never looked up
    uint32_t hash = 0;
  };
  std::vector<Slot> slots;
  std::deque<std::vector<CodeRange>> ranges;
  std::unordered_multimap<uint64_t, uint32_t> range_index;
  std::vector<std::shared_ptr<const structgen::Machine>> machines;
  std::vector<bool> machine_spelled;  // can the vocabulary spell every text of this machine?
  std::vector<std::shared_ptr<structgen::Source>> sources;

  // Many literals, with nodes only for the part that has been read: texts [first, last) of a set, which are equal up to
  // `depth` and have been read so far.
  struct Run {
    LiteralSet *set;
    uint32_t first, last, depth;
  };
  std::deque<LiteralSet> literal_sets;
  std::vector<Run> runs;
  std::unordered_map<Hash128, Re, HashOf128> known_literals;

  std::vector<std::unique_ptr<Row>> rows;  // with EMPTY for dead states
  std::vector<std::unique_ptr<Step[]>> step_chunks;
  size_t step_chunk_used = 0;
  std::unordered_map<Re, Steps> advanced;        // nodes with look-behinds, after each byte
  std::unordered_map<Re, Re> unrolled;           // of Loop, Guard and Source
  std::unordered_map<uint64_t, Re> closed;       // open node, continuation
  std::unordered_map<uint64_t, Re> read_some;    // the same, of `nonempty`
  std::unordered_map<Re, Re> conditions, marks;  // of open nodes; of marked ones

  std::unordered_map<Re, std::bitset<256>> alphabets;

  std::unordered_map<Re, Lengths> lengths;
  std::unordered_map<Re, int64_t> shortest_lengths;  // in bytes
  std::unordered_map<Hash128, bool, HashOf128> has_length;
  std::unordered_map<Re, int64_t> min_lengths;
  std::unordered_map<Re, int64_t> most_missing;
  std::unordered_map<Re, std::optional<std::pair<Re, int64_t>>>
      bounded;                              // of whole expressions, see `bounded_by_length`
  std::unordered_map<Re, bool> endless;     // are the lengths of its texts unbounded?
  std::unordered_map<Re, uint64_t> counts;  // of texts

  std::vector<uint32_t> visited;  // per node: the last search that met it
  uint32_t search = 0;
  uint64_t work = 0;    // merged steps, for the budgets of searches
  uint64_t united = 0;  // operands of unions that were visited, by which large states are counted
  size_t rows_made = 0, rows_allowed = SIZE_MAX, nodes_allowed = SIZE_MAX;
  size_t bytes = 0;

  // Searches that gave up are numbered, and results that rely on their assumptions keep the number. SOURCES stands for
  // all sources, which are not searched.
  static constexpr uint32_t SOURCES = 0;
  uint32_t searches_given_up = 0;
  size_t unproven = 0;                                  // results that relied on an assumption
  std::unordered_set<uint32_t> *assumptions = nullptr;  // those that the present user of the space relies on
  std::unordered_map<Re, uint32_t> assumed;             // states that count as alive
  std::unordered_map<Re, uint32_t> assumed_rows;        // rows that lead to one
  std::unordered_map<Re, uint32_t> assumed_counts;      // of texts
  std::unordered_map<Hash128, uint32_t, HashOf128> assumed_lengths;
  uint32_t give_up() { return ++searches_given_up; }

  // regex/regex_nodes.cpp
  Re intern(ReNode node, std::span<const Re> its_parts);
  Re add_node(ReNode node);  // not interned: only the caller knows its number
  void check_nodes() const;
  void inherit(ReNode &node, std::span<const Re> its_parts) const;
  void widen_slots();
  uint32_t intern_ranges(std::vector<CodeRange> r);
  Re part(Re r, uint32_t i) const { return parts[nodes[r].begin + i]; }
  std::vector<Re> all_parts(Re r) const {
    const ReNode &n = nodes[r];
    return {parts.begin() + n.begin, parts.begin() + n.begin + n.count};
  }

  // regex/regex_build.cpp
  Re make_class(std::vector<CodeRange> r, uint8_t pending);
  Re concat(Re a, Re b);
  Re alternate(const std::vector<Re> &xs);
  Re intersect(const std::vector<Re> &xs);
  Re difference(Re all, Re r);
  Re complement(Re r) { return difference(ANY_TEXT, r); }
  Re power_of_class(Re a);
  Re repeat(Re a, int64_t lo, int64_t hi);
  Re machine_leaf(uint32_t index, uint64_t state);
  bool spells(const structgen::Machine &machine) const;
  void merge_classes(std::vector<Re> &parts_of_union);
  void merge_machines(std::vector<Re> &parts_of_union);
  void merge_texts(std::vector<Re> &parts_of_union);
  void absorb(std::vector<Re> &parts_of_union);
  bool meet_machines(std::vector<Re> &parts_of_intersection);
  Re distribute(const std::vector<Re> &parts_of_intersection);

  // regex/regex_literals.cpp
  Re trie(std::vector<std::string_view> texts);
  template <class Text>
  Re many_literals(std::span<const Text> texts);
  Re literals_run(Run run);
  bool is_run(Re r) const { return nodes[r].kind == ReKind::Literals && nodes[r].index != 0; }
  void expand(Re r);
  std::vector<std::string_view> rests_of_run(Re r) const;

  // regex/regex_merge.cpp
  void merge_repeats(std::vector<Re> &parts_of_union);
  bool merge_repeats(std::vector<Re> &parts_of_union, size_t which);

  // regex/regex_derive.cpp
  Steps steps(Re r);
  Steps advance(Re r);
  void make_steps(Re r, bool advancing);
  bool has_steps(Re r, bool advancing) const;
  template <class Need>
  void visit_needed(Re r, bool advancing, const Need &need);
  Steps derive(Re r);
  Steps literal_steps(Re r);
  Steps concat_steps(Re r);
  Steps boolean_steps(Re r);
  Steps repeat_steps(Re r);
  Steps class_steps(Re r);
  Steps machine_steps(Re r);
  Steps moved(Re r);
  Steps keep(Steps made);
  const Row &row(Re r);

  // regex/regex_look.cpp
  Re look_ahead(Re body, bool negative);
  Re look_behind(Re rest, bool negative);
  Re loop(Re body, int64_t lo, int64_t hi, Re after);
  Re guard(Re rest, bool negative, Re after);
  Re scope(Re r);
  Re close(Re r, Re after);
  Re closed_form(Re r) { return nodes[r].open ? close(r, EPSILON) : r; }
  Re make_closed(Re r, Re after);
  Re condition(Re r);
  Re make_condition(Re r);
  Re nonempty(Re r, Re after);
  Re make_nonempty(Re r, Re after);
  Re unroll(Re r);
  Re now(Re r);
  Re make_now(Re r);

  // regex/regex_source.cpp
  Re source_leaf(uint32_t index, uint64_t state);
  Re unfold(Re r);

  // regex/regex_shortest.cpp
  bool shortest_plain(Re r, std::string *out);
  int64_t shortest_length(Re r);

  // regex/regex_emptiness.cpp
  bool is_alive(Re r);
  Life life_of(Re r);  // without relying on it
  Life decide_life(Re r);
  void assume_alive(Re r, uint32_t search_number);
  void rely_on(uint32_t search_number);
  Life search_alive(Re r, bool depth_first, size_t budget, std::vector<Re> *met);
  std::vector<std::pair<uint8_t, Re>> successors(Re r);

  // regex/regex_alphabet.cpp
  class Restriction;
  Re restricted(Re r);
  std::bitset<256> bytes_of(Re r);
  std::bitset<256> own_bytes(Re r, const std::vector<Re> &its) const;
  std::vector<Re> parts_with_bytes(Re r);
  bool is_opaque(Re r) const;

  // regex/regex_lengths.cpp
  const Lengths &lengths_of(Re r);
  Lengths own_lengths(Re r);
  template <class Known>
  bool push_unknown_parts(Re r, const Known &known, std::vector<Re> &stack) const;
  int64_t own_most_missing(Re r);
  using Bounded = std::optional<std::pair<Re, int64_t>>;
  Bounded bounded_by_length(Re r, int depth, std::unordered_map<Re, Bounded> &known);
  Bounded make_bounded_by_length(Re r, int depth, std::unordered_map<Re, Bounded> &known);
  void after_character(Re r, std::vector<Re> &out);
  bool machine_has_length(std::vector<Re> &states, int64_t lo, int64_t hi, bool *dropped);
  std::vector<Re> states_between_characters(Re r);
  std::optional<bool> search_length(std::vector<Re> states, int64_t lo, int64_t hi);
  std::optional<bool> is_endless(Re r);
  int pending_bytes(Re r);
};

}  // namespace structgen
