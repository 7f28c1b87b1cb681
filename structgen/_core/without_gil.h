// Work of bindings that other Python threads need not wait for.
#pragma once

#include <nanobind/nanobind.h>

namespace structgen {

// Work that takes a turn on a space. Nobody waits for a space with the GIL in hand: `compile` holds a
// space while it reads Python objects, and would wait for the GIL for ever.
template <class Work>
auto without_gil(Work work) {
  nanobind::gil_scoped_release release;
  return work();
}

}  // namespace structgen
