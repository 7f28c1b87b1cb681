// Sets of small numbers as words of bits.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace structgen {

// The numbers of a set, increasing, from word `from` on.
template <class Word, class Visit>
void each_bit(const Word *set, size_t from, size_t words, const Visit &visit) {
  constexpr size_t BITS = 8 * sizeof(Word);
  for (size_t w = from; w < words; ++w)
    for (Word rest = set[w]; rest; rest &= rest - 1)
      visit(static_cast<uint32_t>(w * BITS + static_cast<size_t>(std::countr_zero(rest))));
}

}  // namespace structgen
