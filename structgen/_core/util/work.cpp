#include "util/work.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <limits>
#include <string>

#include "util/heap.h"

namespace structgen {
namespace {

constexpr int64_t SLICE = 20'000;  // units: well below a millisecond, so that clocks cost next to nothing
constexpr int64_t NEVER = std::numeric_limits<int64_t>::max();
constexpr int64_t INTERRUPT_CHECK_NS = 20'000'000;

int64_t wall_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// CPU time of this thread; on systems without POSIX, the wall clock.
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

thread_local std::shared_ptr<CallBounds::Node> current_bounds;
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
    : node_(std::make_shared<Node>()) {
  node_->cpu_seconds = cpu_seconds;
  node_->seconds = seconds;
  node_->cpu_end = from_now(cpu_ns(), cpu_seconds);
  node_->end = from_now(wall_ns(), seconds);
  node_->steps = steps;
  node_->stop = std::move(stop);
  node_->outer = current();
  current_bounds = node_;
  work::meter.bounded = true;
}

// subtle: a generator that holds bounds may be closed by another thread, or after bounds that were set inside it.
CallBounds::~CallBounds() {
  node_->ended = true;
  current();
}

std::shared_ptr<CallBounds::Node> CallBounds::current() {
  while (current_bounds && current_bounds->ended) current_bounds = std::shared_ptr<Node>(current_bounds->outer);
  work::meter.bounded = current_bounds != nullptr;
  return current_bounds;
}

std::vector<std::unique_ptr<CallBounds>> CallBounds::again(const std::shared_ptr<Node> &bounds) {
  std::vector<std::unique_ptr<CallBounds>> out;
  for (const Node *b = bounds.get(); b; b = b->outer.get()) {
    if (b->ended) continue;
    const double left = b->end == NEVER ? b->seconds : static_cast<double>(b->end - wall_ns()) / 1e9;
    out.push_back(std::make_unique<CallBounds>(b->cpu_seconds, left, b->steps, b->stop));
  }
  return out;
}

namespace {

void check_flags(const CallBounds::Node *bounds) {
  for (; bounds; bounds = bounds->outer.get())
    if (!bounds->ended && bounds->stop && bounds->stop->is_set.load(std::memory_order_relaxed)) throw Stopped();
}

void check_clocks(const CallBounds::Node *bounds) {
  for (; bounds; bounds = bounds->outer.get()) {
    if (bounds->ended) continue;
    if (bounds->cpu_end != NEVER && cpu_ns() > bounds->cpu_end)
      throw CallLimit("calls of the core took more than " + seconds_text(bounds->cpu_seconds) +
                      " s of CPU time (limit call_seconds)");
    if (bounds->end != NEVER && wall_ns() > bounds->end)
      throw CallLimit("calls of the core took more than " + seconds_text(bounds->seconds) + " s (limit call_seconds)");
  }
}

}  // namespace

namespace work {

STRUCTGEN_TLS Meter meter;

void check() {
  Meter &m = meter;
  m.done += static_cast<uint64_t>(m.slice - m.left);
  // Where this throws, the next charge checks again.
  m.left = m.slice = m.quota = 0;
  if (m.calls > 0 && m.done > m.most)
    throw CallLimit("one call of the core took more than " + std::to_string(m.limit) +
                    " steps of work (limit call_steps)");
  HeapCharge::check();
  if (m.bounded)
    if (const auto bounds = CallBounds::current()) {
      check_flags(bounds.get());
      check_clocks(bounds.get());
    }
  if (auto hook = interrupt_hook.load(std::memory_order_acquire)) {
    if (const int64_t now = wall_ns(); now - interrupts_checked > INTERRUPT_CHECK_NS) {
      interrupts_checked = now;
      hook();
    }
  }
  m.quota = SLICE;
  const uint64_t rest = m.calls > 0 ? m.most - m.done : NEVER;
  m.left = m.slice = rest < SLICE ? static_cast<int64_t>(rest) : SLICE;
}

uint64_t done() { return meter.done + static_cast<uint64_t>(meter.slice - meter.left); }

void on_interrupt_check(void (*hook)()) { interrupt_hook.store(hook, std::memory_order_release); }

}  // namespace work

Call::Call(uint64_t units) {
  work::Meter &m = work::meter;
  if (m.calls > 0) {
    ++m.calls;
    return;
  }
  if (m.bounded)
    if (const auto bounds = CallBounds::current()) {
      check_flags(bounds.get());
      for (const CallBounds::Node *b = bounds.get(); b; b = b->outer.get())
        if (!b->ended) units = std::min(units, b->steps);
    }
  // subtle: the rest of the quota passes to the next call, so that a thread with many small calls checks its clocks as
  // often as one with a large call.
  m.quota = std::max<int64_t>(m.quota - (m.slice - m.left), 0);
  m.done = work::done();
  m.limit = units;
  m.most = units < UINT64_MAX - m.done ? m.done + units : UINT64_MAX;
  m.left = m.slice = static_cast<int64_t>(std::min<uint64_t>(units, static_cast<uint64_t>(m.quota)));
  m.calls = 1;
}

Call::~Call() {
  work::Meter &m = work::meter;
  if (--m.calls > 0) return;
  m.quota = std::max<int64_t>(m.quota - (m.slice - m.left), 0);
  m.done = work::done();
  m.left = m.slice = 0;
}

}  // namespace structgen
