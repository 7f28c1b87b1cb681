#include "util/stack.h"

#include <pthread.h>

#include <cstdint>

namespace structgen {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr uintptr_t RESERVE = 512 << 10;
#else
constexpr uintptr_t RESERVE = 96 << 10;
#endif

struct Bounds {
  uintptr_t lowest = 0, highest = 0;  // equal: not known
};

Bounds bounds_of_thread() {
#if defined(__APPLE__)
  const auto highest = reinterpret_cast<uintptr_t>(pthread_get_stackaddr_np(pthread_self()));
  return {highest - pthread_get_stacksize_np(pthread_self()), highest};
#else
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {};
  void *lowest = nullptr;
  size_t size = 0;
  const bool known = pthread_attr_getstack(&attributes, &lowest, &size) == 0;
  pthread_attr_destroy(&attributes);
  if (!known) return {};
  return {reinterpret_cast<uintptr_t>(lowest), reinterpret_cast<uintptr_t>(lowest) + size};
#endif
}

}  // namespace

STRUCTGEN_TLS StackRoom stack_room{0, 0};

bool stack_is_short_at(uintptr_t here) {
  thread_local const Bounds bounds = bounds_of_thread();
  // An address outside of the bounds is that of a fiber, whose stack is unknown.
  if (here < bounds.lowest || here >= bounds.highest) return false;
  if (bounds.highest - bounds.lowest > RESERVE)
    stack_room = {bounds.lowest + RESERVE, bounds.highest - bounds.lowest - RESERVE};
  return here - bounds.lowest < RESERVE;
}

}  // namespace structgen
