// What keyword groups require of the keys of an object and of their values.
//
// A group *names* a key by `properties` or `required`. It is *open* if it also restricts keys that it does not name, by
// `patternProperties`, `additionalProperties` or `propertyNames`. It is *closed* if it forbids all keys that it does
// not name. Frames with many groups have about as many keys, and most groups say nothing about most keys. So only the
// groups that name a key and the open ones are looked at.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "json/scalar_languages.h"

namespace structgen {

using Groups = std::vector<SchemaId>;

class KeyRules {
 public:
  KeyRules(SchemaTable &table, Expansion &expansion, ScalarLanguages &scalars)
      : table_(table), formulas_(table.formulas()), expansion_(expansion), scalars_(scalars) {}

  // What a group requires of the value of a key; FALSE: the group forbids the key.
  Formula requirement(SchemaId group, std::string_view key);
  // The same for all of `groups`; `open` are the open ones among them. Both are sorted.
  Formula requirement(std::string_view key, const Groups &groups, const Groups &open);
  // The groups that may require something of a key, sorted.
  Groups relevant_groups(std::string_view key, const Groups &groups, const Groups &open);

  bool is_open(SchemaId group) const;
  bool is_closed(SchemaId group) const;
  Groups open_groups(const Groups &groups) const;
  // All groups that name a key, or those of `groups` (sorted).
  const Groups &groups_naming(std::string_view key);
  Groups groups_naming(std::string_view key, const Groups &groups);

  // The language of `propertyNames`.
  Re name_language(SchemaId group);
  // Names that patterns or `propertyNames` list one by one. As declared keys, each is known to be there or not, so that
  // no count of the remaining ones is needed.
  const std::vector<std::string> &listed_names(SchemaId group);

 private:
  SchemaTable &table_;
  FormulaSpace &formulas_;
  Expansion &expansion_;
  ScalarLanguages &scalars_;
  std::unordered_map<std::string_view, Groups, KeyedTextHash> naming_;  // by key; built after many lookups
  size_t groups_looked_at_ = 0;                                         // before that
  std::unordered_map<SchemaId, Re> name_languages_;
  std::unordered_map<SchemaId, std::vector<std::string>> listed_names_;
};

}  // namespace structgen
