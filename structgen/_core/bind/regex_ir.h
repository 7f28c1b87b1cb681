// Reads the front ends' regular-expression IR (nested tuples) into a space.
#pragma once

#include "bind/ir_part.h"
#include "regex/regex.h"

namespace structgen {

// Throws std::invalid_argument for a shape that is no IR (it names the part), LimitError when it is nested too deep.
Re regex_from_ir(RegexSpace &space, const IrPart &ir);

}  // namespace structgen
