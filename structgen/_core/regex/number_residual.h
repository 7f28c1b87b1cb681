// What is left of a number constraint after a prefix of the text: the core of regex/numbers.h.
//
// `classify` is a pure function from a constraint and a prefix to a key. Two prefixes with the same key have the same
// completions. The key holds what is left and nothing else:
//   plain part       for each bound: nothing if it can no longer be violated, the number of integer digits still needed
//                    (or allowed) if only the length decides, or the digits of the bound that were not compared yet;
//                    for a multiple, the residue of the digits and the fraction digits that may still be non-zero.
//   scientific part  the same for the mantissa. A bound L * 10^E on m * 10^x with 1 <= m < 10
//                    is x >= E or x >= E + 1, as m reaches L or not; a multiple a * 10^-s is
//                    x >= some number as well, once a divides the digits up to factors of 10.
//   exponent         for each number of digits still to come, the interval of their value.
// The two parts are alternatives. A part without completions is not in the key.
//
// Liveness is exact: is there a multiple of a * 10^-s in an interval between two decimals?
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "regex/decimal.h"
#include "regex/numbers.h"

namespace structgen {

enum class NumberPhase : uint8_t {
  START,          // nothing read
  MINUS,          // "-"
  ZERO,           // an integer part of 0
  INTEGER,        // an integer part that may grow
  POINT,          // "12."
  FRACTION,       // "12.5"
  EXPONENT,       // "1.5e"
  EXPONENT_SIGN,  // "1.5e-"
  EXPONENT_DIGIT,
};

struct NumberPrefix {
  NumberPhase phase = NumberPhase::START;
  bool negative = false;
  bool exponent_negative = false;
  std::string digits;          // of the mantissa, without leading zeros
  int64_t integer_digits = 0;  // digits before the point, the 0 of 0.5 included
  int64_t fraction = 0;        // digits after the point
  std::string exponent;        // digits
};

// Of magnitudes, so both bounds are non-negative. A lower bound of zero that is not exclusive restricts nothing.
struct DecimalInterval {
  bool empty = false;
  Decimal lower;
  bool lower_exclusive = false;
  std::optional<Decimal> upper;
  bool upper_exclusive = false;

  bool contains(const Decimal &value) const;
  bool operator==(const DecimalInterval &) const = default;
};

// factor * 10^-fraction; factor 0: there is no constraint.
struct DecimalMultiple {
  uint64_t factor = 0;
  int64_t fraction = 0;
};

struct NumberConstraint {
  DecimalInterval positive, negative;  // of the magnitude, by the sign of the text
  DecimalMultiple multiple;
  bool plain = false;  // no exponent
};

struct NumberResidual {
  bool alive = false;    // a completion exists
  bool accepts = false;  // the prefix is a number that satisfies the constraint
  std::string key;       // of a prefix that is alive
};

// The prefix with one more byte; nothing when it is not the start of a number text.
std::optional<NumberPrefix> extend(const NumberPrefix &prefix, uint8_t byte, const NumberOptions &options);

// Does every number that satisfies `narrow` satisfy `wide`?
bool includes(const NumberConstraint &wide, const NumberConstraint &narrow);

// The conjunction of both; nothing if their common multiple has too many digits.
std::optional<NumberConstraint> intersect(const NumberConstraint &a, const NumberConstraint &b);

NumberResidual classify(const NumberConstraint &constraint, const NumberPrefix &prefix, const NumberOptions &options);

}  // namespace structgen
