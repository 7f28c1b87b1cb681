// `uniqueItems`: are there surely many different values of a schema, and which are left without some of them?
#include <bit>

#include "json/control.h"
#include "json/oracle/oracle.h"
#include "json/shortest/shortest.h"

namespace structgen {
namespace {
constexpr uint64_t AT_LEAST = 64;  // values of the first question, whose answer serves smaller ones
}  // namespace

bool JsonControl::has_many(GoalId goal, uint64_t many) {
  const Formula f = goals_[goal].combined;
  Many &known = many_[f];
  if (many <= known.has) return true;
  if (many >= known.lacks) return false;
  const uint64_t more = std::bit_ceil(std::max(many, AT_LEAST));
  if (oracle_->has_many(f, more)) {
    many_[f].has = more;
    return true;
  }
  const bool has = more > many && oracle_->has_many(f, many);
  if (has) many_[f].has = many;
  else many_[f].lacks = many;
  return has;
}

bool JsonControl::has_no_last_item(ArrayControl *a, uint64_t count) {
  return a->simple && a->max == UNBOUNDED && item_allowed(a, count);
}

bool JsonControl::has_many_keys(ObjectControl *o, const ObjectView &view, std::optional<OpenKey> open, uint64_t many,
                                bool whole_keys) {
  if (!o->simple) return false;
  prepare(o);
  const KeyUniverse &u = *o->universe;
  uint64_t owed = 1 + open.has_value();
  for (uint32_t w = 0; w < u.words(); ++w) owed += static_cast<uint64_t>(std::popcount(o->required[w] & ~view.seen[w]));
  if (o->impossible || (o->max != UNBOUNDED && view.count + owed > o->max)) return false;
  if (o->extra != RegexSpace::EMPTY && o->patterns.empty() && extra_keys_left(*o, view) == UINT64_MAX) return true;
  for (uint32_t i = 0; i < u.keys.size(); ++i) {
    charge();
    if (!bit(o->usable.data(), i) || bit(view.seen, i)) continue;
    if (schema_.options.ordered && !bit(o->required.data(), i)) continue;  // a later key may come first
    // The key that is being read may be this one: then its value is still to come.
    KeyControl *k = key(o, i);
    if (!k->possible || !k->child) continue;
    if (whole_keys && open && open->first <= i && i < open->last ? only_free_strings(k->child) : has_many(k->child->goal, many)) return true;
  }
  return false;
}

ValueControl *JsonControl::other_than(const ValueControl *value_, const std::vector<std::string> &texts) {
  const Formula f = shortest().other_than(goals_[value_->goal].combined, texts);
  return can_hold(f) ? value(intern({f}, formulas_.leaf(0))) : nullptr;
}

void JsonControl::leave_unproven() { oracle_->leave_unproven(); }

}  // namespace structgen
