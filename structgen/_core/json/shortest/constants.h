// Sub-schemas that hold for single JSON values, so that requirements can exclude these values.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "json/schema_table.h"

namespace structgen {

class Constants {
 public:
  explicit Constants(SchemaTable &table) : table_(table) {}

  // The requirement on values that satisfy `requirement` and equal none of `texts`, which are JSON.
  Formula exclude(Formula requirement, const std::vector<std::string> &texts);

 private:
  SchemaId schema_of(const std::string &text);

  SchemaTable &table_;
  std::map<std::string, SchemaId> constants_;
  std::map<std::vector<SchemaId>, SchemaId> enums_;
};

}  // namespace structgen
