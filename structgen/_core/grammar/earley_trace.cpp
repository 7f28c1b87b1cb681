#include "grammar/earley_trace.h"

#include "util/work.h"

namespace structgen {
namespace {

constexpr size_t MOST_EDGES = 1'000'000;

}  // namespace

uint32_t EarleyTrace::number(const EarleySet *set) {
  const auto [it, fresh] = numbers_.try_emplace(set, static_cast<uint32_t>(positions.size()));
  if (fresh) {
    positions.push_back(position);
    accepting.push_back(set->accepting);
  }
  return it->second;
}

void EarleyTrace::moved(std::span<const std::pair<const EarleySet *, Symbol>> by, const EarleySet *to) {
  const uint32_t end = number(to);
  for (const auto &[from, symbol] : by) {
    charge();
    edges.push_back({number(from), static_cast<uint32_t>(~symbol), end});
  }
  if (edges.size() > MOST_EDGES)
    throw LimitError("the text can be cut into terminals in so many ways that there are more than " +
                     std::to_string(MOST_EDGES) + " of them (limit capture_steps)");
}

}  // namespace structgen
