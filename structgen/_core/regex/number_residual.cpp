#include "regex/number_residual.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace structgen {

namespace {

using Phase = NumberPhase;

// ---------------------------------------------------------------- intervals and multiples

// A number of 64 bits is not divisible by 2 or 5 more often than this.
constexpr int MAX_VALUATION = 64;

constexpr uint64_t GREATEST_FACTOR = 1'000'000'000'000'000'000;

// The factor in units of 10^-fraction, which are not larger than those of the multiple.
std::optional<uint64_t> scaled(const DecimalMultiple &multiple, int64_t fraction) {
  uint64_t factor = multiple.factor;
  for (int64_t tens = multiple.fraction; tens < fraction; ++tens, factor *= 10)
    if (factor >= GREATEST_FACTOR / 10) return std::nullopt;
  return factor;
}

// The factor divided by gcd(factor, 10^power).
uint64_t without_tens(uint64_t factor, int64_t power) {
  int64_t twos = power, fives = power;
  for (; twos > 0 && factor % 2 == 0; --twos) factor /= 2;
  for (; fives > 0 && factor % 5 == 0; --fives) factor /= 5;
  return factor;
}

bool divides(const DecimalMultiple &multiple, const Decimal &value) {
  if (multiple.factor == 0) return true;
  SplitDecimal parts = split(value, multiple.fraction);
  return parts.tail.empty() && remainder(parts.head, multiple.factor) == 0;
}

DecimalInterval intersect(const DecimalInterval &a, const DecimalInterval &b) {
  DecimalInterval both = a;
  both.empty = a.empty || b.empty;
  int order = compare(b.lower, a.lower);
  if (order > 0) both.lower = b.lower, both.lower_exclusive = b.lower_exclusive;
  if (order == 0) both.lower_exclusive |= b.lower_exclusive;
  if (b.upper) {
    order = a.upper ? compare(*b.upper, *a.upper) : -1;
    if (order < 0) both.upper = b.upper, both.upper_exclusive = b.upper_exclusive;
    if (order == 0) both.upper_exclusive |= b.upper_exclusive;
  }
  return both;
}

// Is some multiple, or any finite decimal if there is no multiple, inside the interval?
bool meets(const DecimalInterval &interval, const DecimalMultiple &multiple) {
  if (interval.empty) return false;
  if (!interval.upper) return true;
  int order = compare(interval.lower, *interval.upper);
  if (order > 0 || (order == 0 && (interval.lower_exclusive || interval.upper_exclusive))) return false;
  if (multiple.factor == 0) return true;
  // Count in units of 10^-fraction: the least and the greatest natural inside.
  SplitDecimal least = split(interval.lower, multiple.fraction);
  if (!least.tail.empty() || interval.lower_exclusive) least.head = add(least.head, 1);
  SplitDecimal greatest = split(*interval.upper, multiple.fraction);
  if (greatest.tail.empty() && interval.upper_exclusive) {
    if (greatest.head.empty()) return false;
    greatest.head = decrement(greatest.head);
  }
  uint64_t over = remainder(least.head, multiple.factor);
  if (over != 0) least.head = add(least.head, multiple.factor - over);
  return compare_naturals(least.head, greatest.head) <= 0;
}

// All decimals that begin with `digits`, the last of which has the value 10^-fraction.
DecimalInterval beginning_with(const std::string &digits, int64_t fraction) {
  DecimalInterval result;
  result.lower = make_decimal(digits, fraction);
  result.upper = make_decimal(add(digits, 1), fraction);
  result.upper_exclusive = true;
  return result;
}

// ---------------------------------------------------------------- one bound against a prefix

// `digits` against the bound's leading digits, as many; and the bound's digits after those.
struct Alignment {
  int order;
  std::string tail;
};

Alignment align(const std::string &digits, const Decimal &bound) {
  std::string head = bound.digits.substr(0, digits.size());
  std::string tail = bound.digits.substr(head.size());
  head.resize(digits.size(), '0');
  return {digits.compare(head), std::move(tail)};
}

std::string tied(char bound, int64_t position, const std::string &tail, bool exclusive) {
  return bound + std::to_string(position) + (exclusive ? '!' : '=') + tail;
}

std::string counted(char bound, int64_t count) { return bound + std::to_string(count); }

// What a continuation of the prefix must satisfy; `key` is empty if there is nothing.
struct Part {
  bool alive = false;
  bool accepts = false;
  std::string key;
};

// Everything below reads these.
struct Situation {
  const NumberConstraint &constraint;
  const DecimalInterval &interval;
  const DecimalMultiple &multiple;
  const NumberPrefix &prefix;
  const NumberOptions &options;

  bool is_zero() const { return prefix.digits.empty(); }
  bool zero_allowed() const { return interval.contains(Decimal{}); }
  bool exponent_may_follow() const {
    if (!options.exponent || constraint.plain) return false;
    if (options.any_exponent) return true;
    if (prefix.integer_digits != 1) return false;
    int64_t fraction = prefix.fraction + (prefix.phase == Phase::POINT);
    if (is_zero()) return fraction <= 1;
    return fraction <= options.max_fraction && leading() == 0;
  }
  // The integer part may grow and an exponent may come after it.
  bool exponent_is_open() const { return prefix.phase == Phase::INTEGER && options.any_exponent; }
  // The decimal exponent of the first non-zero digit, which may still be to come.
  int64_t leading() const {
    if (is_zero()) return -prefix.fraction - 1;
    return static_cast<int64_t>(prefix.digits.size()) - 1 - prefix.fraction;
  }
};

// ---------------------------------------------------------------- plain form

// Keys while the integer part may grow: only its length is open, or the bound's next digits.
std::string growing_bounds(const Situation &s) {
  std::string key;
  const auto &[digits, interval] = std::tie(s.prefix.digits, s.interval);
  auto read = static_cast<int64_t>(digits.size());
  if (!interval.lower.zero() && interval.lower.exponent + 1 >= read) {
    Alignment at = align(digits, interval.lower);
    int64_t missing = interval.lower.exponent + 1 - read;
    if (at.order == 0 && (interval.lower_exclusive || !at.tail.empty()))
      key += tied('l', missing, at.tail, interval.lower_exclusive);
    else if (missing += at.order < 0; missing > 0) key += counted('n', missing);
  }
  if (interval.upper) {
    Alignment at = align(digits, *interval.upper);
    int64_t missing = interval.upper->exponent + 1 - read;
    if (at.order == 0 && !(interval.upper_exclusive && at.tail.empty()))
      key += tied('u', missing, at.tail, interval.upper_exclusive);
    else key += counted('m', missing - (at.order >= 0));
  }
  return key;
}

// Keys after the integer part: the digits of a bound that the prefix is equal to so far.
// `fixed` is set when only zeros may follow.
std::string closed_bounds(const Situation &s, bool *fixed) {
  std::string key;
  const auto &[digits, interval] = std::tie(s.prefix.digits, s.interval);
  SplitDecimal lower = split(interval.lower, s.prefix.fraction);
  if (compare_naturals(digits, lower.head) == 0 && (interval.lower_exclusive || !lower.tail.empty()))
    key += tied('l', 0, lower.tail, interval.lower_exclusive);
  if (interval.upper) {
    SplitDecimal upper = split(*interval.upper, s.prefix.fraction);
    if (compare_naturals(digits, upper.head) == 0) {
      key += tied('u', 0, upper.tail, interval.upper_exclusive);
      *fixed |= upper.tail.empty();
    }
  }
  return key;
}

std::string residue(const Situation &s, int64_t remaining) {
  uint64_t modulus = without_tens(s.multiple.factor, remaining);
  return '%' + std::to_string(s.multiple.factor) + ',' + std::to_string(remaining) + ',' +
         std::to_string(remainder(s.prefix.digits, modulus));
}

Part plain_part(const Situation &s) {
  Part part;
  Decimal value = make_decimal(s.prefix.digits, s.prefix.fraction);
  part.accepts = s.interval.contains(value) && divides(s.multiple, value);
  int64_t remaining = s.multiple.fraction - s.prefix.fraction;
  if (s.prefix.phase == Phase::INTEGER) {
    if (s.interval.upper) {
      // subtle: two lengths decide. Ten times a multiple of any shorter length is a multiple of the next length, and
      // still below a bound that is longer.
      int64_t longest = s.interval.upper->exponent + 1 - static_cast<int64_t>(s.prefix.digits.size());
      if (s.interval.upper->zero()) longest = -1;
      for (int64_t more = longest; more >= 0 && more >= longest - 1 && !part.alive; --more)
        part.alive = meets(intersect(beginning_with(s.prefix.digits, -more), s.interval), s.multiple);
    } else {
      part.alive = true;
    }
    if (part.alive) part.key = growing_bounds(s);
  } else {
    bool fixed = s.multiple.factor != 0 && remaining <= 0;
    part.key = closed_bounds(s, &fixed);
    if (fixed) return {part.accepts, part.accepts, "0"};
    part.alive = meets(intersect(beginning_with(s.prefix.digits, s.prefix.fraction), s.interval), s.multiple);
  }
  if (s.multiple.factor != 0) part.key += residue(s, remaining);
  return part;
}

// ---------------------------------------------------------------- scientific form

struct ExponentRange {
  int64_t low, high;
  bool empty() const { return low > high; }
};

// The least exponent that makes digits * 10^(exponent - fraction) a multiple; nothing if no exponent does, which more
// digits may change.
std::optional<int64_t> least_exponent(const Situation &s) {
  const std::string &digits = s.prefix.digits;
  size_t zeros = digits.size() - 1 - digits.find_last_not_of('0');
  uint64_t rest = remainder(std::string_view(digits).substr(0, digits.size() - zeros), s.multiple.factor);
  int64_t tens = 0;
  for (; rest != 0 && tens < MAX_VALUATION; ++tens)
    rest = static_cast<uint64_t>(static_cast<unsigned __int128>(rest) * 10 % s.multiple.factor);
  if (rest != 0) return std::nullopt;
  return s.prefix.fraction - s.multiple.fraction - static_cast<int64_t>(zeros) + tens;
}

// The exponents that satisfy all constraints if the mantissa ends here.
ExponentRange exponents(const Situation &s) {
  ExponentRange range{-s.options.max_exponent, s.options.max_exponent};
  const ExponentRange none{1, 0};
  if (s.is_zero()) return s.zero_allowed() ? range : none;
  const DecimalInterval &interval = s.interval;
  if (!interval.lower.zero()) {
    Alignment at = align(s.prefix.digits, interval.lower);
    bool below = at.order < 0 || (at.order == 0 && (!at.tail.empty() || interval.lower_exclusive));
    range.low = std::max(range.low, interval.lower.exponent - s.leading() + below);
  }
  if (interval.upper) {
    if (interval.upper->zero()) return none;
    Alignment at = align(s.prefix.digits, *interval.upper);
    bool above = at.order > 0 || (at.order == 0 && at.tail.empty() && interval.upper_exclusive);
    range.high = std::min(range.high, interval.upper->exponent - s.leading() - above);
  }
  if (s.multiple.factor != 0) {
    std::optional<int64_t> least = least_exponent(s);
    if (!least) return none;
    range.low = std::max(range.low, *least);
  }
  return range;
}

// What a number with this exponent must be a multiple of, as its mantissa has few digits.
DecimalMultiple in_few_digits(const Situation &s, int64_t exponent) {
  if (s.options.any_exponent) return s.multiple;
  int64_t fraction = s.options.max_fraction - exponent;
  if (s.multiple.factor == 0) return {1, fraction};
  if (fraction >= s.multiple.fraction) return s.multiple;
  return {without_tens(s.multiple.factor, s.multiple.fraction - fraction), fraction};
}

// Can a mantissa that begins like this, and is not zero, be completed?
bool mantissa_alive(const Situation &s) {
  const int64_t limit = s.options.max_exponent;
  if (s.is_zero() && !s.options.any_exponent) return false;
  if (s.is_zero()) {  // the greatest exponent reaches everything that the others reach
    DecimalInterval reach = beginning_with("", s.prefix.fraction - limit);
    reach.lower_exclusive = true;
    return meets(intersect(reach, s.interval), s.multiple);
  }
  bool open = s.exponent_is_open();
  if (!s.interval.upper && open) return true;
  int64_t greatest = limit;
  if (s.interval.upper) {
    if (s.interval.upper->zero()) return false;
    int64_t aligned = s.interval.upper->exponent - s.leading();
    greatest = open ? aligned : std::min(limit, aligned);
  }
  // subtle: two exponents decide, for the reason given in plain_part.
  for (int64_t exponent = greatest; exponent >= greatest - 1 && exponent >= -limit; --exponent)
    if (meets(intersect(beginning_with(s.prefix.digits, s.prefix.fraction - exponent), s.interval),
              in_few_digits(s, exponent)))
      return true;
  return false;
}

// Keys of the bounds on the exponent, as far as the mantissa decides them.
std::string mantissa_bounds(const Situation &s) {
  std::string key;
  const int64_t limit = s.options.max_exponent;
  const DecimalInterval &interval = s.interval;
  // More leading zeros raise what the exponent must be, more integer digits lower it.
  bool may_rise = s.is_zero(), may_fall = s.exponent_is_open();
  if (!interval.lower.zero()) {
    Alignment at = align(s.prefix.digits, interval.lower);
    int64_t least = interval.lower.exponent - s.leading();
    bool equal = at.order == 0 && (interval.lower_exclusive || !at.tail.empty());
    if (at.order < 0) ++least;
    if (may_rise || least + equal > -limit)
      key += equal ? tied('L', least, at.tail, interval.lower_exclusive) : counted('N', least);
  }
  if (interval.upper) {
    Alignment at = align(s.prefix.digits, *interval.upper);
    int64_t greatest = interval.upper->exponent - s.leading();
    bool equal = at.order == 0 && !(interval.upper_exclusive && at.tail.empty());
    if (!equal && at.order >= 0) --greatest;
    if (may_fall || greatest - equal < limit)
      key += equal ? tied('U', greatest, at.tail, interval.upper_exclusive) : counted('M', greatest);
  }
  return key;
}

// No exponent below this one satisfies the lower bound, for any digits that follow.
int64_t lowest(const Situation &s) {
  const Decimal &lower = s.interval.lower;
  if (lower.zero() || s.exponent_is_open()) return -s.options.max_exponent;
  int64_t aligned = lower.exponent - s.leading() + (align(s.prefix.digits, lower).order < 0);
  return std::max(-s.options.max_exponent, aligned);
}

std::string range_key(const ExponentRange &range) {
  return std::to_string(range.low) + '~' + std::to_string(range.high);
}

Part scientific_part(const Situation &s) {
  Part part;
  const int64_t limit = s.options.max_exponent;
  int64_t position = s.prefix.fraction - s.multiple.fraction;
  // A further non-zero digit would need an exponent of at least position + 1.
  bool fixed = s.multiple.factor != 0 && position + 1 > limit && !s.exponent_is_open();
  if (fixed && !s.is_zero()) {
    ExponentRange range = exponents(s);
    return {!range.empty(), false, '0' + range_key(range)};
  }
  bool alive = mantissa_alive(s);
  bool zero = s.is_zero() && s.zero_allowed();
  if (!alive) return {zero, false, "z"};
  part.alive = true;
  part.key = mantissa_bounds(s);
  if (!s.options.any_exponent) part.key += counted('d', s.options.max_fraction - s.prefix.fraction);
  // Zero itself may continue differently from what a digit leads to, unless nothing is constrained.
  if (s.is_zero() && !(zero && part.key.empty() && s.multiple.factor == 0)) part.key = (zero ? "z+" : "+") + part.key;
  if (s.multiple.factor == 0) return part;
  part.key += '%' + std::to_string(s.multiple.factor) + ',' + std::to_string(position);
  if (s.is_zero()) return part;
  part.key += ',' + std::to_string(remainder(s.prefix.digits, without_tens(s.multiple.factor, 1))) + ',';
  if (std::optional<int64_t> least = least_exponent(s)) part.key += std::to_string(std::max(*least, lowest(s)));
  return part;
}

// ---------------------------------------------------------------- the exponent itself

// The sizes that an exponent with this sign may have.
ExponentRange sizes(const ExponentRange &range, bool negative) {
  if (negative) return {std::max<int64_t>(0, -range.high), -range.low};
  return {std::max<int64_t>(0, range.low), range.high};
}

size_t longest_exponent(const NumberOptions &options) {
  return std::max<size_t>(2, std::to_string(options.max_exponent).size());
}

// For every number of digits to come, the interval of what they may be.
NumberResidual exponent_digits(const NumberPrefix &prefix, const NumberOptions &options, const ExponentRange &size) {
  NumberResidual result;
  size_t longest = prefix.exponent[0] == '0' ? 2 : longest_exponent(options);
  int64_t value = std::stoll(prefix.exponent), span = 1;
  for (size_t length = prefix.exponent.size(); length <= longest; ++length, value *= 10, span *= 10) {
    ExponentRange rest{std::max<int64_t>(0, size.low - value), std::min(span - 1, size.high - value)};
    if (rest.empty()) continue;
    size_t more = length - prefix.exponent.size();
    result.alive = true;
    result.accepts |= more == 0;
    result.key += std::to_string(more) + ':' + range_key(rest) + ';';
  }
  return result;
}

// ---------------------------------------------------------------- the whole

std::string interval_key(const DecimalInterval &interval) {
  if (interval.empty) return "empty";
  std::string key = tied('l', interval.lower.exponent, interval.lower.digits, interval.lower_exclusive);
  if (interval.upper) key += tied('u', interval.upper->exponent, interval.upper->digits, interval.upper_exclusive);
  return key;
}

std::string multiple_key(const DecimalMultiple &multiple) {
  if (multiple.factor == 0) return "";
  return '%' + std::to_string(multiple.factor) + ',' + std::to_string(multiple.fraction);
}

NumberResidual residual(const Situation &s) {
  const NumberConstraint &constraint = s.constraint;
  const char *form = constraint.plain ? "p" : "";
  switch (s.prefix.phase) {
    case Phase::START:
      return {meets(constraint.positive, s.multiple) || meets(constraint.negative, s.multiple), false,
              interval_key(constraint.positive) + '/' + interval_key(constraint.negative) + multiple_key(s.multiple) +
                  form};
    case Phase::MINUS:
      return {meets(s.interval, s.multiple), false, interval_key(s.interval) + multiple_key(s.multiple) + form};
    case Phase::EXPONENT: {
      if (!s.exponent_may_follow()) return {};
      ExponentRange range = exponents(s);
      return {!range.empty(), false, range_key(range)};
    }
    case Phase::EXPONENT_SIGN: {
      ExponentRange size = sizes(exponents(s), s.prefix.exponent_negative);
      return {!size.empty(), false, range_key(size)};
    }
    case Phase::EXPONENT_DIGIT:
      return exponent_digits(s.prefix, s.options, sizes(exponents(s), s.prefix.exponent_negative));
    default: break;
  }
  Part plain = plain_part(s), scientific;
  if (s.exponent_may_follow()) scientific = scientific_part(s);
  NumberResidual result{plain.alive || scientific.alive, plain.accepts && s.prefix.phase != Phase::POINT, ""};
  if (plain.alive) result.key += 'p' + plain.key;
  if (scientific.alive) result.key += 's' + scientific.key;
  return result;
}

}  // namespace

bool DecimalInterval::contains(const Decimal &value) const {
  if (empty) return false;
  int above = compare(value, lower), below = upper ? compare(*upper, value) : 1;
  return above >= lower_exclusive && below >= upper_exclusive;
}

bool includes(const NumberConstraint &wide, const NumberConstraint &narrow) {
  auto within = [](const DecimalInterval &inner, const DecimalInterval &outer) {
    return inner.empty || intersect(inner, outer) == inner;
  };
  if (wide.plain && !narrow.plain) return false;
  if (!within(narrow.positive, wide.positive) || !within(narrow.negative, wide.negative)) return false;
  if (wide.multiple.factor == 0) return true;
  return narrow.multiple.factor != 0 &&
         divides(wide.multiple, make_decimal(std::to_string(narrow.multiple.factor), narrow.multiple.fraction));
}

std::optional<NumberConstraint> intersect(const NumberConstraint &a, const NumberConstraint &b) {
  NumberConstraint both{intersect(a.positive, b.positive), intersect(a.negative, b.negative), a.multiple,
                        a.plain || b.plain};
  if (a.multiple.factor == 0) both.multiple = b.multiple;
  if (a.multiple.factor == 0 || b.multiple.factor == 0) return both;
  both.multiple.fraction = std::max(a.multiple.fraction, b.multiple.fraction);
  std::optional<uint64_t> first = scaled(a.multiple, both.multiple.fraction);
  std::optional<uint64_t> second = scaled(b.multiple, both.multiple.fraction);
  if (!first || !second) return std::nullopt;
  unsigned __int128 common = static_cast<unsigned __int128>(*first) / std::gcd(*first, *second) * *second;
  if (common >= GREATEST_FACTOR) return std::nullopt;
  both.multiple.factor = static_cast<uint64_t>(common);
  for (; both.multiple.fraction > 0 && both.multiple.factor % 10 == 0; --both.multiple.fraction)
    both.multiple.factor /= 10;
  return both;
}

std::optional<NumberPrefix> extend(const NumberPrefix &prefix, uint8_t byte, const NumberOptions &options) {
  NumberPrefix next = prefix;
  const Phase phase = prefix.phase;
  const bool digit = byte >= '0' && byte <= '9';
  const bool complete = phase == Phase::ZERO || phase == Phase::INTEGER || phase == Phase::FRACTION;
  const char character = static_cast<char>(byte);

  if (phase == Phase::START && byte == '-') {
    next.phase = Phase::MINUS;
    next.negative = true;
  } else if (digit && (phase == Phase::START || phase == Phase::MINUS || phase == Phase::INTEGER)) {
    next.phase = byte == '0' && phase != Phase::INTEGER ? Phase::ZERO : Phase::INTEGER;
    if (next.phase == Phase::INTEGER) next.digits += character;
    ++next.integer_digits;
  } else if (byte == '.' && (phase == Phase::ZERO || phase == Phase::INTEGER)) {
    next.phase = Phase::POINT;
  } else if (digit && (phase == Phase::POINT || phase == Phase::FRACTION)) {
    next.phase = Phase::FRACTION;
    if (byte != '0' || !next.digits.empty()) next.digits += character;
    ++next.fraction;
  } else if ((byte == 'e' || byte == 'E') && complete) {
    next.phase = Phase::EXPONENT;
  } else if ((byte == '+' || byte == '-') && phase == Phase::EXPONENT) {
    next.phase = Phase::EXPONENT_SIGN;
    next.exponent_negative = byte == '-';
  } else if (digit && phase >= Phase::EXPONENT) {
    next.phase = Phase::EXPONENT_DIGIT;
    next.exponent += character;
    size_t longest = next.exponent[0] == '0' ? 2 : longest_exponent(options);
    if (next.exponent.size() > longest) return std::nullopt;
  } else {
    return std::nullopt;
  }
  return next;
}

NumberResidual classify(const NumberConstraint &constraint, const NumberPrefix &prefix, const NumberOptions &options) {
  const DecimalInterval &interval = prefix.negative ? constraint.negative : constraint.positive;
  NumberResidual result = residual({constraint, interval, constraint.multiple, prefix, options});
  if (result.alive) result.key.insert(0, 1, static_cast<char>('A' + static_cast<int>(prefix.phase)));
  return result;
}

}  // namespace structgen
