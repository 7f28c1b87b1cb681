#include "automaton/unique_items.h"

#include <algorithm>
#include <cstring>

#include "automaton/json_values.h"
#include "json/value.h"
#include "text/json_space.h"

namespace structgen {
namespace {

constexpr size_t MAX_REMOVED_ITEMS = 4;      // from one schema: the cost grows with the number of their subsets
constexpr size_t MAX_REREAD_BYTES = 16'384;  // of an item that is read again

// Has the exponent of the number that is being read started?
bool is_in_exponent(const TextLink *text) {
  for (const TextLink *link = text; link; link = link->previous) {
    charge();
    const char c = static_cast<char>(link->byte);
    if (c == 'e' || c == 'E') return true;
    if (c != '.' && c != '-' && c != '+' && (c < '0' || c > '9')) return false;
  }
  return false;
}

// The following functions give lower bounds: false means "not known".

bool string_has_many(TextSpace &text, const StringFrame &string, uint64_t many) {
  RegexSpace &space = text.regex();
  const StringLanguage &language = string.control->string;
  if (string.control->allows_any_string()) return true;
  if (string.root_states || text.escape(string.text) != 0) return false;
  Re rest = text.re(string.text);
  if (language.max != UNBOUNDED || language.min > string.length) {
    const int64_t least = language.min > string.length ? static_cast<int64_t>(language.min - string.length) : 0;
    const int64_t most = language.max == UNBOUNDED ? -1 : static_cast<int64_t>(language.max - string.length);
    if (rest == RegexSpace::ANY_TEXT && most != 0) return true;
    rest = space.intersect(rest, space.repeat(space.any_char(), least, most));
  }
  return space.count_texts(rest) >= many;
}

// Appending different digits gives different numbers, except for zeros and in an exponent.
bool number_has_many(TextSpace &text, const ScalarFrame &scalar, uint64_t many) {
  RegexSpace &space = text.regex();
  if (scalar.root_states || is_in_exponent(scalar.item_text)) return false;
  const CodeRange digit[] = {{'1', '9'}};
  const Re digits = space.repeat(space.text_class(digit), 0, -1);
  return space.count_texts(space.intersect(text.re(scalar.text), digits)) >= many;
}

// Do the open frames inside `array`, by what may still come in them, lead to many values of its current item?
bool frames_have_many(const Frame *state, const ArrayFrame *array, uint64_t many, Until until) {
  const Frame *above = nullptr;
  for (const Frame *frame = state; frame != array; above = frame, frame = frame->parent) {
    charge();
    if (const auto *inner = as_if<ArrayFrame>(frame);
        inner && inner->json->arrays().is_unbounded(inner->control, inner->count))
      return true;
    const auto *object = as_if<ObjectFrame>(frame);
    if (!object) continue;
    std::optional<OpenKey> open;
    if (const auto *key = as_if<KeyFrame>(above)) open = {key->match_begin, key->match_end};
    if (object->json->objects().has_many_values(object->control, object->view(), open, many, until == Until::Closed))
      return true;
  }
  return false;
}

// Can the current item of `array` become `many` different values? For `Until::Closed` also as long as it is not closed:
// a string without a limit needs two quotes, and an open frame a bracket or a whole key, before few values are left.
bool has_many(Automaton &automaton, const Frame *state, const ArrayFrame *array, uint64_t many, Until until) {
  const auto value_has_many = [&](JsonControl &json, const ValueControl *value) {
    return until == Until::Closed ? value->is_any_string() : json.has_many_values(value, many);
  };
  if (const auto *value = as_if<ValueFrame>(state)) {
    if (value_has_many(*value->json, value->control)) return true;
  } else if (const auto *object = as_if<ObjectFrame>(state)) {
    if (object->phase == Phase::AfterKey && value_has_many(*object->json, object->member->child)) return true;
  } else if (until == Until::Now) {
    const auto *string = as_if<StringFrame>(state);
    const auto *scalar = as_if<ScalarFrame>(state);
    if (string && string_has_many(automaton.text(), *string, many)) return true;
    if (scalar && number_has_many(automaton.text(), *scalar, many)) return true;
  }
  return frames_have_many(state, array, many, until);
}

// The seen containers, of `among` if that is not null, that the current item of `array` can become.
SeenItems find_repeats_in(const TextLink *item_text, const ArrayFrame &array, const SeenItems *among,
                          std::set<std::string> *rests) {
  SeenItems found;
  const std::string text = item_text_in(item_text, array);
  const auto take = [&](const SeenItem *item) {
    if (item->is_container && may_become(text, {item->text, item->length}, rests)) found.push_back(item);
  };
  if (among) std::for_each(among->begin(), among->end(), take);
  else
    for (const SeenItem *item = array.seen_items; item && item->has_containers; item = item->previous) take(item);
  return found;
}

// The arrays around a state, deeper than `above`, whose current item must differ from seen containers. Outermost first.
std::vector<const ArrayFrame *> arrays_to_compare(const Frame *state, const TextLink *item_text, int32_t above) {
  std::vector<const ArrayFrame *> arrays;
  if (item_text) above = std::max(above, int32_t{item_text->known_distinct_depth});
  for (const Frame *frame = state->parent; frame && frame->depth > above; frame = frame->parent)
    if (has_seen_containers(frame)) {
      const auto *array = as<ArrayFrame>(frame);
      ArrayControl *control = array->control;
      // Where other branches of the schema allow equal items, a repeated item is no dead end.
      if (!control->may_violate_unique ||
          !array->json->arrays().live(array->json->arrays().after_repeated_item(control), array->count))
        arrays.push_back(array);
    }
  return {arrays.rbegin(), arrays.rend()};
}

const TextLink *item_text_of(const Frame *state) {
  const auto *json = as_if<JsonFrame>(state);
  return json ? json->item_text : nullptr;
}

// The state in the current item of `array` under a schema without the items `repeats`.
const Frame *read_without(Automaton &automaton, StepContext &ctx, const Frame *state, const ArrayFrame &array,
                          const SeenItems &repeats) {
  const TextLink *item_text = item_text_of(state);
  const std::string text = item_text_in(item_text, array);
  JsonControl &json = *array.json;
  // In ordered objects, keys that only an earlier item has would count as declared ones, which come first.
  if (json.schema().options.ordered || repeats.size() > MAX_REMOVED_ITEMS || text.size() > MAX_REREAD_BYTES) {
    json.count_unproven();
    return state;
  }
  std::vector<std::string> texts;
  for (const SeenItem *item : repeats) {
    charge(item->length);
    texts.emplace_back(item->text, item->length);
  }
  ValueControl *other = json.value_excluding(array.item->child, texts);
  if (!other) return nullptr;
  StepContext again{ctx.arena};
  again.compare_below_depth = array.depth;
  const Frame *next = begin_value(again, &array, &json, other, space_start(json.schema().options, SpaceAt::AfterComma));
  const TextLink *before = item_text;
  while (before && before->length > array.item_begin) before = before->previous;
  if (next) const_cast<JsonFrame *>(as<JsonFrame>(next))->item_text = before;
  for (size_t i = 0; next && i < text.size(); ++i) next = automaton.step(again, next, static_cast<uint8_t>(text[i]));
  return next;
}

}  // namespace

std::string item_text_in(const TextLink *text, const ArrayFrame &array) {
  if (!text || text->length <= array.item_begin) return {};
  std::string out(text->length - array.item_begin, ' ');
  charge(out.size());  // the links are spread over memory, so that following them is slow
  for (const TextLink *link = text; link && link->length > array.item_begin; link = link->previous)
    out[link->length - array.item_begin - 1] = static_cast<char>(link->byte);
  return out;
}

bool add_seen_item(StepContext &ctx, const ArrayFrame &array, ArrayControl **control, const SeenItem **items) {
  const std::string text = item_text_in(ctx.item_text, array);
  const ItemValue::Kind kind = kind_of_value(text);
  const bool is_container = kind == ItemValue::Container;
  const bool is_free_string = kind == ItemValue::String && array.item->child->allows_any_string();
  const bool is_excluded_by_control = !is_container && !is_free_string;
  if (ctx.ignore_seen_items && ctx.arena.contains(&array) && (array.count > 1 || is_container))
    ctx.may_repeat_items = true;
  if (ctx.ignore_seen_items && !is_excluded_by_control) return true;
  ctx.used_item_text = true;
  const ItemValue value = read_value(text);
  for (const SeenItem *seen = array.seen_items; seen; seen = seen->previous)
    if (seen->hash == value.hash) {
      *control = array.json->arrays().after_repeated_item(*control);
      return !ctx.ignore_seen_items || array.json->arrays().live(*control, array.count);
    }
  const std::string &kept = is_container ? text : value.text;
  char *copy = nullptr;
  if (is_container || kind == ItemValue::String) {
    copy = static_cast<char *>(ctx.arena.allocate(kept.size() + 1));
    std::memcpy(copy, kept.data(), kept.size());
  }
  const bool has_containers = is_container || (array.seen_items && array.seen_items->has_containers);
  *items = ctx.arena.make<SeenItem>(array.seen_items, copy, static_cast<uint32_t>(kept.size()), is_container,
                                    has_containers, value.hash);
  if (is_excluded_by_control) *control = array.json->arrays().with_used(*control, value);
  return true;
}

bool excludes_seen_values(const TextFrame &value) {
  const auto *array = value.is_traced ? as_if<ArrayFrame>(value.parent) : nullptr;
  const bool is_free_string = is<StringFrame>(&value) && value.control->allows_any_string();
  return array && array->control->unique && !is_free_string;
}

bool has_seen_containers(const Frame *frame) {
  const auto *array = as_if<ArrayFrame>(frame);
  return array && array->control->unique && array->seen_items && array->seen_items->has_containers;
}

PossibleRepeats find_possible_repeats(Automaton &automaton, const Frame *state, int32_t above, Until until,
                                      const PossibleRepeats *before, std::set<std::string> *rests) {
  PossibleRepeats found;
  const TextLink *item_text = item_text_of(state);
  const std::vector<const ArrayFrame *> arrays = arrays_to_compare(state, item_text, above);
  uint64_t many = 1;
  for (const ArrayFrame *array : arrays) many += array->count;
  bool is_distinct = true;  // in all arrays so far
  for (const ArrayFrame *array : arrays) {
    // Usually true, and cheaper than comparing items.
    if (until != Until::Never && has_many(automaton, state, array, many, until)) {
      is_distinct = false;
      continue;
    }
    const SeenItems *among = nullptr;
    for (size_t i = 0; before && i < before->size(); ++i)
      if ((*before)[i].first == array) among = &(*before)[i].second;
    SeenItems repeats = find_repeats_in(item_text, *array, among, rests);
    is_distinct = is_distinct && repeats.empty();
    if (!repeats.empty()) found.emplace_back(array, std::move(repeats));
    else if (is_distinct && above < 0 && item_text && array->depth <= INT16_MAX)
      item_text->known_distinct_depth = static_cast<int16_t>(array->depth);
  }
  many = 1;
  for (auto &[array, repeats] : found) many += repeats.size();
  if (until != Until::Never)
    std::erase_if(found, [&](const auto &one) { return has_many(automaton, state, one.first, many, until); });
  return found;
}

const Frame *avoid_seen_items(Automaton &automaton, StepContext &ctx, const Frame *state, Avoid avoid) {
  if (!state->is_traced) return state;
  const Until until = avoid == Avoid::DeadEnds ? Until::Now : Until::Never;
  for (int32_t above = ctx.compare_below_depth;;) {
    // The outermost array first: reading its item again checks the arrays inside it as well.
    const PossibleRepeats repeats = find_possible_repeats(automaton, state, above, until);
    if (repeats.empty()) return state;
    const auto &[array, items] = repeats[0];
    // subtle: the state after reading again has no verdicts, which some frames need when the item ends.
    if (avoid == Avoid::All && (!array->item->group_roots.empty() || !array->item->contains_roots.empty()))
      return state;
    state = read_without(automaton, ctx, state, *array, items);
    if (!state || avoid == Avoid::DeadEnds) return state;
    above = array->depth;
  }
}

}  // namespace structgen
