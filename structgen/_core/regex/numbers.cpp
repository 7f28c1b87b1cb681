#include "regex/numbers.h"

#include <algorithm>
#include <deque>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "regex/number_residual.h"
#include "util/work.h"

namespace structgen {

namespace {

constexpr size_t MAX_MULTIPLE_DIGITS = 18;

SignedDecimal negated(SignedDecimal value) {
  value.negative = !value.negative && !value.magnitude.zero();
  return value;
}

int compare_signed(const SignedDecimal &a, const SignedDecimal &b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  int order = compare(a.magnitude, b.magnitude);
  return a.negative ? -order : order;
}

struct Bound {
  SignedDecimal value;
  bool exclusive = false;
};

// The tighter of a bound and its exclusive twin; `direction` is 1 for minima, -1 for maxima.
std::optional<Bound> tighter(const std::optional<std::string> &inclusive, const std::optional<std::string> &exclusive,
                             int direction) {
  if (!inclusive && !exclusive) return std::nullopt;
  if (!exclusive) return Bound{parse_decimal(*inclusive), false};
  Bound result{parse_decimal(*exclusive), true};
  if (!inclusive) return result;
  Bound other{parse_decimal(*inclusive), false};
  return compare_signed(other.value, result.value) * direction > 0 ? other : result;
}

// The magnitudes of the non-negative numbers between the bounds.
DecimalInterval magnitudes(const std::optional<Bound> &low, const std::optional<Bound> &high) {
  DecimalInterval interval;
  if (low && !low->value.negative) {
    interval.lower = low->value.magnitude;
    interval.lower_exclusive = low->exclusive;
  }
  if (high) {
    interval.empty = high->value.negative;
    interval.upper = high->value.magnitude;
    interval.upper_exclusive = high->exclusive;
  }
  return interval;
}

std::optional<Bound> mirrored(std::optional<Bound> bound) {
  if (bound) bound->value = negated(bound->value);
  return bound;
}

DecimalMultiple parse_multiple(const std::optional<std::string> &text, bool integer) {
  if (!text) return {integer ? 1u : 0u, 0};
  SignedDecimal value = parse_decimal(*text);
  if (value.negative || value.magnitude.zero())
    throw std::invalid_argument("multipleOf must be above zero, not " + *text);
  std::string digits = value.magnitude.digits;
  int64_t fraction = static_cast<int64_t>(digits.size()) - 1 - value.magnitude.exponent;
  if (digits.size() + static_cast<size_t>(std::max<int64_t>(0, -fraction)) > MAX_MULTIPLE_DIGITS)
    throw LimitError("multipleOf " + text->substr(0, 40) + " has more than 18 digits (limit multiple_of_digits)");
  for (; fraction < 0; ++fraction) digits += '0';
  DecimalMultiple multiple{std::stoull(digits), fraction};
  if (integer) {  // the integers among the multiples of p/q, in lowest terms, are those of p
    for (int64_t tens = 0; tens < fraction && multiple.factor % 2 == 0; ++tens) multiple.factor /= 2;
    for (int64_t tens = 0; tens < fraction && multiple.factor % 5 == 0; ++tens) multiple.factor /= 5;
    multiple.fraction = 0;
  }
  return multiple;
}

}  // namespace

struct NumberMachine::Impl {
  static constexpr uint64_t STATE = 2;  // units of work to make one state
  // One of the prefixes that lead to the state. What is left is the same for all of them.
  struct State {
    const NumberConstraint *constraint;
    NumberPrefix prefix;
    bool accepts;
  };

  NumberOptions options;
  std::deque<NumberConstraint> constraints;
  std::deque<State> states{{nullptr, {}, false}};  // 0 is dead; a deque, so that large states are not moved
  std::unordered_map<std::string, uint64_t> ids;

  uint64_t begin(NumberConstraint constraint) {
    constraints.push_back(std::move(constraint));
    size_t before = states.size();
    uint64_t state = intern(&constraints.back(), {});
    if (states.size() == before) constraints.pop_back();
    return state;
  }

  uint64_t intern(const NumberConstraint *constraint, NumberPrefix prefix) {
    structgen::charge(STATE + prefix.digits.size() / 8);
    NumberResidual residual = classify(*constraint, prefix, options);
    if (!residual.alive) return 0;
    auto [entry, fresh] = ids.try_emplace(std::move(residual.key), states.size());
    if (fresh) states.push_back({constraint, std::move(prefix), residual.accepts});
    return entry->second;
  }
};

NumberMachine::NumberMachine(NumberOptions options) : impl_(std::make_unique<Impl>()) {
  if (options.max_exponent < 0 || options.max_exponent > 9999)
    throw std::invalid_argument("max_exponent must be between 0 and 9999");
  if (options.max_fraction < 0 || options.max_fraction > 9999)
    throw std::invalid_argument("max_fraction must be between 0 and 9999");
  impl_->options = options;
  language({});
}

NumberMachine::~NumberMachine() = default;

uint64_t NumberMachine::language(const NumberBounds &bounds) const {
  std::optional<Bound> low = tighter(bounds.minimum, bounds.exclusive_minimum, 1);
  std::optional<Bound> high = tighter(bounds.maximum, bounds.exclusive_maximum, -1);
  return impl_->begin({magnitudes(low, high), magnitudes(mirrored(high), mirrored(low)),
                       parse_multiple(bounds.multiple_of, bounds.integer), bounds.plain});
}

std::optional<uint64_t> NumberMachine::meet(uint64_t a, uint64_t b) const {
  if (a == 0 || b == 0) return 0;
  const Impl::State &first = impl_->states[a], &second = impl_->states[b];
  if (first.prefix.phase != NumberPhase::START || second.prefix.phase != NumberPhase::START) return std::nullopt;
  std::optional<NumberConstraint> both = intersect(*first.constraint, *second.constraint);
  if (!both) return std::nullopt;
  return impl_->begin(std::move(*both));
}

uint64_t NumberMachine::start() const { return 1; }

uint64_t NumberMachine::step(uint64_t state, uint8_t byte) const {
  if (byte < '+' || byte > 'e') return 0;  // most bytes
  const Impl::State &from = impl_->states[state];
  if (from.constraint == nullptr) return 0;
  std::optional<NumberPrefix> next = extend(from.prefix, byte, impl_->options);
  return next ? impl_->intern(from.constraint, std::move(*next)) : 0;
}

bool NumberMachine::accepts(uint64_t state) const { return impl_->states[state].accepts; }

bool NumberMachine::includes(uint64_t a, uint64_t b) const {
  if (a == b || b == 0) return true;
  if (a == 0) return false;
  const NumberConstraint *wide = impl_->states[a].constraint, *narrow = impl_->states[b].constraint;
  return structgen::includes(*wide, *narrow) && a == impl_->intern(wide, impl_->states[b].prefix);
}

const NumberOptions &NumberMachine::options() const { return impl_->options; }

size_t NumberMachine::size() const { return impl_->states.size() - 1; }

Re number_language(RegexSpace &space, const NumberBounds &bounds, const NumberOptions &options) {
  auto wanted = [&](const Machine &machine) {
    auto *numbers = dynamic_cast<const NumberMachine *>(&machine);
    return numbers != nullptr && numbers->options() == options;
  };
  auto machine = std::static_pointer_cast<const NumberMachine>(space.find_machine(wanted));
  if (!machine) machine = std::make_shared<const NumberMachine>(options);
  return space.machine(machine, machine->language(bounds));
}

Re number_equal(RegexSpace &space, const std::string &decimal, const NumberOptions &options) {
  NumberBounds bounds;
  bounds.minimum = bounds.maximum = decimal;
  return number_language(space, bounds, options);
}

}  // namespace structgen
