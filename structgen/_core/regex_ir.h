// Reads the front ends' regular-expression IR (nested tuples) into a space.
#pragma once

#include <nanobind/nanobind.h>

#include "regex.h"

namespace structgen {

// Throws std::invalid_argument for a shape that is no IR, LimitError when it is nested too deep.
Re regex_from_ir(RegexSpace &space, nanobind::handle ir);

}  // namespace structgen
