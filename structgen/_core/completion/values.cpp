// Completions take some values as a whole: those that let their container close, those that count for `contains`,
// those that must differ from others.
#include "text/json_space.h"
#include "json/value.h"
#include "json/shortest/shortest_values.h"
#include "completion/search.h"

namespace structgen {
namespace {

constexpr uint64_t MANY_ITEMS = 64;  // of an array, from which on scalars that differ are counted through
constexpr size_t MOST_VERDICTS = 6;  // of one value, that are tried in all combinations

// Has the array an item that equals this value?
bool is_there(const ArrayFrame &array, std::string_view value) {
  const Hash128 hash = read_value(value).hash;
  for (const SeenItem *s = array.seen_items; s; s = s->previous) {
    charge();
    if (s->hash == hash) return true;
  }
  return false;
}

}  // namespace

const Frame *WitnessSearch::read_value_of(const Frame *n, std::string_view compact) {
  const size_t before = out_.size();
  bool inside = false, escaped = false;
  for (char c : compact) {
    if (!inside) n = read_space_before(n, c);
    if (n) n = read(n, {&c, 1});
    if (!n) {
      out_.resize(before);
      return nullptr;
    }
    if (!inside) inside = c == '"';
    else if (escaped) escaped = false;
    else if (c == '\\') escaped = true;
    else inside = c != '"';
  }
  return n;
}

const Frame *WitnessSearch::read_space_before(const Frame *n, char c) {
  const bool closes = c == ']' || c == '}', ends = closes || c == ',';
  const bool after_scalar = is<ScalarFrame>(n);
  if (after_scalar && !ends) return n;
  const auto *container = as<JsonFrame>(after_scalar ? n->parent : n);
  if (options(n).whitespace == Whitespace::Table) {
    const uint16_t now = after_scalar ? space_start(options(n), SpaceAt::AfterValue) : as<JsonFrame>(n)->space;
    return now == SPACE_CLOSED ? n : read(n, space_before(options(n), now, closes));
  }
  if ((ends && after_scalar) || as<JsonFrame>(n)->space == SPACE_AFTER) {
    if (closes) return read(n, last_line(*container));
    const JsonOptions &o = options(n);
    return c == ',' && o.whitespace == Whitespace::Written ? read(n, std::string(o.before_comma, ' ')) : n;
  }
  if (lines(options(n)) && as<JsonFrame>(n)->space == SPACE_EMPTY && !closes) n = read(n, "\n");
  while (n && !is<ScalarFrame>(n)) {
    charge();
    const char blank = space_owed(options(n), as<JsonFrame>(n)->space);
    if (!blank) break;
    n = read(n, {&blank, 1});
  }
  return n;
}

const Frame *WitnessSearch::closing_value(const ValueFrame *n) {
  const auto *container = as_if<ContainerFrame>(n->parent);
  if (!container || container->json != n->json) return nullptr;
  if (const auto *array = as_if<ArrayFrame>(container)) return closing_item(n, array->item, array->count);
  const auto *object = as<ObjectFrame>(container);
  return closing(n, n->control, [&](const Holds &holds) {
    ObjectControl *after = n->json->objects().after(object->member->frame, object->member->group_roots, holds);
    return n->json->objects().can_close(after, object->view());
  });
}

const Frame *WitnessSearch::closing_item(const JsonFrame *n, ItemControl *item, uint64_t count) {
  return closing(n, item->child, [&](const Holds &holds) {
    return n->json->arrays().can_close(n->json->arrays().after_item(item, holds), count);
  });
}

const Frame *WitnessSearch::closing(const JsonFrame *n, const ValueControl *v, const std::function<bool(const Holds &)> &closes) {
  JsonControl &json = *n->json;
  const std::vector<Formula> roots = json.obligation(v->obligation).roots;
  const Formula need = json.obligation(v->obligation).condition;
  if (roots.size() > MOST_VERDICTS || (roots.size() == 1 && need == json.formulas().leaf(0))) return nullptr;
  for (size_t row = size_t{1} << roots.size(); row-- > 0;) {
    auto holds = [row](uint32_t i) { return (row >> i & 1) != 0; };
    if (!json.formulas().evaluate(need, holds) || !closes(holds)) continue;
    std::vector<Formula> all;
    for (uint32_t i = 0; i < roots.size(); ++i)
      all.push_back(holds(i) ? roots[i] : json.formulas().negation(roots[i]));
    const Formula wanted = json.formulas().conjunction(std::move(all));
    std::string text;
    steps_ += WHOLE;
    if (!json.can_hold(wanted) || !json.shortest().text(wanted, &text)) continue;
    if (const Frame *m = read_value_of(n, text)) return m;
  }
  return nullptr;
}

const Frame *WitnessSearch::whole_value(const JsonFrame *n, const ValueControl *v, const ArrayFrame *array, uint64_t before) {
  JsonControl &json = *n->json;
  if (array && array->control->counting)
    if (const ValueControl *wanted = json.arrays().counted_item(array->control, before); wanted && wanted->first.any()) v = wanted;
  const Formula f = json.obligation(v->obligation).requirement;
  // The frame knows which scalars are taken; containers are told apart by value, one after the other.
  std::vector<std::string> taken;
  while (array && array->control->unique && array->count >= MANY_ITEMS) {
    charge();
    const std::string *one = json.shortest().scalar(f, taken_[f]++);
    if (!one) break;
    steps_ += WHOLE;
    if (spent()) return nullptr;
    if (is_there(*array, *one)) continue;  // many scalars are compared only when they end
    if (const Frame *m = read_value_of(n, *one)) return m;
  }
  for (;;) {
    charge();
    std::string text;
    steps_ += WHOLE + taken.size() * 10;
    if (!json.shortest().text(taken.empty() ? f : json.shortest().exclude(f, taken), &text)) {
      note(json.shortest().search_failure());
      return nullptr;
    }
    if (!array || !array->control->unique || !is_there(*array, text)) return read_value_of(n, text);
    if (spent()) return nullptr;
    taken.push_back(std::move(text));
  }
}

const Frame *WitnessSearch::counted(const JsonFrame *from, ArrayControl *array, uint64_t before) {
  if (!array->counting) return nullptr;
  ValueControl *v = from->json->arrays().counted_item(array, before);
  if (!v || v->first.none()) return nullptr;
  ValueFrame alone(nullptr, from->json, v);
  alone.depth = is<ValueFrame>(from) ? from->depth : from->depth + 1;
  alone.space = SPACE_CLOSED;
  WitnessSearch inner(a_, ctx_);
  inner.base_ = base_;
  inner.allow(budget_ > steps_ ? budget_ - steps_ : 0, mode_ == Mode::Thorough ? Mode::Thorough : Mode::Quick);
  WitnessSymbols value;
  const bool found = inner.run(&alone, deepest_, &value);
  steps_ += inner.steps_;
  cut_ = cut_ || inner.cut_;
  if (!found) note(inner.why_);
  if (!found) return nullptr;
  const size_t here = out_.size();
  const Frame *n = from;
  for (size_t i = 0; n && i < value.size(); ++i) n = read_symbol(n, value[i]);
  if (!n) out_.resize(here);
  return n;
}

}  // namespace structgen
