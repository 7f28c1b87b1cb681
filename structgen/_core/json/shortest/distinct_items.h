// The shortest texts of items that must all differ.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "json/shortest/shortest_values.h"

namespace structgen {

class DistinctItems {
 public:
  DistinctItems(ShortestValues &values, Candidate *best) : values_(values), best_(best) {}
  // Replaces `best` by an array whose items satisfy these requirements and differ, if that is shorter.
  void run(const std::vector<Member> &items);

 private:
  // Values that items may not have. Some of the items took equal values before.
  struct Branch {
    uint64_t length;
    std::vector<std::vector<std::string>> excluded;  // by item, sorted
    bool operator<(const Branch &o) const { return length > o.length; }
  };
  struct Conflict {
    size_t first, second;  // items with equal values; second == 0: there is no conflict
    std::string value;
  };

  bool find_conflict(const Branch &branch, Conflict *conflict);
  Formula requirement(const Branch &branch, size_t item);
  std::vector<Member> members(const Branch &branch);
  void take_first_scalars(const std::vector<Member> &items);

  ShortestValues &values_;
  Candidate *best_;
  std::vector<Formula> items_;  // the requirements without exclusions
  std::map<std::pair<Formula, std::vector<std::string>>, Formula> excluding_;
};

}  // namespace structgen
