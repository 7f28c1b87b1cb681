// Finds things by what they are, in a list that someone else keeps: a table of places in that list, searched from where
// the hash points to (open addressing, at most half full).
//
// Why not a map: it is made anew for each place of a text and asked a million times for one mask of an ambiguous
// grammar; this one keeps its memory when it is cleared, and follows no pointers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace structgen {

class FlatIndex {
 public:
  bool empty() const { return count_ == 0; }

  void clear() {
    if (count_ > 0) std::fill(slots_.begin(), slots_.end(), FREE);
    count_ = 0;
  }

  // The place of the one that `is_it(place)` holds for; if there is none, `fresh`, which is kept.
  // `hash_at(place)` is the hash of the one at a place.
  template <class Is, class HashAt>
  uint32_t find_or_put(uint64_t hash, uint32_t fresh, const Is &is_it, const HashAt &hash_at) {
    if (count_ * 2 >= slots_.size()) grow(hash_at);
    uint32_t &slot = slots_[find(hash, is_it)];
    if (slot != FREE) return slot;
    ++count_;
    return slot = fresh;
  }

 private:
  static constexpr uint32_t FREE = UINT32_MAX;
  static constexpr size_t LEAST = 64;

  template <class Is>
  size_t find(uint64_t hash, const Is &is_it) const {
    const size_t mask = slots_.size() - 1;
    size_t at = static_cast<size_t>(hash) & mask;
    while (slots_[at] != FREE && !is_it(slots_[at])) at = (at + 1) & mask;
    return at;
  }

  template <class HashAt>
  void grow(const HashAt &hash_at) {
    std::vector<uint32_t> old(std::max(LEAST, slots_.size() * 2), FREE);
    old.swap(slots_);
    for (uint32_t place : old)
      if (place != FREE) slots_[find(hash_at(place), [](uint32_t) { return false; })] = place;
  }

  std::vector<uint32_t> slots_;
  size_t count_ = 0;
};

}  // namespace structgen
