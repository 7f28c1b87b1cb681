#include "json/array_control.h"

#include <algorithm>

namespace structgen {
namespace {
constexpr size_t MAX_USED = 1'024;  // scalars of one array with distinct items that later items exclude
}  // namespace

ArrayControl *ArrayControls::control(ObligationId expanded, const Counts &counts, SchemaId used) {
  Groups groups = obligations_.groups(expanded);
  Counts kept;
  for (auto &[g, n] : counts) {
    const SchemaNode &node = table_.node(g);
    const uint64_t matters = node.max_contains == UNBOUNDED ? node.min_contains : node.max_contains;
    if (n > 0 && matters > 0 && std::binary_search(groups.begin(), groups.end(), g))
      kept.emplace_back(g, std::min(n, matters));
  }
  const bool unique =
      std::any_of(groups.begin(), groups.end(), [&](SchemaId g) { return table_.node(g).unique_items; });
  auto &slot = controls_[{expanded, kept, unique ? used : NO_SCHEMA}];
  if (slot) return slot.get();
  auto made = std::make_unique<ArrayControl>();
  ArrayControl &a = *made;
  a.obligation = expanded;
  a.id = static_cast<uint32_t>(controls_.size());
  a.counts = std::move(kept);
  a.unique = unique;
  a.may_violate_unique = unique && !obligations_[expanded].conjunctive;
  a.used = unique ? used : NO_SCHEMA;
  for (SchemaId g : groups) {
    const SchemaNode &n = table_.node(g);
    a.prefix = std::max<uint64_t>(a.prefix, n.prefix_items.size());
    a.counting |= n.contains != NO_SCHEMA;
  }
  a.simple = obligations_[expanded].conjunctive && !a.counting && !a.unique;
  if (a.simple)
    for (SchemaId g : groups) {
      a.min = std::max(a.min, table_.node(g).min_items);
      a.max = std::min(a.max, table_.node(g).max_items);
    }
  a.groups = std::move(groups);
  a.items.resize(a.prefix + 1);
  slot = std::move(made);
  return slot.get();
}

Formula ArrayControls::requirement(SchemaId group, uint64_t index, SchemaId used) {
  const SchemaNode &n = table_.node(group);
  Formula item = FormulaSpace::TRUE;
  if (index < n.prefix_items.size()) item = table_.leaf(n.prefix_items[index]);
  else if (n.items != NO_SCHEMA) item = table_.leaf(n.items);
  if (!n.unique_items || used == NO_SCHEMA) return item;
  return formulas_.both(item, formulas_.negation(table_.leaf(used)));
}

uint64_t ArrayControls::count_of(const ArrayControl &a, SchemaId group) {
  for (auto &[g, n] : a.counts)
    if (g == group) return n;
  return 0;
}

// ---------------------------------------------------------------- after an item

ArrayControl *ArrayControls::after(ArrayControl *a, const GroupRoots &group_roots, const GroupRoots &contains_roots,
                                   const Holds &holds) {
  Groups failed;
  for (auto &[group, root] : group_roots)
    if (!holds(root)) failed.push_back(group);
  Counts counts = a->counts;
  for (auto &[group, root] : contains_roots) {
    if (!holds(root)) continue;
    auto it = std::find_if(counts.begin(), counts.end(), [g = group](auto &c) { return c.first == g; });
    if (it == counts.end()) it = counts.insert(it, {group, 0});
    if (++it->second > table_.node(group).max_contains) failed.push_back(group);
  }
  std::sort(failed.begin(), failed.end());
  std::sort(counts.begin(), counts.end());
  if (failed.empty() && counts == a->counts) return a;
  return control(obligations_.without(a->obligation, failed), counts, a->used);
}

ArrayControl *ArrayControls::after(ItemControl *item, const Holds &holds) {
  if (item->group_roots.empty() && item->contains_roots.empty()) return item->frame;
  return after(item->frame, item->group_roots, item->contains_roots, holds);
}

ArrayControl *ArrayControls::after_repeated_item(ArrayControl *a) {
  Groups failed;
  for (SchemaId g : a->groups)
    if (table_.node(g).unique_items) failed.push_back(g);
  return control(obligations_.without(a->obligation, failed), a->counts, a->used);
}

ArrayControl *ArrayControls::with_used(ArrayControl *a, const ItemValue &scalar) {
  std::vector<std::string> all;
  if (a->used != NO_SCHEMA) all = *scalars_of_[a->used];
  std::string tagged = std::to_string(scalar.kind) + scalar.text;
  auto at = std::lower_bound(all.begin(), all.end(), tagged);
  if (at != all.end() && *at == tagged) return a;
  if (all.size() >= MAX_USED) {
    // Each length of the list makes an enum of its own, so the list is bounded. Further scalars are compared at the
    // end of an item only.
    table_.count_unproven();
    return a;
  }
  all.insert(at, std::move(tagged));
  return control(a->obligation, a->counts, enum_of(all, table_.node(a->groups.front()).pointer));
}

SchemaId ArrayControls::enum_of(const std::vector<std::string> &scalars, const std::string &pointer) {
  auto [it, fresh] = enums_.try_emplace(scalars, static_cast<SchemaId>(table_.size()));
  if (!fresh) return it->second;
  SchemaNode n;
  n.pointer = pointer;
  n.has_values = true;
  for (const std::string &tagged : scalars) {
    const std::string text = tagged.substr(1);
    switch (tagged[0] - '0') {
      case ItemValue::String: n.strings.push_back(text); break;
      case ItemValue::Number: n.numbers.push_back(text); break;
      default: n.literals |= text == "null" ? 1 : text == "true" ? 2 : 4;
    }
  }
  table_.add(std::move(n));
  scalars_of_[it->second] = &it->first;
  return it->second;
}

// ---------------------------------------------------------------- the end of an array

std::vector<bool> ArrayControls::verdicts(const ArrayControl &a, uint64_t count) {
  return obligations_.evaluate(a.obligation, [&](SchemaId group) {
    const SchemaNode &n = table_.node(group);
    if (count < n.min_items || count > n.max_items) return false;
    return n.contains == NO_SCHEMA || count_of(a, group) >= n.min_contains;
  });
}

bool ArrayControls::can_close(const ArrayControl &a, uint64_t count) {
  if (a.simple) return count >= a.min && count <= a.max;
  return obligations_.is_met(a.obligation, verdicts(a, count));
}

}  // namespace structgen
