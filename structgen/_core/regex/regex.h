// Regular languages over bytes, by Brzozowski derivatives on hash-consed nodes.
//
// A regular expression is one small integer (`Re`); equal integers mean equal
// (simplified) expressions. A *state* of the automaton of `r` is the derivative of
// `r`, again a `Re`: 0 is dead. Rows of the transition table are filled lazily, one
// representative derivative per byte class.
//
// Text classes are over Unicode scalar values and are matched as valid UTF-8;
// complement is relative to valid UTF-8 texts. Bytes that the vocabulary cannot
// spell are removed from the alphabet when the space is made, so emptiness is
// decided relative to the vocabulary.
//
// Invariant: every `Re` other than EMPTY that `alive` accepts has a non-empty
// language, unless the work budget ran out (then `unproven` counts it).
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
  size_t emptiness_budget = 50'000;  // states visited to decide one emptiness question
};

// A deterministic machine supplied by other core code (number constraints), used as a
// leaf of an expression. States are 64-bit values; 0 is dead.
struct Machine {
  virtual ~Machine() = default;
  virtual uint64_t start() const = 0;
  virtual uint64_t step(uint64_t state, uint8_t byte) const = 0;
  virtual bool accepts(uint64_t state) const = 0;
  // Exact: false iff no continuation of `state` is accepted.
  virtual bool alive(uint64_t state) const = 0;
  // The ASCII characters that any state can step by; empty: all of ASCII, and no others. All bytes, where edges are listed.
  virtual std::string_view alphabet() const { return {}; }
  // Does `edges` append all steps of a state, by ascending bytes? Else `step` is called for each of `alphabet`.
  virtual bool lists_edges() const { return false; }
  virtual void edges(uint64_t, std::vector<std::pair<uint8_t, uint64_t>> &) const {}
  // The state with the language of both, when the machine has one: spares products of leaves.
  virtual std::optional<uint64_t> meet(uint64_t, uint64_t) const { return std::nullopt; }
  // Characters of a shortest text of a state, or whether some text has a length within bounds (hi < 0: no bound); nothing:
  // it is to be searched for.
  virtual std::optional<int64_t> shortest(uint64_t) const { return std::nullopt; }
  virtual std::optional<bool> has_length(uint64_t, int64_t, int64_t) const { return std::nullopt; }
  // An upper bound on what completes a text, whatever prefix of one has been read.
  virtual std::optional<int64_t> most_missing() const { return std::nullopt; }
  // True only when every text of the second is one of the first: unions and products drop a leaf.
  virtual bool includes(uint64_t, uint64_t) const { return false; }
};

// A language that somebody else unfolds, state by state, as it is read: plans whose next steps are searched for. States
// are any numbers; each that is led to has a text.
struct Source {
  struct Edge {
    Re text;  // without the empty text
    uint64_t to;
  };
  virtual ~Source() = default;
  virtual bool accepts(uint64_t state) = 0;
  virtual std::vector<Edge> edges(uint64_t state) = 0;
  // Some text from here to the end, the shortest where it is known.
  virtual bool completion(uint64_t state, std::string *out) = 0;
};

// While a source is asked: its space is not to be asked for by the same thread.
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
  // The same leaf in another state: one machine holds many languages (regex/numbers.h), and equal
  // (machine, state) pairs are the same `Re`. EMPTY when the state is 0 or not alive.
  Re machine(std::shared_ptr<const Machine> machine, uint64_t state);
  // The first machine among the leaves for which `wanted` holds; null when there is none.
  std::shared_ptr<const Machine> find_machine(const std::function<bool(const Machine &)> &wanted) const;
  // The machine and its state, where the expression is such a leaf and the vocabulary can spell all its texts.
  std::optional<std::pair<std::shared_ptr<const Machine>, uint64_t>> spelled_machine(Re r) const;
  // The operands of a union whose languages do not depend on each other; none where `r` is no such union.
  std::vector<Re> alternatives(Re r) const;
  // What `source` reads from `state` on; unfolded when the first byte of it is asked for.
  Re unfolding(const std::shared_ptr<Source> &source, uint64_t state);
  bool unfolds(Re r) const;  // there is such a part in it
  // The first source for which `wanted` holds; null when there is none.
  std::shared_ptr<Source> find_source(const std::function<bool(Source &)> &wanted) const;
  // Union of many literals, built as a trie in linear time.
  Re literals(std::span<const std::string> texts);

  // Where a set of literals has been read to. A walk along literals makes no nodes.
  class LiteralPlace {
   public:
    bool ends() const;  // some literal ends here
    // Advances to the first byte that continues a literal here and is at least `least`; never goes back. False if none does.
    bool seek(unsigned least);
    uint8_t byte() const;         // after `seek` was true
    LiteralPlace next() const;    // after that byte

   private:
    friend class RegexSpace;
    LiteralPlace(const Impl *space, Re r);
    // A node with parts, and the next of them; or EMPTY, and texts [first, last) of a set, equal up to `depth`.
    const Impl *space_;
    Re node_ = EMPTY;
    uint32_t part_ = 0;
    LiteralSet *set_ = nullptr;
    uint32_t first_ = 0, last_ = 0, depth_ = 0;
    bool ends_ = false;
  };
  // Nothing where `r` is no set of literals.
  std::optional<LiteralPlace> literals_of(Re r) const;

  // The automaton.
  bool nullable(Re r) const;
  Re derivative(Re r, uint8_t byte);  // EMPTY when no completion exists
  const Row &row(Re r);               // all 256 derivatives; stable address until it is forgotten
  // The caller has no more use for this row, and it is quickly made again.
  void forget_row(Re r);
  bool alive(Re r);                   // false iff the language is empty
  bool universal(Re r) const { return r == ANY_TEXT; }
  // Every text is the beginning of one in L(r), as for a pattern without anchor; false: not known to be.
  bool open(Re r);
  bool matches(Re r, std::string_view text);
  // A shortest accepted text (by bytes), or where that is too far for the budget, some accepted text;
  // false if none is found.
  bool witness(Re r, std::string *out);
  // The shortest text by structure alone; false where structure does not tell.
  bool shortest_by_structure(Re r, std::string *out);
  // Is there a word of length n characters, lo <= n <= hi (hi < 0: unbounded), in L(r)?
  // Exact within the budget (remaining lengths are ultimately periodic).
  bool has_length(Re r, int64_t lo, int64_t hi);
  // Length in characters of the shortest word, or -1 if the language is empty; beyond the budget a
  // lower bound.
  int64_t min_length(Re r);
  // Bounds on the lengths of its texts in characters; `hi` < 0: there is no upper bound. Nothing if the structure of the
  // expression does not show them.
  struct LengthBounds {
    int64_t lo, hi;
  };
  std::optional<LengthBounds> length_bounds(Re r);
  // An upper bound on the characters that complete a text, whatever prefix of one (not the empty one) has been read; -1 if
  // the structure of the expression does not show it.
  int64_t most_missing(Re r);
  // How many texts it has; UINT64_MAX: no end of them, too many to write down, or too many states to tell, which
  // counts as unproven.
  uint64_t count_texts(Re r);
  // The first byte of a single text and the rest of it; nothing where `r` is no literal, or the empty one. Unlike a row, it
  // makes nothing.
  std::optional<std::pair<uint8_t, Re>> text_step(Re r) const;
  // Appends all texts of `r` where it has at most `most`, and those short and told by structure; else nothing.
  bool few_texts(Re r, size_t most, std::vector<std::string> *out);
  // An expression without a count, and how many characters its texts may have so that they are those of `r`:
  // `[a-z][a-z0-9]{0,62}` is `[a-z][a-z0-9]*` of at most 63. Nothing where `r` has no such form.
  std::optional<std::pair<Re, int64_t>> bounded_by_length(Re r);

  // From now on at most `n` further rows are made; then LimitError. Rows already made stay free.
  void allow_rows(size_t n);
  size_t rows_made() const;
  // The same for nodes.
  void allow_nodes(size_t n);

  size_t unproven() const;  // emptiness questions answered "alive" for lack of budget
  size_t memory() const;    // bytes held by nodes and rows, approximately
  size_t size() const;      // interned nodes
  std::string describe(Re r, size_t limit = 200) const;  // for people

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace structgen
