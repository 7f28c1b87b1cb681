// How a text can be cut into the terminals of a grammar, and at which temperature the next token is sampled.
//
// Why: captures are the texts of rules. The parser keeps only what can follow. So the text is read once more, and every
// move of the parser by a terminal is recorded. Other code derives from them which rules the terminals make. Invariant:
// a sequence of terminals is a path from the first place to one where the text may end if and only if the lexer's rule
// cuts the text so and the grammar allows it up to each place. Cost: that of reading the text without merging equal
// parses. It is linear for a grammar with a lexer, and the square of the text's length for a scannerless grammar in
// which every place can be reached in many ways.
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
  // At the end of the text: a place, and a terminal that started there and has not ended, or NO_TERMINAL.
  std::vector<std::pair<uint32_t, uint32_t>> open;
};

// Reads a text from the start of a constraint that is a grammar. Units are bytes, and special tokens from 256 on.
// Limits on the number of tokens are ignored. The trace has no places if the grammar has no text.
GrammarTrace trace_grammar(Automaton &automaton, StepContext &ctx, std::span<const uint32_t> units);

// The temperature at which the next token is sampled. For each terminal that is being read, or that may start where
// none is being read, the innermost rule with a temperature counts; the result is the highest of these. Nothing if
// there is no such rule.
std::optional<double> temperature_at(Automaton &automaton, const Frame *state);
// Does any rule have a temperature?
bool sets_temperature(const Plan &plan);

}  // namespace structgen
