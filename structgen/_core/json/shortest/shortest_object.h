// The search for the shortest object that satisfies some keyword groups and violates others.
//
// It chooses for each group that must fail how it fails, cheapest first, and stops where the length so far is no less
// than that of the best object.
#pragma once

#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "json/shortest/shortest_values.h"

namespace structgen {

class ShortestObject {
 public:
  ShortestObject(ShortestValues &values, ObjectControl *frame, const Groups &satisfied, const Groups &violated,
                 Candidate *best);
  // Replaces `best` by shorter objects.
  void run();

 private:
  // A value that breaks what a group requires of its key.
  struct BrokenValue {
    uint64_t added_length;
    bool undeclared;
    size_t index;      // of the key, or of the undeclared key that is to come; NEW_KEY: one more
    size_t key_class;  // of a new undeclared key: the index of its class
    Formula broken;
  };
  static constexpr size_t NEW_KEY = SIZE_MAX;

  bool include_required(uint64_t *length);
  void find_classes();
  void choose_violations(size_t next, uint64_t length);
  void omit_key(const std::vector<std::string> &required, size_t next, uint64_t length);
  void break_key_count(SchemaId group, size_t next, uint64_t length);
  void break_value(SchemaId group, size_t next, uint64_t length);
  bool list_broken_values(SchemaId group, std::vector<BrokenValue> *out);

  void finish(uint64_t length);
  bool fill_up(uint64_t missing, std::vector<size_t> taken, std::vector<Member> *members, uint64_t *length);
  void keep(std::vector<Member> members, uint64_t total);

  uint64_t count() const { return keys_.size() + undeclared_.size(); }
  uint64_t missing_keys() const { return min_ > count() ? min_ - count() : 0; }
  // What the groups that hold require of the value of a declared key.
  Formula requirement(uint32_t key);
  Formula with_demands(Formula requirement, const std::vector<Formula> &demands);
  const std::string *undeclared_key(size_t key_class, size_t i);
  static uint64_t key_length(std::string_view key) { return written_length(key) + 3; }

  ShortestValues &values_;
  SchemaTables &tables_;
  FormulaSpace &formulas_;
  ObjectControl *frame_;
  const KeyUniverse &universe_;
  const Groups &satisfied_, &violated_;
  Candidate *best_;
  uint64_t min_ = 0, max_ = UNBOUNDED;
  std::unordered_map<uint32_t, Formula> requirements_;  // memo of `requirement`
  std::map<uint32_t, std::vector<Formula>> keys_;       // declared keys to come, with further demands on their values
  std::set<uint32_t> omitted_;
  std::vector<std::pair<size_t, std::vector<Formula>>> undeclared_;  // class index, further demands
  std::vector<std::pair<KeyClass, Re>> classes_;
  std::vector<Formula> class_requirements_;
};

}  // namespace structgen
