// A short completion of a state, as bytes: what closes the output when the budget runs out,
// and the proof that an alive state has a completion.
//
// Scalars take their shortest text, objects only the keys they owe, arrays only the items
// they owe. Where a choice can recurse (types of a value, keys of a frame with branches) the
// search is by iterative deepening on open containers, within a step budget. Where that fails, values that have
// not begun are taken whole from the table of shortest ones (json/shortest/shortest_values.h), so that depth costs nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "automaton/automaton.h"
#include "util/search_failure.h"

namespace structgen {

// A completion as symbols: bytes, and FIRST_TOKEN_SET + the number of a set of which one token is read.
using WitnessSymbols = std::vector<uint32_t>;
constexpr uint32_t FIRST_TOKEN_SET = 256;

void append_text(WitnessSymbols &out, std::string_view text);
// Reads one symbol.
const Frame *step_symbol(Automaton &automaton, StepContext &ctx, const Frame *node, uint32_t symbol);

// Appends a completion; false (and `out` unchanged) when none was found within the budget, a tenth of it if not `patient`:
// `why` says what kept it from being found.
bool complete_state(Automaton &automaton, StepContext &ctx, const Frame *node, WitnessSymbols *out, bool patient = true,
                    SearchFailure *why = nullptr);
// The same of a completion without tokens that are read whole, as bytes; false also where the one that is found has some.
bool complete_text(Automaton &automaton, StepContext &ctx, const Frame *node, std::string *out, bool patient = true,
                   SearchFailure *why = nullptr);

}  // namespace structgen
