// Rows of bits by symbol and node. Most rows are empty and take no memory. Rows that are equal and final share memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "regex/regex.h"
#include "util/hashing.h"
#include "util/work.h"

namespace structgen {

class SpanRows {
 public:
  // `budget`: bytes that are left for rows. All `SpanRows` that share it count it down.
  SpanRows(size_t words, size_t *budget) : words_(words), budget_(budget), empty_(words) {}

  void reset(size_t count) {
    charge(count * sizeof(uint64_t *));
    rows_.assign(count, empty_.data());
    blocks_.clear();
    free_.clear();
    final_.clear();
    used_ = BLOCK;
  }
  const uint64_t *at(size_t i) const { return rows_[i]; }
  // A row to write to; valid until `reset`.
  uint64_t *make(size_t i) {
    if (rows_[i] != empty_.data()) return rows_[i];
    if (!free_.empty()) {
      uint64_t *row = free_.back();
      free_.pop_back();
      std::fill(row, row + words_, 0);
      return rows_[i] = row;
    }
    if (used_ == BLOCK) {
      charge(BLOCK * words_ * sizeof(uint64_t));
      blocks_.push_back(std::make_unique<uint64_t[]>(BLOCK * words_));
      used_ = 0;
    }
    return rows_[i] = blocks_.back().get() + used_++ * words_;
  }
  // Marks a row as final: it is not written to again.
  void finish(size_t i) {
    uint64_t *row = rows_[i];
    if (row == empty_.data()) return;
    const auto [known, is_new] = final_.try_emplace(hash_row(row), row);
    if (is_new || known->second == row) return;
    rows_[i] = known->second;
    free_.push_back(row);
  }

 private:
  static constexpr size_t BLOCK = 256;  // rows
  Hash128 hash_row(const uint64_t *row) const {
    Hash128 name = hash_words(words_);
    for (size_t w = 0; w < words_; ++w) name = extend(name, row[w]);
    return name;
  }
  void charge(size_t bytes) {
    if (bytes > *budget_) throw LimitError("the chart of a canvas takes more memory than it may (limit canvas_bytes)");
    *budget_ -= bytes;
  }

  size_t words_;
  size_t *budget_;
  std::vector<uint64_t> empty_;
  std::vector<uint64_t *> rows_;
  std::vector<std::unique_ptr<uint64_t[]>> blocks_;
  size_t used_ = BLOCK;
  std::vector<uint64_t *> free_;
  std::unordered_map<Hash128, uint64_t *, HashOf128> final_;
};

}  // namespace structgen
