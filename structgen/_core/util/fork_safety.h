// Locks that survive fork().
//
// A child of fork() has one thread. A lock that another thread held stays locked in the child for ever, around data
// that was being changed. So a fork waits, up to a bound, until it holds every lock itself. If it does not get a lock
// in time, the lock is lost to the child: locking it there raises an error instead of hanging.
// Source: POSIX, pthread_atfork (rationale).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>

namespace structgen {

// Another thread uses the object, or did when the process was forked.
struct InUseError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class ForkMutex {
 public:
  // A thread takes locks in this order, and so does a fork.
  enum Rank : uint8_t { ShortestTexts, Space };

  explicit ForkMutex(Rank rank);
  ForkMutex(const ForkMutex &) = delete;
  ForkMutex &operator=(const ForkMutex &) = delete;

  // If the lock is lost, these throw `InUseError`.
  void lock();
  bool try_lock() { return state_->try_take() || try_lock_for(std::chrono::milliseconds(0)); }
  bool try_lock_for(std::chrono::milliseconds most);
  void unlock();

  struct State {
    explicit State(Rank r) : rank(r) {}
    bool try_take() {
      if (!mutex.try_lock()) return false;
      taken();
      return true;
    }
    bool take(std::chrono::milliseconds most);
    void taken();
    void give();

    const Rank rank;
    std::timed_mutex mutex;
    bool is_own() const;

    std::atomic<const void *> owner{nullptr};  // the thread that has it
    std::atomic<uint64_t> holder{0};           // the process that has it, by number; 0: none, or it is being taken
    std::atomic<int> unknown{0};               // how often in a row it was locked without a holder
  };

 private:
  std::shared_ptr<State> state_;
};

// A lock for a few instructions, during which a thread waits for nothing else. A fork waits for it.
std::mutex &brief_lock();

// To be called around fork(). The caller of `before_fork` must not hold the GIL: a thread that holds a lock may wait
// for it.
void before_fork();
void after_fork();

}  // namespace structgen
