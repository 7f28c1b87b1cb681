// JSON number texts whose value satisfies exact decimal constraints, as a regular language.
//
// Default text forms (documented, narrower than RFC 8259 only where stated):
//   plain       -?(0|[1-9][0-9]*)(\.[0-9]+)?
//   scientific  the above with exactly one integer digit, then [eE][+-]?[0-9]+, the exponent
//               without redundant leading zeros beyond two digits (1e5, 1.5E-07, 1e+308)
// `any_exponent` admits an exponent after any mantissa.
#pragma once

#include <optional>
#include <string>

#include "regex.h"

namespace structgen {

// Decimal texts as in JSON, exact ("0.1", "-12", "1e400").
struct NumberBounds {
  std::optional<std::string> minimum, maximum;
  bool exclusive_minimum = false, exclusive_maximum = false;
  std::optional<std::string> multiple_of;  // > 0
  bool integer = false;                    // value is integral (1.0 and 1e2 are)
};

struct NumberOptions {
  bool exponent = true;        // scientific form allowed
  bool any_exponent = false;   // exponent after any mantissa
  int64_t max_exponent = 400;  // |exponent| at most this
};

// The language of number texts that satisfy `bounds`; EMPTY when there is none.
// Throws std::invalid_argument for a text that is not a JSON number.
Re number_language(RegexSpace &space, const NumberBounds &bounds, const NumberOptions &options = {});

// Exactly equal in value to `decimal` (enum and const: 1, 1.0 and 1e0 are the same).
Re number_equal(RegexSpace &space, const std::string &decimal, const NumberOptions &options = {});

}  // namespace structgen
