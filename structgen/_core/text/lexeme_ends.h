// Where a lexeme may end while the whole text must be in a regular language: what must not follow it, and what is left
// of the language.
//
// The chart of an intersection (liveness/intersection.h) needs this for every terminal at every position, and a string
// or a comment can end almost anywhere in the text that follows. So the ends of each pair of a lexeme state and a state
// of the language are computed once, for all constraints of a vocabulary. Pairs that lead to one another are computed
// together (Tarjan's strongly connected components). Cost: each pair once, and a set of ends where it differs from that
// of the next pair. All are evicted past a budget.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "text/lexemes.h"

namespace structgen {

class LexemeEnds {
 public:
  struct End {
    Re after;  // a representative of those that forbid the same (`Lexemes::coarsen`)
    OuterState outer;
  };
  using Set = std::shared_ptr<const std::vector<End>>;

  explicit LexemeEnds(Lexemes &lexemes) : lexemes_(lexemes) {}

  // The ends, each once. Null if they need more than `most` new pairs; `most` is reduced by those that were made.
  Set of(LexemeState s, OuterState outer, size_t *most);
  size_t memory() const { return bytes_; }
  void clear();  // sets that someone holds stay valid

 private:
  struct Node {
    LexemeState lexeme;
    OuterState outer;
    uint32_t low = 0;
    bool is_known = false;
    std::vector<uint32_t> to = {};  // while it is not known
    Set ends = nullptr;
  };
  uint32_t node(LexemeState s, OuterState outer);
  void expand(uint32_t n);
  void close(const std::vector<uint32_t> &part);
  Set kept(const std::vector<uint64_t> &keys);

  Lexemes &lexemes_;
  std::unordered_map<uint64_t, uint32_t> index_;
  std::vector<Node> nodes_;
  std::unordered_map<Hash128, Set, HashOf128> sets_;  // each once
  size_t bytes_ = 0;
};

}  // namespace structgen
