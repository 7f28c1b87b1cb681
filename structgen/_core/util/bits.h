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

// Adds the numbers of `bits`. The sets must not overlap in memory.
inline void add_bits(uint32_t *__restrict to, const uint32_t *__restrict bits, size_t words) {
  for (size_t w = 0; w < words; ++w) to[w] |= bits[w];
}

// Adds those of `bits`, from word `from` on; were there new ones?
inline bool merge_bits(uint64_t *to, const uint64_t *bits, size_t from, size_t words) {
  uint64_t fresh = 0;
  for (size_t w = from; w < words; ++w) {
    fresh |= bits[w] & ~to[w];
    to[w] |= bits[w];
  }
  return fresh != 0;
}

}  // namespace structgen
