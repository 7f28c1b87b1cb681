// Sets of small numbers as words of bits.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace structgen {

inline bool test_bit(const uint32_t *set, uint32_t number) { return (set[number >> 5] >> (number & 31) & 1) != 0; }
inline void set_bit(uint32_t *set, uint32_t number) { set[number >> 5] |= 1u << (number & 31); }
inline void clear_bit(uint32_t *set, uint32_t number) { set[number >> 5] &= ~(1u << (number & 31)); }

// Calls `visit` with each number of a set, in increasing order. `word_at(w)` returns word `w` of the set; it is called
// when the iteration reaches the word, so `visit` may change words that it calls.
template <class WordAt, class Visit>
void each_bit_by_word(size_t from, size_t words, const WordAt &word_at, const Visit &visit) {
  constexpr size_t BITS = 8 * sizeof(word_at(from));
  for (size_t w = from; w < words; ++w)
    for (auto rest = word_at(w); rest; rest &= rest - 1)
      visit(static_cast<uint32_t>(w * BITS + static_cast<size_t>(std::countr_zero(rest))));
}

// The same for a set in memory, from word `from` on.
template <class Word, class Visit>
void each_bit(const Word *set, size_t from, size_t words, const Visit &visit) {
  each_bit_by_word(from, words, [set](size_t w) { return set[w]; }, visit);
}

// Adds the numbers of `bits`. The sets must not overlap in memory.
inline void add_bits(uint32_t *__restrict to, const uint32_t *__restrict bits, size_t words) {
  for (size_t w = 0; w < words; ++w) to[w] |= bits[w];
}

// Adds the numbers of `bits`, from word `from` on. Returns whether some were new.
inline bool merge_bits(uint64_t *to, const uint64_t *bits, size_t from, size_t words) {
  uint64_t fresh = 0;
  for (size_t w = from; w < words; ++w) {
    fresh |= bits[w] & ~to[w];
    to[w] |= bits[w];
  }
  return fresh != 0;
}

}  // namespace structgen
