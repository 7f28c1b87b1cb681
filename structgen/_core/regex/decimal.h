// Exact non-negative decimals, and natural numbers as digit strings.
//
// A double cannot represent bounds such as 1e400, 0.1 or 9007199254740993, and number constraints must be decided on
// the digits that were written.
//
// Invariant: `Decimal::digits` has no leading and no trailing zero (zero has no digits), so equal values are equal
// structs. A natural is a string of digits without leading zeros ("" is zero). Every operation is linear in the number
// of digits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace structgen {

// digits d1 d2 d3 ... mean d1.d2d3... * 10^exponent.
struct Decimal {
  std::string digits;
  int64_t exponent = 0;

  bool zero() const { return digits.empty(); }
  bool operator==(const Decimal &) const = default;
};

struct SignedDecimal {
  bool negative = false;  // never set for zero
  Decimal magnitude;
};

// Parses a JSON number text. Throws std::invalid_argument when it is not one, and
// LimitError above 1,000 digits or an exponent beyond 10,000.
SignedDecimal parse_decimal(std::string_view text);

// The decimal `digits` * 10^-fraction; `digits` may have zeros at both ends.
Decimal make_decimal(std::string_view digits, int64_t fraction);

// Negative, zero or positive, as a < b, a == b, a > b.
int compare(const Decimal &a, const Decimal &b);

// floor(value * 10^fraction) as a natural, and the digits after that position, without
// trailing zeros.
struct SplitDecimal {
  std::string head, tail;
};
SplitDecimal split(const Decimal &value, int64_t fraction);

int compare_naturals(std::string_view a, std::string_view b);
std::string add(std::string_view natural, uint64_t increment);
std::string decrement(std::string_view natural);  // of a natural above zero
uint64_t remainder(std::string_view natural, uint64_t modulus);

}  // namespace structgen
