#include "regex/regex_inclusion.h"

#include <algorithm>
#include <unordered_set>

#include "util/work.h"

namespace structgen {
namespace {

constexpr size_t MOST_PAIRS = 4'000;
constexpr size_t REFUND = 500;
constexpr size_t MOST_KNOWN = 500'000;

}  // namespace

bool RegexInclusion::included(Re part, Re whole) {
  auto holds = [](Re a, Re b) { return a == b || a == RegexSpace::EMPTY || b == RegexSpace::ANY_TEXT; };
  auto key = [](Re a, Re b) { return static_cast<uint64_t>(a) << 32 | b; };
  if (holds(part, whole)) return true;
  if (auto it = known_.find(key(part, whole)); it != known_.end()) return it->second;
  if (allowance_ == 0) return false;
  if (known_.size() > MOST_KNOWN) known_.clear();
  struct Pair {
    Re part, whole;
    size_t from;
  };
  const size_t rows = regex_.rows_made();
  std::vector<Pair> pairs{{part, whole, 0}};
  std::unordered_set<uint64_t> met{key(part, whole)};
  bool proven = true;
  size_t refuted = 0;  // a pair that refutes all pairs that lead to it
  for (size_t at = 0; at < pairs.size() && proven; ++at) {
    charge(16);
    const Re a = pairs[at].part, b = pairs[at].whole;
    if (pairs.size() > MOST_PAIRS) {
      proven = false;
      break;
    }
    if (b == RegexSpace::EMPTY || (regex_.nullable(a) && !regex_.nullable(b))) {
      proven = false;
      refuted = at;
      break;
    }
    const Row &from = regex_.row(a), &to = regex_.row(b);
    uint64_t last = 0;
    for (size_t byte = 0; byte < 256; ++byte) {
      if (holds(from[byte], to[byte])) continue;
      const uint64_t next = key(from[byte], to[byte]);
      if (next == last) continue;
      last = next;
      if (auto it = known_.find(next); it != known_.end()) {
        if (it->second) continue;
        proven = false;
        refuted = at;
        break;
      }
      if (met.insert(next).second) pairs.push_back({from[byte], to[byte], at});
    }
  }
  if (proven) {
    for (const Pair &p : pairs) known_[key(p.part, p.whole)] = true;
    allowance_ += REFUND;
  } else {
    for (size_t at = refuted; at != 0; at = pairs[at].from) known_[key(pairs[at].part, pairs[at].whole)] = false;
    allowance_ -= std::min(allowance_, pairs.size() + ROW * (regex_.rows_made() - rows));
  }
  return known_[key(part, whole)] = proven;
}

}  // namespace structgen
