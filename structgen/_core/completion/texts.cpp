// The rest of a string or of another scalar, for a completion.
#include <algorithm>

#include "text/json_space.h"
#include "completion/search.h"

namespace structgen {
namespace {

constexpr uint64_t MAX_STRING = uint64_t{1} << 24;

}  // namespace

const Node *WitnessSearch::scalar_text(const Node *n, const ValueControl *v) {
  for (const ScalarLanguage *s : {&v->literal, &v->number}) {
    std::string text;
    if (s->re != RegexSpace::EMPTY && space_.witness(s->re, &text))
      if (const Node *m = read(n, text)) return m;
  }
  if (v->types & type_bit(Type::String)) return read(n, "\"");
  return nullptr;
}

const Node *WitnessSearch::string(const Node *n) {
  const StringLanguage &language = n->control.value->string;
  while (n && a_.text().escape(n->text) != 0) n = any_of(n, "\"\\/bfnrtu0123456789abcdef");
  if (!n) return nullptr;
  Re re = a_.text().re(n->text);
  const uint64_t least = language.min > n->length ? language.min - n->length : 0;
  if (least > MAX_STRING) {
    note(SearchFailure::Length);
    return nullptr;
  }
  if (n->traced && n->parent->kind == Node::Array && n->parent->items && re == RegexSpace::ANY_TEXT) {
    // Free strings that must differ: one longer than any that is there.
    uint32_t longest = 0;
    for (const SeenItem *s = n->parent->items; s; s = s->previous)
      if (!s->container) longest = std::max(longest, s->length);
    if (const Node *m = read(n, "\"")) return m;
    for (uint32_t more = 1; more <= longest + 1; ++more)
      if (const Node *m = read(n, std::string(std::max<uint64_t>(least, more), 'a') + '"')) return m;
  }
  if (least > 0 || language.max != UNBOUNDED) {
    if (re == RegexSpace::ANY_TEXT) {
      const Node *m = read(n, std::string(least, 'a') + '"');
      return m ? m : read(n, "\"");
    }
    // Inside a character its remaining bytes come first; its length has been counted.
    while (n && !at_character(n)) n = any_byte(n);
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

bool WitnessSearch::at_character(const Node *n) {
  const Row &row = space_.row(a_.text().re(n->text));
  return std::none_of(row.begin() + 0x80, row.begin() + 0xc0, [](Re r) { return r != RegexSpace::EMPTY; });
}

const Node *WitnessSearch::any_of(const Node *n, std::string_view bytes) {
  for (char c : bytes)
    if (const Node *m = read(n, {&c, 1})) return m;
  return nullptr;
}

const Node *WitnessSearch::any_byte(const Node *n) {
  for (int b = 0; b < 256; ++b) {
    char c = static_cast<char>(b);
    if (const Node *m = read(n, {&c, 1})) return m;
  }
  return nullptr;
}

const Node *WitnessSearch::scalar(const Node *n) {
  if (!a_.text().complete(n->text)) {
    std::string text;
    if (!space_.witness(a_.text().re(n->text), &text)) return nullptr;
    return read(n, text);
  }
  // Complete, and something must follow in the frame below.
  if (n->parent && (n->parent->kind == Node::Sequence || n->parent->kind == Node::Symbol)) return a_.finish(r_, n->parent);
  if (n->json && lines(options(n))) return any_of(n, "\n, ");
  return any_of(n, n->parent && n->parent->kind == Node::Array ? "], " : "}, ");
}

}  // namespace structgen
