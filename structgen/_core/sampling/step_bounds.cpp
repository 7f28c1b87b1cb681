#include "sampling/step_bounds.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "util/work.h"

namespace structgen {
namespace {

constexpr double NOTHING = -std::numeric_limits<double>::infinity();

constexpr double TINY = 1e-20;  // far above the least that a float holds with all its digits

constexpr auto LANES = [] {  // what each four bits allow, as factors
  std::array<std::array<float, 4>, 16> lanes{};
  for (size_t bits = 0; bits < 16; ++bits)
    for (size_t i = 0; i < 4; ++i) lanes[bits][i] = static_cast<float>(bits >> i & 1);
  return lanes;
}();

template <class Take>
void for_each_allowed(const MaskedLaw &law, Take take) {
  for (size_t w = 0; w < law.words(); ++w)
    for (uint32_t bits = law.word(w); bits != 0; bits &= bits - 1)
      take(static_cast<int32_t>(32 * w + static_cast<size_t>(std::countr_zero(bits))));
}

std::vector<int32_t> likely(const MaskedLaw &law, float least) {
  std::vector<int32_t> found;
  for (size_t w = 0; w < law.words(); ++w) {
    uint32_t bits = law.word(w);
    if (bits == 0) continue;
    const float *block = law.masses.data() + 32 * w;
    // subtle: a whole block is looked at, allowed or not, four at a time; it seldom holds one.
    if (32 * (w + 1) <= law.masses.size()) {
      uint32_t any = 0;
      for (size_t i = 0; i < 32; ++i) any |= block[i] >= least;
      if (any == 0) continue;
    }
    for (; bits != 0; bits &= bits - 1) {
      charge();
      const auto i = static_cast<size_t>(std::countr_zero(bits));
      if (block[i] >= least) found.push_back(static_cast<int32_t>(32 * w + i));
    }
  }
  return found;
}

// The mass of what is allowed and not held. Summed up by itself: what the whole leaves of it would be rounding.
double mass_of_others(const MaskedLaw &law, const std::vector<int32_t> &held) {
  double sum = 0;
  auto next = held.begin();
  for (size_t w = 0; w < law.words(); ++w) {
    uint32_t bits = law.word(w);
    for (; next != held.end() && static_cast<size_t>(*next) < 32 * (w + 1); ++next) bits &= ~(1u << (*next & 31));
    if (bits == 0) continue;
    const float *masses = law.masses.data() + 32 * w;
    if (32 * (w + 1) > law.masses.size()) {
      for (; bits != 0; bits &= bits - 1) sum += masses[std::countr_zero(bits)];
      continue;
    }
    std::array<float, 16> parts;  // added up side by side: one sum would wait for itself
    for (size_t nibble = 0; nibble < 4; ++nibble)
      for (size_t i = 0, at = 4 * nibble; i < 4; ++i)
        parts[at + i] = masses[at + i] * LANES[bits >> at & 15][i] + masses[at + 16 + i] * LANES[bits >> (at + 16) & 15][i];
    for (size_t half = 8; half > 0; half /= 2)
      for (size_t i = 0; i < half; ++i) parts[i] += parts[i + half];
    sum += parts[0];
  }
  return sum;
}

// Probabilities in proportion to the law's over what is allowed. Of masses that a float cannot tell apart any more, or
// not from 0, they are made anew from the logarithms, with the most probable one as 1.
struct Relative {
  explicit Relative(const MaskedLaw &given) : law(given), total(mass_of_others(given, {})) {
    if (total >= TINY) return;
    for_each_allowed(given, [&](int32_t token) {
      scale = std::max(scale, double{given.log_p[static_cast<size_t>(token)]});
    });
    if (scale == NOTHING) return;
    own.resize(given.masses.size());
    for_each_allowed(given, [&](int32_t token) {
      const auto i = static_cast<size_t>(token);
      own[i] = static_cast<float>(std::exp(given.log_p[i] - scale));
    });
    law.masses = own;
    total = mass_of_others(law, {});
  }

  double log_mass_without(const std::vector<int32_t> &held) const {
    const double mass = mass_of_others(law, held);
    return mass > 0 ? std::log(mass) + (own.empty() ? 0 : scale) : NOTHING;
  }

  MaskedLaw law;
  double total, scale = NOTHING;
  std::vector<float> own;
};

}  // namespace

StepBounds::StepBounds(const MaskedLaw &law, float least, int64_t few) : tail_(NOTHING) {
  int64_t count = 0;
  for (size_t w = 0; w < law.words(); ++w) count += std::popcount(law.word(w));
  if (count > few) {
    const Relative relative(law);
    tokens_ = likely(relative.law, static_cast<float>(least * relative.total));
    tail_ = relative.log_mass_without(tokens_);
  }
  if (count <= 2 * static_cast<int64_t>(tokens_.size()) + few) {
    tail_ = NOTHING;
    tokens_.clear();
    for_each_allowed(law, [&](int32_t token) {
      if (law.log_p[static_cast<size_t>(token)] > NOTHING) tokens_.push_back(token);
    });
  }
  log_p_.reserve(tokens_.size());
  for (const int32_t token : tokens_) log_p_.push_back(law.log_p[static_cast<size_t>(token)]);
  theta_.assign(tokens_.size(), 0.0);
  settle();
}

StepBounds::StepBounds(std::vector<int32_t> tokens, std::vector<double> log_p, std::vector<double> theta, double tail)
    : tokens_(std::move(tokens)), log_p_(std::move(log_p)), theta_(std::move(theta)), tail_(tail) {
  settle();
}

size_t StepBounds::place(int32_t token) const {
  const auto at = std::lower_bound(tokens_.begin(), tokens_.end(), token);
  return at != tokens_.end() && *at == token ? static_cast<size_t>(at - tokens_.begin()) : NOT_HELD;
}

int32_t StepBounds::draw(double uniform) const {
  const double total = cumulative_.back();
  auto at = std::upper_bound(cumulative_.begin(), cumulative_.end(), uniform * total);
  // subtle: the product may round up to the whole mass; the last one with mass is meant then.
  if (at == cumulative_.end()) at = std::lower_bound(cumulative_.begin(), cumulative_.end(), total);
  const auto place = static_cast<size_t>(at - cumulative_.begin());
  return place == tokens_.size() ? TAIL : tokens_[place];
}

void StepBounds::learn(size_t place, double theta) {
  if (theta_[place] == theta) return;
  theta_[place] = theta;
  settle();
}

void StepBounds::hold(int32_t token, const MaskedLaw &law) {
  if (place(token) != NOT_HELD) return;
  const auto at = std::lower_bound(tokens_.begin(), tokens_.end(), token) - tokens_.begin();
  tokens_.insert(tokens_.begin() + at, token);
  log_p_.insert(log_p_.begin() + at, law.log_p[static_cast<size_t>(token)]);
  theta_.insert(theta_.begin() + at, 0.0);
  tail_ = Relative(law).log_mass_without(tokens_);
  settle();
}

void StepBounds::settle() {
  double peak = tail_;
  for (size_t i = 0; i < tokens_.size(); ++i) peak = std::max(peak, log_p_[i] + theta_[i]);
  cumulative_.resize(tokens_.size() + 1);
  if (peak == NOTHING) {
    std::fill(cumulative_.begin(), cumulative_.end(), 0.0);
    bound_ = NOTHING;
    return;
  }
  double sum = 0;
  for (size_t i = 0; i < tokens_.size(); ++i) cumulative_[i] = sum += std::exp(log_p_[i] + theta_[i] - peak);
  cumulative_.back() = sum += std::exp(tail_ - peak);
  bound_ = peak + std::log(sum);
}

}  // namespace structgen
