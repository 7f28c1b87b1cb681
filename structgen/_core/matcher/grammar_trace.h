// How a text can be cut into the terminals of a grammar, and at which temperature the next token is sampled.
//
// Why: captures are the texts of rules. The parser keeps only what can follow, so the text is read once more, and every
// move of the parser by a terminal is written down; which rules these terminals make is found out from them elsewhere.
// Invariant: a sequence of terminals is a path from the first place to one where the text may end exactly if the lexer's
// rule cuts the text so and the grammar allows it up to each place.
// Cost: that of reading the text, without the readings that are merged otherwise: linear for a lexer, the square of the
// text's length for a scannerless grammar in which every place can be reached in many ways.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/earley_trace.h"
#include "liveness/control.h"

namespace structgen {

class Automaton;
struct Frame;
struct Plan;
struct StepContext;

struct GrammarTrace {
  static constexpr uint32_t NO_TERMINAL = UINT32_MAX;
  EarleyTrace places;
  size_t read = 0;  // units of the text that could be read
  // Where the text stands at its end: a place, and a terminal that began there and is not over; none: nothing began.
  std::vector<std::pair<uint32_t, uint32_t>> open;
};

// Reads a text from the start of a constraint that is a grammar. Units are bytes, and special tokens as 256 and more. Limits of tokens
// are not regarded. A grammar without a text has no places.
GrammarTrace trace_grammar(Automaton &automaton, StepContext &ctx, std::span<const uint32_t> units);

// The temperature at which the next token of a state is sampled: of each rule around a terminal that is being read, or
// may begin where none is, the innermost one that has a temperature counts, and of these the highest. Nothing: no rule has.
std::optional<double> temperature_at(Automaton &automaton, const Frame *n);
// Has any rule a temperature?
bool sets_temperature(const Plan &plan);

}  // namespace structgen
