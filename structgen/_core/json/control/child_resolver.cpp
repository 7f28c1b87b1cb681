#include "json/control/child_resolver.h"

#include <algorithm>
#include <unordered_map>

namespace structgen {

template <class Frame>
std::unique_ptr<ChildControl<Frame>> ChildResolver::make(Frame *frame, const ChildRules<Frame> &rules) {
  auto made = std::make_unique<ChildControl<Frame>>();
  made->frame = frame;
  if (obligations_[frame->obligation].conjunctive) {
    std::vector<Formula> all;
    for (SchemaId g : rules.relevant) all.push_back(rules.requirement(g));
    const Formula requirement = formulas_.conjunction(std::move(all));
    made->possible = oracle_.can_hold(requirement);
    if (rules.contains.empty()) {
      if (made->possible) made->child = values_.control_of(requirement);
      return made;
    }
    made->roots.push_back(requirement);
    for (SchemaId g : frame->groups) made->undecided.emplace_back(g, 0);
  } else if (!collect_roots(made.get(), rules)) {
    return made;
  }
  for (auto &[group, contains] : rules.contains) {
    if (!std::binary_search(made->frame->groups.begin(), made->frame->groups.end(), group)) continue;
    const size_t i = std::find(made->roots.begin(), made->roots.end(), contains) - made->roots.begin();
    if (i == made->roots.size()) made->roots.push_back(contains);
    made->contains_roots.emplace_back(group, static_cast<uint32_t>(i));
  }
  return made;
}

// One root for each different requirement. Groups whose requirement cannot be met fail at once; false: the frame fails
// with them.
template <class Frame>
bool ChildResolver::collect_roots(ChildControl<Frame> *made, const ChildRules<Frame> &rules) {
  const ObligationId obligation = made->frame->obligation;
  Groups failed;
  std::vector<Formula> requirements;
  for (SchemaId g : rules.relevant) {
    requirements.push_back(rules.requirement(g));
    if (requirements.back() == FormulaSpace::FALSE) failed.push_back(g);
  }
  if (!failed.empty()) made->frame = rules.frame_under(obligations_.without(obligation, failed));
  if (obligations_[made->frame->obligation].requirement == FormulaSpace::FALSE) return false;
  made->possible = true;
  const Groups &left = made->frame->groups;
  std::unordered_map<Formula, uint32_t> index;
  for (size_t i = 0; i < rules.relevant.size(); ++i) {
    const SchemaId g = rules.relevant[i];
    const Formula requirement = requirements[i];
    if (requirement == FormulaSpace::TRUE || !std::binary_search(left.begin(), left.end(), g)) continue;
    const auto [it, fresh] = index.emplace(requirement, static_cast<uint32_t>(made->roots.size()));
    if (fresh) made->roots.push_back(requirement);
    made->undecided.emplace_back(g, it->second);
  }
  return true;
}

template <class Frame>
ChildControl<Frame> *ChildResolver::resolve(ChildControl<Frame> *child, std::optional<Formula> known,
                                            const LiveAfter &live) {
  const Formula condition = known ? *known : find_condition(*child, live);
  if (condition == FormulaSpace::FALSE) return nullptr;
  auto &slot = child->variants[condition];
  if (slot) return slot->possible ? slot.get() : nullptr;
  auto made = make_variant(*child, condition);
  ChildControl<Frame> *result = made->possible ? made.get() : nullptr;
  child->variants[condition] = std::move(made);
  return result;
}

template <class Frame>
Formula ChildResolver::find_condition(const ChildControl<Frame> &child, const LiveAfter &live) {
  const Formula frame = obligations_[child.frame->obligation].requirement;
  const bool counts = !child.contains_roots.empty();
  if (const auto found = live_verdicts_.find(frame, child.undecided, child.roots, !counts, live)) return *found;
  // Too many combinations: any root will do, or none if the frame survives that. This allows more than is true, so no
  // value is lost, and the frame is tested again when the verdicts are known.
  tables_.table.count_unproven();
  const bool none = live([](uint32_t) { return false; });
  std::vector<Formula> any;
  for (uint32_t i = 0; i < child.roots.size(); ++i) any.push_back(formulas_.leaf(i));
  return none ? FormulaSpace::TRUE : formulas_.disjunction(std::move(any));
}

// Roots that must hold anyway are merged into one, whose verdict is never in question.
template <class Frame>
std::unique_ptr<ChildControl<Frame>> ChildResolver::make_variant(const ChildControl<Frame> &child, Formula condition) {
  const size_t roots = child.roots.size();
  auto made = std::make_unique<ChildControl<Frame>>();
  made->frame = child.frame;
  std::vector<bool> must(roots, false);
  if (formulas_.kind(condition) == FormulaSpace::Kind::Leaf) must[formulas_.leaf_id(condition)] = true;
  if (formulas_.kind(condition) == FormulaSpace::Kind::And)
    for (Formula p : formulas_.parts(condition))
      if (formulas_.kind(p) == FormulaSpace::Kind::Leaf) must[formulas_.leaf_id(p)] = true;
  std::vector<Formula> kept, together;
  std::vector<uint32_t> index(roots);
  const bool merged = roots == 0 || std::find(must.begin(), must.end(), true) != must.end();
  if (merged) kept.push_back(FormulaSpace::TRUE);
  for (size_t i = 0; i < roots; ++i) {
    if (must[i]) {
      together.push_back(child.roots[i]);
      index[i] = 0;
    } else {
      index[i] = static_cast<uint32_t>(kept.size());
      kept.push_back(child.roots[i]);
    }
  }
  if (merged) kept[0] = formulas_.conjunction(together);
  const Formula renamed = roots == 0
                              ? formulas_.leaf(0)
                              : formulas_.substitute(condition, [&](uint32_t i) { return formulas_.leaf(index[i]); });
  for (auto &[group, i] : child.undecided)
    if (!must[i]) made->group_roots.emplace_back(group, index[i]);
  for (auto &[group, i] : child.contains_roots) made->contains_roots.emplace_back(group, index[i]);
  const ObligationId obligation = obligations_.intern(std::move(kept), renamed);
  made->possible = oracle_.can_hold(obligations_[obligation].requirement);
  if (made->possible) made->child = values_.control(obligation);
  return made;
}

template std::unique_ptr<KeyControl> ChildResolver::make(ObjectControl *, const ChildRules<ObjectControl> &);
template std::unique_ptr<ItemControl> ChildResolver::make(ArrayControl *, const ChildRules<ArrayControl> &);
template KeyControl *ChildResolver::resolve(KeyControl *, std::optional<Formula>, const LiveAfter &);
template ItemControl *ChildResolver::resolve(ItemControl *, std::optional<Formula>, const LiveAfter &);

}  // namespace structgen
