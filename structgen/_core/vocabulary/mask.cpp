#include "vocabulary/mask.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "util/fork_safety.h"

namespace structgen {
namespace {

// Blocks that the pool touches when it is created, so that the first masks need not wait for memory.
constexpr size_t TOUCHED_BYTES = 1 << 20, TOUCHED_BLOCKS = 64;

}  // namespace

MaskPool::MaskPool(uint32_t words, size_t reserve_bytes)
    : words_(words), reserve_(reserve_bytes / (size_t{words} * 4 + 1)) {
  const size_t touched = std::min({reserve_, TOUCHED_BLOCKS, TOUCHED_BYTES / (size_t{words} * 4 + 1)});
  for (size_t i = 0; i < touched; ++i) {
    spare_.push_back(raw_array<uint32_t>(words));
    std::memset(spare_.back().get(), 0, size_t{words} * 4);
  }
}

MaskPool::Block MaskPool::take() {
  in_use_.fetch_add(1, std::memory_order_relaxed);
  {
    std::lock_guard lock(brief_lock());  // any thread may destroy masks
    if (!spare_.empty()) {
      Block block = std::move(spare_.back());
      spare_.pop_back();
      return block;
    }
  }
  return raw_array<uint32_t>(words_);
}

void MaskPool::give_back(Block block) {
  in_use_.fetch_sub(1, std::memory_order_relaxed);
  std::lock_guard lock(brief_lock());  // any thread may destroy masks
  if (spare_.size() < reserve_) spare_.push_back(std::move(block));
}

Mask::Mask(std::shared_ptr<MaskPool> pool) : pool_(std::move(pool)), block_(pool_->take()) {
  std::memset(block_.get(), 0, size_t{pool_->words()} * 4);
}

Mask::Mask(const Mask &other) : complete(other.complete), pool_(other.pool_), block_(pool_->take()) {
  std::memcpy(block_.get(), other.block_.get(), size_t{pool_->words()} * 4);
}

void Mask::add(const Mask &other) {
  for (uint32_t w = 0; w < pool_->words(); ++w) block_[w] |= other.block_[w];
  complete = complete || other.complete;
}

uint32_t Mask::count() const {
  uint32_t n = 0;
  for (uint32_t w : bits()) n += static_cast<uint32_t>(std::popcount(w));
  return n;
}

bool Mask::only(uint32_t *token) const {
  bool found = false;
  for (uint32_t w = 0; w < pool_->words(); ++w) {
    const uint32_t word = block_[w];
    if (word == 0) continue;
    if (found || (word & (word - 1)) != 0) return false;
    found = true;
    *token = w * 32 + static_cast<uint32_t>(std::countr_zero(word));
  }
  return found;
}

}  // namespace structgen
