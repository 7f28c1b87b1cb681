// Regular languages over bytes, by Brzozowski derivatives on hash-consed nodes.
//
// A regular expression is one small integer (`Re`); equal integers mean equal (simplified) expressions. A *state* of
// the automaton of `r` is a derivative of `r`, again a `Re`; 0 is dead. Rows of the transition table are filled lazily,
// with one derivative for each class of bytes.
//
// Classes are sets of Unicode scalar values and are matched as valid UTF-8; complement is relative to valid UTF-8
// texts. Bytes that the vocabulary cannot spell are removed from the alphabet when the space is made. So emptiness is
// decided relative to the vocabulary.
//
// Invariant: every `Re` other than EMPTY that `alive` accepts has a non-empty language, unless the work budget ran out.
// `unproven` counts these cases.
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "util/limit_error.h"

namespace structgen {

class LiteralSet;
class RegexSpace;
using Re = uint32_t;
using Row = std::array<Re, 256>;

struct CodeRange {
  uint32_t lo, hi;  // inclusive Unicode scalar values
  bool operator==(const CodeRange &) const = default;
};

struct RegexLimits {
  size_t max_nodes = 2'000'000;      // interned nodes that one user of the space may make
  size_t emptiness_budget = 50'000;  // states visited to decide whether one language is empty
};

// A deterministic machine, used as a leaf of an expression: numbers, host names, substrings. States are 64-bit values;
// 0 is dead.
struct Machine {
  virtual ~Machine() = default;
  virtual uint64_t start() const = 0;
  virtual uint64_t step(uint64_t state, uint8_t byte) const = 0;
  virtual bool accepts(uint64_t state) const = 0;
  // Exact: false iff no continuation of `state` is accepted.
  virtual bool alive(uint64_t state) const = 0;
  // The ASCII characters by which states have transitions; empty: all of ASCII. If edges are listed: all such bytes.
  virtual std::string_view alphabet() const { return {}; }
  // Does `edges` append all transitions of a state, by ascending byte? If not, `step` is called for each of `alphabet`.
  virtual bool lists_edges() const { return false; }
  virtual void edges(uint64_t, std::vector<std::pair<uint8_t, uint64_t>> &) const {}
  // The state whose language is the intersection, if the machine has one: avoids products of leaves.
  virtual std::optional<uint64_t> meet(uint64_t, uint64_t) const { return std::nullopt; }
  // The length of a shortest text of a state in characters, or whether some text has a length within bounds (hi < 0: no
  // bound). Nothing: a search is needed.
  virtual std::optional<int64_t> shortest(uint64_t) const { return std::nullopt; }
  virtual std::optional<bool> has_length(uint64_t, int64_t, int64_t) const { return std::nullopt; }
  // An upper bound on the characters that complete a text, after any prefix of a text.
  virtual std::optional<int64_t> most_missing() const { return std::nullopt; }
  // True only if every text of the second is one of the first; unions and products then drop a leaf.
  virtual bool includes(uint64_t, uint64_t) const { return false; }
};

// A language that is unfolded from outside, state by state, as it is read: plans whose next steps are searched for.
// States are any numbers; each state that an edge leads to has a text.
struct Source {
  struct Edge {
    Re text;  // without the empty text
    uint64_t to;
  };
  virtual ~Source() = default;
  virtual bool accepts(uint64_t state) = 0;
  virtual std::vector<Edge> edges(uint64_t state) = 0;
  // Some text from the state to the end, the shortest if it is known.
  virtual bool completion(uint64_t state, std::string *out) = 0;
};

// Exists while a source is called. The same thread must not lock the space meanwhile.
class Unfolding {
 public:
  explicit Unfolding(const RegexSpace &space);
  ~Unfolding();
  Unfolding(const Unfolding &) = delete;
  Unfolding &operator=(const Unfolding &) = delete;
  static bool is_on(const RegexSpace &space);

 private:
  const RegexSpace *before_;
};

class RegexSpace {
  struct Impl;

 public:
  static constexpr Re EMPTY = 0;     // no text
  static constexpr Re EPSILON = 1;   // the empty text
  static constexpr Re ANY_TEXT = 2;  // every valid UTF-8 text

  explicit RegexSpace(const std::bitset<256> &spellable, RegexLimits limits = {});
  ~RegexSpace();
  RegexSpace(const RegexSpace &) = delete;
  RegexSpace &operator=(const RegexSpace &) = delete;

  // Builders. All simplify (identities, absorption, sorting of unions).
  Re text_class(std::span<const CodeRange> ranges);  // one character of the set
  Re any_char();                                     // one character
  Re literal(std::string_view utf8);
  Re concat(Re a, Re b);
  Re concat(std::span<const Re> parts);
  Re alternate(std::span<const Re> parts);
  Re intersect(std::span<const Re> parts);
  Re alternate(Re a, Re b);
  Re intersect(Re a, Re b);
  Re complement(Re a);  // relative to valid UTF-8 texts
  // r{lo,hi}; hi < 0 is unbounded. Counters stay symbolic (not unrolled).
  Re repeat(Re a, int64_t lo, int64_t hi);
  // Look-arounds see the whole text around them: to the ends of the operand of the nearest
  // enclosing intersect, complement or scope, or of the whole expression.
  Re look_ahead(Re a, bool negative);
  Re look_behind(Re a, bool negative);  // `a` must end at the current position
  Re scope(Re a);                       // look-arounds inside see no text outside
  Re machine(std::shared_ptr<const Machine> machine);
  // The same leaf in another state: one machine has many languages (regex/numbers.h), and equal pairs of machine and
  // state are the same `Re`. EMPTY if the state is 0 or dead.
  Re machine(std::shared_ptr<const Machine> machine, uint64_t state);
  // The first machine among the leaves for which `wanted` holds, or null.
  std::shared_ptr<const Machine> find_machine(const std::function<bool(const Machine &)> &wanted) const;
  // The machine and its state, if the expression is such a leaf and the vocabulary can spell all of its texts.
  std::optional<std::pair<std::shared_ptr<const Machine>, uint64_t>> spelled_machine(Re r) const;
  // The operands of a union whose languages do not depend on one another. Empty if `r` is not such a union.
  std::vector<Re> alternatives(Re r) const;
  // The language of `source` from `state` on, which is unfolded when a derivative is needed.
  Re unfolding(const std::shared_ptr<Source> &source, uint64_t state);
  bool unfolds(Re r) const;  // does it contain such a language?
  // The first source for which `wanted` holds, or null.
  std::shared_ptr<Source> find_source(const std::function<bool(Source &)> &wanted) const;
  // Union of many literals, built as a trie in linear time.
  Re literals(std::span<const std::string> texts);

  // A position in a set of literals. A walk along literals makes no nodes.
  class LiteralPlace {
   public:
    bool ends() const;  // some literal ends here
    // Advances to the first byte, at least `least`, that continues a literal; never goes back. False if no byte does.
    bool seek(unsigned least);
    uint8_t byte() const;       // after `seek` was true
    LiteralPlace next() const;  // the position after that byte

   private:
    friend class RegexSpace;
    LiteralPlace(const Impl *space, Re r);
    // A node with parts, and the index of the next one; or EMPTY, and texts [first, last) of a set, equal up to
    // `depth`.
    const Impl *space_;
    Re node_ = EMPTY;
    uint32_t part_ = 0;
    LiteralSet *set_ = nullptr;
    uint32_t first_ = 0, last_ = 0, depth_ = 0;
    bool ends_ = false;
  };
  // Nothing if `r` is not a set of literals.
  std::optional<LiteralPlace> literals_of(Re r) const;

  // The automaton.
  bool nullable(Re r) const;
  Re derivative(Re r, uint8_t byte);  // EMPTY when no completion exists
  const Row &row(Re r);               // all 256 derivatives; the address is stable until `release_row`
  // Frees a row that the caller no longer needs, if it can be made again quickly.
  void release_row(Re r);
  bool alive(Re r);  // false iff the language is empty
  bool universal(Re r) const { return r == ANY_TEXT; }
  // Is every text a prefix of one in L(r), as for a pattern without anchor? False: unknown.
  bool open(Re r);
  bool matches(Re r, std::string_view text);
  // Finds a shortest accepted text in bytes, or some accepted text if the budget does not reach a shortest one; false
  // if none is found.
  bool witness(Re r, std::string *out);
  // Finds a shortest text from the structure alone; false if the structure does not show it.
  bool shortest_by_structure(Re r, std::string *out);
  // Is there a text of n characters in L(r), lo <= n <= hi (hi < 0: unbounded)? Exact within the budget, since lengths
  // are ultimately periodic.
  bool has_length(Re r, int64_t lo, int64_t hi);
  // The length of a shortest text in characters, or -1 if the language is empty; past the budget a lower bound.
  int64_t min_length(Re r);
  // Bounds on the lengths of its texts in characters; `hi` < 0: there is no upper bound. Nothing if the structure of
  // the expression does not show them.
  struct LengthBounds {
    int64_t lo, hi;
  };
  std::optional<LengthBounds> length_bounds(Re r);
  // An upper bound on the characters that complete a text after any non-empty prefix; -1 if the structure of the
  // expression does not show one.
  int64_t most_missing(Re r);
  // A length n such that every text is the beginning of texts of L(r) with each number of characters, from n on, after
  // it, as for a pattern without anchors; -1 if the structure of the expression does not show one.
  int64_t padded_length(Re r);
  // The number of texts. UINT64_MAX: infinitely many, too many for the type, or unknown because of too many states,
  // which counts as unproven.
  uint64_t count_texts(Re r);
  // The first byte of a single text, and the rest of it; nothing if `r` is not a literal, or is the empty one. Unlike
  // `row`, it makes no nodes.
  std::optional<std::pair<uint8_t, Re>> text_step(Re r) const;
  // Appends all texts of `r` if there are at most `most`, all short, and the structure shows them; otherwise none.
  bool few_texts(Re r, size_t most, std::vector<std::string> *out);
  // An expression without a count and a bound on the number of characters that together equal `r`:
  // `[a-z][a-z0-9]{0,62}` is `[a-z][a-z0-9]*` of at most 63 characters. Nothing if `r` has no such form.
  std::optional<std::pair<Re, int64_t>> bounded_by_length(Re r);

  // Allows at most `n` more rows; after that, LimitError. Rows that exist cost nothing.
  void allow_rows(size_t n);
  size_t rows_made() const;
  // The same for nodes.
  void allow_nodes(size_t n);

  // A search that gives up is remembered with what it assumes: some languages count as non-empty, some lengths as
  // possible. `unproven` counts the results that relied on such an assumption.
  size_t unproven() const;
  // Adds to `numbers` the number of each search on whose assumptions a result relies, until the next call; null: to no
  // set. Returns the set before. See AssumptionRecord.
  std::unordered_set<uint32_t> *record_assumptions(std::unordered_set<uint32_t> *numbers);
  size_t memory() const;                                 // bytes held by nodes and rows, approximately
  size_t size() const;                                   // interned nodes
  std::string describe(Re r, size_t limit = 200) const;  // for people

 private:
  std::unique_ptr<Impl> impl_;
};

// While it exists, `numbers` collects the searches on whose assumptions results of the space rely.
class AssumptionRecord {
 public:
  AssumptionRecord(RegexSpace &space, std::unordered_set<uint32_t> &numbers)
      : space_(space), before_(space.record_assumptions(&numbers)) {}
  ~AssumptionRecord() { space_.record_assumptions(before_); }
  AssumptionRecord(const AssumptionRecord &) = delete;
  AssumptionRecord &operator=(const AssumptionRecord &) = delete;

 private:
  RegexSpace &space_;
  std::unordered_set<uint32_t> *before_;
};

}  // namespace structgen
