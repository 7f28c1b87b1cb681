#include "work.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <limits>
#include <string>

#include "heap.h"

namespace structgen {
namespace {

constexpr int64_t SLICE = 20'000;  // units: well below a millisecond, so that clocks cost next to nothing
constexpr int64_t NEVER = std::numeric_limits<int64_t>::max();
constexpr int64_t INTERRUPT_CHECK_NS = 20'000'000;

int64_t wall_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// CPU time of this thread; elsewhere than on POSIX systems the wall clock.
int64_t cpu_ns() {
#ifdef CLOCK_THREAD_CPUTIME_ID
  timespec t;
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0) return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
#endif
  return wall_ns();
}

int64_t from_now(int64_t now, double seconds) {
  if (!(seconds < 1e9)) return NEVER;
  return now + static_cast<int64_t>(std::max(seconds, 0.0) * 1e9);
}

STRUCTGEN_TLS CallBounds *current_bounds = nullptr;
STRUCTGEN_TLS int64_t interrupts_checked = 0;
std::atomic<void (*)()> interrupt_hook{nullptr};

std::string seconds_text(double seconds) {
  std::string text = std::to_string(seconds);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

CallBounds::CallBounds(double cpu_seconds, double seconds, uint64_t steps, std::shared_ptr<const StopFlag> stop)
    : cpu_seconds_(cpu_seconds),
      seconds_(seconds),
      cpu_end_(from_now(cpu_ns(), cpu_seconds)),
      end_(from_now(wall_ns(), seconds)),
      steps_(current_bounds ? std::min(steps, current_bounds->steps_) : steps),
      stop_(std::move(stop)),
      outer_(current_bounds) {
  current_bounds = this;
}

// subtle: a generator that holds bounds may end after the bounds that were set inside it.
CallBounds::~CallBounds() {
  for (CallBounds **at = &current_bounds; *at; at = &(*at)->outer_)
    if (*at == this) {
      *at = outer_;
      return;
    }
}

const CallBounds *CallBounds::current() { return current_bounds; }

std::vector<std::unique_ptr<CallBounds>> CallBounds::again(const CallBounds *bounds) {
  std::vector<std::unique_ptr<CallBounds>> out;
  for (const CallBounds *b = bounds; b; b = b->outer_) {
    const double left = b->end_ == NEVER ? b->seconds_ : static_cast<double>(b->end_ - wall_ns()) / 1e9;
    out.push_back(std::make_unique<CallBounds>(b->cpu_seconds_, left, b->steps_, b->stop_));
  }
  return out;
}

void CallBounds::check() const {
  for (const CallBounds *b = this; b; b = b->outer_) {
    if (b->stop_ && b->stop_->is_set.load(std::memory_order_relaxed)) throw Stopped();
    if (b->cpu_end_ != NEVER && cpu_ns() > b->cpu_end_)
      throw CallLimit("calls of the core took more than " + seconds_text(b->cpu_seconds_) +
                      " s of CPU time (limit call_seconds)");
    if (b->end_ != NEVER && wall_ns() > b->end_)
      throw CallLimit("calls of the core took more than " + seconds_text(b->seconds_) + " s (limit call_seconds)");
  }
}

namespace work {

STRUCTGEN_TLS Meter meter;

void check() {
  Meter &m = meter;
  m.done += static_cast<uint64_t>(m.slice - m.left);
  // Where this throws, the next charge checks again.
  m.left = m.slice = 0;
  if (m.calls > 0 && m.done > m.most)
    throw CallLimit("one call of the core took more than " + std::to_string(m.limit) +
                    " steps of work (limit call_steps)");
  HeapCharge::check();
  if (current_bounds) current_bounds->check();
  if (auto hook = interrupt_hook.load(std::memory_order_acquire)) {
    if (const int64_t now = wall_ns(); now - interrupts_checked > INTERRUPT_CHECK_NS) {
      interrupts_checked = now;
      hook();
    }
  }
  const uint64_t rest = m.calls > 0 ? m.most - m.done : NEVER;
  m.left = m.slice = rest < SLICE ? static_cast<int64_t>(rest) : SLICE;
}

uint64_t done() { return meter.done + static_cast<uint64_t>(meter.slice - meter.left); }

void on_interrupt_check(void (*hook)()) { interrupt_hook.store(hook, std::memory_order_release); }

}  // namespace work

Call::Call(uint64_t units) {
  work::Meter &m = work::meter;
  if (m.calls++ > 0) return;
  if (current_bounds) units = std::min(units, current_bounds->steps());
  m.limit = units;
  m.done = work::done();
  m.most = units < UINT64_MAX - m.done ? m.done + units : UINT64_MAX;
  m.left = m.slice = std::min<int64_t>(SLICE, static_cast<int64_t>(std::min<uint64_t>(units, SLICE)));
}

Call::~Call() {
  work::Meter &m = work::meter;
  if (--m.calls > 0) return;
  m.done = work::done();
  m.left = m.slice = 0;
}

}  // namespace structgen
