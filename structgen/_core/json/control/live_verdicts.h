// Which verdicts over the roots of a child leave its frame live, as a formula over the indexes of the roots.
//
// The formula is found by testing the frame: by a table over all combinations where roots are few, by one row for each
// listed value where roots hold for a few values only, and otherwise by a decision tree. The tree leaves out
// combinations that no value has, so that equal or exclusive roots, as branches mostly have, cost nothing.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "json/oracle/oracle.h"

namespace structgen {

// Is a frame live after a child with these verdicts of its roots?
using LiveAfter = std::function<bool(const Holds &)>;

class LiveVerdicts {
 public:
  LiveVerdicts(SchemaTables &tables, JsonOracle &oracle)
      : tables_(tables), formulas_(tables.formulas()), oracle_(oracle) {}

  // `frame`: the requirement of the frame. `may_reverse`: roots may be tested as their contraries. Nothing where there
  // are too many combinations to test.
  std::optional<Formula> find(Formula frame, const GroupRoots &undecided, const std::vector<Formula> &roots,
                              bool may_reverse, const LiveAfter &live);

 private:
  std::optional<std::vector<bool>> roots_better_failed(Formula frame, const GroupRoots &undecided, size_t roots) const;
  std::optional<Formula> by_tables(const std::vector<Formula> &roots, bool monotone, const LiveAfter &live);
  std::optional<Formula> by_cases(const std::vector<Formula> &roots, bool monotone, const LiveAfter &live);

  SchemaTables &tables_;
  FormulaSpace &formulas_;
  JsonOracle &oracle_;
};

}  // namespace structgen
