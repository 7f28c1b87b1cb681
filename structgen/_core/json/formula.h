// Boolean formulas over numbered leaves, hash-consed and simplified as they are built.
//
// Leaves are sub-schemas in requirements on a JSON value, and keyword groups after the expansion for one type.
// Applicators remain as they are: there is no normal form, and `oneOf` of n branches is one n-ary node. Equal integers
// mean equal (simplified) formulas.
//
// Formulas share their operands: a schema of n references can be a tree of 2^n nodes. So each walk over a formula uses
// `fold` or remembers what it visited, and visits each operand once. No walk recurses.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "util/hashing.h"
#include "util/work.h"

namespace structgen {

using Formula = uint32_t;

class FormulaSpace {
 public:
  enum class Kind : uint8_t { False, True, Leaf, And, Or, Not, One };
  static constexpr Formula FALSE = 0, TRUE = 1;

  FormulaSpace();

  Formula leaf(uint32_t id);
  Formula conjunction(std::vector<Formula> parts);
  Formula disjunction(std::vector<Formula> parts);
  Formula negation(Formula f);
  Formula exactly_one(std::vector<Formula> parts);
  Formula both(Formula a, Formula b) { return conjunction({a, b}); }

  Kind kind(Formula f) const { return nodes_[f].kind; }
  uint32_t leaf_id(Formula f) const { return nodes_[f].leaf; }
  std::span<const Formula> parts(Formula f) const {
    const Node &n = nodes_[f];
    return {parts_.data() + n.begin, parts_.data() + n.end};
  }
  // Replaces every leaf by the formula that `with` returns for its id, unless that is SAME.
  static constexpr Formula SAME = UINT32_MAX;
  Formula substitute(Formula f, const std::function<Formula(uint32_t)> &with);
  // The same for several formulas, which may share operands; each is visited once.
  void substitute(std::vector<Formula> *roots, const std::function<Formula(uint32_t)> &with);
  // Calls `leaf` only for leaves on which the value depends.
  bool evaluate(Formula f, const std::function<bool(uint32_t)> &leaf) const;
  // Computes the value of `f` from the values of its operands: `leaf(id)` for leaves, `whole(f, values of its
  // operands)` for all other formulas. Visits each operand once, depth first; `known` stores the values of formulas
  // that are not leaves.
  template <class Value, class OfLeaf, class OfWhole>
  Value fold(Formula f, std::unordered_map<Formula, Value> &known, const OfLeaf &leaf, const OfWhole &whole) const;
  // The ids of the leaves of `f`, each once, ascending.
  std::vector<uint32_t> leaves(Formula f) const;
  // A conjunction of plain leaves (TRUE and a single leaf included): the common case.
  bool is_conjunction(Formula f) const { return nodes_[f].conjunctive; }
  // A leaf or its negation.
  bool is_literal(Formula f) const { return kind(kind(f) == Kind::Not ? parts(f)[0] : f) == Kind::Leaf; }
  // Does the formula stay true when leaves become true?
  bool is_monotone(Formula f) const { return nodes_[f].monotone; }
  size_t size() const { return nodes_.size(); }
  size_t memory() const { return nodes_.size() * (sizeof(Node) + 24) + (parts_.size() + leaves_.size()) * 4; }

 private:
  struct Node {
    Kind kind;
    bool conjunctive, monotone;
    uint32_t leaf;
    uint32_t begin, end;
  };
  Formula substitute(Formula f, const std::function<Formula(uint32_t)> &with,
                     std::unordered_map<Formula, Formula> &known);
  void absorb(std::vector<Formula> *flat, Kind inner) const;
  bool implies_choice(Formula a, Formula b) const;
  void absorb_choices(std::vector<Formula> *flat) const;
  Formula intern(Kind kind, uint32_t leaf, std::span<const Formula> parts);
  std::vector<Node> nodes_;
  std::vector<Formula> parts_;
  std::unordered_map<Hash128, Formula, HashOf128> index_;
  std::vector<Formula> leaves_;  // by id; FALSE until `leaf` is called with it
};

template <class Value, class OfLeaf, class OfWhole>
Value FormulaSpace::fold(Formula root, std::unordered_map<Formula, Value> &known, const OfLeaf &leaf,
                         const OfWhole &whole) const {
  struct Open {
    Formula f;
    std::vector<Formula> parts;  // subtle: a copy, since `whole` may make formulas
    std::vector<Value> values;   // of the parts so far
  };
  std::vector<Open> open;
  // The value, if no other is needed for it; otherwise opens the formula.
  auto enter = [&](Formula f) -> std::optional<Value> {
    if (kind(f) == Kind::Leaf) return leaf(leaf_id(f));
    if (const auto it = known.find(f); it != known.end()) return it->second;
    open.push_back({f, {parts(f).begin(), parts(f).end()}, {}});
    open.back().values.reserve(open.back().parts.size());
    return std::nullopt;
  };
  std::optional<Value> last = enter(root);
  charge();
  while (!open.empty()) {
    charge();
    if (last) open.back().values.push_back(*last);
    const Open &now = open.back();
    if (now.values.size() < now.parts.size()) {
      last = enter(now.parts[now.values.size()]);
      continue;
    }
    last = whole(now.f, std::span<const Value>(now.values));
    known.emplace(now.f, *last);
    open.pop_back();
  }
  return *last;
}

}  // namespace structgen
