// The search for one array that satisfies some keyword groups and violates others: lengths, `contains`, distinct items.
#pragma once

#include <map>
#include <vector>

#include "json/oracle/formula_search.h"

namespace structgen {

// How many further items must and may match one `contains`.
struct ContainsCounter {
  Formula contains;
  uint64_t lo, hi;
};

class ArrayQuery {
 public:
  ArrayQuery(JsonOracle &oracle, const Groups &satisfied, const Groups &violated, ArrayControl *frame, uint64_t count);
  bool run(bool one_more);

 private:
  // For each counter, how many items have matched it.
  using Tally = std::vector<uint64_t>;

  bool collect_bounds(bool one_more);
  void bound_length_by_items();
  bool choose_violations(size_t next);
  bool break_length(const SchemaNode &group, size_t next);
  bool break_item(SchemaId group, size_t next);
  bool break_contains(SchemaId group, size_t next);
  bool repeat_item(size_t next);
  bool finish();

  bool can_count(uint64_t length);
  bool can_count_alike(const Tally &tally, const std::vector<uint32_t> &profiles, uint64_t at, uint64_t length,
                       uint64_t *end) const;
  std::vector<uint32_t> profiles(uint64_t index);
  bool count_item(const Tally &tally, uint32_t profile, Tally *next) const;
  bool is_satisfied(const Tally &tally) const;
  uint64_t first_alike() const;

  bool items_can_differ(uint64_t length);
  bool next_item_can_differ();
  bool counted_items_can_differ(uint64_t length);
  bool can_match_distinct(Formula item, const ContainsCounter &counter, uint64_t items, bool only_kind, bool *enough,
                          bool *sure);

  Formula item(uint64_t index);

  JsonOracle &oracle_;
  SchemaTables &tables_;
  FormulaSpace &formulas_;
  const Groups &satisfied_, &violated_;
  ArrayControl *frame_;  // null: no item has been read
  uint64_t count_;       // items read
  uint64_t least_ = 0, most_ = UNBOUNDED, prefix_ = 0;
  uint64_t beyond_ = 0;                               // the last index that is looked at; later items are like it
  std::map<uint64_t, std::vector<Formula>> demands_;  // on items, in addition to the groups that hold
  std::vector<ContainsCounter> counters_;
  bool unique_ = false;
};

}  // namespace structgen
