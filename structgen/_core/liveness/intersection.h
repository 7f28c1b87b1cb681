// Liveness if the whole text must also be in a regular language (`&`): exact, if that language has few states.
//
// A *position* is the state after a lexeme has ended: the texts that must not follow it, and the state of the regular
// language. First, a search finds all positions that lexemes reach from the first one. Then the chart gets the pairs of
// positions between which each symbol can stand: it is a chart of spans whose nodes are the positions (Bar-Hillel,
// Perles and Shamir, "On formal properties of simple phrase structure grammars", 1961). A query follows the items of an
// Earley set along the rows of the chart. For each rule of an older set, a search backwards finds the positions where
// the rule may end such that the text can be completed; they are stored. Invariant: a live state can be completed. All
// live states are found, except for texts in which a lexeme stands directly before something that begins like a longer
// lexeme with many states (`Lexemes::coarsen`). If there are too many positions, there is no chart, and `Search`
// decides.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "chart/binary_grammar.h"
#include "chart/chart.h"
#include "liveness/liveness.h"
#include "text/lexeme_ends.h"

namespace structgen {

class GrammarLiveness::Chart {
 public:
  explicit Chart(GrammarLiveness &liveness);

  // Has the grammar no text? Nullopt: there is no chart.
  std::optional<bool> empty();
  // Can the text be completed after `set`, by any of the ends of lexeme `s`? Nullopt: there is no chart.
  std::optional<bool> alive(const EarleySet *set, LexemeState s, OuterState outer);
  using At = LexemeEnds::End;
  struct Ended {
    At at;
    std::string text;  // a shortest text that leads there
  };
  // The positions where a lexeme may end, with texts; null if it has too many states. Valid until the next call.
  const std::vector<Ended> *written(LexemeState s, OuterState outer);
  // A short text that completes the prefix, after some of these ends.
  std::optional<std::string> completion(const EarleySet *set, std::span<const Ended> ended, Arena &scratch);
  std::optional<std::string> completion(const EarleySet *set, std::span<const Ended> ended, Arena &scratch,
                                        size_t haste, size_t most);
  // Does the chart contain all positions where the lexeme may end? It does not if no text leads to this pair of states.
  bool is_reachable(LexemeState s, OuterState outer);

 private:
  using Bits = std::vector<uint64_t>;
  static uint64_t key_of(At at) { return static_cast<uint64_t>(at.after) << 32 | at.outer; }
  struct Position {
    At at;
    Bits may;   // terminals that may begin there, of the chart's grammar
    Bits done;  // of these, those whose arcs are known
  };
  struct Arc {
    uint32_t from, terminal, to;
  };
  struct Need {  // the rule may end at each position from which `item` leads to a position in the bits of `goal`
    Item item;
    uint32_t goal;
  };
  struct Goal {
    const EarleySet *set;
    uint32_t rule;
    Hash128 key;
    bool known = false;
    Bits bits;
    std::vector<Need> needs;
    std::vector<uint32_t> dependents;
  };

  uint32_t least_left(OuterState outer);
  LexemeEnds::Set ends(LexemeState s, OuterState outer);
  uint32_t position_of(At at);
  bool find_positions();
  bool build();
  std::vector<uint32_t> sorted(std::vector<std::pair<uint32_t, uint32_t>> *loops) const;
  bool alive(const EarleySet *set, std::span<const uint32_t> positions);
  Bits forward(Item item, Bits at) const;
  Bits backward(Item item, const Bits &ends) const;
  const Bits &finishing(const EarleySet *set, uint32_t rule);
  void solve(std::vector<Goal> &goals);
  uint32_t symbol(Symbol s) const {
    return s >= 0 ? grammar_.first_rule + static_cast<uint32_t>(s)
                  : grammar_.terminal_then_blank[static_cast<uint32_t>(~s)];
  }
  bool has(const Bits &bits, uint32_t bit) const { return bits[bit / 64] >> bit % 64 & 1; }

  static constexpr size_t MOST_POSITIONS = 8'000, MOST_ARCS = 1'000'000, MOST_POINTS = 400'000, MOST_WRITTEN = 100'000,
                          MOST_IN_ALL = 2'000'000, MOST_FINISHING = 20'000, MOST_WRITTEN_ENDS = 1'000;
  static constexpr size_t MOST_BYTES = size_t{1} << 28;
  static constexpr size_t MOST_WORDS = 4'000'000'000;  // once for a constraint; see CanvasLimits

  GrammarLiveness &l_;
  BinaryGrammar grammar_;
  std::vector<Position> positions_;
  std::unordered_map<uint64_t, uint32_t> index_;
  std::unordered_map<uint64_t, std::vector<Ended>> written_;
  std::vector<uint32_t> fresh_;  // positions whose arcs are not all known
  std::vector<Arc> arcs_;
  std::unordered_map<OuterState, uint32_t> least_left_;
  size_t points_ = 0;
  bool usable_ = true;
  bool cuts_ = false;  // does some position forbid more than the texts that must not follow (`Lexemes::coarsen`)?
  std::unique_ptr<SpanChart> chart_;
  std::vector<uint32_t> node_of_;  // by position
  size_t nodes_ = 0, words_ = 0;
  Bits may_end_;
  std::unordered_map<Hash128, Bits, HashOf128> finishing_;
};

}  // namespace structgen
