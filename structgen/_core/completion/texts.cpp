// The rest of a string or of another scalar, for a completion.
#include <algorithm>

#include "completion/search.h"
#include "text/json_space.h"

namespace structgen {
namespace {

constexpr uint64_t MAX_STRING = uint64_t{1} << 24;

}  // namespace

const Frame *WitnessSearch::begin_scalar(const Frame *state, const ValueControl *control) {
  for (const ScalarLanguage *language : {&control->literal, &control->number}) {
    std::string text;
    if (language->re != RegexSpace::EMPTY && space_.witness(language->re, &text))
      if (const Frame *next = read(state, text)) return next;
  }
  return control->types & type_bit(Type::String) ? read(state, "\"") : nullptr;
}

const Frame *WitnessSearch::read_rest_of_string(const StringFrame *string) {
  const StringLanguage &language = string->control->string;
  TextSpace &text_space = automaton_.text();
  while (string && text_space.escape(string->text) != 0) string = as_if<StringFrame>(read_any_of(string, ESCAPE_BYTES));
  if (!string) return nullptr;
  Re re = text_space.re(string->text);
  const uint64_t least = language.min > string->length ? language.min - string->length : 0;
  if (least > MAX_STRING) {
    note(SearchFailure::Length);
    return nullptr;
  }
  const auto *array = as_if<ArrayFrame>(string->parent);
  if (string->is_traced && array && array->seen_items && re == RegexSpace::ANY_TEXT) {
    // A string of any characters that must differ: at worst, one longer than every seen item.
    uint32_t longest = 0;
    for (const SeenItem *item = array->seen_items; item; item = item->previous)
      if (!item->is_container) longest = std::max(longest, item->length);
    if (const Frame *next = read(string, "\"")) return next;
    for (uint32_t more = 1; more <= longest + 1; ++more)
      if (const Frame *next = read(string, std::string(std::max<uint64_t>(least, more), 'a') + '"')) return next;
  }
  if (least > 0 || language.max != UNBOUNDED) {
    if (re == RegexSpace::ANY_TEXT) {
      const Frame *next = read(string, std::string(least, 'a') + '"');
      return next ? next : read(string, "\"");
    }
    // Inside a character its remaining bytes come first; its length has been counted.
    while (string && !is_at_character(*string)) string = as_if<StringFrame>(read_any_byte(string));
    if (!string) return nullptr;
    const int64_t most = language.max == UNBOUNDED ? -1 : static_cast<int64_t>(language.max - string->length);
    re = text_space.re(string->text);
    re = space_.intersect(re, space_.repeat(space_.any_char(), static_cast<int64_t>(least), most));
  }
  std::string text;
  if (!space_.witness(re, &text)) return nullptr;
  // The first bytes may finish a character, so they need not be valid UTF-8 by themselves.
  return read(string, escape_json(text) + '"');
}

bool WitnessSearch::is_at_character(const StringFrame &string) {
  const Row &row = space_.row(automaton_.text().re(string.text));
  return std::none_of(row.begin() + 0x80, row.begin() + 0xc0, [](Re re) { return re != RegexSpace::EMPTY; });
}

const Frame *WitnessSearch::read_any_of(const Frame *state, std::string_view bytes) {
  for (char byte : bytes)
    if (const Frame *next = read(state, {&byte, 1})) return next;
  return nullptr;
}

const Frame *WitnessSearch::read_any_byte(const Frame *state) {
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    if (const Frame *next = read(state, {&byte, 1})) return next;
  }
  return nullptr;
}

const Frame *WitnessSearch::read_rest_of_scalar(const ScalarFrame *scalar) {
  if (!automaton_.text().complete(scalar->text)) {
    std::string text;
    return space_.witness(automaton_.text().re(scalar->text), &text) ? read(scalar, text) : nullptr;
  }
  // The scalar is complete, and something must follow in the frame below.
  if (is_open_ended(scalar)) return automaton_.finish(ctx_, scalar->parent);
  if (scalar->json && lines(scalar->options())) return read_any_of(scalar, "\n, ");
  return read_any_of(scalar, as_if<ArrayFrame>(scalar->parent) ? "], " : "}, ");
}

}  // namespace structgen
