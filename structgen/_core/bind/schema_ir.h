// Reads the front ends' intermediate representation (nested tuples and dicts) into plans.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <unordered_map>

#include "automaton/automaton.h"
#include "bind/ir_part.h"

namespace structgen {

// Regular expressions that front ends share by identity (formats, cached patterns) are
// converted once per text space. Holds references, so it lives and dies under the GIL.
class __attribute__((visibility("hidden"))) RegexCache {
 public:
  Re convert(RegexSpace &space, const IrPart &ir);

 private:
  std::unordered_map<PyObject *, Re> known_;
  std::vector<nanobind::object> kept_;
};

// Throws std::invalid_argument for a shape that is no IR; it names the field.
std::unique_ptr<Plan> plan_from_ir(const IrPart &ir, TextSpace &space, RegexCache &cache);

}  // namespace structgen
