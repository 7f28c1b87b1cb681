// Work of bindings that other Python threads need not wait for.
#pragma once

#include <nanobind/nanobind.h>

#include "exclusive_use.h"

namespace structgen {

// Work that takes a turn on a space. Nobody waits for a space with the GIL in hand: `compile` holds a
// space while it reads Python objects, and would wait for the GIL for ever.
template <class Work>
auto without_gil(Work work) {
  nanobind::gil_scoped_release release;
  return work();
}

// The same with an object that one thread at a time may use.
template <class Object, class Work>
auto used_without_gil(Object &object, Work work) {
  const Use use(object.in_use());
  return without_gil(work);
}

}  // namespace structgen
