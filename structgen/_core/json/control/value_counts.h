// `uniqueItems`: are there surely many different values under an obligation?
#pragma once

#include <unordered_map>

#include "json/oracle/oracle.h"

namespace structgen {

class ValueCounts {
 public:
  ValueCounts(SchemaTables &tables, JsonOracle &oracle) : tables_(tables), oracle_(oracle) {}

  // Are there surely `n` different values? False: it is unknown.
  bool has_many(ObligationId obligation, uint64_t n);

 private:
  struct Bounds {
    uint64_t has = 0;               // so many for certain
    uint64_t unknown = UINT64_MAX;  // from so many on it is unknown
  };

  SchemaTables &tables_;
  JsonOracle &oracle_;
  std::unordered_map<Formula, Bounds> bounds_;
};

}  // namespace structgen
