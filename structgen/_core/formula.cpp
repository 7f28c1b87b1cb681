#include "formula.h"

#include <algorithm>
#include <set>

#include "hashing.h"
#include "work.h"

namespace structgen {

FormulaSpace::FormulaSpace() {
  nodes_.push_back({Kind::False, false, true, 0, 0, 0});
  nodes_.push_back({Kind::True, true, true, 0, 0, 0});
}

Formula FormulaSpace::intern(Kind kind, uint32_t leaf, std::span<const Formula> parts) {
  charge(2 + parts.size());
  uint64_t h = mix(static_cast<uint64_t>(kind), leaf);
  for (Formula p : parts) h = mix(h, p);
  auto [first, last] = index_.equal_range(h);
  for (auto it = first; it != last; ++it) {
    const Node &n = nodes_[it->second];
    if (n.kind == kind && n.leaf == leaf && std::equal(parts.begin(), parts.end(), parts_.begin() + n.begin, parts_.begin() + n.end))
      return it->second;
  }
  bool conjunctive = kind == Kind::Leaf;
  if (kind == Kind::And)
    conjunctive = std::all_of(parts.begin(), parts.end(), [&](Formula p) { return this->kind(p) == Kind::Leaf; });
  bool monotone = kind != Kind::Not && kind != Kind::One;
  for (Formula p : parts) monotone = monotone && nodes_[p].monotone;
  auto f = static_cast<Formula>(nodes_.size());
  auto begin = static_cast<uint32_t>(parts_.size());
  parts_.insert(parts_.end(), parts.begin(), parts.end());
  nodes_.push_back({kind, conjunctive, monotone, leaf, begin, static_cast<uint32_t>(parts_.size())});
  index_.emplace(h, f);
  return f;
}

Formula FormulaSpace::leaf(uint32_t id) { return intern(Kind::Leaf, id, {}); }

Formula FormulaSpace::conjunction(std::vector<Formula> parts) {
  std::vector<Formula> flat;
  for (Formula p : parts) {
    if (p == FALSE) return FALSE;
    if (p == TRUE) continue;
    if (kind(p) == Kind::And) flat.insert(flat.end(), this->parts(p).begin(), this->parts(p).end());
    else flat.push_back(p);
  }
  std::sort(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  if (flat.empty()) return TRUE;
  if (flat.size() == 1) return flat[0];
  for (Formula p : flat)
    if (kind(p) == Kind::Not && std::binary_search(flat.begin(), flat.end(), this->parts(p)[0])) return FALSE;
  return intern(Kind::And, 0, flat);
}

Formula FormulaSpace::disjunction(std::vector<Formula> parts) {
  std::vector<Formula> flat;
  for (Formula p : parts) {
    if (p == TRUE) return TRUE;
    if (p == FALSE) continue;
    if (kind(p) == Kind::Or) flat.insert(flat.end(), this->parts(p).begin(), this->parts(p).end());
    else flat.push_back(p);
  }
  std::sort(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  if (flat.empty()) return FALSE;
  if (flat.size() == 1) return flat[0];
  for (Formula p : flat)
    if (kind(p) == Kind::Not && std::binary_search(flat.begin(), flat.end(), this->parts(p)[0])) return TRUE;
  return intern(Kind::Or, 0, flat);
}

Formula FormulaSpace::negation(Formula f) {
  if (f == FALSE) return TRUE;
  if (f == TRUE) return FALSE;
  if (kind(f) == Kind::Not) return parts(f)[0];
  const Formula p[] = {f};
  return intern(Kind::Not, 0, p);
}

Formula FormulaSpace::exactly_one(std::vector<Formula> parts) {
  size_t certain = std::count(parts.begin(), parts.end(), TRUE);
  if (certain > 1) return FALSE;
  std::erase(parts, FALSE);
  if (certain == 1) {
    std::erase(parts, TRUE);
    for (Formula &p : parts) p = negation(p);
    return conjunction(std::move(parts));
  }
  std::sort(parts.begin(), parts.end());  // duplicates stay: a branch that is there twice cannot be the one
  if (parts.empty()) return FALSE;
  if (parts.size() == 1) return parts[0];
  return intern(Kind::One, 0, parts);
}

Formula FormulaSpace::substitute(Formula f, const std::function<Formula(uint32_t)> &with) {
  std::unordered_map<Formula, Formula> memo;
  return substitute(f, with, memo);
}

Formula FormulaSpace::substitute(Formula f, const std::function<Formula(uint32_t)> &with,
                                 std::unordered_map<Formula, Formula> &memo) {
  charge();
  Kind k = kind(f);
  if (k == Kind::False || k == Kind::True) return f;
  if (k == Kind::Leaf) {
    const Formula given = with(leaf_id(f));
    return given == SAME ? f : given;
  }
  if (auto it = memo.find(f); it != memo.end()) return it->second;
  std::vector<Formula> replaced(parts(f).begin(), parts(f).end());
  for (Formula &p : replaced) p = substitute(p, with, memo);
  Formula result = k == Kind::And   ? conjunction(std::move(replaced))
                   : k == Kind::Or  ? disjunction(std::move(replaced))
                   : k == Kind::Not ? negation(replaced[0])
                                    : exactly_one(std::move(replaced));
  memo.emplace(f, result);
  return result;
}

bool FormulaSpace::evaluate(Formula f, const std::function<bool(uint32_t)> &leaf) const {
  charge();
  switch (kind(f)) {
    case Kind::False: return false;
    case Kind::True: return true;
    case Kind::Leaf: return leaf(leaf_id(f));
    case Kind::Not: return !evaluate(parts(f)[0], leaf);
    case Kind::And:
      for (Formula p : parts(f))
        if (!evaluate(p, leaf)) return false;
      return true;
    case Kind::Or:
      for (Formula p : parts(f))
        if (evaluate(p, leaf)) return true;
      return false;
    case Kind::One: {
      int n = 0;
      for (Formula p : parts(f))
        if (evaluate(p, leaf) && ++n > 1) return false;
      return n == 1;
    }
  }
  return false;
}

std::vector<uint32_t> FormulaSpace::leaves(Formula f) const {
  std::vector<uint32_t> out;
  std::set<Formula> seen;
  std::vector<Formula> todo{f};
  while (!todo.empty()) {
    charge();
    Formula g = todo.back();
    todo.pop_back();
    if (kind(g) == Kind::Leaf) {
      out.push_back(leaf_id(g));
      continue;
    }
    for (Formula p : parts(g)) {
      if (is_literal(p)) out.push_back(leaf_id(kind(p) == Kind::Not ? parts(p)[0] : p));
      else if (seen.insert(p).second) todo.push_back(p);
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace structgen
