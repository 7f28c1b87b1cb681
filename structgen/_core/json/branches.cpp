// Frames that are one of many records or tuples: an enum of objects or arrays, `anyOf` over records.
//
// Such a frame is a disjunction of branches, each a conjunction of keyword groups, and nothing is negated. It is alive
// exactly where one branch is, so each branch is asked by itself, and all of them together take linear time. Questions
// about the formula as a whole, one for each key or verdict, would take quadratic time.
#include <algorithm>
#include <unordered_map>

#include "json/oracle/oracle.h"
#include "util/sorting.h"

namespace structgen {
namespace {
constexpr size_t MANY_BRANCHES = 16;  // fewer are no work for the general search
}  // namespace

// The groups that hold in each branch, and the branches, each a conjunction; FALSE: the formula has another form.
Formula JsonOracle::choice_among(Formula f, Groups *common) const {
  const FormulaSpace &fs = c_.formulas_;
  Formula choice = f;
  if (fs.kind(f) == FormulaSpace::Kind::And) {
    choice = FormulaSpace::FALSE;
    for (Formula p : fs.parts(f)) {
      if (fs.kind(p) == FormulaSpace::Kind::Leaf) common->push_back(fs.leaf_id(p));
      else if (choice == FormulaSpace::FALSE) choice = p;
      else return FormulaSpace::FALSE;
    }
  }
  if (fs.kind(choice) != FormulaSpace::Kind::Or) return FormulaSpace::FALSE;
  charge(fs.parts(choice).size() / 4);
  for (Formula p : fs.parts(choice))
    if (!fs.is_conjunction(p)) return FormulaSpace::FALSE;
  return choice;
}

JsonOracle::Groups JsonOracle::groups_of_branch(Formula branch, const Groups &common) const {
  Groups one = c_.formulas_.leaves(branch);
  one.insert(one.end(), common.begin(), common.end());
  sort_numbers(one.begin(), one.end());
  return one;
}

// Empty: the formula has another form, or few branches.
std::vector<JsonOracle::Groups> JsonOracle::branches(Formula f) const {
  Groups common;
  const Formula choice = choice_among(f, &common);
  if (c_.formulas_.parts(choice).size() < MANY_BRANCHES) return {};
  std::vector<Groups> out;
  charge(4 * c_.formulas_.parts(choice).size());
  for (Formula p : c_.formulas_.parts(choice)) out.push_back(groups_of_branch(p, common));
  return out;
}

// Nothing where the formula has another form. Each branch is a way without a violation, so no tag need be decided.
std::optional<bool> JsonOracle::any_branch(Formula f, const Check &check) {
  Groups common;
  const Formula choice = choice_among(f, &common);
  if (choice == FormulaSpace::FALSE) return std::nullopt;
  std::vector<Formula> parts(c_.formulas_.parts(choice).begin(), c_.formulas_.parts(choice).end());
  preferred_first(&parts);
  for (Formula p : parts) {
    if (!spend(1 + common.size() / 4)) return true;
    if (check(groups_of_branch(p, common), {})) return true;
  }
  return false;
}

std::optional<Formula> JsonOracle::verdicts_of_branches(Formula frame, const Verdicts &on,
                                                        const std::function<bool(const Groups &)> &possible) {
  const std::vector<Groups> all = branches(frame);
  if (all.empty()) return std::nullopt;
  FormulaSpace &fs = c_.formulas_;
  std::unordered_map<SchemaId, std::vector<Formula>> wanted;
  for (auto &[group, root] : on) wanted[group].push_back(fs.leaf(root));
  std::vector<Formula> any;
  for (const Groups &branch : all) {
    const Question question(*this);
    charge(2 + branch.size());
    if (!possible(branch)) continue;
    std::vector<Formula> each;
    for (SchemaId g : branch)
      if (const auto it = wanted.find(g); it != wanted.end())
        each.insert(each.end(), it->second.begin(), it->second.end());
    any.push_back(fs.conjunction(std::move(each)));
  }
  return fs.disjunction(std::move(any));
}

std::optional<Formula> JsonOracle::object_verdicts(ObjectControl *o, const Verdicts &on, const ObjectView &view) {
  return verdicts_of_branches(c_.goals_[o->goal].combined, on,
                              [&](const Groups &branch) { return object_possible(branch, {}, o, view, nullptr); });
}

std::optional<Formula> JsonOracle::array_verdicts(ArrayControl *a, const Verdicts &on, uint64_t count) {
  if (a->counting || a->unique) return std::nullopt;
  return verdicts_of_branches(c_.goals_[a->goal].combined, on,
                              [&](const Groups &branch) { return array_possible(branch, {}, a, count, false); });
}

// The keys of a branch that has a closed group, one that allows its own properties only.
bool JsonOracle::branch_keys(ObjectControl *o, const ObjectView &view, const Groups &branch, Bits *keys) {
  const KeyUniverse &u = *o->universe;
  const bool ordered = c_.schema_.options.ordered;
  const auto is_closed = [&](SchemaId g) { return c_.is_closed(g); };
  const auto closed = std::find_if(branch.begin(), branch.end(), is_closed);
  if (closed == branch.end()) return false;
  charge(2 + 4 * c_.schema_.nodes[*closed].properties.size());
  uint64_t most = UNBOUNDED;
  std::vector<uint32_t> owed, candidates;
  for (SchemaId g : branch) {
    const SchemaNode &n = c_.schema_.nodes[g];
    if (ordered && n.min_properties > 0) return false;  // a key that is left out may be missed
    most = std::min(most, n.max_properties);
    for (const std::string &name : n.required)
      if (const auto i = static_cast<uint32_t>(u.find(name)); !bit(view.seen, i)) owed.push_back(i);
  }
  sort_numbers(owed.begin(), owed.end());
  owed.erase(std::unique(owed.begin(), owed.end()), owed.end());
  int64_t first_owed = INT64_MAX;
  for (uint32_t i : owed) first_owed = std::min<int64_t>(first_owed, u.rank[i]);
  for (auto &[name, id] : c_.schema_.nodes[*closed].properties) {
    const auto i = static_cast<uint32_t>(u.find(name));
    if (bit(view.seen, i) || bit(keys->data(), i)) continue;
    if (ordered && (u.rank[i] <= view.last_rank || u.rank[i] > first_owed)) continue;
    const bool is_owed = std::binary_search(owed.begin(), owed.end(), i);
    if (view.count + owed.size() + !is_owed <= most) candidates.push_back(i);
  }
  if (candidates.empty()) return true;
  const Question question(*this);
  if (!object_possible(branch, {}, o, view, nullptr)) return true;
  const Groups open = c_.open_among(branch);
  for (uint32_t i : candidates)
    if (can_hold(c_.key_requirement_of_all(u.keys[i], branch, open))) set_bit(keys->data(), i);
  return true;
}

bool JsonOracle::keys_of_branches(ObjectControl *o, const ObjectView &view, Bits *keys) {
  const std::vector<Groups> all = branches(c_.goals_[o->goal].combined);
  return !all.empty() &&
         std::all_of(all.begin(), all.end(), [&](const Groups &branch) { return branch_keys(o, view, branch, keys); });
}

}  // namespace structgen
