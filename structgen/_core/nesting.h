// How deep the containers of a schema's values are nested at least.
#pragma once

#include <cstdint>

#include "schema.h"

namespace structgen {

// A lower bound: of no value that satisfies the schema are the containers nested less deep. 0 where that is not known.
uint32_t least_nesting(const Schema &schema);

}  // namespace structgen
