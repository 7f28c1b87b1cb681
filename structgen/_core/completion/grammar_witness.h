// A short completion of a text of a grammar.
//
// Each rule has a cheapest production (Knuth's generalisation of Dijkstra's algorithm), so each dotted rule has a
// cheapest end. The cheapest completion of an Earley set is a shortest path over dotted rules and the sets that they
// return to. Between lexemes comes what the lexer needs to separate them. Each result is read again before it is
// returned.
#pragma once

#include <vector>

#include "completion/witness.h"
#include "liveness/costs.h"

namespace structgen {

// Completes the text of the grammar on top, and nothing of the frames below; false where no completion was found.
bool complete_grammar(Automaton &automaton, StepContext &ctx, const GrammarFrame *frame, WitnessSymbols *out);

// The cheapest text of each rule, computed once for a grammar.
class GrammarShortest {
 public:
  static constexpr uint64_t FAR = RuleCosts::FAR;

  GrammarShortest(GrammarControl &control, Automaton &automaton);

  uint64_t cost(Symbol s) const {
    return s >= 0 ? rules_.cost[static_cast<uint32_t>(s)] : terminals_[static_cast<uint32_t>(~s)];
  }
  // Appends the terminals of the cheapest text of `s`; false where it would be too long.
  bool terminals(Symbol s, std::vector<uint32_t> *out) const;
  const WitnessSymbols &text(uint32_t terminal) const { return texts_[terminal]; }

 private:
  const Grammar &g_;
  RuleCosts rules_;
  std::vector<uint64_t> terminals_;  // the cost of each
  std::vector<WitnessSymbols> texts_;
};

// The cheapest texts of a grammar, which the grammar keeps.
const GrammarShortest &shortest_texts(GrammarControl &control, Automaton &automaton);

}  // namespace structgen
