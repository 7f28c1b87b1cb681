#include "liveness/costs.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "util/work.h"

namespace structgen {

RuleCosts rule_costs(const Grammar &g, std::span<const uint64_t> terminals) {
  RuleCosts out{std::vector<uint64_t>(g.rules.size(), RuleCosts::FAR), std::vector<Item>(g.rules.size())};
  // By the first item of a production: rules in it that have no cost yet, and the cost of everything else.
  std::vector<uint32_t> missing(g.symbols.size());
  std::vector<uint64_t> sum(g.symbols.size());
  std::vector<std::vector<Item>> uses(g.rules.size());
  using Entry = std::pair<uint64_t, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  auto add = [](uint64_t &to, uint64_t more) { to = std::min(RuleCosts::FAR, to + more); };
  auto offer = [&](Item first) {
    const uint32_t rule = g.head[first];
    if (sum[first] >= out.cost[rule]) return;
    out.cost[rule] = sum[first];
    out.best[rule] = first;
    queue.push({sum[first], rule});
  };
  for (Item first : g.first) {
    charge();
    for (Item i = first; g.symbols[i] != Grammar::END; ++i) {
      if ((i - first) % 4 == 3) charge();
      if (g.symbols[i] < 0) {
        add(sum[first], terminals[static_cast<uint32_t>(~g.symbols[i])]);
      } else {
        ++missing[first];
        uses[static_cast<uint32_t>(g.symbols[i])].push_back(first);
      }
    }
    if (missing[first] == 0) offer(first);
  }
  std::vector<bool> done(g.rules.size());
  while (!queue.empty()) {
    charge();
    const auto [cost, rule] = queue.top();
    queue.pop();
    if (done[rule]) continue;
    done[rule] = true;
    charge(uses[rule].size());
    for (Item first : uses[rule]) {
      add(sum[first], cost);
      if (--missing[first] == 0) offer(first);
    }
  }
  return out;
}

}  // namespace structgen
