// A short completion of a state, as bytes: what closes the output when the budget runs out,
// and the proof that an alive state has a completion.
//
// Scalars take their shortest text, objects only the keys they owe, arrays only the items
// they owe. Where a choice can recurse (types of a value, keys of a frame with branches) the
// search is by iterative deepening on open containers, within a step budget.
#pragma once

#include <string>

#include "automaton.h"

namespace structgen {

// Appends to `out`; false (and `out` unchanged) when none was found within the budget.
bool complete_text(Automaton &automaton, Reader &reader, const Node *node, std::string *out);

}  // namespace structgen
