#include "json/control/array_frames.h"

#include <algorithm>

namespace structgen {
namespace {
constexpr size_t MAX_RESOLVED = 50'000;  // items that are memoised
}  // namespace

// Lowers the greatest length of a simple frame to the first item without a value.
void ArrayFrames::prepare(ArrayControl *a) {
  if (a->prepared) return;
  for (uint64_t i = 0; a->simple && i <= a->prefix && i < a->max; ++i) {
    charge(1 + a->groups.size());
    std::vector<Formula> all;
    for (SchemaId g : a->groups) all.push_back(controls_.requirement(g, i));
    if (!oracle_.can_hold(formulas_.conjunction(std::move(all)))) a->max = i;
  }
  a->prepared = true;
}

bool ArrayFrames::live(ArrayControl *a, uint64_t count) {
  if (!a->simple) return oracle_.arrays().live(a, count, false);
  prepare(a);
  return count <= a->max && a->min <= a->max;
}

bool ArrayFrames::item_allowed(ArrayControl *a, uint64_t count) {
  if (!a->simple) return oracle_.arrays().live(a, count, true);
  prepare(a);
  return count < a->max && a->min <= a->max;
}

bool ArrayFrames::is_unbounded(ArrayControl *a, uint64_t count) {
  return a->simple && a->max == UNBOUNDED && item_allowed(a, count);
}

bool ArrayFrames::live_after_item(ArrayControl *after, uint64_t count, bool reading) {
  if (oracle_.arrays().live(after, count, false, reading)) return true;
  if (!after->may_violate_unique || count < 2 || !oracle_.arrays().live(after_repeated_item(after), count, false))
    return false;
  tables_.table.count_unproven();
  return true;
}

ItemControl *ArrayFrames::item(ArrayControl *a, uint64_t index) {
  index = std::min(index, a->prefix);
  if (a->items[index]) return a->items[index].get();
  ChildRules<ArrayControl> rules{
      a->groups, [&](SchemaId group) { return controls_.requirement(group, index, a->used); },
      [&](ObligationId obligation) { return controls_.control(obligation, a->counts, a->used); }};
  for (SchemaId g : a->groups) {
    const SchemaNode &n = tables_.node(g);
    if (n.contains == NO_SCHEMA) continue;
    if (n.max_contains != UNBOUNDED || ArrayControls::count_of(*a, g) < n.min_contains)
      rules.contains.emplace_back(g, tables_.table.leaf(n.contains));
  }
  a->items[index] = children_.make(a, rules);
  return a->items[index].get();
}

ItemControl *ArrayFrames::next_item(ArrayControl *a, uint64_t count) {
  ItemControl *it = item(a, count);
  if (!it->possible) return nullptr;
  if (it->child) return it;
  const Hash128 read = hash_words(5, reinterpret_cast<uintptr_t>(it), count);
  if (auto known = resolved_.find(read); known != resolved_.end()) return known->second;
  std::optional<Formula> known;
  if (it->contains_roots.empty()) known = oracle_.branches().array_verdicts(it->frame, it->undecided, count + 1);
  ItemControl *found = children_.resolve(it, known, [&](const Holds &holds) {
    return live_after_item(controls_.after(it->frame, it->undecided, it->contains_roots, holds), count + 1, true);
  });
  if (resolved_.size() > MAX_RESOLVED) resolved_.clear();
  return resolved_[read] = found;
}

ValueControl *ArrayFrames::counted_item(ArrayControl *a, uint64_t count) {
  ItemControl *next = next_item(a, count);
  if (!next) return nullptr;
  const Formula requirement = tables_.obligations[next->child->obligation].requirement;
  for (SchemaId g : a->groups) {
    const SchemaNode &n = tables_.node(g);
    if (n.contains == NO_SCHEMA) continue;
    // Some frames can close only with more matches than `maxContains` allows, so that the group fails.
    const bool too_few = ArrayControls::count_of(*a, g) < n.min_contains;
    const bool may_exceed = n.max_contains != UNBOUNDED && !a->simple;
    if (!too_few && !may_exceed) continue;
    const Formula both = formulas_.both(requirement, tables_.table.leaf(n.contains));
    if (oracle_.can_hold(both)) return values_.control_of(both);
  }
  return nullptr;
}

}  // namespace structgen
