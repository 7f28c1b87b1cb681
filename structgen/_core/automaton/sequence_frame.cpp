// A sequence of plans, below the frame of the part that is being read.
#include "automaton/frame_operations.h"

namespace structgen {
namespace {

const Frame *after_child(Automaton &automaton, StepContext &ctx, const Frame *frame, const Holds &) {
  const auto &sequence = *as<SequenceFrame>(frame);
  const Plan &plan = *sequence.plan;
  if (plan.at_limit && as<SequenceFrame>(frame->parent)->plan != ctx.exhausted_part) return nullptr;
  if (plan.max_tokens > 0 && ctx.ended_parts && ctx.is_byte_read && ctx.is_last_byte)
    ctx.ended_parts->push_back(&sequence);
  if (sequence.part + 1 == plan.parts.size()) return automaton.finish(ctx, frame->parent);
  auto *next = ctx.arena.make<SequenceFrame>(sequence);
  ++next->part;
  return automaton.start_of(ctx, *plan.parts[next->part], next);
}

// Masks do not depend on `first_token`: the end of a part with `max_tokens` comes after the token.
Hash128 signature(Automaton &automaton, const Frame *frame) {
  const auto &sequence = *as<SequenceFrame>(frame);
  return extend(begin_signature(automaton, frame, sequence.plan), sequence.part);
}

Frame *copy_into(FrameCopier &copier, const Frame *frame) { return copier.clone(*as<SequenceFrame>(frame)); }

bool equals(const Frame *a, const Frame *b) {
  const auto &x = *as<SequenceFrame>(a), &y = *as<SequenceFrame>(b);
  return x.plan == y.plan && x.part == y.part && x.first_token == y.first_token;
}

}  // namespace

const FrameOperations SEQUENCE_FRAME{cannot_step, never_completes, after_child, any_byte, signature, copy_into, equals};

}  // namespace structgen
