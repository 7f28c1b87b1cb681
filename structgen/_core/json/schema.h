// A JSON Schema in the form in which the front end passes it: one record for each reachable sub-schema.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "regex/numbers.h"
#include "regex/regex.h"
#include "text/json_options.h"
#include "util/hashing.h"

namespace structgen {

enum class Type : uint8_t { Null, Boolean, Object, Array, Number, String };
constexpr int TYPE_COUNT = 6;
constexpr uint8_t type_bit(Type t) { return static_cast<uint8_t>(1u << static_cast<int>(t)); }
constexpr uint8_t ALL_TYPES = 63;

using SchemaId = uint32_t;
constexpr SchemaId NO_SCHEMA = UINT32_MAX;
constexpr uint64_t UNBOUNDED = UINT64_MAX;

struct SchemaNode {
  std::optional<bool> boolean;  // a boolean schema
  std::string pointer;
  uint8_t types = ALL_TYPES;

  // enum / const: the value is one of these
  bool has_values = false;
  std::vector<std::string> strings, numbers;
  uint8_t literals = 0;  // bit 0 null, 1 true, 2 false
  std::vector<SchemaId> values;

  bool has_number = false;
  bool digits = false;  // draft 4: whether a number is an integer depends on its spelling
  NumberBounds number;

  uint64_t min_length = 0, max_length = UNBOUNDED;
  std::vector<Re> languages;  // pattern, format

  std::vector<SchemaId> prefix_items;
  SchemaId items = NO_SCHEMA;
  uint64_t min_items = 0, max_items = UNBOUNDED;
  SchemaId contains = NO_SCHEMA;
  uint64_t min_contains = 1, max_contains = UNBOUNDED;
  bool unique_items = false;

  std::vector<std::pair<std::string, SchemaId>> properties;  // in declared order
  std::unordered_map<std::string_view, SchemaId, KeyedTextHash> property_index;
  std::vector<std::pair<Re, SchemaId>> pattern_properties;
  SchemaId additional_properties = NO_SCHEMA;
  SchemaId property_names = NO_SCHEMA;
  std::vector<std::string> required;
  uint64_t min_properties = 0, max_properties = UNBOUNDED;

  std::vector<SchemaId> all_of, refs, nots;
  std::vector<std::vector<SchemaId>> any_of, one_of;
  SchemaId if_ = NO_SCHEMA, then_ = NO_SCHEMA, else_ = NO_SCHEMA;

  // Do `type`, `enum` and `const` alone exclude values of this type?
  bool excludes(Type type) const {
    if (!(types & type_bit(type))) return true;
    if (!has_values) return false;
    switch (type) {
      case Type::Null: return (literals & 1) == 0;
      case Type::Boolean: return (literals & 6) == 0;
      case Type::Number: return numbers.empty();
      case Type::String: return strings.empty();
      default: return values.empty();
    }
  }
  bool has_object_keywords() const {
    return !properties.empty() || !pattern_properties.empty() || additional_properties != NO_SCHEMA ||
           property_names != NO_SCHEMA || !required.empty() || min_properties > 0 || max_properties != UNBOUNDED;
  }
  bool has_array_keywords() const {
    return !prefix_items.empty() || items != NO_SCHEMA || min_items > 0 || max_items != UNBOUNDED ||
           contains != NO_SCHEMA || unique_items;
  }
  bool has_string_keywords() const {
    return has_values || !languages.empty() || min_length > 0 || max_length != UNBOUNDED;
  }
  // Do keywords other than applicators, `type` and enums of containers restrict values of this type?
  bool has_keywords(Type type) const {
    switch (type) {
      case Type::Null:
      case Type::Boolean: return has_values;
      case Type::Number: return has_values || has_number;
      case Type::String: return has_string_keywords();
      case Type::Object: return has_object_keywords();
      default: return has_array_keywords();
    }
  }
  // Is it a reference and nothing else?
  bool only_refers() const {
    return refs.size() == 1 && !boolean && types == ALL_TYPES && !has_values && !has_number && !has_string_keywords() &&
           !has_object_keywords() && !has_array_keywords() && all_of.empty() && nots.empty() && any_of.empty() &&
           one_of.empty() && if_ == NO_SCHEMA;
  }
  bool applies_others() const {
    return !all_of.empty() || !refs.empty() || !nots.empty() || !any_of.empty() || !one_of.empty() || if_ != NO_SCHEMA;
  }
};

struct Schema {
  std::vector<SchemaNode> nodes;
  SchemaId root = 0;
  JsonOptions options;
};

}  // namespace structgen
