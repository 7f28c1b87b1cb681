// JSON number texts whose value satisfies exact decimal constraints, as a regular language.
//
// Text forms:
//   plain       -?(0|[1-9][0-9]*)(\.[0-9]+)?
//   scientific  -?(0(\.0)?|[1-9](\.[0-9]{1,16})?)[eE][+-]?[0-9]+
//               where the exponent is at most `max_exponent` in size and has no redundant leading zeros beyond two
//               digits (1e5, 1.5E-07, 1e+308): what programs print.
// This is narrower than RFC 8259 in two points only: a mantissa is normalised and has at most 17 digits (longer ones
// are written plainly), and the exponent is bounded. `any_exponent` removes the first restriction: an exponent may
// follow any mantissa, as in 12.5e3 and 0.05e3, at the price of large automata. Within these forms the language is
// exact: a text is accepted iff its decimal value satisfies every constraint. -0 and 0e5 are zero; 1.0 and 1.5e1 are
// integers. Nothing is rounded. So the complement within language({}) is exact, too, unless `plain` is set.
//
// A state is what is *left* of the constraint after the text so far (regex/number_residual.h), interned. It has no
// bounds that no continuation can violate. So the state of `minimum: 0` after the first digit is that of a number
// without constraints, for every schema of the space, and masks that are cached by state are shared. A state is alive
// iff a completion exists; this is decided by exact arithmetic, not by search.
//
// Cost: a language takes a few microseconds. States are made when first reached, each in time linear in the digits of
// the bounds and of the text. Not thread-safe: the caller locks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "regex/regex.h"

namespace structgen {

// Decimal texts as in JSON, exact ("0.1", "-12", "1e400"); absent when not constrained.
struct NumberBounds {
  std::optional<std::string> minimum, maximum, exclusive_minimum, exclusive_maximum;
  std::optional<std::string> multiple_of;  // > 0
  bool integer = false;                    // the value is integral
  bool plain = false;                      // no exponent; not under a negation (see above)
};

struct NumberOptions {
  bool exponent = true;        // scientific form allowed
  bool any_exponent = false;   // exponent after any mantissa
  int64_t max_exponent = 400;  // of the text; 0 to 9999
  int64_t max_fraction = 16;   // digits after the point before an exponent, unless any_exponent

  bool operator==(const NumberOptions &) const = default;
};

// All number languages with the same options: a single machine, so equal residuals are equal states.
class NumberMachine final : public Machine {
 public:
  explicit NumberMachine(NumberOptions options = {});
  ~NumberMachine() override;

  // The state before the first byte; 0 if no number satisfies `bounds`. Throws std::invalid_argument for a text that is
  // not a JSON number and for a multiple that is not positive. Throws LimitError for bounds of more than 1,000 digits
  // or beyond 1e10000, and for a multiple of more than 18 digits (zeros before the point included).
  uint64_t language(const NumberBounds &bounds) const;
  const NumberOptions &options() const;

  uint64_t start() const override;  // any number
  uint64_t step(uint64_t state, uint8_t byte) const override;
  bool accepts(uint64_t state) const override;
  std::string_view alphabet() const override { return "0123456789+-.eE"; }
  bool alive(uint64_t state) const override { return state != 0; }
  // Of two states that `language` returned: the state that satisfies both.
  std::optional<uint64_t> meet(uint64_t a, uint64_t b) const override;
  // For states of the same prefix: does the constraint of `a` contain that of `b`?
  bool includes(uint64_t a, uint64_t b) const override;
  size_t size() const;  // states made so far

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The language as a leaf of the space; leaves with equal options share the machine of the space.
Re number_language(RegexSpace &space, const NumberBounds &bounds, const NumberOptions &options = {});

// Exactly equal in value to `decimal` (enum and const: 1, 1.0 and 1e0 are the same).
Re number_equal(RegexSpace &space, const std::string &decimal, const NumberOptions &options = {});

}  // namespace structgen
