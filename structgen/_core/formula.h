// Boolean formulas over numbered leaves, hash-consed and simplified as they are built.
//
// Requirements on a JSON value (leaves: sub-schemas) and the state of its monitors
// (leaves: the keyword groups of sub-schemas) are both such formulas. Applicators stay
// as they are: no normal form is made here, `oneOf` of n branches is one n-ary node.
// Equal integers mean equal (simplified) formulas.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

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
  // Replace every leaf by the formula that `with` gives for its id, unless that is SAME.
  static constexpr Formula SAME = UINT32_MAX;
  Formula substitute(Formula f, const std::function<Formula(uint32_t)> &with);
  bool evaluate(Formula f, const std::function<bool(uint32_t)> &leaf) const;
  // Leaf ids of `f`, each once, ascending.
  std::vector<uint32_t> leaves(Formula f) const;
  // A conjunction of plain leaves (TRUE and a single leaf included): the common case.
  bool is_conjunction(Formula f) const { return nodes_[f].conjunctive; }
  // A leaf or its negation.
  bool is_literal(Formula f) const { return kind(kind(f) == Kind::Not ? parts(f)[0] : f) == Kind::Leaf; }
  // Nothing is lost where a leaf turns true.
  bool is_monotone(Formula f) const { return nodes_[f].monotone; }
  size_t size() const { return nodes_.size(); }
  size_t memory() const { return nodes_.size() * (sizeof(Node) + 24) + parts_.size() * 4; }

 private:
  struct Node {
    Kind kind;
    bool conjunctive, monotone;
    uint32_t leaf;
    uint32_t begin, end;
  };
  Formula intern(Kind kind, uint32_t leaf, std::span<const Formula> parts);
  Formula substitute(Formula f, const std::function<Formula(uint32_t)> &with,
                     std::unordered_map<Formula, Formula> &memo);

  std::vector<Node> nodes_;
  std::vector<Formula> parts_;
  std::unordered_multimap<uint64_t, Formula> index_;
};

}  // namespace structgen
