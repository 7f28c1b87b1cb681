// Whole values in completions: those that let their container close, those that count for `contains`, and those that
// must differ from others.
#include "completion/search.h"
#include "json/shortest/shortest_values.h"
#include "json/value.h"
#include "text/json_space.h"

namespace structgen {
namespace {

constexpr uint64_t MANY_ITEMS = 64;  // in an array, from which on the known scalars are tried one after the other
constexpr size_t MAX_VERDICTS = 6;   // of one value, whose combinations are all tried

bool has_item(const ArrayFrame &array, std::string_view value) {
  const Hash128 hash = read_value(value).hash;
  for (const SeenItem *item = array.seen_items; item; item = item->previous) {
    charge();
    if (item->hash == hash) return true;
  }
  return false;
}

}  // namespace

const Frame *WitnessSearch::read_value(const Frame *state, std::string_view compact) {
  const size_t before = out_.size();
  bool is_in_string = false, is_escaped = false;
  for (char c : compact) {
    if (!is_in_string) state = read_space_before(state, c);
    if (state) state = read(state, {&c, 1});
    if (!state) {
      out_.resize(before);
      return nullptr;
    }
    if (!is_in_string) is_in_string = c == '"';
    else if (is_escaped) is_escaped = false;
    else if (c == '\\') is_escaped = true;
    else is_in_string = c != '"';
  }
  return state;
}

const Frame *WitnessSearch::read_space_before(const Frame *state, char token) {
  const bool closes = token == ']' || token == '}', ends_value = closes || token == ',';
  const bool is_after_scalar = is<ScalarFrame>(state);
  if (is_after_scalar && !ends_value) return state;
  const JsonOptions &options = as<JsonFrame>(state)->options();
  const auto *container = as<JsonFrame>(is_after_scalar ? state->parent : state);
  const uint16_t space = is_after_scalar ? space_start(options, SpaceAt::AfterValue) : container->space;
  if (options.whitespace == Whitespace::Table)
    return space == SPACE_CLOSED ? state : read(state, space_before(options, space, closes));
  if (is_after_scalar || space == SPACE_AFTER) {
    if (closes) return read(state, line_before_bracket(*container));
    const bool is_written_comma = token == ',' && options.whitespace == Whitespace::Written;
    return is_written_comma ? read(state, std::string(options.before_comma, ' ')) : state;
  }
  if (lines(options) && space == SPACE_EMPTY && !closes) state = read(state, "\n");
  while (state && !is<ScalarFrame>(state)) {
    charge();
    const char blank = space_owed(options, as<JsonFrame>(state)->space);
    if (!blank) break;
    state = read(state, {&blank, 1});
  }
  return state;
}

const Frame *WitnessSearch::read_closing_value(const ValueFrame *value) {
  const auto *container = as_if<ContainerFrame>(value->parent);
  if (!container || container->json != value->json) return nullptr;
  if (const auto *array = as_if<ArrayFrame>(container)) return read_closing_item(value, array->item, array->count);
  const auto &object = *as<ObjectFrame>(container);
  return read_value_with_verdicts(value, value->control, [&](const Holds &holds) {
    ObjectControl *after = object.json->objects().after(object.member->frame, object.member->group_roots, holds);
    return object.json->objects().can_close(after, object.view());
  });
}

const Frame *WitnessSearch::read_closing_item(const JsonFrame *state, ItemControl *item, uint64_t count) {
  return read_value_with_verdicts(state, item->child, [&](const Holds &holds) {
    return state->json->arrays().can_close(state->json->arrays().after_item(item, holds), count);
  });
}

const Frame *WitnessSearch::read_value_with_verdicts(const JsonFrame *state, const ValueControl *control,
                                                     const std::function<bool(const Holds &)> &are_enough) {
  JsonControl &json = *state->json;
  const std::vector<Formula> roots = json.obligation(control->obligation).roots;
  const Formula need = json.obligation(control->obligation).condition;
  if (roots.size() > MAX_VERDICTS || (roots.size() == 1 && need == json.formulas().leaf(0))) return nullptr;
  for (size_t row = size_t{1} << roots.size(); row-- > 0;) {
    const auto holds = [row](uint32_t i) { return (row >> i & 1) != 0; };
    if (!json.formulas().evaluate(need, holds) || !are_enough(holds)) continue;
    std::vector<Formula> all;
    for (uint32_t i = 0; i < roots.size(); ++i) all.push_back(holds(i) ? roots[i] : json.formulas().negation(roots[i]));
    const Formula wanted = json.formulas().conjunction(std::move(all));
    std::string text;
    steps_ += WHOLE_VALUE_STEPS;
    if (!json.can_hold(wanted) || !json.shortest().text(wanted, &text)) continue;
    if (const Frame *next = read_value(state, text)) return next;
  }
  return nullptr;
}

const Frame *WitnessSearch::read_whole_value(const JsonFrame *state, const ValueControl *control,
                                             const ArrayFrame *array, uint64_t count_before) {
  JsonControl &json = *state->json;
  if (array && array->control->counting)
    if (const ValueControl *wanted = json.arrays().counted_item(array->control, count_before);
        wanted && wanted->first.any())
      control = wanted;
  const Formula requirement = json.obligation(control->obligation).requirement;
  const bool is_unique = array && array->control->unique;
  // The control knows which scalars the array has; containers are compared one by one.
  while (is_unique && array->count >= MANY_ITEMS) {
    charge();
    const std::string *one = json.shortest().scalar(requirement, next_scalar_[requirement]++);
    if (!one) break;
    steps_ += WHOLE_VALUE_STEPS;
    if (is_exhausted()) return nullptr;
    if (has_item(*array, *one)) continue;  // where there are many, scalars are compared only when they end
    if (const Frame *next = read_value(state, *one)) return next;
  }
  std::vector<std::string> excluded;
  for (;;) {
    charge();
    std::string text;
    steps_ += WHOLE_VALUE_STEPS + excluded.size() * 10;
    const Formula f = excluded.empty() ? requirement : json.shortest().exclude(requirement, excluded);
    if (!json.shortest().text(f, &text)) {
      note(json.shortest().search_failure());
      return nullptr;
    }
    if (!is_unique || !has_item(*array, text)) return read_value(state, text);
    if (is_exhausted()) return nullptr;
    excluded.push_back(std::move(text));
  }
}

const Frame *WitnessSearch::read_counted_item(const JsonFrame *state, ArrayControl *array, uint64_t count_before) {
  if (!array->counting) return nullptr;
  ValueControl *control = state->json->arrays().counted_item(array, count_before);
  if (!control || control->first.none()) return nullptr;
  ValueFrame alone(nullptr, state->json, control);
  alone.depth = is<ValueFrame>(state) ? state->depth : state->depth + 1;
  alone.space = SPACE_CLOSED;
  WitnessSearch inner(automaton_, ctx_);
  inner.stack_base_ = stack_base_;
  inner.set_budget(budget_ > steps_ ? budget_ - steps_ : 0, mode_ == Mode::Thorough ? Mode::Thorough : Mode::Quick);
  WitnessSymbols value;
  const bool found = inner.run(&alone, max_depth_, &value);
  steps_ += inner.steps_;
  was_cut_ = was_cut_ || inner.was_cut_;
  if (found) return read_symbols(state, value);
  note(inner.why_);
  return nullptr;
}

}  // namespace structgen
