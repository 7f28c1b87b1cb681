// What the automaton does with each kind of frame: one table, one row per kind.
//
// Each row is defined in the file of its kind (value_frame.cpp, string_frame.cpp, …). To add a kind: a type and a
// `FrameKind` in frames.h, a file with its row, and an entry in the table in frame_operations.cpp.
#pragma once

#include <bitset>
#include <cstdint>

#include "automaton/automaton.h"
#include "automaton/frame_copier.h"

namespace structgen {

struct FrameOperations {
  // The state after a byte; null: it is dead.
  const Frame *(*step)(Automaton &automaton, StepContext &ctx, const Frame *frame, uint8_t byte);
  // Is the text complete in this frame and in those below it, down to `bottom`?
  bool (*completes)(Automaton &automaton, StepContext &ctx, const Frame *frame, const Frame *bottom);
  // The state after the child of this frame has ended.
  const Frame *(*after_child)(Automaton &automaton, StepContext &ctx, const Frame *frame, const Holds &holds);
  std::bitset<256> (*candidates)(Automaton &automaton, const Frame *frame);
  Hash128 (*signature)(Automaton &automaton, const Frame *frame);
  // A copy of the frame and of what it owns. The caller replaces the parent.
  Frame *(*copy_into)(FrameCopier &copier, const Frame *frame);
  // Are two frames of this kind and of one depth equal, apart from their parents and from the entries of grammars?
  bool (*equals)(const Frame *a, const Frame *b);
};

extern const FrameOperations END_FRAME, VALUE_FRAME, STRING_FRAME, SCALAR_FRAME, OBJECT_FRAME, KEY_FRAME, ARRAY_FRAME,
    SEQUENCE_FRAME, ALTERNATIVES_FRAME, GRAMMAR_FRAME, SYMBOL_FRAME;

extern const FrameOperations *const FRAME_TABLE[FRAME_KINDS];  // by kind

inline const FrameOperations &operations_of(FrameKind kind) { return *FRAME_TABLE[static_cast<size_t>(kind)]; }

// Operations of kinds for which there is nothing to do.
const Frame *cannot_step(Automaton &, StepContext &, const Frame *, uint8_t);
bool never_completes(Automaton &, StepContext &, const Frame *, const Frame *);
const Frame *has_no_child(Automaton &, StepContext &, const Frame *, const Holds &);
std::bitset<256> any_byte(Automaton &, const Frame *);

// Signatures begin with these: the hash of the kind and of `control`, and of the depth where a mask may depend on it.
Hash128 begin_signature(Automaton &automaton, const Frame *frame, const void *control);
// The same of values and containers, with their white space; lines that are indented depend on the depth.
Hash128 begin_json_signature(Automaton &automaton, const JsonFrame &frame, const void *control, uint64_t phase);

// White space between the tokens of JSON.
std::bitset<256> json_blanks();

}  // namespace structgen
