// The parser's positions along one text, recorded while it is read. Captures are found with them.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/earley.h"

namespace structgen {

// Positions of the parser along one text, and the terminals between them.
class EarleyTrace {
 public:
  struct Edge {
    uint32_t from, terminal, to;
  };
  uint32_t position = 0;            // of the text, as far as it is read
  std::vector<uint32_t> positions;  // of places, by number
  std::vector<bool> accepting;
  std::vector<Edge> edges;

  uint32_t number(const EarleySet *set);
  void moved(std::span<const std::pair<const EarleySet *, Symbol>> by, const EarleySet *to);

 private:
  std::unordered_map<const EarleySet *, uint32_t> numbers_;
};

}  // namespace structgen
