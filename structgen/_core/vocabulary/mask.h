// Token masks, and the pool of their memory.
//
// A mask is one bit per token id. Thousands are built and destroyed for each schema, all of one size. So their memory
// comes from a pool per vocabulary, which reuses the block that was released last: fresh memory costs more to touch
// than a mask costs to build. The pool keeps free blocks up to a reserve.
// Invariant: a mask is immutable once it is built, and may outlive the program that built it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "util/heap.h"

namespace structgen {

class MaskPool {
 public:
  using Block = RawArray<uint32_t>;
  MaskPool(uint32_t words, size_t reserve_bytes);

  uint32_t words() const { return words_; }
  Block take();  // not cleared
  size_t bytes_in_use() const { return in_use_.load(std::memory_order_relaxed) * size_t{words_} * 4; }
  void give_back(Block block);

 private:
  const uint32_t words_;
  const size_t reserve_;
  std::atomic<size_t> in_use_{0};
  std::vector<Block> spare_;
};

class Mask {
 public:
  explicit Mask(std::shared_ptr<MaskPool> pool);  // no token is allowed
  Mask(const Mask &other);
  ~Mask() { pool_->give_back(std::move(block_)); }
  Mask &operator=(const Mask &) = delete;

  std::span<const uint32_t> bits() const { return {block_.get(), pool_->words()}; }
  uint32_t *data() { return block_.get(); }
  void add(const Mask &other);  // allows what `other` allows
  bool test(uint32_t id) const { return block_[id >> 5] >> (id & 31) & 1; }
  void clear(uint32_t id) { block_[id >> 5] &= ~(1u << (id & 31)); }
  uint32_t count() const;            // tokens allowed
  bool only(uint32_t *token) const;  // is exactly one allowed, and which?

  bool complete = false;  // the end of the output is allowed

 private:
  std::shared_ptr<MaskPool> pool_;
  MaskPool::Block block_;
};

// Callers hold masks, too, so their memory is charged to no constraint. Caches bound it (`mask_cache_bytes`).
template <class... Args>
std::shared_ptr<Mask> new_mask(Args &&...args) {
  return std::allocate_shared<Mask>(RawAllocator<Mask>(), std::forward<Args>(args)...);
}

}  // namespace structgen
