#include "json/obligations.h"

#include <algorithm>

#include "util/sorting.h"

namespace structgen {
namespace {
constexpr size_t MAX_AFTER_MEMO = 50'000;
}  // namespace

ObligationId Obligations::intern(std::vector<Formula> roots, Formula condition) {
  charge(1 + roots.size());
  condition = formulas_.substitute(
      condition, [&](uint32_t i) { return roots[i] <= FormulaSpace::TRUE ? roots[i] : formulas_.leaf(i); });
  uint64_t h = mix(condition, roots.size());
  for (Formula r : roots) h = mix(h, r);
  auto [first, last] = index_.equal_range(h);
  for (auto it = first; it != last; ++it)
    if (obligations_[it->second].condition == condition && obligations_[it->second].roots == roots) return it->second;
  Obligation made;
  made.condition = condition;
  made.requirement = formulas_.substitute(condition, [&](uint32_t i) { return roots[i]; });
  made.conjunctive = roots.size() == 1 && formulas_.is_conjunction(roots[0]) &&
                     (roots[0] == FormulaSpace::TRUE || condition == formulas_.leaf(0));
  made.roots = std::move(roots);
  const auto id = static_cast<ObligationId>(obligations_.size());
  obligations_.push_back(std::move(made));
  index_.emplace(h, id);
  return id;
}

std::vector<SchemaId> Obligations::groups(ObligationId id) const {
  std::vector<SchemaId> groups;
  for (Formula r : obligations_[id].roots) {
    std::vector<uint32_t> leaves = formulas_.leaves(r);
    groups.insert(groups.end(), leaves.begin(), leaves.end());
  }
  sort_numbers(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  return groups;
}

ObligationId Obligations::without(ObligationId id, const std::vector<SchemaId> &failed) {
  if (failed.empty()) return id;
  std::vector<Formula> roots = obligations_[id].roots;
  std::vector<bool> is_failed(table_.size());
  for (SchemaId g : failed) is_failed[g] = true;
  std::vector<Formula> left;
  for (Formula &r : roots) {
    const bool alternatives = formulas_.kind(r) == FormulaSpace::Kind::Or;
    charge(1 + (alternatives ? formulas_.parts(r).size() / 4 : 0));
    if (!alternatives) continue;
    // Mostly few alternatives are left; building their disjunction is cheaper than substituting in all of them.
    left.clear();
    for (Formula p : formulas_.parts(r))
      if (formulas_.kind(p) != FormulaSpace::Kind::Leaf || !is_failed[formulas_.leaf_id(p)]) left.push_back(p);
    r = formulas_.disjunction(left);
  }
  formulas_.substitute(&roots, [&](uint32_t g) { return is_failed[g] ? FormulaSpace::FALSE : FormulaSpace::SAME; });
  return intern(std::move(roots), obligations_[id].condition);
}

// Memoised: many texts end with the same verdicts, and a mask reads all of them to their ends.
ObligationId Obligations::after(ObligationId id, const GroupRoots &group_roots, const Holds &holds) {
  std::vector<SchemaId> failed;
  charge(1 + group_roots.size() / 4);
  Hash128 key = hash_words(7, id);
  for (auto &[group, root] : group_roots)
    if (!holds(root)) {
      failed.push_back(group);
      key = extend(key, group);
    }
  if (failed.empty()) return id;
  if (const auto it = after_.find(key); it != after_.end()) return it->second;
  if (after_.size() > MAX_AFTER_MEMO) after_.clear();
  const ObligationId next = without(id, failed);
  return after_[key] = next;
}

bool Obligations::is_met(ObligationId id, const std::vector<bool> &verdicts) const {
  return formulas_.evaluate(obligations_[id].condition, [&](uint32_t i) { return verdicts[i]; });
}

std::vector<bool> Obligations::evaluate(ObligationId id, const std::function<bool(SchemaId)> &group_holds) const {
  std::vector<bool> out;
  for (Formula r : obligations_[id].roots) out.push_back(formulas_.evaluate(r, group_holds));
  return out;
}

}  // namespace structgen
