// Is one regular language a part of another? Asked of states that a search could leave out.
//
// Both are read side by side: a pair is refuted where the first accepts and the second does not. What is proven is
// proven for all pairs on the way, so questions about the states of one automaton cost little after the first. Where
// many pairs prove nothing, no more are looked at.
#pragma once

#include <unordered_map>

#include "regex/regex.h"

namespace structgen {

class RegexInclusion {
 public:
  // Pairs, or steps of a search, that a new state of a regular language is worth.
  static constexpr size_t ROW = 20;

  explicit RegexInclusion(RegexSpace &regex) : regex_(regex) {}
  // False also where it takes too many steps to tell.
  bool included(Re part, Re whole);

 private:
  RegexSpace &regex_;
  std::unordered_map<uint64_t, bool> known_;
  size_t allowance_ = 200'000;  // pairs; what is proven gives some back
};

}  // namespace structgen
