// The search for one object that satisfies some keyword groups and violates others.
//
// Keys that must be there are collected first. Then, for each group that must fail, the search chooses how: by a
// missing key, by the number of keys, or by a value.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "json/oracle/object_search.h"

namespace structgen {

class ObjectQuery {
 public:
  ObjectQuery(JsonOracle &oracle, const Groups &satisfied, const Groups &violated, ObjectControl *frame,
              const ObjectView &view);
  bool run(const NextKey *next, ObjectModel *model);

 private:
  bool collect_required_keys();
  bool search(const NextKey *next);
  bool contradicts_itself(const NextKey *next);
  bool needs_no_choice();
  bool included_can_hold();
  void make_classes(const NextKey *next);
  bool include_undeclared(KeyClass of);
  void order_violations();

  bool choose_violations(size_t next);
  bool omit_required_key(SchemaId group, size_t next);
  bool break_key_count(SchemaId group, size_t next);
  bool break_declared_value(SchemaId group, size_t next);
  bool break_undeclared_value(SchemaId group, size_t next);
  std::vector<std::string> breakable_names(SchemaId group);
  bool finish();
  uint64_t count_free_undeclared(uint64_t missing, bool *enough);
  uint64_t count_free_declared(uint64_t wanted);

  void describe(ObjectModel *model);
  void describe(ObjectCompletion *completion);

  Formula requirement(std::string_view key);
  int64_t find(std::string_view key) const;
  bool seen(std::string_view key) const;
  // Has it not been read, and may it still come where keys have an order?
  bool available(std::string_view key) const;
  uint64_t undeclared_seen() const;
  uint64_t undeclared_included(KeyClass of) const;
  bool has_unused_key(KeyClass of, uint64_t included);

  JsonOracle &oracle_;
  SchemaTables &tables_;
  FormulaSpace &formulas_;
  const Groups *satisfied_, *violated_;
  Groups sorted_, open_;  // of `satisfied_`; open: those that may restrict any key
  Groups ordered_;        // of `violated_`, in the order of the search
  ObjectControl *frame_;  // null: no key has been read
  ObjectView view_;
  std::map<std::string, std::vector<Formula>, std::less<>> included_;  // with further demands on the value
  std::set<std::string, std::less<>> omitted_;
  std::vector<std::pair<KeyClass, std::vector<Formula>>> undeclared_;  // to come, with further demands
  uint64_t min_ = 0, max_ = UNBOUNDED;
  ObjectControl *classes_ = nullptr;  // tells undeclared keys apart for all groups of the query
  std::vector<std::pair<std::string_view, SchemaId>> absences_;  // groups that fail by a key left out
};

}  // namespace structgen
