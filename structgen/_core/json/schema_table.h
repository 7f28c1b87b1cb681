// The sub-schemas of one JSON Schema and the formulas over them, shared by all that is computed from the schema.
//
// A *requirement* on a value is a formula whose leaves are sub-schemas. Searches add sub-schemas of their own, such as
// the enum of the items that an array already has. They are numbered after those of the schema and are never removed.
#pragma once

#include "json/formula.h"
#include "json/schema.h"
#include "text/text_space.h"

namespace structgen {

class SchemaTable {
 public:
  static constexpr const char *LITERALS[] = {"null", "true", "false"};  // by bit of `SchemaNode::literals`

  SchemaTable(Schema schema, TextSpace &text);

  const Schema &schema() const { return schema_; }
  const JsonOptions &options() const { return schema_.options; }
  std::vector<SpaceRow> &space_rows() { return schema_.options.rows; }
  const SchemaNode &node(SchemaId id) const { return schema_.nodes[id]; }
  size_t size() const { return schema_.nodes.size(); }
  // Adds a sub-schema that is not part of the schema. References to nodes are no longer valid.
  SchemaId add(SchemaNode node);
  // The requirement that a value satisfies a sub-schema.
  Formula leaf(SchemaId id);

  FormulaSpace &formulas() { return formulas_; }
  size_t formula_memory() const { return formulas_.memory(); }
  TextSpace &text() { return text_; }
  RegexSpace &regex() { return text_.regex(); }

  // Counts answers that were assumed because a limit was met.
  void count_unproven(uint64_t answers = 1) { unproven_ += answers; }
  uint64_t unproven() const { return unproven_; }

 private:
  Schema schema_;
  TextSpace &text_;
  FormulaSpace formulas_;
  uint64_t unproven_ = 0;
};

}  // namespace structgen
