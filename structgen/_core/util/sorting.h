// Sorting of lists whose length depends on untrusted input: comparisons are charged, so a limit can end a sort in the
// middle.
//
// subtle: elements may have been moved from when that happens. The list must be discarded with the call.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <string_view>

#include "util/work.h"

namespace structgen {

// For numbers and other elements that are compared in a few instructions: one unit for several comparisons.
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

// A comparison of texts reads as many bytes as are equal.
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

// The work of a binary search among `n` elements.
inline uint64_t search_work(size_t n) { return 1 + static_cast<uint64_t>(std::bit_width(n)) / 4; }

}  // namespace structgen
