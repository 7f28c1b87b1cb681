// A JSON value that has not started: its first byte decides which frame takes its place.
#include <cstring>

#include "automaton/frame_operations.h"
#include "automaton/json_values.h"
#include "text/json_space.h"

namespace structgen {
namespace {

// The states of the root formulas' languages, after `byte` unless it is a quote.
const TextState *root_states(TextSpace &text, StepContext &ctx, const std::vector<Re> &roots, Encoding encoding,
                             uint8_t byte) {
  if (roots.empty()) return nullptr;
  auto *states = static_cast<TextState *>(ctx.arena.allocate(roots.size() * sizeof(TextState)));
  for (size_t i = 0; i < roots.size(); ++i) {
    states[i] = text.state(roots[i], 0, encoding);
    if (encoding == Encoding::Plain && states[i]) states[i] = text.row(states[i])[byte];
  }
  return states;
}

const Frame *begin_string(TextSpace &text, StepContext &ctx, const ValueFrame &value) {
  const StringLanguage &language = value.control->string;
  auto *string = replace_value<StringFrame>(ctx, value, value.control);
  string->text = text.state(language.re, 0, value.encoding());
  string->root_states = root_states(text, ctx, language.roots, value.encoding(), '"');
  return string;
}

const Frame *begin_object(StepContext &ctx, const ValueFrame &value) {
  ObjectControl *control = value.json->open_object(value.control);
  const uint32_t words = control->universe->words();
  auto *seen = static_cast<uint64_t *>(ctx.arena.allocate(words * 8));
  std::memset(seen, 0, words * 8);
  auto *object = replace_value<ObjectFrame>(ctx, value, control);
  object->seen_declared = seen;
  object->space = space_start(value.options(), SpaceAt::Open);
  return object;
}

const Frame *begin_array(StepContext &ctx, const ValueFrame &value) {
  auto *array = replace_value<ArrayFrame>(ctx, value, value.json->open_array(value.control));
  array->space = space_start(value.options(), SpaceAt::Open);
  return array;
}

const Frame *begin_scalar(TextSpace &text, StepContext &ctx, const ValueFrame &value, uint8_t byte) {
  for (const ScalarLanguage *language : {&value.control->number, &value.control->literal}) {
    if (language->re == RegexSpace::EMPTY) continue;
    const TextState state = text.row(text.state(language->re, 0, Encoding::Plain))[byte];
    if (state == TextSpace::DEAD) continue;
    auto *scalar = replace_value<ScalarFrame>(ctx, value, value.control);
    scalar->text = state;
    scalar->root_states = root_states(text, ctx, language->roots, Encoding::Plain, byte);
    return scalar;
  }
  return nullptr;
}

const Frame *step(Automaton &automaton, StepContext &ctx, const Frame *frame, uint8_t byte) {
  const auto &value = *as<ValueFrame>(frame);
  if (is_space(byte)) return step_space(automaton, ctx, value, byte);
  if (!value.control->first.test(byte) || !space_allows(value.options(), value.space, byte)) return nullptr;
  switch (byte) {
    case '"': return begin_string(automaton.text(), ctx, value);
    case '{': return is_too_deep(automaton, value) ? nullptr : begin_object(ctx, value);
    case '[': return is_too_deep(automaton, value) ? nullptr : begin_array(ctx, value);
    default: return begin_scalar(automaton.text(), ctx, value, byte);
  }
}

std::bitset<256> candidates(Automaton &, const Frame *frame) {
  return json_blanks() | as<ValueFrame>(frame)->control->first;
}

Hash128 signature(Automaton &automaton, const Frame *frame) {
  const auto &value = *as<ValueFrame>(frame);
  return begin_json_signature(automaton, value, value.control, 0);
}

Frame *copy_into(FrameCopier &copier, const Frame *frame) { return copier.clone_json(*as<ValueFrame>(frame)); }

bool equals(const Frame *a, const Frame *b) {
  const auto &x = *as<ValueFrame>(a), &y = *as<ValueFrame>(b);
  return x.control == y.control && x.space == y.space;
}

}  // namespace

const FrameOperations VALUE_FRAME{step, never_completes, has_no_child, candidates, signature, copy_into, equals};

}  // namespace structgen
