// What a value inside a frame must do, and what its verdicts do to the frame.
#include "json_control.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>

#include "json_oracle.h"

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
  for (SchemaId g : asked) {
    Formula r = requirement(g);
    if (r == FormulaSpace::TRUE || !std::binary_search(left.begin(), left.end(), g)) continue;
    size_t i = std::find(made->roots.begin(), made->roots.end(), r) - made->roots.begin();
    if (i == made->roots.size()) made->roots.push_back(r);
    made->on.emplace_back(g, static_cast<uint32_t>(i));
  }
  return true;
}

namespace {

// The formula over the given leaves whose truth table is `table` (the first leaf is the lowest bit).
Formula from_table(FormulaSpace &fs, const std::vector<bool> &table, std::span<const uint32_t> leaves) {
  if (table.size() == 1) return table[0] ? FormulaSpace::TRUE : FormulaSpace::FALSE;
  std::vector<bool> without, with;
  bool grows = true;  // nothing that holds without the leaf is lost with it
  for (size_t v = 0; v < table.size(); v += 2) {
    without.push_back(table[v]);
    with.push_back(table[v + 1]);
    grows &= !table[v] || table[v + 1];
  }
  Formula no = from_table(fs, without, leaves.subspan(1)), yes = from_table(fs, with, leaves.subspan(1));
  const Formula x = fs.leaf(leaves[0]);
  if (no == yes) return no;
  if (grows) return fs.disjunction({fs.both(x, yes), no});
  return fs.disjunction({fs.both(x, yes), fs.both(fs.negation(x), no)});
}

constexpr size_t MAX_ROOTS_TOLD_APART = 6;
constexpr size_t MIN_ROOTS_OF_FEW_VALUES = 3;
constexpr size_t MAX_RESOLVED = 50'000;
constexpr size_t MAX_ROWS = 5'000;

}  // namespace

// Which verdicts over the roots leave the frame alive, as a formula; nothing when they are too many to try.
// `monotone`: where the frame is alive, it is alive with more roots that hold.
std::optional<Formula> JsonControl::verdicts_wanted(const std::vector<Formula> &roots, bool monotone,
                                                    const std::function<bool(const Holds &)> &alive) {
  FormulaSpace &fs = formulas_;
  ValueRows few;
  if (roots.size() >= MIN_ROOTS_OF_FEW_VALUES) few = value_rows(roots);
  if (few.roots.size() < MIN_ROOTS_OF_FEW_VALUES || few.rows.size() > MAX_ROWS) few = {};
  std::vector<uint32_t> others;
  for (uint32_t i = 0; i < roots.size(); ++i)
    if (!std::binary_search(few.roots.begin(), few.roots.end(), i)) others.push_back(i);
  // Is the frame alive where just those of `row` hold among the first, and just those of `told` among the others?
  auto alive_with = [&](const std::vector<uint32_t> &row, const std::vector<uint32_t> &told) {
    return alive([&](uint32_t i) {
      return std::binary_search(row.begin(), row.end(), i) || std::binary_search(told.begin(), told.end(), i);
    });
  };
  // All combinations of some of the others, none of the rest.
  auto tried = [&](const std::vector<uint32_t> &row, const std::vector<uint32_t> &some) {
    std::vector<bool> table(size_t{1} << some.size());
    for (size_t v = 0; v < table.size(); ++v) {
      std::vector<uint32_t> told;
      bool known = false;  // alive with less already
      for (size_t b = 0; b < some.size(); ++b)
        if (v >> b & 1) {
          told.push_back(some[b]);
          known = known || (monotone && table[v ^ size_t{1} << b]);
        }
      table[v] = known || alive_with(row, told);
    }
    return from_table(fs, table, some);
  };
  // What the others must be like beside a row.
  auto wanted = [&](const std::vector<uint32_t> &row) -> std::optional<Formula> {
    if (others.size() <= MAX_ROOTS_TOLD_APART) return tried(row, others);
    if (!monotone) return std::nullopt;
    if (alive_with(row, {})) return FormulaSpace::TRUE;
    // Any root that is enough alone will do; beyond those only the rest among themselves matter.
    std::vector<Formula> enough;
    std::vector<uint32_t> rest;
    for (uint32_t i : others) {
      if (alive_with(row, {i})) enough.push_back(fs.leaf(i));
      else rest.push_back(i);
    }
    if (!rest.empty() && alive_with(row, rest)) {
      if (rest.size() > MAX_ROOTS_TOLD_APART) return std::nullopt;
      enough.push_back(tried(row, rest));
    }
    return fs.disjunction(std::move(enough));
  };
  const std::optional<Formula> none = wanted({});
  if (!none || few.rows.empty()) return none;
  std::vector<uint32_t> rows_of(roots.size());
  for (auto &row : few.rows)
    for (uint32_t i : row) ++rows_of[i];
  auto told_by = [&](const std::vector<uint32_t> &row) {
    for (uint32_t i : row)
      if (rows_of[i] == 1) return fs.leaf(i);
    std::vector<Formula> all;
    for (uint32_t i : few.roots)
      all.push_back(std::binary_search(row.begin(), row.end(), i) ? fs.leaf(i) : fs.negation(fs.leaf(i)));
    return fs.conjunction(std::move(all));
  };
  // Values that do no worse than one that is none of the few need not be told from it.
  std::map<Formula, std::vector<Formula>> by_need;
  for (auto &row : few.rows) {
    const std::optional<Formula> need = wanted(row);
    if (!need) return std::nullopt;
    if (*need != *none) by_need[*need].push_back(told_by(row));
  }
  std::vector<Formula> ways, differing;
  for (auto &[need, told] : by_need) {
    const Formula any = fs.disjunction(told);
    differing.push_back(any);
    ways.push_back(fs.both(any, need));
  }
  ways.push_back(fs.both(fs.negation(fs.disjunction(std::move(differing))), *none));
  return fs.disjunction(std::move(ways));
}

template <class Frame>
ChildControl<Frame> *JsonControl::resolve_child(ChildControl<Frame> *child,
                                                const std::function<bool(const Holds &)> &alive) {
  const size_t m = child->roots.size();
  const bool monotone = child->counted.empty() && formulas_.is_monotone(goals_[child->frame->goal].combined);
  Formula need;
  if (std::optional<Formula> exact = verdicts_wanted(child->roots, monotone, alive)) {
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
  KeyControl *found = resolve_child<ObjectControl>(key, [&](const Holds &holds) {
    const GoalId goal = goal_after(key->frame->goal, key->on, holds);
    return oracle_->object_alive(object_control(goal, key->frame->universe), view, nullptr);
  });
  if (resolved_keys_.size() > MAX_RESOLVED) resolved_keys_.clear();
  return resolved_keys_[read] = found;
}

ItemControl *JsonControl::next_item(ArrayControl *a, uint64_t count) {
  ItemControl *it = item(a, count);
  if (!it->possible) return nullptr;
  if (it->child) return it;
  const Hash128 read = hash_words(5, reinterpret_cast<uintptr_t>(it), count);
  if (auto known = resolved_items_.find(read); known != resolved_items_.end()) return known->second;
  ItemControl *found = resolve_child<ArrayControl>(it, [&](const Holds &holds) {
    return oracle_->array_alive(array_after(it->frame, it->on, it->counted, holds), count + 1, false);
  });
  if (resolved_items_.size() > MAX_RESOLVED) resolved_items_.clear();
  return resolved_items_[read] = found;
}

// ---------------------------------------------------------------- verdicts

GoalId JsonControl::goal_after(GoalId goal, const Verdicts &verdicts, const Holds &holds) {
  std::vector<SchemaId> failed;
  for (auto &[group, root] : verdicts)
    if (!holds(root)) failed.push_back(group);
  return without_groups(goal, failed);
}

GoalId JsonControl::without_groups(GoalId goal, const std::vector<SchemaId> &failed) {
  if (failed.empty()) return goal;
  std::vector<Formula> roots = goals_[goal].roots;
  for (Formula &r : roots)
    r = formulas_.substitute(r, [&](uint32_t g) {
      return std::binary_search(failed.begin(), failed.end(), g) ? FormulaSpace::FALSE : formulas_.leaf(g);
    });
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
