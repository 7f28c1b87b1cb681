// Reads the front ends' intermediate representation (nested tuples and dicts) into plans.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <unordered_map>

#include "automaton.h"

namespace structgen {

// Regular expressions that front ends share by identity (formats, cached patterns) are
// converted once per text space. Holds references, so it lives and dies under the GIL.
class __attribute__((visibility("hidden"))) RegexCache {
 public:
  Re convert(RegexSpace &space, nanobind::handle ir);

 private:
  std::unordered_map<PyObject *, Re> known_;
  std::vector<nanobind::object> kept_;
};

// Throws std::invalid_argument for a shape that is no IR. `depth`: of the plan's first frame.
std::unique_ptr<Plan> plan_from_ir(nanobind::handle ir, TextSpace &space, RegexCache &cache, int32_t depth = 0);

}  // namespace structgen
