// Steps of whole tokens: by their bytes, and as tokens that the constraint names.
//
// A constraint can name sets of tokens, mostly special ones. A token of such a set is read whole: its bytes do not
// matter. It may be text as well: then it leads wherever its bytes lead, and wherever each set leads that contains it.
// Such a set is a terminal of a grammar. It may come at any position of the text if nothing more is read into its
// lexeme.
#pragma once

#include <vector>

#include "automaton/automaton.h"

namespace structgen {

// Reads a token: by its bytes, and as one of each set that contains it.
const Frame *step_token(Automaton &automaton, StepContext &ctx, const Frame *state, uint32_t token);
// Reads a token as one of each set that contains it, and not by its bytes.
const Frame *step_token_whole(Automaton &automaton, StepContext &ctx, const Frame *state, uint32_t token);
// Reads some token of a set.
const Frame *step_token_set(Automaton &automaton, StepContext &ctx, const Frame *state, uint32_t set);
// The sets of which a token may come, sorted.
std::vector<uint32_t> expected_token_sets(Automaton &automaton, StepContext &ctx, const Frame *state);

}  // namespace structgen
