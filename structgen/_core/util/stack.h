// How much of the running thread's stack is left.
//
// Recursive functions over untrusted input have limits of their own, which are chosen for the stack of a main thread.
// Threads may have far smaller stacks (512 KB is usual outside Linux), and frames are larger under a sanitizer. So
// these functions also check the stack here. At its end they return a result of their own or throw a `LimitError`.
#pragma once

#include <cstdint>
#include <string>

#include "util/limit_error.h"
#include "util/work.h"

namespace structgen {

// The part of the running thread's stack that may be used; empty until its bounds are known.
struct StackRoom {
  uintptr_t lowest, bytes;
};
extern STRUCTGEN_TLS StackRoom stack_room;

// The slow path, for an address outside of `stack_room`: looks up the bounds of the thread's stack.
bool stack_is_short_at(uintptr_t here);

// Fewer bytes than any function without recursion needs, with all that it calls.
inline bool stack_is_short() {
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return here - stack_room.lowest >= stack_room.bytes && stack_is_short_at(here);
}

// Throws `LimitError` if the stack is nearly used up. `what` says what is too deep or too long for it.
inline void check_stack(const char *what) {
  if (stack_is_short())
    throw LimitError(
        std::string(what) +
        " for the stack of this thread (limit thread_stack); nest less, or use a thread with a larger stack");
}

}  // namespace structgen
