// The next-token distribution of one step under upper bounds: what exact samplers store of a prefix, and draw from.
//
// Why in the core: a sampler needs such a distribution at every token, directly after a model's forward pass, when the
// CPU's caches are cold. Of tens of thousands of tokens a few dozen are likely. These are stored one by one, the others
// as one mass, the tail.
// For a token, p is the model's probability, and theta an upper bound on the probability that a text which goes on with
// the token satisfies the constraint.
// Invariant: `tokens` are increasing. All numbers are logarithms. `bound` is the log of the sum of p * theta over the
// stored tokens and of p over the others.
// Cost: construction is a pass over the mask and, if more than a few tokens are allowed, over the distribution. A draw
// is a binary search. To learn a bound takes one exponential for each stored token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace structgen {

// A model's distribution over all ids, as logarithms and as probabilities, and which ids are allowed: one bit each,
// least significant first. Bits past the last id are ignored. Without bits, all ids are allowed.
struct MaskedDistribution {
  std::span<const float> log_p, masses;
  std::span<const uint32_t> allowed;

  size_t words() const { return (masses.size() + 31) / 32; }
  uint32_t word(size_t w) const {
    const uint32_t bits = allowed.empty() ? UINT32_MAX : allowed[w];
    const size_t left = masses.size() - 32 * w;
    return left >= 32 ? bits : bits & ((1u << left) - 1);
  }
};

class StepBounds {
 public:
  static constexpr int32_t TAIL = -1;  // drawn instead of a token: one of those that are not stored

  // Stores the tokens whose share of the allowed mass is at least `least`. Stores all allowed tokens if there are at
  // most `few` of them besides twice the likely ones.
  StepBounds(const MaskedDistribution &distribution, float least, int64_t few);
  // Restores stored values: three vectors of one length, the tokens increasing.
  StepBounds(std::vector<int32_t> tokens, std::vector<double> log_p, std::vector<double> theta, double tail);

  double bound() const { return bound_; }
  double tail() const { return tail_; }  // the log mass of the allowed tokens that are not stored
  const std::vector<int32_t> &tokens() const { return tokens_; }
  const std::vector<double> &log_p() const { return log_p_; }
  const std::vector<double> &theta() const { return theta_; }
  static constexpr size_t NOT_STORED = SIZE_MAX;
  size_t index_of(int32_t token) const;  // of a stored token

  // Draws a token in proportion to p * theta, by a number in [0, 1). The total mass must not be zero.
  int32_t draw(double uniform) const;
  // Sets the bound of a stored token.
  void learn(size_t index, double theta);
  // Moves a token from the tail to the stored ones, if it is there. The distribution is the one of the construction.
  void store(int32_t token, const MaskedDistribution &distribution);

 private:
  void update_sums();  // computes `cumulative_` and `bound_` again

  std::vector<int32_t> tokens_;
  std::vector<double> log_p_, theta_, cumulative_;  // the last of `cumulative_` is the tail
  double tail_, bound_ = 0;
};

}  // namespace structgen
