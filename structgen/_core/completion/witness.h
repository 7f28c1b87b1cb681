// A short completion of a state: what closes the output when the budget runs out, and the proof that a live state has a
// completion.
//
// Scalars take their shortest text, objects only the keys that are required, arrays only the items that are required.
// Where a choice can recurse (the type of a value, the keys of an object with branches) the search deepens
// iteratively over open containers, within a budget of steps. Where that fails, values that have not started are taken
// as a whole from the table of shortest ones (json/shortest/shortest_values.h), so that depth costs nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "automaton/automaton.h"
#include "util/search_failure.h"

namespace structgen {

// A completion as symbols: a byte, or FIRST_TOKEN_SET plus the number of a set from which one token is read.
using WitnessSymbols = std::vector<uint32_t>;
constexpr uint32_t FIRST_TOKEN_SET = 256;

void append_text(WitnessSymbols &out, std::string_view text);
const Frame *step_symbol(Automaton &automaton, StepContext &ctx, const Frame *state, uint32_t symbol);

// Appends a completion. False, with `out` unchanged, where none was found within the budget: `why` is the reason.
// Unless `is_patient`, the budget is a small fraction.
bool complete_state(Automaton &automaton, StepContext &ctx, const Frame *state, WitnessSymbols *out,
                    bool is_patient = true, SearchFailure *why = nullptr);
// The same as bytes. False also where the completion that was found has tokens which are read whole.
bool complete_text(Automaton &automaton, StepContext &ctx, const Frame *state, std::string *out, bool is_patient = true,
                   SearchFailure *why = nullptr);

}  // namespace structgen
