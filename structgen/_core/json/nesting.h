// The least nesting of containers in the values of a schema.
#pragma once

#include <cstdint>

#include "json/schema.h"

namespace structgen {

// A lower bound on the depth to which containers are nested in any value that satisfies the schema; 0 if it is unknown.
uint32_t least_nesting(const Schema &schema);

// Does a node apply itself to the same value, through references and applicators? Such a schema has no meaning, and its
// expansion would not end.
bool applies_itself(const Schema &schema);

}  // namespace structgen
