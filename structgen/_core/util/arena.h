// Memory of automaton states: a bump allocator in segments that forks share.
//
// A state only points at objects allocated before it, so undoing the latest states is
// dropping the latest memory: rollback and the end of a mask walk cost a pointer move.
// A fork freezes the segments both sides now share; each goes on in segments of its own.
// Frozen memory is never written again, so forks may run on different threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "util/heap.h"
#include "util/work.h"

namespace structgen {

class Arena {
 public:
  struct Mark {
    uint32_t segments = 0;
    uint32_t used = 0;
  };

  Arena() = default;
  Arena(Arena &&) = default;
  Arena &operator=(Arena &&other) {
    const Uncounted own;
    segments_ = std::move(other.segments_);
    spare_ = std::move(other.spare_);
    frozen_ = other.frozen_;
    used_ = other.used_;
    return *this;
  }
  ~Arena() {
    const Uncounted own;  // as it was allocated
    std::vector<std::shared_ptr<Segment>>().swap(segments_);
    spare_.reset();
  }

  void *allocate(size_t bytes) {
    bytes = (bytes + 7) & ~size_t{7};
    charge(1 + bytes / 64);
    if (segments_.empty() || frozen_ == segments_.size() || used_ + bytes > segments_.back()->size) open(bytes);
    void *p = segments_.back()->data.get() + used_;
    used_ += static_cast<uint32_t>(bytes);
    return p;
  }
  template <class T, class... Args>
  T *make(Args &&...args) {
    static_assert(std::is_trivially_destructible_v<T>);
    return new (allocate(sizeof(T))) T{std::forward<Args>(args)...};
  }

  // Opens a segment that is not shared, so that a walk which undoes each step does not open one for each step.
  void prepare() {
    if (segments_.empty() || frozen_ == segments_.size() || used_ + ROOM_BYTES > segments_.back()->size)
      open(ROOM_BYTES);
  }

  Mark mark() const { return {static_cast<uint32_t>(segments_.size()), used_}; }
  void release(Mark m) {
    if (m.segments == segments_.size()) {
      if (frozen_ < segments_.size()) used_ = m.used;
    } else {
      drop_segments(m);
    }
  }

  // A second arena over the same memory; both continue in fresh segments.
  Arena fork() {
    const Uncounted own;
    Arena other;
    other.segments_ = segments_;
    other.frozen_ = frozen_ = segments_.size();
    other.used_ = used_;
    return other;
  }

  bool contains(const void *p) const {
    for (auto &s : segments_)
      if (p >= s->data.get() && p < s->data.get() + s->size) return true;
    return false;
  }

  // Bytes of segments that no fork shares.
  size_t own_memory() const {
    size_t total = segments_.capacity() * sizeof(segments_[0]);
    for (auto &s : segments_)
      if (s.use_count() == 1) total += s->size;
    return total;
  }

 private:
  struct Segment {
    explicit Segment(size_t n) : data(raw_array<std::byte>(n)), size(n) {}
    RawArray<std::byte> data;
    size_t size;
  };

  static constexpr size_t ROOM_BYTES = 512, SPARE_BYTES = size_t{64} << 10;

  [[gnu::noinline]] void drop_segments(Mark m) {
    const Uncounted own;
    // The last segment becomes the spare one, so that a walk at a segment's edge does not allocate each time. Segments
    // that forks share, and large ones, are released.
    const bool is_own = frozen_ < segments_.size(), is_one = segments_.size() == m.segments + 1;
    if (is_own && (is_one || segments_.back()->size <= SPARE_BYTES)) spare_ = std::move(segments_.back());
    else spare_.reset();
    segments_.resize(m.segments);
    if (frozen_ > segments_.size()) frozen_ = segments_.size();
    used_ = m.used;
  }

  [[gnu::noinline]] void open(size_t at_least) {
    const Uncounted own;
    if (spare_ && spare_->size >= at_least) {
      segments_.push_back(std::move(spare_));
    } else {
      // A fork begins small again: it may read a few tokens only.
      size_t n = segments_.empty() || frozen_ == segments_.size()
                     ? 1024
                     : std::min<size_t>(segments_.back()->size * 2, size_t{1} << 20);
      segments_.push_back(std::make_shared<Segment>(std::max(n, at_least)));
    }
    used_ = 0;
  }

  std::vector<std::shared_ptr<Segment>> segments_;
  std::shared_ptr<Segment> spare_;
  size_t frozen_ = 0;
  uint32_t used_ = 0;
};

// Releases what the arena has allocated in the meantime when the scope ends.
class ArenaScope {
 public:
  explicit ArenaScope(Arena &arena) : arena_(arena), mark_(arena.mark()) {}
  ~ArenaScope() { arena_.release(mark_); }
  ArenaScope(const ArenaScope &) = delete;
  ArenaScope &operator=(const ArenaScope &) = delete;

 private:
  Arena &arena_;
  const Arena::Mark mark_;
};

}  // namespace structgen
