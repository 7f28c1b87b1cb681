// A hash table of indices into a list that its user keeps: finds equal elements of the list (open addressing, at most
// half full).
//
// Why not a map: such an index is filled again for each parser position and queried a million times for one mask of an
// ambiguous grammar. This one keeps its memory when it is cleared, and follows no pointers.
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

  // The index for which `is_it(index)` holds. If there is no such index, stores `fresh` and returns it.
  // `hash_at(index)` is the hash of the element at an index.
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
