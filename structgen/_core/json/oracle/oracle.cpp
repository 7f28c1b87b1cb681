#include "json/oracle/oracle.h"

#include <algorithm>

namespace structgen {
namespace {
constexpr size_t MAX_NESTED_REQUIREMENTS = 250;
constexpr size_t MAX_FRAMES = 100'000;  // memoised
}  // namespace

JsonOracle::JsonOracle(SchemaTables &tables)
    : tables_(tables),
      budget_(tables.table.text()),
      formulas_(*this),
      branches_(*this),
      objects_(*this),
      arrays_(*this),
      distinct_(*this) {}

JsonOracle::Known &JsonOracle::known(Formula f) {
  while (known_.size() <= f) known_.emplace_back();
  return known_[f];
}

bool JsonOracle::can_hold(Formula f) {
  charge();
  if (f <= FormulaSpace::TRUE) return f == FormulaSpace::TRUE;
  if (const int8_t before = known(f).any_type; before != Known::UNKNOWN) return before != 0;
  if (auto it = state_.in_progress.find(f); it != state_.in_progress.end()) {
    state_.lowest = std::min(state_.lowest, it->second);
    return false;
  }
  const Query query(budget_, state_);
  if (state_.in_progress.size() > MAX_NESTED_REQUIREMENTS) {
    budget_.count_unproven();
    return true;
  }
  if (!budget_.spend()) return true;
  const auto depth = static_cast<uint32_t>(state_.in_progress.size());
  const uint32_t outer = std::exchange(state_.lowest, QueryState::NO_DEPENDENCY);
  state_.in_progress.emplace(f, depth);
  const bool holds = any_type_holds(f);
  state_.in_progress.erase(f);
  if (holds) {
    known(f).any_type = 1;
    state_.lowest = outer;
    return true;
  }
  const bool certain = state_.lowest >= depth;  // relies on no requirement that is still being decided
  if (certain) known(f).any_type = 0;
  state_.lowest = std::min(outer, certain ? QueryState::NO_DEPENDENCY : state_.lowest);
  return false;
}

bool JsonOracle::any_type_holds(Formula f) {
  for (Type t : {Type::Null, Type::Boolean, Type::String, Type::Number, Type::Array, Type::Object})
    if (holds_type(f, t)) return true;
  return false;
}

bool JsonOracle::holds_type(Formula f, Type type) {
  const auto t = static_cast<int>(type);
  if (const int8_t before = known(f).by_type[t]; before != Known::UNKNOWN) return before != 0;
  const Formula expanded = tables_.limits.restrict(tables_.expansion.expand(f, type), type);
  const bool outermost = state_.in_progress.empty();
  const Query query(budget_, state_);
  if (outermost) state_.lowest = QueryState::NO_DEPENDENCY;
  const bool holds = expanded_can_hold(expanded, type);
  if (holds || outermost) known(f).by_type[t] = holds;
  return holds;
}

bool JsonOracle::expanded_can_hold(Formula expanded, Type type) {
  if (expanded == FormulaSpace::FALSE) return false;
  if (expanded == FormulaSpace::TRUE && type != Type::Null && type != Type::Boolean) return true;
  const auto literal_holds = [&](int literal) {
    return tables_.table.text().spells(SchemaTable::LITERALS[literal]) &&
           tables_.scalars.holds_for_literal(expanded, literal);
  };
  switch (type) {
    case Type::Null: return literal_holds(0);
    case Type::Boolean: return literal_holds(1) || literal_holds(2);
    case Type::Number: return tables_.regex().alive(tables_.scalars.number_language(expanded));
    case Type::String: return tables_.scalars.strings(expanded).re != RegexSpace::EMPTY;
    case Type::Object: return objects_.any(expanded, check_object());
    default: return formulas_.any(expanded, check_array(), Type::Array);
  }
}

bool JsonOracle::group_can_hold(SchemaId group, Type type) {
  const Query query(budget_, state_);
  return type == Type::Object ? check_object()({group}, {}) : check_array()({group}, {});
}

Check JsonOracle::check_object() {
  return [this](const Groups &satisfied, const Groups &violated) {
    return objects_.possible(satisfied, violated, nullptr, {nullptr, 0, -1}, nullptr);
  };
}

Check JsonOracle::check_array() {
  return [this](const Groups &satisfied, const Groups &violated) {
    return arrays_.possible(satisfied, violated, nullptr, 0, false);
  };
}

bool JsonOracle::memoise(const Hash128 &frame, const std::function<bool()> &decide) {
  if (auto it = frames_.find(frame); it != frames_.end()) return it->second;
  const bool outermost = state_.in_progress.empty();
  const Query query(budget_, state_);
  const bool live = decide();
  if (frames_.size() > MAX_FRAMES) frames_.clear();
  if (outermost) frames_.emplace(frame, live);
  return live;
}

}  // namespace structgen
