// Frames that are one of many records or tuples: an enum of objects or arrays, `anyOf` over records.
//
// The formula of such a frame is a disjunction of branches. Each branch is a conjunction of keyword groups, and nothing
// is negated. The frame is live exactly if one branch is. Deciding each branch on its own takes linear time, where
// deciding the whole formula for each key or verdict would take quadratic time.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "json/oracle/formula_search.h"

namespace structgen {

class BranchSearch {
 public:
  explicit BranchSearch(JsonOracle &oracle);

  // Does `check` accept a branch? Nothing where the formula has another form. A branch violates no group.
  std::optional<bool> any(Formula f, const Check &check);
  // The verdicts over a child's roots that leave a frame of many branches live; nothing where the frame is no such one.
  std::optional<Formula> object_verdicts(ObjectControl *frame, const GroupRoots &undecided, const ObjectView &view);
  std::optional<Formula> array_verdicts(ArrayControl *frame, const GroupRoots &undecided, uint64_t count);
  // Adds the declared keys that may come next; false where the frame is no such one, or has a branch that is not
  // closed.
  bool add_allowed_keys(ObjectControl *frame, const ObjectView &view, Bits *keys);

 private:
  Formula find_choice(Formula f, Groups *common) const;
  Groups groups_of(Formula branch, const Groups &common) const;
  std::vector<Groups> many_branches(Formula f) const;
  std::optional<Formula> verdicts(Formula frame, const GroupRoots &undecided,
                                  const std::function<bool(const Groups &)> &possible);
  bool add_keys_of_branch(ObjectControl *frame, const ObjectView &view, const Groups &branch, Bits *keys);
  std::vector<uint32_t> candidate_keys(const ObjectControl &frame, const ObjectView &view, const Groups &branch,
                                       SchemaId closed, const Bits &known) const;

  JsonOracle &oracle_;
  SchemaTables &tables_;
  FormulaSpace &formulas_;
};

}  // namespace structgen
