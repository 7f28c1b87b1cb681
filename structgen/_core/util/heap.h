// Memory of the core, counted where it is allocated.
//
// The module replaces the global `operator new` and `delete` of its own code, so that containers, nodes and caches
// are counted without a list of them that might be incomplete. Each thread keeps a net sum. A call of the core adds the
// change of its thread's sum to an account of its program and of the space. Memory that belongs to a matcher
// and dies with it (arenas, masks) is allocated by `std::malloc` and is not part of these accounts.
//
// On Linux all of it is counted, since the standard library is linked into the module; the size of a block is known up
// to 16 bytes, and a large one's up to a page. Elsewhere memory that the standard library allocates inside itself (long
// strings) is not counted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

namespace structgen {

// Bytes that calls on behalf of one owner have allocated and not freed.
struct HeapAccount {
  std::atomic<int64_t> bytes{0};
  size_t memory() const {
    const int64_t n = bytes.load(std::memory_order_relaxed);
    return n > 0 ? static_cast<size_t>(n) : 0;
  }
};

// While it lives, what this thread allocates is charged to the account of a program, and to that of its space.
class HeapCharge {
 public:
  // Beyond `most` bytes on the program's account the call ends with `CallLimit` (util/work.h). Both accounts outlive
  // it; the program's may be null.
  HeapCharge(const std::shared_ptr<HeapAccount> &program, const std::shared_ptr<HeapAccount> &space, size_t most)
      : program_(program), space_(space), most_(most) {
    begin();
  }
  ~HeapCharge();
  HeapCharge(const HeapCharge &) = delete;
  HeapCharge &operator=(const HeapCharge &) = delete;

  inline static const std::shared_ptr<HeapAccount> NO_PROGRAM{};

  // Throws `CallLimit` if an account of this thread is past its limit.
  static void check();
  int64_t bytes() const;  // net, since it was constructed

 private:
  void begin();
  void add(int64_t bytes) const;

  const std::shared_ptr<HeapAccount> &program_, &space_;
  size_t most_;
  int64_t start_;
  HeapCharge *outer_;
};

// While it lives, what this thread allocates and frees is not counted: memory that outlives the call and belongs
// to no program. What a call returns is freed after it, so it is a copy that was made so (`for_caller`).
class Uncounted {
 public:
  Uncounted();
  ~Uncounted();
  Uncounted(const Uncounted &) = delete;
  Uncounted &operator=(const Uncounted &) = delete;

 private:
  int64_t before_;
};

template <class T>
T for_caller(const T &result) {
  const Uncounted own;
  return T(result);
}

// The same for a result that the caller has given; the memory that it had is freed here.
template <class T>
void hand_over(T &result) {
  T copy = for_caller(result);
  std::swap(result, copy);
}

// Memory of single objects that is never counted, for std::allocate_shared.
template <class T>
struct RawAllocator {
  using value_type = T;
  RawAllocator() = default;
  template <class U>
  RawAllocator(const RawAllocator<U> &) {}
  T *allocate(size_t n) {
    if (void *p = std::malloc(n * sizeof(T))) return static_cast<T *>(p);
    throw std::bad_alloc();
  }
  void deallocate(T *p, size_t) noexcept { std::free(p); }
  template <class U>
  bool operator==(const RawAllocator<U> &) const {
    return true;
  }
};

// Uncounted memory for arrays of trivial types.
struct FreeMemory {
  void operator()(void *p) const noexcept { std::free(p); }
};
template <class T>
using RawArray = std::unique_ptr<T[], FreeMemory>;
template <class T>
RawArray<T> raw_array(size_t n) {
  auto *p = static_cast<T *>(std::malloc(n * sizeof(T) + (n == 0)));
  if (!p) throw std::bad_alloc();
  return RawArray<T>(p);
}

}  // namespace structgen
