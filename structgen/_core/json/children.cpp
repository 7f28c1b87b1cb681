// What a value inside a frame must do, and what its verdicts do to the frame.
#include "json/control.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>

#include "json/oracle/oracle.h"

namespace structgen {

template <class Frame>
std::unique_ptr<ChildControl<Frame>> JsonControl::make_child(Frame *frame, const std::vector<SchemaId> &asked,
                                                             const std::function<Formula(SchemaId)> &requirement,
                                                             const std::function<Frame *(GoalId)> &with_goal,
                                                             const std::vector<std::pair<SchemaId, Formula>> &counted) {
  auto made = std::make_unique<ChildControl<Frame>>();
  made->frame = frame;
  if (goals_[frame->goal].simple) {
    std::vector<Formula> all;
    for (SchemaId g : asked) all.push_back(requirement(g));
    Formula f = formulas_.conjunction(std::move(all));
    made->possible = can_hold(f);
    if (counted.empty()) {
      if (made->possible) made->child = value(intern({f}, formulas_.leaf(0)));
      return made;
    }
    made->roots.push_back(f);
    for (SchemaId g : frame->groups) made->on.emplace_back(g, 0);
  } else if (!branch(made.get(), asked, requirement, with_goal)) {
    return made;
  }
  for (auto &[g, f] : counted) {
    if (!std::binary_search(made->frame->groups.begin(), made->frame->groups.end(), g)) continue;
    size_t i = std::find(made->roots.begin(), made->roots.end(), f) - made->roots.begin();
    if (i == made->roots.size()) made->roots.push_back(f);
    made->counted.emplace_back(g, static_cast<uint32_t>(i));
  }
  return made;
}

template <class Frame>
bool JsonControl::branch(ChildControl<Frame> *made, const std::vector<SchemaId> &asked,
                         const std::function<Formula(SchemaId)> &requirement, const std::function<Frame *(GoalId)> &with_goal) {
  // Groups whose requirement cannot be met fail now.
  const GoalId goal = made->frame->goal;
  std::vector<SchemaId> failed;
  for (SchemaId g : asked)
    if (requirement(g) == FormulaSpace::FALSE) failed.push_back(g);
  if (!failed.empty()) made->frame = with_goal(without_groups(goal, failed));
  if (goals_[made->frame->goal].combined == FormulaSpace::FALSE) return false;
  made->possible = true;
  const std::vector<SchemaId> &left = made->frame->groups;
  std::unordered_map<Formula, uint32_t> index;
  for (SchemaId g : asked) {
    Formula r = requirement(g);
    if (r == FormulaSpace::TRUE || !std::binary_search(left.begin(), left.end(), g)) continue;
    const auto [it, fresh] = index.emplace(r, static_cast<uint32_t>(made->roots.size()));
    if (fresh) made->roots.push_back(r);
    made->on.emplace_back(g, it->second);
  }
  return true;
}

namespace {
constexpr size_t MAX_RESOLVED = 50'000;
}  // namespace

template <class Frame>
ChildControl<Frame> *JsonControl::resolve_child(ChildControl<Frame> *child, std::optional<Formula> known,
                                                const std::function<bool(const Holds &)> &alive) {
  const size_t m = child->roots.size();
  Formula need;
  std::optional<Formula> exact = known;
  if (!exact) {
    // Roots that had better fail are taken as their contraries, so that all had better hold.
    std::optional<std::vector<bool>> contrary;
    if (child->counted.empty()) contrary = better_failed(goals_[child->frame->goal].combined, child->on, m);
    const bool monotone = contrary.has_value();
    if (!contrary) contrary.emplace(m, false);
    std::vector<Formula> roots = child->roots;
    for (size_t i = 0; i < m; ++i)
      if ((*contrary)[i]) roots[i] = formulas_.negation(roots[i]);
    const auto alive_where = [&](const Holds &holds) {
      return alive([&](uint32_t i) { return holds(i) != (*contrary)[i]; });
    };
    exact = verdicts_wanted(roots, monotone, alive_where);
    if (!exact) exact = verdicts_by_cases(roots, monotone, alive_where);
    if (exact)
      exact = formulas_.substitute(*exact, [&](uint32_t i) {
        return (*contrary)[i] ? formulas_.negation(formulas_.leaf(i)) : FormulaSpace::SAME;
      });
  }
  if (exact) {
    need = *exact;
  } else {
    // Too many to tell apart: any of them, or none where the frame survives without. More than the
    // truth, so nothing is lost; the frame itself is asked again when the verdicts are there.
    ++unproven_;
    bool none = alive([](uint32_t) { return false; });
    std::vector<Formula> any;
    for (uint32_t i = 0; i < m; ++i) any.push_back(formulas_.leaf(i));
    need = none ? FormulaSpace::TRUE : formulas_.disjunction(std::move(any));
  }
  if (need == FormulaSpace::FALSE) return nullptr;
  auto &slot = child->variants[need];
  if (slot) return slot->possible ? slot.get() : nullptr;
  auto made = std::make_unique<ChildControl<Frame>>();
  made->frame = child->frame;
  // Roots that must hold anyway become one, whose verdict is never in question.
  std::vector<bool> must(m, false);
  if (formulas_.kind(need) == FormulaSpace::Kind::Leaf) must[formulas_.leaf_id(need)] = true;
  if (formulas_.kind(need) == FormulaSpace::Kind::And)
    for (Formula p : formulas_.parts(need))
      if (formulas_.kind(p) == FormulaSpace::Kind::Leaf) must[formulas_.leaf_id(p)] = true;
  std::vector<Formula> kept, together;
  std::vector<uint32_t> index(m);
  const bool merged = m == 0 || std::find(must.begin(), must.end(), true) != must.end();
  if (merged) kept.push_back(FormulaSpace::TRUE);
  for (size_t i = 0; i < m; ++i) {
    if (must[i]) {
      together.push_back(child->roots[i]);
      index[i] = 0;
    } else {
      index[i] = static_cast<uint32_t>(kept.size());
      kept.push_back(child->roots[i]);
    }
  }
  if (merged) kept[0] = formulas_.conjunction(together);
  Formula renamed = m == 0 ? formulas_.leaf(0)
                           : formulas_.substitute(need, [&](uint32_t i) { return formulas_.leaf(index[i]); });
  for (auto &[g, i] : child->on)
    if (!must[i]) made->verdicts.emplace_back(g, index[i]);
  for (auto &[g, i] : child->counted) made->counted.emplace_back(g, index[i]);
  GoalId goal = intern(std::move(kept), renamed);
  made->possible = can_hold(goals_[goal].combined);
  if (made->possible) made->child = value(goal);
  ChildControl<Frame> *result = made->possible ? made.get() : nullptr;
  child->variants[need] = std::move(made);
  return result;
}

KeyControl *JsonControl::resolve(KeyControl *key, const ObjectView &view) {
  if (!key->possible) return nullptr;
  if (key->child) return key;
  Hash128 read = hash_words(4, reinterpret_cast<uintptr_t>(key), view.count, view.last_rank);
  for (uint32_t w = 0; w < key->frame->universe->words(); ++w) read = extend(read, view.seen[w]);
  if (auto it = resolved_keys_.find(read); it != resolved_keys_.end()) return it->second;
  KeyControl *found = resolve_child<ObjectControl>(key, oracle_->object_verdicts(key->frame, key->on, view), [&](const Holds &holds) {
    const GoalId goal = goal_after(key->frame->goal, key->on, holds);
    return oracle_->object_alive(object_control(goal, key->frame->universe), view, nullptr);
  });
  if (resolved_keys_.size() > MAX_RESOLVED) resolved_keys_.clear();
  return resolved_keys_[read] = found;
}

// Where nothing but a repeated item helps, whether the one at hand can be that is known at its end: until then the
// frame is taken as alive, without proof.
bool JsonControl::alive_after_item(ArrayControl *after, uint64_t count, bool reading) {
  if (oracle_->array_alive(after, count, false, reading)) return true;
  if (!after->loose || count < 2 || !oracle_->array_alive(after_repeat(after), count, false)) return false;
  oracle_->leave_unproven();
  return true;
}

ItemControl *JsonControl::next_item(ArrayControl *a, uint64_t count) {
  ItemControl *it = item(a, count);
  if (!it->possible) return nullptr;
  if (it->child) return it;
  const Hash128 read = hash_words(5, reinterpret_cast<uintptr_t>(it), count);
  if (auto known = resolved_items_.find(read); known != resolved_items_.end()) return known->second;
  std::optional<Formula> known;
  if (it->counted.empty()) known = oracle_->array_verdicts(it->frame, it->on, count + 1);
  ItemControl *found = resolve_child<ArrayControl>(it, known, [&](const Holds &holds) {
    return alive_after_item(array_after(it->frame, it->on, it->counted, holds), count + 1, true);
  });
  if (resolved_items_.size() > MAX_RESOLVED) resolved_items_.clear();
  return resolved_items_[read] = found;
}

// ---------------------------------------------------------------- verdicts

// Many texts end with the same verdicts, and a mask reads all of them to their ends.
GoalId JsonControl::goal_after(GoalId goal, const Verdicts &verdicts, const Holds &holds) {
  std::vector<SchemaId> failed;
  charge(1 + verdicts.size() / 4);
  Hash128 key = hash_words(7, goal);
  for (auto &[group, root] : verdicts)
    if (!holds(root)) {
      failed.push_back(group);
      key = extend(key, group);
    }
  if (failed.empty()) return goal;
  if (const auto it = goals_after_.find(key); it != goals_after_.end()) return it->second;
  if (goals_after_.size() > MAX_RESOLVED) goals_after_.clear();
  const GoalId after = without_groups(goal, failed);
  return goals_after_[key] = after;
}

GoalId JsonControl::without_groups(GoalId goal, const std::vector<SchemaId> &failed) {
  if (failed.empty()) return goal;
  std::vector<Formula> roots = goals_[goal].roots;
  std::vector<bool> is_failed(schema_.nodes.size());
  for (SchemaId g : failed) is_failed[g] = true;
  std::vector<Formula> left;
  for (Formula &r : roots) {
    const bool any = formulas_.kind(r) == FormulaSpace::Kind::Or;
    left.clear();
    charge(1 + (any ? formulas_.parts(r).size() / 4 : 0));
    if (any)
      for (Formula p : formulas_.parts(r))
        if (formulas_.kind(p) != FormulaSpace::Kind::Leaf || !is_failed[formulas_.leaf_id(p)]) left.push_back(p);
    // Of alternatives mostly few are left: the others need not be put in one by one.
    if (any) r = formulas_.disjunction(left);
  }
  formulas_.substitute(&roots, [&](uint32_t g) { return is_failed[g] ? FormulaSpace::FALSE : FormulaSpace::SAME; });
  return intern(std::move(roots), goals_[goal].need);
}

ObjectControl *JsonControl::after_child(ObjectControl *o, const Verdicts &verdicts,
                                        const Holds &holds) {
  if (verdicts.empty()) return o;
  GoalId g = goal_after(o->goal, verdicts, holds);
  return g == o->goal ? o : object_control(g, o->universe);
}

template std::unique_ptr<KeyControl> JsonControl::make_child(ObjectControl *, const std::vector<SchemaId> &,
                                                             const std::function<Formula(SchemaId)> &,
                                                             const std::function<ObjectControl *(GoalId)> &,
                                                             const std::vector<std::pair<SchemaId, Formula>> &);
template std::unique_ptr<ItemControl> JsonControl::make_child(ArrayControl *, const std::vector<SchemaId> &,
                                                              const std::function<Formula(SchemaId)> &,
                                                              const std::function<ArrayControl *(GoalId)> &,
                                                              const std::vector<std::pair<SchemaId, Formula>> &);

}  // namespace structgen
