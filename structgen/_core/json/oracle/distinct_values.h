// Lower bounds on how many different values satisfy a requirement, for `uniqueItems`.
#pragma once

#include "json/oracle/formula_search.h"

namespace structgen {

class DistinctValues {
 public:
  explicit DistinctValues(JsonOracle &oracle);

  // Are there `n` different values? False may also mean that this is unknown: `sure` is then set to false.
  bool has(Formula f, uint64_t n, bool *sure) { return has(f, n, 0, sure); }
  // The same as a query from outside. False: it is unknown.
  bool has_many(Formula f, uint64_t n);

 private:
  // `depth`: of containers that are looked into.
  bool has(Formula f, uint64_t n, int depth, bool *sure);
  bool count_values(Formula f, uint64_t n, int depth, bool *sure);
  bool count_arrays(const Groups &groups, uint64_t n, int depth);
  bool count_objects(const Groups &groups, uint64_t n, int depth);
  uint64_t count_literals(Formula f);
  uint64_t count_strings(Formula f, uint64_t most);
  uint64_t count_numbers(Formula f, uint64_t most);
  uint64_t count_texts(Re language, uint64_t most);

  JsonOracle &oracle_;
  SchemaTables &tables_;
  FormulaSpace &formulas_;
};

}  // namespace structgen
