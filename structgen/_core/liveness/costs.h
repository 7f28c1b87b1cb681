// The cheapest text of every rule, given a cost of each terminal.
#pragma once

#include <span>
#include <vector>

#include "grammar/grammar.h"

namespace structgen {

struct RuleCosts {
  static constexpr uint64_t FAR =
      UINT64_MAX / 4;  // sums stop growing here; a cost of FAR: there is no text, or it is unknown

  std::vector<uint64_t> cost;  // by rule
  std::vector<Item> best;      // its cheapest production, if the cost is less than FAR
};

// Knuth, "A generalization of Dijkstra's algorithm", 1977: rules in the order of their cost.
RuleCosts rule_costs(const Grammar &grammar, std::span<const uint64_t> terminals);

}  // namespace structgen
