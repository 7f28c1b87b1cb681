#include "json/oracle/branch_search.h"

#include <algorithm>

#include "json/oracle/oracle.h"
#include "util/sorting.h"

namespace structgen {
namespace {
constexpr size_t MANY_BRANCHES = 16;  // fewer are cheap for the general search
}  // namespace

BranchSearch::BranchSearch(JsonOracle &oracle)
    : oracle_(oracle), tables_(oracle.tables()), formulas_(oracle.tables().formulas()) {}

// The disjunction of branches, each a conjunction; `common` are the groups that hold in all of them. FALSE: the formula
// has another form.
Formula BranchSearch::find_choice(Formula f, Groups *common) const {
  Formula choice = f;
  if (formulas_.kind(f) == FormulaSpace::Kind::And) {
    choice = FormulaSpace::FALSE;
    for (Formula p : formulas_.parts(f)) {
      if (formulas_.kind(p) == FormulaSpace::Kind::Leaf) common->push_back(formulas_.leaf_id(p));
      else if (choice == FormulaSpace::FALSE) choice = p;
      else return FormulaSpace::FALSE;
    }
  }
  if (formulas_.kind(choice) != FormulaSpace::Kind::Or) return FormulaSpace::FALSE;
  charge(formulas_.parts(choice).size() / 4);
  for (Formula p : formulas_.parts(choice))
    if (!formulas_.is_conjunction(p)) return FormulaSpace::FALSE;
  return choice;
}

Groups BranchSearch::groups_of(Formula branch, const Groups &common) const {
  Groups one = formulas_.leaves(branch);
  one.insert(one.end(), common.begin(), common.end());
  sort_numbers(one.begin(), one.end());
  return one;
}

// Empty: the formula has another form, or few branches.
std::vector<Groups> BranchSearch::many_branches(Formula f) const {
  Groups common;
  const Formula choice = find_choice(f, &common);
  if (formulas_.parts(choice).size() < MANY_BRANCHES) return {};
  std::vector<Groups> out;
  charge(4 * formulas_.parts(choice).size());
  for (Formula p : formulas_.parts(choice)) out.push_back(groups_of(p, common));
  return out;
}

std::optional<bool> BranchSearch::any(Formula f, const Check &check) {
  Groups common;
  const Formula choice = find_choice(f, &common);
  if (choice == FormulaSpace::FALSE) return std::nullopt;
  std::vector<Formula> branches(formulas_.parts(choice).begin(), formulas_.parts(choice).end());
  oracle_.formulas().prefer(&branches);
  for (Formula branch : branches) {
    if (!oracle_.budget().spend(1 + common.size() / 4)) return true;
    if (check(groups_of(branch, common), {})) return true;
  }
  return false;
}

// ---------------------------------------------------------------- verdicts

std::optional<Formula> BranchSearch::verdicts(Formula frame, const GroupRoots &undecided,
                                              const std::function<bool(const Groups &)> &possible) {
  const std::vector<Groups> all = many_branches(frame);
  if (all.empty()) return std::nullopt;
  GroupRoots roots = undecided;
  sort_numbers(roots.begin(), roots.end());
  std::vector<Formula> any;
  for (const Groups &branch : all) {
    const Query query(oracle_.budget(), oracle_.state());
    charge(2 + branch.size());
    if (!possible(branch)) continue;
    std::vector<Formula> each;
    for (SchemaId g : branch)
      for (const auto &[_, root] : std::ranges::equal_range(roots, g, {}, &GroupRoots::value_type::first))
        each.push_back(formulas_.leaf(root));
    any.push_back(formulas_.conjunction(std::move(each)));
  }
  return formulas_.disjunction(std::move(any));
}

std::optional<Formula> BranchSearch::object_verdicts(ObjectControl *frame, const GroupRoots &undecided,
                                                     const ObjectView &view) {
  return verdicts(tables_.obligations[frame->obligation].requirement, undecided,
                  [&](const Groups &branch) { return oracle_.objects().possible(branch, {}, frame, view, nullptr); });
}

std::optional<Formula> BranchSearch::array_verdicts(ArrayControl *frame, const GroupRoots &undecided, uint64_t count) {
  if (frame->counting || frame->unique) return std::nullopt;
  return verdicts(tables_.obligations[frame->obligation].requirement, undecided,
                  [&](const Groups &branch) { return oracle_.arrays().possible(branch, {}, frame, count, false); });
}

// ---------------------------------------------------------------- keys

// The keys of the group `closed` that may come next as far as order and number of keys decide that.
std::vector<uint32_t> BranchSearch::candidate_keys(const ObjectControl &o, const ObjectView &view, const Groups &branch,
                                                   SchemaId closed, const Bits &known) const {
  const KeyUniverse &u = *o.universe;
  const bool ordered = tables_.table.options().ordered;
  uint64_t max = UNBOUNDED;
  std::vector<uint32_t> required, candidates;
  for (SchemaId g : branch) {
    const SchemaNode &n = tables_.node(g);
    max = std::min(max, n.max_properties);
    for (const std::string &name : n.required)
      if (const auto i = static_cast<uint32_t>(u.find(name)); !bit(view.seen, i)) required.push_back(i);
  }
  sort_numbers(required.begin(), required.end());
  required.erase(std::unique(required.begin(), required.end()), required.end());
  int64_t first_required = INT64_MAX;
  for (uint32_t i : required) first_required = std::min<int64_t>(first_required, u.rank[i]);
  for (auto &[name, id] : tables_.node(closed).properties) {
    const auto i = static_cast<uint32_t>(u.find(name));
    if (bit(view.seen, i) || bit(known.data(), i)) continue;
    if (ordered && (u.rank[i] <= view.last_rank || u.rank[i] > first_required)) continue;
    const bool is_required = std::binary_search(required.begin(), required.end(), i);
    if (view.count + required.size() + !is_required <= max) candidates.push_back(i);
  }
  return candidates;
}

bool BranchSearch::add_keys_of_branch(ObjectControl *o, const ObjectView &view, const Groups &branch, Bits *keys) {
  const auto is_closed = [&](SchemaId g) { return tables_.keys.is_closed(g); };
  const auto closed = std::find_if(branch.begin(), branch.end(), is_closed);
  if (closed == branch.end()) return false;
  charge(2 + 4 * tables_.node(*closed).properties.size());
  // Where keys have an order, minProperties may need keys that were passed over.
  const auto has_minimum = [&](SchemaId g) { return tables_.node(g).min_properties > 0; };
  if (tables_.table.options().ordered && std::any_of(branch.begin(), branch.end(), has_minimum)) return false;
  const std::vector<uint32_t> candidates = candidate_keys(*o, view, branch, *closed, *keys);
  if (candidates.empty()) return true;
  const Query query(oracle_.budget(), oracle_.state());
  if (!oracle_.objects().possible(branch, {}, o, view, nullptr)) return true;
  const Groups open = tables_.keys.open_groups(branch);
  for (uint32_t i : candidates)
    if (oracle_.can_hold(tables_.keys.requirement(o->universe->keys[i], branch, open))) set_bit(keys->data(), i);
  return true;
}

bool BranchSearch::add_allowed_keys(ObjectControl *o, const ObjectView &view, Bits *keys) {
  const std::vector<Groups> all = many_branches(tables_.obligations[o->obligation].requirement);
  return !all.empty() && std::all_of(all.begin(), all.end(),
                                     [&](const Groups &branch) { return add_keys_of_branch(o, view, branch, keys); });
}

}  // namespace structgen
