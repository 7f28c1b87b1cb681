// How deep the containers of a schema's values are nested at least.
#pragma once

#include <cstdint>

#include "json/schema.h"

namespace structgen {

// A lower bound: of no value that satisfies the schema are the containers nested less deep. 0 where that is not known.
uint32_t least_nesting(const Schema &schema);

// Does a node lead back to itself without looking into the value? Such a schema says nothing, and would be asked for ever.
bool runs_in_circles(const Schema &schema);

}  // namespace structgen
