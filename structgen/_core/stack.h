// How much of the running thread's stack is left.
//
// Recursive functions over what strangers write have limits of their own, which are chosen for the stack of a main
// thread. Threads may have far smaller stacks (512 KB is usual outside Linux), and frames are larger under a sanitizer.
// So those functions also ask here, and stop with their own answer or with a `LimitError`.
#pragma once

#include <string>

#include "regex.h"

namespace structgen {

// Fewer bytes than any function without recursion needs, with all that it calls.
bool stack_is_short();

// Throws `LimitError` where the stack is short. `what` says what is too deep or too long for it.
inline void check_stack(const char *what) {
  if (stack_is_short())
    throw LimitError(std::string(what) +
                     " for the stack of this thread (limit thread_stack); nest less, or use a thread with a larger stack");
}

}  // namespace structgen
