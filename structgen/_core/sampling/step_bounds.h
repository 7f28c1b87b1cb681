// One step's law under upper bounds: what exact samplers hold of a prefix, and draw from.
//
// Why in the core: a walk comes to such a law at every token, right behind a model's pass that has left nothing in the
// caches. Of tens of thousands of tokens a few dozen are likely; those are held one by one, the others as one mass.
// Invariant: `tokens` are increasing; all is in log space; `bound` is the sum of p * theta over the tokens held and of
// p over the others (its log).
// Cost: to make one, a pass over the mask and, where more than a few tokens are allowed, over the law; a draw is a
// search; to learn is one exponential for each token held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace structgen {

// A model's law over all ids, as logarithms and as probabilities, and which of them are allowed: one bit each, least
// significant first. Bits past the last id are ignored; no bits: all are allowed.
struct MaskedLaw {
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
  static constexpr int32_t TAIL = -1;  // drawn instead of a token: one of those that are not held one by one

  // Tokens that are `least` of the mass allowed are held one by one; a law of not many more than these and `few` whole.
  StepBounds(const MaskedLaw &law, float least, int64_t few);
  // As it was: the three of one length, the tokens increasing.
  StepBounds(std::vector<int32_t> tokens, std::vector<double> log_p, std::vector<double> theta, double tail);

  double bound() const { return bound_; }
  double tail() const { return tail_; }  // the log mass of what may follow and is not held
  const std::vector<int32_t> &tokens() const { return tokens_; }
  const std::vector<double> &log_p() const { return log_p_; }
  const std::vector<double> &theta() const { return theta_; }
  static constexpr size_t NOT_HELD = SIZE_MAX;
  size_t place(int32_t token) const;  // where a token is held

  // A token, in proportion to p * theta, by a number in [0, 1). There must be mass.
  int32_t draw(double uniform) const;
  void learn(size_t place, double theta);
  // Takes a token out of the tail, if it is there; the law is as when this was made.
  void hold(int32_t token, const MaskedLaw &law);

 private:
  void settle();

  std::vector<int32_t> tokens_;
  std::vector<double> log_p_, theta_, cumulative_;  // the last of `cumulative_` is the tail
  double tail_, bound_ = 0;
};

}  // namespace structgen
