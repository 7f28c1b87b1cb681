#include "json/control/value_counts.h"

#include <algorithm>
#include <bit>

namespace structgen {
namespace {
constexpr uint64_t MIN_TESTED = 64;  // values of the first query, whose answer also serves smaller numbers
}  // namespace

bool ValueCounts::has_many(ObligationId obligation, uint64_t n) {
  const Formula f = tables_.obligations[obligation].requirement;
  const Bounds known = bounds_[f];
  if (n <= known.has) return true;
  if (n >= known.unknown) return false;
  const uint64_t more = std::bit_ceil(std::max(n, MIN_TESTED));
  if (oracle_.distinct().has_many(f, more)) {
    bounds_[f].has = more;
    return true;
  }
  const bool has = more > n && oracle_.distinct().has_many(f, n);
  if (has) bounds_[f].has = n;
  else bounds_[f].unknown = n;
  return has;
}

}  // namespace structgen
