// Objects that one thread at a time may use. A second thread gets an error instead of a state that is being changed.
#pragma once

#include <atomic>

#include "util/fork_safety.h"

namespace structgen {

class UseFlag {
 public:
  explicit UseFlag(const char *message) : message_(message) {}
  UseFlag(const UseFlag &other) : message_(other.message_) {}  // a copy is another object
  UseFlag &operator=(const UseFlag &) = delete;

 private:
  friend class Use;
  const char *message_;  // of the error in a second thread
  std::atomic<bool> taken_{false};
};

// Marks an object as used by the calling thread for as long as this exists. Throws `InUseError` if another thread uses
// it.
class Use {
 public:
  explicit Use(UseFlag &flag) : flag_(flag) {
    if (flag.taken_.exchange(true, std::memory_order_acquire)) throw InUseError(flag.message_);
  }
  ~Use() { flag_.taken_.store(false, std::memory_order_release); }
  Use(const Use &) = delete;
  Use &operator=(const Use &) = delete;

 private:
  UseFlag &flag_;
};

}  // namespace structgen
