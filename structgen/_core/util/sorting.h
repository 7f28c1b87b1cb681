// Sorting of lists whose length a stranger chooses: comparisons are charged, so that a limit ends a sort in the middle.
//
// subtle: elements may be moved from where that happens. What is sorted must be thrown away with the call.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <string_view>

#include "util/work.h"

namespace structgen {

// For numbers and what else is compared in a few instructions: a unit for several comparisons.
template <class It, class Less = std::less<>>
void sort_numbers(It first, It last, Less less = {}) {
  constexpr uint32_t COMPARISONS_PER_UNIT = 16;
  charge(static_cast<uint64_t>(last - first) / COMPARISONS_PER_UNIT);
  if (std::is_sorted(first, last, less)) return;  // many lists are made in order
  uint32_t compared = 0;
  std::sort(first, last, [&](const auto &a, const auto &b) {
    if (++compared % COMPARISONS_PER_UNIT == 0) charge();
    return less(a, b);
  });
}

// Comparing texts reads as much of them as is equal.
constexpr size_t COMPARED_BYTES_PER_UNIT = 128;

template <class It>
void sort_texts(It first, It last) {
  size_t compared = 0;
  std::sort(first, last, [&](std::string_view a, std::string_view b) {
    compared += COMPARED_BYTES_PER_UNIT / 2 + std::min(a.size(), b.size());
    if (compared >= COMPARED_BYTES_PER_UNIT) {
      charge(compared / COMPARED_BYTES_PER_UNIT);
      compared %= COMPARED_BYTES_PER_UNIT;
    }
    return a < b;
  });
}

// A binary search among `n` elements takes a step for each time that n can be halved.
inline uint64_t search_work(size_t n) { return 1 + static_cast<uint64_t>(std::bit_width(n)) / 4; }

}  // namespace structgen
