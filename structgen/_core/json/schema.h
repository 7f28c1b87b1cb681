// A JSON Schema as the front end hands it over: one record per reachable sub-schema.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "util/hashing.h"
#include "text/json_options.h"
#include "regex/numbers.h"
#include "regex/regex.h"

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
  bool digits = false;  // draft 4: an integer is a matter of spelling
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

  // Shows at a glance that no value of this type can satisfy it: by `type`, or since all listed values are of others.
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
  bool own_object() const {
    return !properties.empty() || !pattern_properties.empty() || additional_properties != NO_SCHEMA ||
           property_names != NO_SCHEMA || !required.empty() || min_properties > 0 || max_properties != UNBOUNDED;
  }
  bool own_array() const {
    return !prefix_items.empty() || items != NO_SCHEMA || min_items > 0 || max_items != UNBOUNDED ||
           contains != NO_SCHEMA || unique_items;
  }
  bool own_string() const { return has_values || !languages.empty() || min_length > 0 || max_length != UNBOUNDED; }
  bool only_refers() const {
    return refs.size() == 1 && !boolean && types == ALL_TYPES && !has_values && !has_number && !own_string() &&
           !own_object() && !own_array() && all_of.empty() && nots.empty() && any_of.empty() && one_of.empty() &&
           if_ == NO_SCHEMA;
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
