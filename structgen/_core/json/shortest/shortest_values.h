// The shortest text of a value that satisfies a requirement: Knuth's generalisation of Dijkstra's algorithm, run as a
// fixpoint.
//
// The length of a container is a sum over its members, and the length of a member is the least over the ways to build
// it. So lengths only decrease, from "unknown" to the least ones, recursion included. A requirement is examined when it
// is first used; when its length decreases, the requirements that use it are examined again. How a container satisfies
// a formula with branches is enumerated as the oracle does it: every assignment of keyword groups, and every cheapest
// way in which a group can fail.
//
// Measure: bytes of the text with as little white space as the options allow, canonical escapes, and numbers in their
// shortest spelling. Texts are shortest unless `is_exact` says otherwise: a budget was used up, or a case was met that
// the search does not cover.
// Source: D. E. Knuth, "A generalization of Dijkstra's algorithm", Inf. Proc. Letters 6 (1977).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "json/oracle/value_controls.h"
#include "json/shortest/constants.h"
#include "json/shortest/scalar_texts.h"
#include "json/shortest/shortest_texts.h"
#include "util/search_failure.h"

namespace structgen {

constexpr uint64_t NO_LENGTH = UINT64_MAX / 4;         // no text is known; sums of a few do not overflow
constexpr uint64_t EMPTY_CONTAINER = 2;                // bytes
constexpr size_t MAX_SHORTEST_TEXT = size_t{1} << 24;  // bytes of the longest text that is written

struct Member {
  std::string key;  // of objects
  Formula value;
  uint64_t times;  // of arrays: equal items in a row
};

// The shortest value of a requirement that is known so far.
struct Candidate {
  enum Kind : uint8_t { Literal, Number, String, Array, Object } kind = Literal;
  uint64_t length = NO_LENGTH;
  std::string text;  // of scalars; for strings the characters. Literal: also an array that was written as a whole
  std::vector<Member> members;
};

class ShortestValues {
 public:
  ShortestValues(SchemaTables &tables, JsonOracle &oracle, ValueControls &values)
      : tables_(tables), oracle_(oracle), values_(values), constants_(tables.table), scalars_(tables, values) {}

  // Appends a shortest text of a value that satisfies `requirement`; false when none was found.
  bool text(Formula requirement, std::string *out);
  // The requirement on values that also equal none of `texts`, which are JSON.
  Formula exclude(Formula requirement, const std::vector<std::string> &texts) {
    return constants_.exclude(requirement, texts);
  }
  // The i-th undeclared key of the frame in `language`, the shortest first; null: there are no more.
  const std::string *undeclared_key(const ObjectControl &frame, Re language, size_t i) {
    return undeclared_keys(frame, language).get(i);
  }
  // The i-th scalar that satisfies `requirement`; see `ScalarTexts`.
  const std::string *scalar(Formula requirement, size_t i) { return scalars_.get(requirement, i); }
  bool is_exact() const { return exact_; }
  // The bound that kept the last call of `text` from finding one, if it is known.
  SearchFailure search_failure() const { return search_failure_; }

  // For the searches for objects and arrays.
  // The least length that is known; the current requirement is examined again when it decreases.
  uint64_t length(Formula f);
  // Writes the candidate of an examined requirement; false when it is too long.
  bool write(Formula f, std::string *out) const;
  bool spend(uint64_t work = 1);
  // Notes that texts may not be shortest, and why.
  void mark_inexact(SearchFailure why = SearchFailure::Attempts);
  ShortestTexts &undeclared_keys(const ObjectControl &frame, Re language);
  SchemaTables &tables() { return tables_; }

 private:
  struct Entry {
    Candidate best;
    std::vector<Formula> used_by;
    bool examined = false, queued = false, has_scalars = false;
  };

  void examine(Formula f);
  void offer_scalars(const ValueControl &v, Candidate *best);
  void offer_string(const StringLanguage &s, Candidate *best);
  // The ways to satisfy the formula of a container; calls `mark_inexact` at the end if they were too many.
  template <class Search>
  void search_containers(Formula f, Candidate *best, const Search &search);
  void clear();

  SchemaTables &tables_;
  JsonOracle &oracle_;
  ValueControls &values_;
  Constants constants_;
  ScalarTexts scalars_;
  std::unordered_map<Formula, std::unique_ptr<Entry>> entries_;
  std::deque<Formula> queue_;
  std::map<Re, std::unique_ptr<ShortestTexts>> undeclared_keys_;
  std::unordered_map<Formula, SearchFailure> failed_;
  Formula current_ = UINT32_MAX;  // the requirement that is being examined
  uint64_t work_ = 0;
  int depth_ = 0;
  bool exact_ = true;
  SearchFailure search_failure_ = SearchFailure::Nothing;
};

}  // namespace structgen
