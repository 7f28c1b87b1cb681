// Limits on the cost of a call of the core, and requests to stop it.
//
// Every loop and recursion of the core charges its work: `charge(n)`, one unit for about 20 ns. A charge subtracts from
// a thread-local counter. At the end of each slice the call checks its limits: units of work, memory, CPU time, the
// wall clock, stop flags, and the signals of the process. Reaching a limit throws `CallLimit`, a stop throws `Stopped`.
// Neither is a `LimitError`: code that continues without a result after a limit of its own must not continue after
// these.
//
// Invariant: units are deterministic. Two threads that make the same call from the same state charge the same.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#if defined(__GNUC__) && defined(__linux__)
#define STRUCTGEN_TLS __attribute__((tls_model("initial-exec"))) constinit thread_local
#else
#define STRUCTGEN_TLS constinit thread_local
#endif

namespace structgen {

// A limit on the running call as a whole was reached; the message names it.
struct CallLimit : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The caller no longer wants the result.
struct Stopped : std::runtime_error {
  Stopped() : std::runtime_error("the call was stopped") {}
};

struct StopFlag {
  std::atomic<bool> is_set{false};
};

// Limits that a caller sets for all calls of its thread. They hold until they are destroyed, by any thread.
class CallBounds {
 public:
  // Seconds from now on, of this thread's CPU time and of the wall clock; infinite: no limit. Each call may charge at
  // most `steps` units.
  CallBounds(double cpu_seconds, double seconds, uint64_t steps, std::shared_ptr<const StopFlag> stop);
  ~CallBounds();
  CallBounds(const CallBounds &) = delete;
  CallBounds &operator=(const CallBounds &) = delete;

  // The bounds of a thread, innermost first. Those that have ended are skipped.
  struct Node {
    double cpu_seconds, seconds;
    int64_t cpu_end, end;  // nanoseconds
    uint64_t steps;
    std::shared_ptr<const StopFlag> stop;
    std::shared_ptr<Node> outer;
    std::atomic<bool> ended{false};
  };
  // Of this thread; null: no bounds.
  static std::shared_ptr<Node> current();
  // Sets the same bounds for another thread that works on behalf of the one that set them.
  static std::vector<std::unique_ptr<CallBounds>> again(const std::shared_ptr<Node> &bounds);

 private:
  std::shared_ptr<Node> node_;
};

namespace work {

struct Meter {
  int64_t left = 0;      // units until limits are checked next
  int64_t slice = 0;     // units at the beginning of the slice
  int64_t quota = 0;     // units until clocks, memory and signals are checked, when the slice began
  uint64_t done = 0;     // units of finished slices, of this thread
  uint64_t most = 0;     // the value of `done` at which the running call reaches its limit
  uint64_t limit = 0;    // that limit, in units
  int calls = 0;         // calls of the core that are nested in each other
  bool bounded = false;  // the thread has bounds
};
extern STRUCTGEN_TLS Meter meter;

// Checks limits and starts a slice. Throws.
void check();
// Units charged by this thread so far.
uint64_t done();
// Sets a hook that is called regularly while a call runs or waits, in any thread. It may throw.
void on_interrupt_check(void (*hook)());

}  // namespace work

// Work of about `n` times 20 ns has been done, or is about to be.
inline void charge(uint64_t n = 1) {
  if ((work::meter.left -= static_cast<int64_t>(n)) < 0) [[unlikely]]
    work::check();
}

// A call of the core that may charge `units`. A call inside another one shares the budget of the outer one.
class Call {
 public:
  explicit Call(uint64_t units);
  ~Call();
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;
};

}  // namespace structgen
