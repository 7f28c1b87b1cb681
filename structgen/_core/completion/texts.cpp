// The rest of a string or of another scalar, for a completion.
#include <algorithm>

#include "text/json_space.h"
#include "completion/search.h"

namespace structgen {
namespace {

constexpr uint64_t MAX_STRING = uint64_t{1} << 24;

}  // namespace

const Frame *WitnessSearch::scalar_text(const Frame *n, const ValueControl *v) {
  for (const ScalarLanguage *s : {&v->literal, &v->number}) {
    std::string text;
    if (s->re != RegexSpace::EMPTY && space_.witness(s->re, &text))
      if (const Frame *m = read(n, text)) return m;
  }
  if (v->types & type_bit(Type::String)) return read(n, "\"");
  return nullptr;
}

const Frame *WitnessSearch::string(const StringFrame *n) {
  const StringLanguage &language = n->control->string;
  while (n && a_.text().escape(n->text) != 0) n = as_if<StringFrame>(any_of(n, ESCAPE_BYTES));
  if (!n) return nullptr;
  Re re = a_.text().re(n->text);
  const uint64_t least = language.min > n->length ? language.min - n->length : 0;
  if (least > MAX_STRING) {
    note(SearchFailure::Length);
    return nullptr;
  }
  if (const auto *array = as_if<ArrayFrame>(n->parent); n->is_traced && array && array->seen_items && re == RegexSpace::ANY_TEXT) {
    // Free strings that must differ: one longer than any that is there.
    uint32_t longest = 0;
    for (const SeenItem *s = array->seen_items; s; s = s->previous)
      if (!s->is_container) longest = std::max(longest, s->length);
    if (const Frame *m = read(n, "\"")) return m;
    for (uint32_t more = 1; more <= longest + 1; ++more)
      if (const Frame *m = read(n, std::string(std::max<uint64_t>(least, more), 'a') + '"')) return m;
  }
  if (least > 0 || language.max != UNBOUNDED) {
    if (re == RegexSpace::ANY_TEXT) {
      const Frame *m = read(n, std::string(least, 'a') + '"');
      return m ? m : read(n, "\"");
    }
    // Inside a character its remaining bytes come first; its length has been counted.
    while (n && !at_character(*n)) n = as_if<StringFrame>(any_byte(n));
    if (!n) return nullptr;
    re = a_.text().re(n->text);
    re = space_.intersect(re, space_.repeat(space_.any_char(), static_cast<int64_t>(least),
                                            language.max == UNBOUNDED ? -1 : static_cast<int64_t>(language.max - n->length)));
  }
  std::string text;
  if (!space_.witness(re, &text)) return nullptr;
  // The first bytes may finish a character that has begun, so they are no text of their own.
  return read(n, escape_json(text) + '"');
}

bool WitnessSearch::at_character(const StringFrame &n) {
  const Row &row = space_.row(a_.text().re(n.text));
  return std::none_of(row.begin() + 0x80, row.begin() + 0xc0, [](Re r) { return r != RegexSpace::EMPTY; });
}

const Frame *WitnessSearch::any_of(const Frame *n, std::string_view bytes) {
  for (char c : bytes)
    if (const Frame *m = read(n, {&c, 1})) return m;
  return nullptr;
}

const Frame *WitnessSearch::any_byte(const Frame *n) {
  for (int b = 0; b < 256; ++b) {
    char c = static_cast<char>(b);
    if (const Frame *m = read(n, {&c, 1})) return m;
  }
  return nullptr;
}

const Frame *WitnessSearch::scalar(const ScalarFrame *n) {
  if (!a_.text().complete(n->text)) {
    std::string text;
    if (!space_.witness(a_.text().re(n->text), &text)) return nullptr;
    return read(n, text);
  }
  // Complete, and something must follow in the frame below.
  if (is_open_ended(n)) return a_.finish(ctx_, n->parent);
  if (n->json && lines(options(n))) return any_of(n, "\n, ");
  return any_of(n, as_if<ArrayFrame>(n->parent) ? "], " : "}, ");
}

}  // namespace structgen
