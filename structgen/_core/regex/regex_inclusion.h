// Is one regular language a subset of another? Searches use this to omit states.
//
// Both are read in parallel; a pair of states refutes it if the first accepts and the second does not. A proof holds
// for all pairs of the search, so later queries about the states of one automaton are cheap. If many pairs prove
// nothing, the search stops.
#pragma once

#include <unordered_map>

#include "regex/regex.h"

namespace structgen {

class RegexInclusion {
 public:
  // The cost of a new state of a regular language, in pairs or steps of a search.
  static constexpr size_t ROW = 20;

  explicit RegexInclusion(RegexSpace &regex) : regex_(regex) {}
  // False also if that takes too many steps to decide.
  bool included(Re part, Re whole);

 private:
  RegexSpace &regex_;
  std::unordered_map<uint64_t, bool> known_;
  size_t allowance_ = 200'000;  // pairs; proofs return some
};

}  // namespace structgen
