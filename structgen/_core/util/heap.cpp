#include "util/heap.h"

#if defined(__APPLE__)
#include <malloc/malloc.h>
#else
#include <malloc.h>
#endif

#include <algorithm>
#include <string>

#include "util/work.h"

namespace structgen {
namespace {

STRUCTGEN_TLS int64_t net = 0;  // bytes that this thread has allocated and not freed
STRUCTGEN_TLS HeapCharge *current_charge = nullptr;

constexpr size_t BYTES_PER_UNIT = 64;  // of work: fresh memory costs about this much to touch

size_t usable(void *p) {
#if defined(__APPLE__)
  return malloc_size(p);
#elif defined(_WIN32)
  return _msize(p);
#else
  return malloc_usable_size(p);
#endif
}

// `taken`: bytes of a block that was requested with size `n`. With glibc they follow from `n`, up to 16 bytes (a page
// for large blocks), which saves a call of the allocator. `held`: bytes of a block whose requested size is unknown, as
// in the rare deletes without a size.
#if defined(__GLIBC__) && defined(__cpp_sized_deallocation)
int64_t taken(size_t n, void *) { return static_cast<int64_t>(std::max<size_t>(n + 23, 32) & ~size_t{15}) - 8; }
#else
int64_t taken(size_t, void *p) { return static_cast<int64_t>(usable(p)); }
#endif
int64_t held(void *p) { return static_cast<int64_t>(usable(p)); }

}  // namespace

void HeapCharge::begin() {
  outer_ = current_charge;
  start_ = net;
  current_charge = this;
}

HeapCharge::~HeapCharge() {
  current_charge = outer_;
  const int64_t added = net - start_;
  if (added == 0) return;
  add(added);
  if (outer_) outer_->start_ += added;  // charged once
}

void HeapCharge::add(int64_t bytes) const {
  if (program_) program_->bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (space_) space_->bytes.fetch_add(bytes, std::memory_order_relaxed);
}

int64_t HeapCharge::bytes() const { return net - start_; }

void HeapCharge::check() {
  for (const HeapCharge *c = current_charge; c; c = c->outer_) {
    const int64_t held = c->bytes() + (c->program_ ? c->program_->bytes.load(std::memory_order_relaxed) : 0);
    if (held > 0 && static_cast<size_t>(held) > c->most_)
      throw CallLimit("this constraint holds " + std::to_string(held >> 10) + " KiB, more than " +
                      std::to_string(c->most_ >> 10) + " (limit program_bytes)");
  }
}

Uncounted::Uncounted() : before_(net) {}
Uncounted::~Uncounted() { net = before_; }

}  // namespace structgen

// The module's own allocation functions. They charge work, too, without a check: no container is interrupted in the
// middle of a change.
void *operator new(size_t n) {
  structgen::work::meter.left -= static_cast<int64_t>(1 + n / structgen::BYTES_PER_UNIT);
  void *p = std::malloc(n ? n : 1);
  if (!p) throw std::bad_alloc();
  structgen::net += structgen::taken(n, p);
  return p;
}
void *operator new[](size_t n) { return operator new(n); }
void *operator new(size_t n, const std::nothrow_t &) noexcept {
  void *p = std::malloc(n ? n : 1);
  if (p) structgen::net += structgen::taken(n, p);
  return p;
}
void *operator new[](size_t n, const std::nothrow_t &tag) noexcept { return operator new(n, tag); }
void operator delete(void *p) noexcept {
  if (!p) return;
  structgen::net -= structgen::held(p);
  std::free(p);
}
void operator delete[](void *p) noexcept { operator delete(p); }
void operator delete(void *p, size_t n) noexcept {
  if (!p) return;
  structgen::net -= structgen::taken(n, p);
  std::free(p);
}
void operator delete[](void *p, size_t n) noexcept { operator delete(p, n); }
void operator delete(void *p, const std::nothrow_t &) noexcept { operator delete(p); }
void operator delete[](void *p, const std::nothrow_t &) noexcept { operator delete(p); }
