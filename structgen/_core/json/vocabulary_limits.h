// Which JSON values the tokens of a vocabulary can write at all.
//
// Brackets, separators and the white space of a fixed layout need tokens just as digits do. Where a separator cannot be
// written, a container has at most one member; where a bracket cannot, values of its type do not exist.
#pragma once

#include <string_view>

#include "json/schema_table.h"

namespace structgen {

class VocabularyLimits {
 public:
  // Also marks, in the table of white space, the states from which a token can go on.
  explicit VocabularyLimits(SchemaTable &table);

  // Restricts an expanded requirement of this type to values that the vocabulary can write.
  Formula restrict(Formula expanded, Type type);

 private:
  bool spells(std::string_view text) const;
  void limit_by_layout();
  void limit_by_space_table();
  void mark_passable_gaps();
  void limit_counts(bool first_item, bool first_key, bool further_members);

  SchemaTable &table_;
  uint8_t types_ = ALL_TYPES;    // those whose brackets, quotes or digits can be written
  SchemaId counts_ = NO_SCHEMA;  // how many members a container may have, where separators cannot be written
};

}  // namespace structgen
