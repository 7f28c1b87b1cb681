// What string frames and scalar frames share: the root formulas of a value, whose verdicts its parent needs.
#pragma once

#include "automaton/automaton.h"

namespace structgen {

// The states of `count` root formulas after a byte. A language that the byte closes or leaves is dead.
const TextState *step_root_states(TextSpace &text, Arena &arena, const TextState *states, size_t count, uint8_t byte);
// The state after the end of a text.
const Frame *finish_text(Automaton &automaton, StepContext &ctx, const TextFrame &frame);
// Number of `root_states` of a scalar.
size_t count_roots(const ScalarFrame &scalar);

}  // namespace structgen
