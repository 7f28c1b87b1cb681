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

constexpr auto FACTORS = [] {  // 1 for each of four bits that is set, otherwise 0
  std::array<std::array<float, 4>, 16> factors{};
  for (size_t bits = 0; bits < 16; ++bits)
    for (size_t i = 0; i < 4; ++i) factors[bits][i] = static_cast<float>(bits >> i & 1);
  return factors;
}();

template <class Visit>
void for_each_allowed(const MaskedDistribution &distribution, Visit visit) {
  for (size_t w = 0; w < distribution.words(); ++w)
    for (uint32_t bits = distribution.word(w); bits != 0; bits &= bits - 1)
      visit(static_cast<int32_t>(32 * w + static_cast<size_t>(std::countr_zero(bits))));
}

// The allowed tokens with a mass of at least `least`.
std::vector<int32_t> likely_tokens(const MaskedDistribution &distribution, float least) {
  std::vector<int32_t> found;
  for (size_t w = 0; w < distribution.words(); ++w) {
    uint32_t bits = distribution.word(w);
    if (bits == 0) continue;
    const float *block = distribution.masses.data() + 32 * w;
    // subtle: the whole block is compared without regard to the mask, which vectorises. It seldom holds a likely token.
    if (32 * (w + 1) <= distribution.masses.size()) {
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

// The mass of the allowed tokens that are not stored. It is summed itself: the difference of two larger sums would
// consist of rounding errors.
double mass_of_others(const MaskedDistribution &distribution, const std::vector<int32_t> &stored) {
  double sum = 0;
  auto next = stored.begin();
  for (size_t w = 0; w < distribution.words(); ++w) {
    uint32_t bits = distribution.word(w);
    for (; next != stored.end() && static_cast<size_t>(*next) < 32 * (w + 1); ++next) bits &= ~(1u << (*next & 31));
    if (bits == 0) continue;
    const float *masses = distribution.masses.data() + 32 * w;
    if (32 * (w + 1) > distribution.masses.size()) {
      for (; bits != 0; bits &= bits - 1) sum += masses[std::countr_zero(bits)];
      continue;
    }
    std::array<float, 16> parts;  // independent sums: a single one would be a chain of dependent additions
    for (size_t nibble = 0; nibble < 4; ++nibble)
      for (size_t i = 0, at = 4 * nibble; i < 4; ++i)
        parts[at + i] =
            masses[at + i] * FACTORS[bits >> at & 15][i] + masses[at + 16 + i] * FACTORS[bits >> (at + 16) & 15][i];
    for (size_t half = 8; half > 0; half /= 2)
      for (size_t i = 0; i < half; ++i) parts[i] += parts[i + half];
    sum += parts[0];
  }
  return sum;
}

// Probabilities of the allowed tokens, up to a factor. If the masses are so small that floats lose their digits, they
// are computed again from the logarithms, with the most probable token at 1.
struct ScaledMasses {
  explicit ScaledMasses(const MaskedDistribution &given) : distribution(given), total(mass_of_others(given, {})) {
    if (total >= TINY) return;
    for_each_allowed(given,
                     [&](int32_t token) { scale = std::max(scale, double{given.log_p[static_cast<size_t>(token)]}); });
    if (scale == NOTHING) return;
    own.resize(given.masses.size());
    for_each_allowed(given, [&](int32_t token) {
      const auto i = static_cast<size_t>(token);
      own[i] = static_cast<float>(std::exp(given.log_p[i] - scale));
    });
    distribution.masses = own;
    total = mass_of_others(distribution, {});
  }

  double log_mass_without(const std::vector<int32_t> &stored) const {
    const double mass = mass_of_others(distribution, stored);
    return mass > 0 ? std::log(mass) + (own.empty() ? 0 : scale) : NOTHING;
  }

  MaskedDistribution distribution;
  double total, scale = NOTHING;
  std::vector<float> own;
};

}  // namespace

StepBounds::StepBounds(const MaskedDistribution &distribution, float least, int64_t few) : tail_(NOTHING) {
  int64_t count = 0;
  for (size_t w = 0; w < distribution.words(); ++w) count += std::popcount(distribution.word(w));
  if (count > few) {
    const ScaledMasses scaled(distribution);
    tokens_ = likely_tokens(scaled.distribution, static_cast<float>(least * scaled.total));
    tail_ = scaled.log_mass_without(tokens_);
  }
  if (count <= 2 * static_cast<int64_t>(tokens_.size()) + few) {
    tail_ = NOTHING;
    tokens_.clear();
    for_each_allowed(distribution, [&](int32_t token) {
      if (distribution.log_p[static_cast<size_t>(token)] > NOTHING) tokens_.push_back(token);
    });
  }
  log_p_.reserve(tokens_.size());
  for (const int32_t token : tokens_) log_p_.push_back(distribution.log_p[static_cast<size_t>(token)]);
  theta_.assign(tokens_.size(), 0.0);
  update_sums();
}

StepBounds::StepBounds(std::vector<int32_t> tokens, std::vector<double> log_p, std::vector<double> theta, double tail)
    : tokens_(std::move(tokens)), log_p_(std::move(log_p)), theta_(std::move(theta)), tail_(tail) {
  update_sums();
}

size_t StepBounds::index_of(int32_t token) const {
  const auto at = std::lower_bound(tokens_.begin(), tokens_.end(), token);
  return at != tokens_.end() && *at == token ? static_cast<size_t>(at - tokens_.begin()) : NOT_STORED;
}

int32_t StepBounds::draw(double uniform) const {
  const double total = cumulative_.back();
  auto at = std::upper_bound(cumulative_.begin(), cumulative_.end(), uniform * total);
  // subtle: the product may round up to the total. Then the last token with a mass is drawn.
  if (at == cumulative_.end()) at = std::lower_bound(cumulative_.begin(), cumulative_.end(), total);
  const auto index = static_cast<size_t>(at - cumulative_.begin());
  return index == tokens_.size() ? TAIL : tokens_[index];
}

void StepBounds::learn(size_t index, double theta) {
  if (theta_[index] == theta) return;
  theta_[index] = theta;
  update_sums();
}

void StepBounds::store(int32_t token, const MaskedDistribution &distribution) {
  if (index_of(token) != NOT_STORED) return;
  const auto at = std::lower_bound(tokens_.begin(), tokens_.end(), token) - tokens_.begin();
  tokens_.insert(tokens_.begin() + at, token);
  log_p_.insert(log_p_.begin() + at, distribution.log_p[static_cast<size_t>(token)]);
  theta_.insert(theta_.begin() + at, 0.0);
  tail_ = ScaledMasses(distribution).log_mass_without(tokens_);
  update_sums();
}

void StepBounds::update_sums() {
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
