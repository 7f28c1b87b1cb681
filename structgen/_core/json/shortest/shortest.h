// The shortest text of a requirement on a JSON value: Knuth's generalisation of Dijkstra's algorithm, run
// as a fixpoint.
//
// The length of a container is a sum over its children, and a child's length is the least over its own ways
// to be built; so lengths only go down from "none known" and settle at the least ones, recursion included. A
// requirement is looked at when it is first asked for; one whose length goes down asks those that used it to
// look again. How a container satisfies a formula with branches is enumerated as the oracle does it: every way
// to choose which keyword groups hold and which fail, and every cheapest means by which a group can fail.
//
// Measure: bytes of the text with no more white space than it must have, escapes canonical, numbers in
// their shortest spelling.
// Exact unless `exact()` says otherwise: a budget ran out, or one of the cases counted by `doubt`.
// Source: D. E. Knuth, "A generalization of Dijkstra's algorithm", Inf. Proc. Letters 6 (1977).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "util/search_failure.h"
#include "json/control.h"
#include "json/shortest/texts.h"

namespace structgen {

class Shortest {
 public:
  explicit Shortest(JsonControl &control) : c_(control) {}

  // Appends a shortest text of a value that satisfies `requirement`; false when none was found.
  bool text(Formula requirement, std::string *out);
  // The values that satisfy `requirement` and equal none of `texts`, which are JSON.
  Formula other_than(Formula requirement, const std::vector<std::string> &texts);
  // The i-th of the keys in `language` that the frame does not declare, the shortest first; null: there are no more.
  const std::string *extra_key(const ObjectControl &frame, Re language, size_t i) {
    return extra_texts(frame, language).get(i);
  }
  bool exact() const { return exact_; }
  // The bound that kept `text` from finding one the last time it found none, as far as it knows.
  SearchFailure search_failure() const { return search_failure_; }
  // Scalars that satisfy `requirement`, the shortest of each type first; null: there are no more. Equal ones may come
  // twice, where numbers are spelled in several ways.
  const std::string *scalar(Formula requirement, size_t i);

 private:
  static constexpr uint64_t NONE = UINT64_MAX / 4;  // no length known; sums of a few do not overflow

  static constexpr uint64_t EMPTY_CONTAINER = 2;
  static constexpr size_t MAX_TEXT = size_t{1} << 24;  // bytes of a text worth writing

  struct Part {
    std::string key;  // objects
    Formula value;
    uint64_t times;  // arrays: so many items alike in a row
  };
  struct Candidate {
    enum Kind : uint8_t { Literal, Number, String, Array, Object } kind = Literal;
    uint64_t length = NONE;
    std::string scalar;  // its text; of a string the characters. Literal: also of an array that was written at once
    std::vector<Part> parts;
  };
  struct Entry {
    Candidate best;
    std::vector<Formula> used_by;
    bool seen = false, queued = false, scalars_done = false;
  };
  using Groups = std::vector<SchemaId>;
  struct ObjectChoice;
  struct ArrayChoice;

  uint64_t length(Formula f);
  void look(Formula f);
  void scalars(const ValueControl &v, Candidate *best);
  void offer_string(const StringLanguage &s, Candidate *best);
  bool spend(uint64_t work = 1);
  void doubt(SearchFailure why = SearchFailure::Attempts) {
    exact_ = false;
    search_failure_ = first_of(search_failure_, why);
  }
  std::vector<std::pair<Groups, Groups>> ways(Formula f, bool *all);
  // Known lengths only: for what has been looked at.
  bool write(Formula f, std::string *out) const;
  SchemaId constant(Formula f);
  SchemaId add(SchemaNode node);

  void objects(ObjectControl *o, Candidate *best);
  void violate(ObjectChoice &q, size_t next, uint64_t sum);
  void finish(ObjectChoice &q, uint64_t sum);
  Formula base(ObjectChoice &q, uint32_t key);
  uint64_t key_length(std::string_view key) const { return written_length(key) + 3; }
  ShortestTexts &extra_texts(const ObjectControl &o, Re language);

  void arrays(ArrayControl *a, Candidate *best);
  void violate(ArrayChoice &q, size_t next);
  void finish(ArrayChoice &q);
  std::vector<Part> items_of(const ArrayChoice &q, uint64_t length);
  void counted(ArrayChoice &q, uint64_t length);
  void keep_items(ArrayChoice &q, std::vector<Part> items);
  void distinct(ArrayChoice &q, const std::vector<Part> &items);
  void many_distinct(ArrayChoice &q, const std::vector<Part> &items);
  uint64_t items_length(const std::vector<Part> &items);

  JsonControl &c_;
  std::unordered_map<Formula, std::unique_ptr<Entry>> entries_;
  std::deque<Formula> queue_;
  std::map<Re, std::unique_ptr<ShortestTexts>> texts_;
  struct Scalars {
    struct Kind {
      ShortestTexts texts;
      bool is_string, ended = false;
      size_t taken = 0;
    };
    std::vector<Kind> kinds;
    std::vector<std::string> texts;
  };
  std::unordered_map<Formula, Scalars> scalars_;
  std::unordered_map<Formula, SearchFailure> failed_;
  std::map<std::vector<SchemaId>, SchemaId> enums_;
  std::map<std::string, SchemaId> constants_;
  Formula current_ = UINT32_MAX;
  uint64_t work_ = 0;
  int depth_ = 0;
  bool exact_ = true;
  SearchFailure search_failure_ = SearchFailure::Nothing;
};

}  // namespace structgen
