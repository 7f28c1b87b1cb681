// Array frames: their items and when they can go on or end.
#include "json_control.h"

#include <algorithm>

#include "json_oracle.h"

namespace structgen {

ArrayControl *JsonControl::array_control(GoalId goal) {
  auto &slot = arrays_[goal];
  if (slot) return slot.get();
  auto made = std::make_unique<ArrayControl>();
  ArrayControl &a = *made;
  a.goal = goal;
  a.simple = goals_[goal].simple;
  a.id = static_cast<uint32_t>(arrays_.size());
  for (Formula r : goals_[goal].roots) {
    std::vector<uint32_t> leaves = formulas_.leaves(r);
    a.groups.insert(a.groups.end(), leaves.begin(), leaves.end());
  }
  std::sort(a.groups.begin(), a.groups.end());
  a.groups.erase(std::unique(a.groups.begin(), a.groups.end()), a.groups.end());
  for (SchemaId g : a.groups) {
    const SchemaNode &n = schema_.nodes[g];
    a.prefix = std::max<uint64_t>(a.prefix, n.prefix_items.size());
    if (!a.simple) continue;
    a.min = std::max(a.min, n.min_items);
    a.max = std::min(a.max, n.max_items);
  }
  a.items.resize(a.prefix + 1);
  slot = std::move(made);
  return slot.get();
}

void JsonControl::prepare(ArrayControl *a) {
  if (a->prepared) return;
  a->prepared = true;
  if (!a->simple) return;
  for (uint64_t i = 0; i <= a->prefix && i < a->max; ++i) {
    std::vector<Formula> all;
    for (SchemaId g : a->groups) all.push_back(item_requirement(g, i));
    if (!can_hold(formulas_.conjunction(std::move(all)))) a->max = i;
  }
}

Formula JsonControl::item_requirement(SchemaId group, uint64_t index) {
  const SchemaNode &n = schema_.nodes[group];
  if (index < n.prefix_items.size()) return schema_leaf(n.prefix_items[index]);
  return n.items == NO_SCHEMA ? FormulaSpace::TRUE : schema_leaf(n.items);
}

ItemControl *JsonControl::item(ArrayControl *a, uint64_t index) {
  index = std::min(index, a->prefix);
  if (a->items[index]) return a->items[index].get();
  auto made = make_child<ArrayControl>(
      a, [&](SchemaId s) { return item_requirement(s, index); }, [&](GoalId g) { return array_control(g); });
  a->items[index] = std::move(made);
  return a->items[index].get();
}

bool JsonControl::array_alive(ArrayControl *a, uint64_t count) {
  if (!a->simple) return oracle_->array_alive(a, count, false);
  prepare(a);
  return count <= a->max && a->min <= a->max;
}

bool JsonControl::item_allowed(ArrayControl *a, uint64_t count) {
  if (!a->simple) return oracle_->array_alive(a, count, true);
  prepare(a);
  return count < a->max && a->min <= a->max;
}

std::vector<bool> JsonControl::array_verdicts(ArrayControl *a, uint64_t count) {
  std::vector<bool> out;
  for (Formula r : goals_[a->goal].roots)
    out.push_back(formulas_.evaluate(r, [&](uint32_t g) {
      const SchemaNode &n = schema_.nodes[g];
      return count >= n.min_items && count <= n.max_items;
    }));
  return out;
}

bool JsonControl::array_can_close(ArrayControl *a, uint64_t count) {
  if (a->simple) return count >= a->min && count <= a->max;
  std::vector<bool> v = array_verdicts(a, count);
  return formulas_.evaluate(goals_[a->goal].need, [&](uint32_t i) { return v[i]; });
}

}  // namespace structgen
