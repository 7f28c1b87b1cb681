// A `Source` that is a Python object: `accepts(state)`, `edges(state)` and `completion(state)`.
#pragma once

#include "bind/ir_part.h"
#include "regex/regex.h"

namespace structgen {

// The language that the object reads from its `start` on. Objects that are known to the space are not asked twice.
Re unfolding_from_python(RegexSpace &space, const IrPart &object);

}  // namespace structgen
