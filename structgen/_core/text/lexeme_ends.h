// Where lexemes may end, while the whole text must be in a regular language: what must not follow, and what that leaves.
//
// Why: a chart of places (liveness/intersection.h) asks for every terminal at every place, and a string or a comment runs over
// half of the text that follows; so pairs of a lexeme state and a state of the language are found out once, those
// that lead to each other as one (Tarjan), and shared by all constraints of a vocabulary.
// Cost: each pair once; a set of ends where it differs from that of the next pair. Dropped past a budget.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "text/lexemes.h"

namespace structgen {

class LexemeEnds {
 public:
  struct End {
    Re after;  // of those that forbid the same (`Lexemes::near`)
    Within within;
  };
  using Set = std::shared_ptr<const std::vector<End>>;

  explicit LexemeEnds(Lexemes &lexemes) : lexemes_(lexemes) {}

  // Each once; null where it takes more than `most` new pairs to know, which is counted down.
  Set of(LexemeState s, Within within, size_t *most);
  size_t memory() const { return bytes_; }
  void clear();  // sets that are held stay

 private:
  struct Node {
    LexemeState lexeme;
    Within within;
    uint32_t low = 0;
    bool is_known = false;
    std::vector<uint32_t> to = {};  // while it is not known
    Set ends = nullptr;
  };
  uint32_t node(LexemeState s, Within within);
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
