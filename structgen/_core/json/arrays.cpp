// Array frames: their items, what `contains` counts, which items are taken, and when they can go on or end.
#include <algorithm>

#include "json/control.h"
#include "json/oracle/oracle.h"

namespace structgen {
namespace {
constexpr size_t MAX_USED = 1'024;  // scalars of one array whose items must differ, taken out of what may come next
}  // namespace

ArrayControl *JsonControl::array_control(GoalId goal, const Counts &counts, SchemaId used) {
  std::vector<SchemaId> groups = groups_of(goal);
  Counts kept;
  for (auto &[g, n] : counts) {
    const SchemaNode &node = schema_.nodes[g];
    const uint64_t matters = node.max_contains == UNBOUNDED ? node.min_contains : node.max_contains;
    if (n > 0 && matters > 0 && std::binary_search(groups.begin(), groups.end(), g))
      kept.emplace_back(g, std::min(n, matters));
  }
  const bool unique = std::any_of(groups.begin(), groups.end(), [&](SchemaId g) { return schema_.nodes[g].unique_items; });
  auto &slot = arrays_[{goal, kept, unique ? used : NO_SCHEMA}];
  if (slot) return slot.get();
  auto made = std::make_unique<ArrayControl>();
  ArrayControl &a = *made;
  a.goal = goal;
  a.id = static_cast<uint32_t>(arrays_.size());
  a.counts = std::move(kept);
  a.unique = unique;
  a.loose = unique && !goals_[goal].simple;
  a.used = unique ? used : NO_SCHEMA;
  for (SchemaId g : groups) {
    const SchemaNode &n = schema_.nodes[g];
    a.prefix = std::max<uint64_t>(a.prefix, n.prefix_items.size());
    a.counting |= n.contains != NO_SCHEMA;
  }
  a.simple = goals_[goal].simple && !a.counting && !a.unique;
  if (a.simple)
    for (SchemaId g : groups) {
      a.min = std::max(a.min, schema_.nodes[g].min_items);
      a.max = std::min(a.max, schema_.nodes[g].max_items);
    }
  a.groups = std::move(groups);
  a.items.resize(a.prefix + 1);
  slot = std::move(made);
  return slot.get();
}

void JsonControl::prepare(ArrayControl *a) {
  if (a->prepared) return;
  for (uint64_t i = 0; a->simple && i <= a->prefix && i < a->max; ++i) {
    charge(1 + a->groups.size());
    std::vector<Formula> all;
    for (SchemaId g : a->groups) all.push_back(item_requirement(g, i));
    if (!can_hold(formulas_.conjunction(std::move(all)))) a->max = i;
  }
  a->prepared = true;
}

Formula JsonControl::item_requirement(SchemaId group, uint64_t index, SchemaId used) {
  const SchemaNode &n = schema_.nodes[group];
  Formula item = FormulaSpace::TRUE;
  if (index < n.prefix_items.size()) item = schema_leaf(n.prefix_items[index]);
  else if (n.items != NO_SCHEMA) item = schema_leaf(n.items);
  if (!n.unique_items || used == NO_SCHEMA) return item;
  return formulas_.both(item, formulas_.negation(schema_leaf(used)));
}

ItemControl *JsonControl::item(ArrayControl *a, uint64_t index) {
  index = std::min(index, a->prefix);
  if (a->items[index]) return a->items[index].get();
  std::vector<std::pair<SchemaId, Formula>> counted;
  for (SchemaId g : a->groups) {
    const SchemaNode &n = schema_.nodes[g];
    if (n.contains != NO_SCHEMA && (n.max_contains != UNBOUNDED || this->counted(*a, g) < n.min_contains))
      counted.emplace_back(g, schema_leaf(n.contains));
  }
  auto made = make_child<ArrayControl>(
      a, a->groups, [&](SchemaId s) { return item_requirement(s, index, a->used); },
      [&](GoalId g) { return array_control(g, a->counts, a->used); }, counted);
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
  auto holds = [&](uint32_t g) {
    const SchemaNode &n = schema_.nodes[g];
    if (count < n.min_items || count > n.max_items) return false;
    return n.contains == NO_SCHEMA || counted(*a, g) >= n.min_contains;
  };
  std::vector<bool> out;
  for (Formula r : goals_[a->goal].roots) out.push_back(formulas_.evaluate(r, holds));
  return out;
}

bool JsonControl::array_can_close(ArrayControl *a, uint64_t count) {
  if (a->simple) return count >= a->min && count <= a->max;
  std::vector<bool> v = array_verdicts(a, count);
  return formulas_.evaluate(goals_[a->goal].need, [&](uint32_t i) { return v[i]; });
}

uint64_t JsonControl::counted(const ArrayControl &a, SchemaId group) {
  for (auto &[g, n] : a.counts)
    if (g == group) return n;
  return 0;
}

// ---------------------------------------------------------------- after an item

ArrayControl *JsonControl::array_after(ArrayControl *a, const Verdicts &verdicts, const Verdicts &counting,
                                       const Holds &holds) {
  std::vector<SchemaId> failed;
  for (auto &[group, root] : verdicts)
    if (!holds(root)) failed.push_back(group);
  Counts counts = a->counts;
  for (auto &[group, root] : counting) {
    if (!holds(root)) continue;
    auto it = std::find_if(counts.begin(), counts.end(), [g = group](auto &c) { return c.first == g; });
    if (it == counts.end()) it = counts.insert(it, {group, 0});
    if (++it->second > schema_.nodes[group].max_contains) failed.push_back(group);
  }
  std::sort(failed.begin(), failed.end());
  std::sort(counts.begin(), counts.end());
  if (failed.empty() && counts == a->counts) return a;
  return array_control(without_groups(a->goal, failed), counts, a->used);
}

ArrayControl *JsonControl::after_item(ItemControl *item, const Holds &holds) {
  if (item->verdicts.empty() && item->counted.empty()) return item->frame;
  return array_after(item->frame, item->verdicts, item->counted, holds);
}

ArrayControl *JsonControl::with_value(ArrayControl *a, const ItemValue &value) {
  std::vector<std::string> all;
  if (a->used != NO_SCHEMA) all = *used_lists_[a->used];
  std::string tagged = std::to_string(value.kind) + value.text;
  auto at = std::lower_bound(all.begin(), all.end(), tagged);
  if (at != all.end() && *at == tagged) return a;
  if (all.size() >= MAX_USED) {  // a list for each length of it: further ones are only compared when they end
    oracle_->leave_unproven();
    return a;
  }
  all.insert(at, std::move(tagged));
  auto [it, fresh] = used_values_.try_emplace(all, static_cast<SchemaId>(schema_.nodes.size()));
  if (fresh) {
    SchemaNode n;
    n.pointer = schema_.nodes[a->groups.front()].pointer;
    n.has_values = true;
    for (const std::string &t : all) {
      const std::string text = t.substr(1);
      switch (t[0] - '0') {
        case ItemValue::String: n.strings.push_back(text); break;
        case ItemValue::Number: n.numbers.push_back(text); break;
        default: n.literals |= text == "null" ? 1 : text == "true" ? 2 : 4;
      }
    }
    schema_.nodes.push_back(std::move(n));
    used_lists_[it->second] = &it->first;
  }
  return array_control(a->goal, a->counts, it->second);
}

ArrayControl *JsonControl::after_repeat(ArrayControl *a) {
  std::vector<SchemaId> failed;
  for (SchemaId g : a->groups)
    if (schema_.nodes[g].unique_items) failed.push_back(g);
  return array_control(without_groups(a->goal, failed), a->counts, a->used);
}

ValueControl *JsonControl::helpful(ArrayControl *a, uint64_t count) {
  ItemControl *next = next_item(a, count);
  if (!next) return nullptr;
  const Formula must = goals_[next->child->goal].combined;
  for (SchemaId g : a->groups) {
    const SchemaNode &n = schema_.nodes[g];
    if (n.contains == NO_SCHEMA) continue;
    // Some frames can end only with more than `maxContains`.
    const bool too_few = counted(*a, g) < n.min_contains, too_many = n.max_contains != UNBOUNDED && !a->simple;
    if (!too_few && !too_many) continue;
    const Formula both = formulas_.both(must, schema_leaf(n.contains));
    if (can_hold(both)) return value(intern({both}, formulas_.leaf(0)));
  }
  return nullptr;
}

}  // namespace structgen
