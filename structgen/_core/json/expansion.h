// Expansion: a requirement on a value of known type, as a formula over *keyword groups*.
//
// A keyword group is what one sub-schema says about one type: its `properties` and `required`, or its `pattern` and
// `maxLength`. Applicators (allOf, anyOf, $ref, ...) become connectives; they are not multiplied out.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "json/tags.h"

namespace structgen {

class Expansion {
 public:
  Expansion(SchemaTable &table, Tags &tags) : table_(table), formulas_(table.formulas()), tags_(tags) {}

  Formula expand(Formula f, Type type);
  size_t memory() const { return known_.size() * sizeof(known_[0]); }

 private:
  using ByType = std::array<Formula, TYPE_COUNT>;

  Formula &known(Formula f, Type type);
  std::vector<SchemaId> operands(SchemaId id, Type type) const;
  Formula expand_schema(SchemaId id, Type type);
  Formula combine_operands(SchemaId id, Type type);

  SchemaTable &table_;
  FormulaSpace &formulas_;
  Tags &tags_;
  std::deque<ByType> known_;  // by formula; UNKNOWN until expanded
};

}  // namespace structgen
