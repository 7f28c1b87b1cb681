#include "automaton/frame_operations.h"

namespace structgen {

const FrameOperations *const FRAME_TABLE[FRAME_KINDS] = {
    &END_FRAME,   &VALUE_FRAME,    &STRING_FRAME,       &SCALAR_FRAME,  &OBJECT_FRAME, &KEY_FRAME,
    &ARRAY_FRAME, &SEQUENCE_FRAME, &ALTERNATIVES_FRAME, &GRAMMAR_FRAME, &SYMBOL_FRAME};

const Frame *cannot_step(Automaton &, StepContext &, const Frame *, uint8_t) { return nullptr; }
bool never_completes(Automaton &, StepContext &, const Frame *, const Frame *) { return false; }
const Frame *has_no_child(Automaton &, StepContext &, const Frame *, const Holds &) { return nullptr; }
std::bitset<256> any_byte(Automaton &, const Frame *) { return std::bitset<256>().set(); }

std::bitset<256> json_blanks() {
  static const std::bitset<256> blanks = [] {
    std::bitset<256> bytes;
    for (char c : {' ', '\t', '\n', '\r'}) bytes.set(static_cast<unsigned char>(c));
    return bytes;
  }();
  return blanks;
}

Hash128 begin_json_signature(Automaton &automaton, const JsonFrame &frame, const void *control, uint64_t phase) {
  Hash128 h = extend(begin_signature(automaton, &frame, control), phase << 16 | frame.space);
  // Where lines are indented, what may follow a bracket, a comma or a line feed depends on the depth.
  if (automaton.writes_lines()) h = extend(h, static_cast<uint32_t>(frame.depth));
  return h;
}

Hash128 begin_signature(Automaton &automaton, const Frame *frame, const void *control) {
  constexpr uint64_t FRAME = 2;
  const Hash128 h = hash_words(FRAME, static_cast<uint64_t>(frame->kind), reinterpret_cast<uint64_t>(control));
  // A token can open as many containers as it has bytes: only close to the limit, a mask depends on the depth.
  TextSpace &text = automaton.text();
  const auto depth = static_cast<uint32_t>(frame->depth);
  return depth + text.vocabulary().longest_token() >= text.limits().max_depth ? extend(h, depth) : h;
}

namespace {

Hash128 sign_end(Automaton &automaton, const Frame *frame) { return begin_signature(automaton, frame, nullptr); }

Frame *copy_end(FrameCopier &copier, const Frame *frame) { return copier.clone(*as<EndFrame>(frame)); }

bool end_completes(Automaton &, StepContext &, const Frame *, const Frame *bottom) { return !bottom; }

bool end_equals(const Frame *, const Frame *) { return true; }

}  // namespace

// Nothing follows the end of the text. This row is all that its kind needs, so it has no file of its own.
const FrameOperations END_FRAME{cannot_step, end_completes, has_no_child, any_byte, sign_end, copy_end, end_equals};

}  // namespace structgen
