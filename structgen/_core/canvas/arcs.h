// How tokens lead through the terminals of a grammar, wherever a token begins and ends.
//
// A *run* is a terminal that is being read. A *boundary* is a position between two terminals; it is identified by what
// must not come next there (see text/lexemes.h). A *rest* is the part of a token after a terminal that ended inside it.
// Rests with the same steps are merged, so a vocabulary has few of them. All of this belongs to a constraint and a
// vocabulary, and is independent of a canvas.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "automaton/plan.h"
#include "chart/binary_grammar.h"

namespace structgen {

// Why a constraint does not work on a canvas; empty if it does.
std::string canvas_obstacle(const Plan &plan, TextSpace &space);

class CanvasArcs {
 public:
  enum class Kind : uint8_t { Run, Boundary, Rest };
  struct Step {
    Kind kind;
    uint32_t terminal;  // the one that is being read (Run), or has ended (Boundary, Rest)
    uint32_t to;
    auto operator<=>(const Step &) const = default;
  };
  struct Arc {
    Step step;
    std::vector<uint32_t> ids;   // of the tokens, if they are few
    std::vector<uint32_t> bits;  // otherwise, one bit for each id
    bool meets(const uint32_t *mask) const;
    void add_to(uint32_t *mask) const;
    bool has(uint32_t token) const;
  };

  CanvasArcs(const Plan &plan, TextSpace &space);
  CanvasArcs(const CanvasArcs &) = delete;
  CanvasArcs &operator=(const CanvasArcs &) = delete;

  const BinaryGrammar &grammar() const { return grammar_; }
  const Vocabulary &vocabulary() const { return space_.vocabulary(); }
  size_t runs() const { return runs_.size(); }
  size_t boundaries() const { return boundaries_.size(); }
  size_t rests() const { return rests_.size(); }
  uint32_t terminal_of(uint32_t run) const { return runs_[run].terminal; }

  static constexpr uint32_t NONE = UINT32_MAX;
  static constexpr uint32_t FREE = 0;  // the boundary after which everything may come

  // The run of a terminal that begins at a boundary; NONE if it may not begin there.
  uint32_t begin(uint32_t boundary, uint32_t terminal);
  // The steps of all tokens from a run; each step occurs once, with its tokens.
  const std::vector<Arc> &arcs(uint32_t run);
  // The steps of one token from a run.
  const std::vector<Step> &steps(uint32_t run, uint32_t token);
  // The steps of a rest from the start of a terminal.
  const std::vector<Step> &steps_of_rest(uint32_t rest) const { return rests_[rest]; }

 private:
  struct Run {
    uint32_t terminal;
    LexemeState lexeme;
    std::unique_ptr<std::vector<Arc>> arcs;
  };
  class Walk;
  uint32_t run(uint32_t terminal, LexemeState lexeme);
  uint32_t boundary(Re after);
  // The rest `text` of a token after `terminal`; NONE if it leads nowhere.
  uint32_t rest(uint32_t terminal, Re after, std::string_view text);
  template <class RestOf>
  void read(uint32_t terminal, LexemeState s, std::string_view text, std::vector<Step> &out, const RestOf &rest_of);
  uint32_t interned(std::vector<Step> steps);
  bool goes_on(LexemeState s) { return space_.lexemes().first(s).any(); }

  TextSpace &space_;
  BinaryGrammar grammar_;
  std::vector<uint32_t> followers_;  // by terminal: the index in `follower_sets_` of the terminals that may follow
  std::vector<std::vector<uint32_t>> follower_sets_;
  std::vector<Run> runs_;
  std::unordered_map<uint64_t, uint32_t> run_index_;
  std::vector<Re> boundaries_;
  std::unordered_map<Re, uint32_t> boundary_index_;
  std::unordered_map<uint64_t, uint32_t> begin_index_;
  std::vector<std::vector<Step>> rests_;
  std::unordered_map<Hash128, uint32_t, HashOf128> rest_index_;  // by their steps
  std::unordered_map<Hash128, uint32_t, HashOf128> rest_of_;     // by text
  std::unordered_map<uint64_t, std::vector<Step>> single_;
};

}  // namespace structgen
