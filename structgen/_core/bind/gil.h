// Releasing and acquiring the GIL in threads that may outlive the interpreter.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <thread>

#include "util/exclusive_use.h"

namespace structgen {

// Python up to 3.13 ends a thread that acquires the GIL while the interpreter shuts down: it unwinds the thread's
// stack, and the first destructor that must not throw aborts the process. A thread that is ended in this scope waits
// for the end of the process instead, as with Python 3.14.
// Source: CPython, `PyEval_RestoreThread` and `PyThread_hang_thread`.
class WaitIfEnded {
 public:
  ~WaitIfEnded() {
    while (!has_gil_) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  void has_gil() { has_gil_ = true; }

 private:
  bool has_gil_ = false;
};

// `nanobind::gil_scoped_release` for threads that may outlive the interpreter.
class WithoutGil {
 public:
  WithoutGil() : thread_(PyEval_SaveThread()) {}
  ~WithoutGil() noexcept(false) {
    WaitIfEnded guard;
    PyEval_RestoreThread(thread_);
    guard.has_gil();
  }
  WithoutGil(const WithoutGil &) = delete;
  WithoutGil &operator=(const WithoutGil &) = delete;

 private:
  PyThreadState *thread_;
};

// `nanobind::gil_scoped_acquire` for threads that may outlive the interpreter.
class WithGil {
 public:
  WithGil() {
    WaitIfEnded guard;
    state_ = PyGILState_Ensure();
    guard.has_gil();
  }
  ~WithGil() noexcept(false) {
    // Python code that ran meanwhile may have been where the thread's end reached it.
    WaitIfEnded guard;
    if (PyGILState_Check() == 0) return;
    PyGILState_Release(state_);
    guard.has_gil();
  }
  WithGil(const WithGil &) = delete;
  WithGil &operator=(const WithGil &) = delete;

 private:
  PyGILState_STATE state_;
};

// Runs work of a binding without the GIL, so that other Python threads can run. Work that holds a space must use this:
// a thread must not wait for a space while it holds the GIL, since `compile` holds a space while it reads Python
// objects, and would wait for the GIL for ever.
template <class Work>
auto without_gil(Work work) {
  const WithoutGil others_may_run;
  return work();
}

// The same with an object that one thread at a time may use.
template <class Object, class Work>
auto used_without_gil(Object &object, Work work) {
  const Use use(object.in_use());
  return without_gil(work);
}

}  // namespace structgen
