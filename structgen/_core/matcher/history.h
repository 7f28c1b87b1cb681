// The tokens that a matcher has read, each with the state after it.
//
// A fork freezes the entries so far, and both sides share them; each side adds entries of its own. Frozen entries form
// a list of parts. Each part has more than twice as many entries as the part that was frozen after it. To keep this, a
// freeze copies the newest parts into the new one while they have at most twice its size. So n entries have at most
// about log2(n) parts. Along one line of forks each entry is copied O(log n) times, but a single fork may copy all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "util/arena.h"

namespace structgen {

struct Frame;

class History {
 public:
  struct Entry {
    uint32_t token;
    uint8_t missing_bytes;  // of the last character of the text
    const Frame *state;
    Arena::Mark mark;
  };

  size_t size() const { return shared_count_ + own_.size(); }
  const Entry &back() const {
    return own_.empty() ? shared_->entries[shared_count_ - 1 - shared_->first] : own_.back();
  }
  const Entry &at(size_t i) const {
    if (i >= shared_count_) return own_[i - shared_count_];
    const Part *p = shared_.get();
    while (i < p->first) p = p->before.get();
    return p->entries[i - p->first];
  }
  void push_back(const Entry &entry) { own_.push_back(entry); }
  // Removes the last `n` entries.
  void drop(size_t n) {
    const size_t own = std::min(n, own_.size());
    own_.resize(own_.size() - own);
    shared_count_ -= n - own;
    while (shared_ && shared_count_ <= shared_->first) shared_ = shared_->before;
  }
  History fork() {
    freeze();
    return *this;
  }
  // The tokens of all entries but the first, oldest first.
  std::vector<uint32_t> tokens() const {
    std::vector<uint32_t> out(size() - 1);
    auto put = [&](const std::vector<Entry> &entries, size_t first, size_t end) {
      for (size_t i = first == 0 ? 1 : first; i < end; ++i) out[i - 1] = entries[i - first].token;
    };
    put(own_, shared_count_, size());
    size_t end = shared_count_;
    for (const Part *p = shared_.get(); p; p = p->before.get()) {
      put(p->entries, p->first, end);
      end = p->first;
    }
    return out;
  }
  // In bytes, without what a fork shares.
  size_t memory() const {
    size_t total = own_.capacity() * sizeof(Entry);
    for (const std::shared_ptr<const Part> *p = &shared_; *p && p->use_count() == 1; p = &(*p)->before)
      total += (*p)->entries.capacity() * sizeof(Entry);
    return total;
  }

 private:
  struct Part {
    std::shared_ptr<const Part> before;
    size_t first;  // the index of the first entry; only the entries of `before` up to it count
    std::vector<Entry> entries;
  };

  void freeze() {
    if (own_.empty()) return;
    while (shared_ && shared_count_ - shared_->first <= 2 * own_.size()) {
      const auto begin = shared_->entries.begin();
      own_.insert(own_.begin(), begin, begin + static_cast<std::ptrdiff_t>(shared_count_ - shared_->first));
      shared_count_ = shared_->first;
      shared_ = shared_->before;
    }
    own_.shrink_to_fit();
    const size_t first = std::exchange(shared_count_, size());
    shared_ = std::make_shared<const Part>(Part{std::move(shared_), first, std::move(own_)});
    own_.clear();
  }

  std::shared_ptr<const Part> shared_;
  size_t shared_count_ = 0;  // entries of `shared_` and of the parts before it that belong to this history
  std::vector<Entry> own_;
};

}  // namespace structgen
