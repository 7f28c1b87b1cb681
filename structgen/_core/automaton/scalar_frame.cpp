// A text without delimiters: a JSON number or literal, or a text of a regular expression.
//
// Such a text ends where something else begins. In JSON a byte either goes on with the text or ends it. In a sequence
// and in a grammar both are possible, and then the step returns two alternatives.
#include <algorithm>

#include "automaton/alternatives.h"
#include "automaton/frame_operations.h"
#include "automaton/text_frames.h"

namespace structgen {

size_t count_roots(const ScalarFrame &scalar) {
  return std::max(scalar.control->number.roots.size(), scalar.control->literal.roots.size());
}

namespace {

const Frame *step_inside(Automaton &automaton, StepContext &ctx, const ScalarFrame &scalar, uint8_t byte) {
  TextSpace &text = automaton.text();
  const TextState state = text.row(scalar.text)[byte];
  if (state == TextSpace::DEAD) return nullptr;
  auto *next = ctx.arena.make<ScalarFrame>(scalar);
  next->text = state;
  if (scalar.root_states)
    next->root_states = step_root_states(text, ctx.arena, scalar.root_states, count_roots(scalar), byte);
  return next;
}

const Frame *step(Automaton &automaton, StepContext &ctx, const Frame *frame, uint8_t byte) {
  const auto &scalar = *as<ScalarFrame>(frame);
  const Frame *inside = step_inside(automaton, ctx, scalar, byte);
  if (inside && !is_open_ended(frame)) return inside;
  ctx.depends_on(frame->parent);
  if (!frame->parent || !automaton.text().complete(scalar.text)) return inside;
  ctx.item_text = scalar.item_text;  // the item ended before this byte
  const Frame *after = finish_text(automaton, ctx, scalar);
  return after ? either(automaton, ctx, inside, automaton.step(ctx, after, byte)) : inside;
}

bool completes(Automaton &automaton, StepContext &ctx, const Frame *frame, const Frame *bottom) {
  const auto &scalar = *as<ScalarFrame>(frame);
  if (!automaton.text().complete(scalar.text)) return false;
  ctx.depends_on(frame->parent);
  if (frame->parent && !is_open_ended(frame)) return false;  // its container is open
  const Frame *after = frame->parent ? finish_text(automaton, ctx, scalar) : automaton.finish(ctx, nullptr);
  return after && automaton.completes(ctx, after, bottom);
}

Hash128 signature(Automaton &automaton, const Frame *frame) {
  const auto &scalar = *as<ScalarFrame>(frame);
  Hash128 h = extend(begin_signature(automaton, frame, nullptr), scalar.text);
  if (!scalar.root_states) return h;
  h = extend(h, reinterpret_cast<uint64_t>(scalar.control));
  for (size_t i = 0; i < count_roots(scalar); ++i) h = extend(h, scalar.root_states[i]);
  return h;
}

Frame *copy_into(FrameCopier &copier, const Frame *frame) {
  const auto &scalar = *as<ScalarFrame>(frame);
  ScalarFrame *copy = copier.clone_json(scalar);
  if (scalar.root_states) copy->root_states = copier.copy_array(scalar.root_states, count_roots(scalar));
  return copy;
}

bool equals(const Frame *a, const Frame *b) {
  const auto &x = *as<ScalarFrame>(a), &y = *as<ScalarFrame>(b);
  return x.control == y.control && x.text == y.text && !x.root_states && !y.root_states;
}

}  // namespace

const FrameOperations SCALAR_FRAME{step, completes, has_no_child, any_byte, signature, copy_into, equals};

}  // namespace structgen
