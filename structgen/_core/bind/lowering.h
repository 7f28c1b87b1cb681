// What the bindings of grammars share: productions as Python has them.
#pragma once

#include <nanobind/nanobind.h>

#include "grammar/lowering.h"

namespace structgen {

// A new reference, or Python's error.
inline nanobind::object made(PyObject *object) {
  if (!object) throw nanobind::python_error();
  return nanobind::steal(object);
}

// Names of rules; `names` are those of the grammar's own.
nanobind::object rules_of(const Lowering &lowered, const std::vector<std::string> &names);
// A tuple for each: its head, then its symbols.
nanobind::object productions_of(const Lowering &lowered);

}  // namespace structgen
