// The emptiness oracle: does any JSON value satisfy a requirement?
//
// The answer is a least fixpoint. Values are finite, so a requirement that can only be met through itself cannot be
// met. Conjunctive requirements are decided directly. For others the oracle enumerates ways to satisfy the formula
// (keyword groups that hold, groups that fail) and stops at the first success. The question is EXPTIME-hard in general:
// answers are exact within a budget; after it, a requirement counts as live and the answer as unproven.
#pragma once

#include <deque>
#include <functional>
#include <unordered_map>

#include "json/oracle/array_search.h"
#include "json/oracle/branch_search.h"
#include "json/oracle/distinct_values.h"
#include "json/oracle/formula_search.h"
#include "json/oracle/object_search.h"
#include "json/oracle/query.h"

namespace structgen {

class JsonOracle {
 public:
  explicit JsonOracle(SchemaTables &tables);

  bool can_hold(Formula requirement);
  // The same for values of one type.
  bool holds_type(Formula requirement, Type type);
  // Can a keyword group hold on its own?
  bool group_can_hold(SchemaId group, Type type);
  uint64_t unproven() const { return budget_.unproven(); }
  size_t memory() const { return known_.size() * sizeof(Known); }

  SchemaTables &tables() { return tables_; }
  Budget &budget() { return budget_; }
  QueryState &state() { return state_; }
  FormulaSearch &formulas() { return formulas_; }
  BranchSearch &branches() { return branches_; }
  ObjectSearch &objects() { return objects_; }
  ArraySearch &arrays() { return arrays_; }
  DistinctValues &distinct() { return distinct_; }

  // Tests a way to satisfy the formula of an object or array of which nothing has been read.
  Check check_object();
  Check check_array();
  // The answer for a frame and what it has read, of which `frame` is a hash; `decide` finds it the first time.
  bool memoise(const Hash128 &frame, const std::function<bool()> &decide);

 private:
  struct Known {
    int8_t any_type = UNKNOWN;
    int8_t by_type[TYPE_COUNT] = {UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN};
    static constexpr int8_t UNKNOWN = -1;
  };
  Known &known(Formula f);
  bool any_type_holds(Formula f);
  bool expanded_can_hold(Formula expanded, Type type);

  SchemaTables &tables_;
  Budget budget_;
  QueryState state_;
  FormulaSearch formulas_;
  BranchSearch branches_;
  ObjectSearch objects_;
  ArraySearch arrays_;
  DistinctValues distinct_;
  std::deque<Known> known_;  // by formula
  std::unordered_map<Hash128, bool, HashOf128> frames_;
};

}  // namespace structgen
