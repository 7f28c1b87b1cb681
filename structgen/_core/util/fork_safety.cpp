#include "util/fork_safety.h"

#include <algorithm>
#include <vector>

#if __has_include(<pthread.h>)
#include <pthread.h>
#endif

namespace structgen {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds LONGEST_WAIT{5'000};  // of a fork, for all locks
constexpr milliseconds BETWEEN_CHECKS{10};
constexpr int MOST_UNKNOWN = 100;

std::atomic<uint64_t> process{1};                     // one more in each child
std::mutex forking;                                   // one fork at a time
std::vector<std::shared_ptr<ForkMutex::State>> held;  // by the running fork
std::vector<std::weak_ptr<ForkMutex::State>> known;   // under the brief lock

// subtle: fork() itself takes the brief lock, not `before_fork`. Between that and fork() Python may run another thread,
// which may wait for the lock while it holds the GIL.
void watch_forks() {
#if __has_include(<pthread.h>)
  static const int once = pthread_atfork([] { brief_lock().lock(); }, [] { brief_lock().unlock(); },
                                         [] {
                                           ++process;
                                           brief_lock().unlock();
                                         });
  static_cast<void>(once);
#endif
}

}  // namespace

namespace {

// Its address identifies a thread.
thread_local char this_thread;

}  // namespace

bool ForkMutex::State::is_own() const { return owner.load(std::memory_order_relaxed) == &this_thread; }

std::mutex &brief_lock() {
  static std::mutex lock;
  return lock;
}

bool ForkMutex::State::take(milliseconds most) {
  if (!mutex.try_lock_for(most)) return false;
  taken();
  return true;
}

void ForkMutex::State::taken() {
  owner.store(&this_thread, std::memory_order_relaxed);
  holder.store(process.load(std::memory_order_relaxed), std::memory_order_release);
  if (unknown.load(std::memory_order_relaxed) != 0) unknown = 0;
}

void ForkMutex::State::give() {
  owner.store(nullptr, std::memory_order_relaxed);
  holder.store(0, std::memory_order_release);
  mutex.unlock();
}

ForkMutex::ForkMutex(Rank rank) : state_(std::make_shared<State>(rank)) {
  watch_forks();
  const std::lock_guard lock(brief_lock());
  std::erase_if(known, [](const std::weak_ptr<State> &state) { return state.expired(); });
  known.push_back(state_);
}

void ForkMutex::lock() {
  while (!try_lock_for(BETWEEN_CHECKS)) continue;
}

bool ForkMutex::try_lock_for(milliseconds most) {
  if (state_->is_own())
    throw InUseError(
        "a signal handler used a vocabulary while a call on it runs in the same thread. Set a flag in the handler, and "
        "act "
        "on it later");
  if (state_->take(most)) return true;
  const uint64_t holder = state_->holder;
  if (holder == 0 ? ++state_->unknown > MOST_UNKNOWN : holder != process)
    throw InUseError(
        "this process was forked while another thread worked on this vocabulary, whose caches are lost to it. Make the "
        "vocabulary again (vocabulary.with_limits() gives an equal one), or fork before threads use it");
  if (holder != 0) state_->unknown = 0;
  return false;
}

void ForkMutex::unlock() { state_->give(); }

void before_fork() {
  forking.lock();
  std::vector<std::shared_ptr<ForkMutex::State>> all;
  {
    const std::lock_guard lock(brief_lock());
    for (const auto &state : known)
      if (auto alive = state.lock()) all.push_back(std::move(alive));
  }
  std::stable_sort(all.begin(), all.end(), [](const auto &a, const auto &b) { return a->rank < b->rank; });
  const auto end = Clock::now() + LONGEST_WAIT;
  for (auto &state : all) {
    if (state->is_own()) continue;  // a signal handler forks in the middle of a call, which continues in the child
    const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    if (state->take(std::max(left, milliseconds(0)))) held.push_back(std::move(state));
  }
}

void after_fork() {
  for (const auto &state : held) state->give();
  held.clear();
  forking.unlock();
}

}  // namespace structgen
