// The search for the shortest array that satisfies some keyword groups and violates others.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "json/shortest/shortest_values.h"

namespace structgen {

class ShortestArray {
 public:
  ShortestArray(ShortestValues &values, const Groups &satisfied, const Groups &violated, Candidate *best);
  // Replaces `best` by shorter arrays.
  void run();

 private:
  // How many items must and may match one `contains`.
  struct Counter {
    Formula contains;
    uint64_t lo, hi;
  };
  // For each counter, how many items have matched it.
  using Tally = std::vector<uint64_t>;
  // The least length of items with a tally, and how it is reached.
  struct Reached {
    uint64_t length;
    Tally from;
    Formula item;
  };
  using Layer = std::map<Tally, Reached>;  // for one number of items
  // Counters that one item matches, as bits, and the requirement on it.
  using Profiles = std::vector<std::pair<uint32_t, Formula>>;

  bool collect_bounds();
  void choose_violations(size_t next);
  void break_item(SchemaId group, uint64_t index, size_t next);
  void break_length(SchemaId group, size_t next);
  void break_contains(SchemaId group, size_t next);
  void repeat_item(size_t next);
  void finish();

  void search_counts(uint64_t length);
  Profiles profiles(uint64_t index);
  bool count_item(const Tally &tally, uint32_t profile, Tally *next) const;
  bool add_items(const Layer &layer, const Profiles &profiles, Layer *next);
  void keep_counted(const std::vector<Layer> &layers, const Tally &tally);

  uint64_t least_items() const;
  uint64_t first_alike() const;  // from this index on all items are alike
  std::vector<Formula> item_requirements(uint64_t index);
  // The items up to `length`; the last ones together where they are alike.
  std::vector<Member> items(uint64_t length);
  void keep(std::vector<Member> items);

  ShortestValues &values_;
  SchemaTables &tables_;
  FormulaSpace &formulas_;
  const Groups &satisfied_, &violated_;
  Candidate *best_;
  uint64_t least_ = 0, most_ = UNBOUNDED, prefix_ = 0, beyond_ = 0;
  std::map<uint64_t, std::vector<Formula>> demands_;  // on items, in addition to the groups that hold
  std::vector<Counter> counters_;
  bool unique_ = false;
  std::optional<std::pair<uint64_t, uint64_t>> twins_;  // two items that must be equal
};

// The bytes of an array with these items; NO_LENGTH where some item has no text.
uint64_t array_length(ShortestValues &values, const std::vector<Member> &items);

}  // namespace structgen
