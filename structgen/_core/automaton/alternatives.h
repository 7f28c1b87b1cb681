// Several parses of one text, as few of them as possible.
//
// A sequence, a union or a grammar may parse a text in several ways at once. Parses that go on alike are merged, so
// that their number does not grow with the text. Two states are the same, or they differ only in the entries of one
// grammar and become one state with the entries of both.
#pragma once

#include <string>

#include "automaton/automaton.h"

namespace structgen {

// One state for either of two; null stands for none. Throws `LimitError` for too many alternatives.
const Frame *either(Automaton &automaton, StepContext &ctx, const Frame *a, const Frame *b);

// Can the same text follow two states? False also where their frames do not show it.
bool is_same_state(StepContext &ctx, const Frame *a, const Frame *b);

// One state that goes on as either of two does, without a list of alternatives: `b` if they are the same; null if they
// differ in more than the entries of one grammar, or the positions of one grammar where the same constraint began.
const Frame *join(Automaton &automaton, StepContext &ctx, const Frame *a, const Frame *b);

}  // namespace structgen
