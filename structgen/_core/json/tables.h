// Everything that is computed from a schema without a search, in order of dependency.
//
// The oracle, the search for shortest texts and the control of frames share these tables. All entries are interned or
// memoised, and made when they are first needed.
#pragma once

#include "json/array_control.h"
#include "json/object_control.h"
#include "json/vocabulary_limits.h"

namespace structgen {

struct SchemaTables {
  SchemaTables(Schema schema, TextSpace &text)
      : table(std::move(schema), text),
        limits(table),
        tags(table),
        expansion(table, tags),
        obligations(table),
        scalars(table, expansion, obligations),
        keys(table, expansion, scalars),
        objects(table, obligations, keys),
        arrays(table, obligations) {}

  FormulaSpace &formulas() { return table.formulas(); }
  RegexSpace &regex() { return table.regex(); }
  const SchemaNode &node(SchemaId id) const { return table.node(id); }

  SchemaTable table;
  VocabularyLimits limits;
  Tags tags;
  Expansion expansion;
  Obligations obligations;
  ScalarLanguages scalars;
  KeyRules keys;
  ObjectControls objects;
  ArrayControls arrays;
};

}  // namespace structgen
