// The control of one JSON Schema: what values, keys and items may come next at each place of a text.
//
// It is finite, since it depends on the schema and not on the text, and is built when it is first reached, or by
// `prepare_first_key`. It belongs to one program, whose lock guards it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "json/control/array_frames.h"
#include "json/control/object_frames.h"
#include "json/shortest/shortest_values.h"

namespace structgen {

class JsonControl {
 public:
  JsonControl(Schema schema, TextSpace &text);
  JsonControl(const JsonControl &) = delete;
  JsonControl &operator=(const JsonControl &) = delete;

  const Schema &schema() const { return tables_.table.schema(); }
  TextSpace &text() { return tables_.table.text(); }
  FormulaSpace &formulas() { return formulas_; }
  const Obligation &obligation(ObligationId id) const { return tables_.obligations[id]; }

  // The whole document.
  ValueControl *root() { return values_.control(root_); }
  Formula root_requirement() const { return tables_.obligations[root_].requirement; }

  // Resolves the first declared key of a document that is one of many objects, as a call of one of many tools is.
  // Compiling does this, so that the first masks do less work.
  void prepare_first_key();

  ObjectControl *open_object(ValueControl *value) { return values_.open_object(value); }
  ArrayControl *open_array(ValueControl *value) { return values_.open_array(value); }
  ObjectFrames &objects() { return objects_; }
  ArrayFrames &arrays() { return arrays_; }

  bool can_hold(Formula requirement) { return oracle_.can_hold(requirement); }
  ShortestValues &shortest() { return shortest_; }
  // The control of values that also equal none of `texts`, which are JSON; null when there is no such value.
  ValueControl *value_excluding(const ValueControl *value, const std::vector<std::string> &texts);
  // Are there surely `n` different values? False: it is unknown.
  bool has_many_values(const ValueControl *value, uint64_t n) { return counts_.has_many(value->obligation, n); }

  // For messages: the sub-schemas that an obligation depends on, and those that no value satisfies although their own
  // sub-schemas are not the reason.
  std::vector<SchemaId> schemas_of(ObligationId id) const { return formulas_.leaves(obligation(id).requirement); }
  std::vector<SchemaId> unsatisfiable_schemas();

  void count_unproven() { tables_.table.count_unproven(); }
  uint64_t unproven() const { return tables_.table.unproven() + oracle_.unproven(); }
  size_t memory() const;

 private:
  bool is_reason(SchemaId id, std::vector<SchemaId> *todo, std::vector<bool> *reached);

  SchemaTables tables_;
  FormulaSpace &formulas_;
  JsonOracle oracle_;
  ValueControls values_;
  ShortestValues shortest_;
  ChildResolver children_;
  ValueCounts counts_;
  ObjectFrames objects_;
  ArrayFrames arrays_;
  ObligationId root_;
};

}  // namespace structgen
