// The exception that ends a call of the core at a limit.
#pragma once

#include <stdexcept>

namespace structgen {

// A limit of the core was reached; the message names the limit and how to raise it.
struct LimitError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace structgen
