#include "json/key_rules.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "util/sorting.h"

namespace structgen {
namespace {

constexpr size_t MAX_LISTED_NAMES = 64;  // of one pattern, to count as declared
constexpr size_t FEW_GROUPS = 8;         // are looked at one by one, whether they name the key or not

}  // namespace

Formula KeyRules::requirement(SchemaId group, std::string_view key) {
  const SchemaNode &n = table_.node(group);
  charge(1 + search_work(n.properties.size()) + key.size() / 16);
  const auto declared = n.property_index.find(key);
  const bool is_declared = declared != n.property_index.end();
  if (!table_.text().spells(key)) return FormulaSpace::FALSE;
  // Most keys: only one subschema speaks of their values.
  if (is_declared && n.pattern_properties.empty() && n.property_names == NO_SCHEMA)
    return table_.leaf(declared->second);
  std::vector<Formula> all;
  if (n.property_names != NO_SCHEMA && !table_.regex().matches(name_language(group), key)) return FormulaSpace::FALSE;
  bool named = is_declared;
  if (is_declared) all.push_back(table_.leaf(declared->second));
  for (auto &[re, id] : n.pattern_properties)
    if (table_.regex().matches(re, key)) {
      named = true;
      all.push_back(table_.leaf(id));
    }
  if (!named && n.additional_properties != NO_SCHEMA) all.push_back(table_.leaf(n.additional_properties));
  return formulas_.conjunction(std::move(all));
}

Formula KeyRules::requirement(std::string_view key, const Groups &groups, const Groups &open) {
  charge(2 + key.size() / 16);
  if (groups.size() == 1) return requirement(groups[0], key);
  if (!table_.text().spells(key)) return FormulaSpace::FALSE;
  std::vector<Formula> all;
  if (groups.size() <= FEW_GROUPS) {
    for (SchemaId g : groups) all.push_back(requirement(g, key));
  } else {
    for (SchemaId g : relevant_groups(key, groups, open)) all.push_back(requirement(g, key));
  }
  return formulas_.conjunction(std::move(all));
}

Groups KeyRules::relevant_groups(std::string_view key, const Groups &groups, const Groups &open) {
  if (groups.size() <= FEW_GROUPS) return groups;
  const Groups naming = groups_naming(key, groups);
  if (naming.size() + open.size() >= groups.size()) return groups;
  Groups relevant;
  std::set_union(naming.begin(), naming.end(), open.begin(), open.end(), std::back_inserter(relevant));
  return relevant;
}

bool KeyRules::is_open(SchemaId group) const {
  const SchemaNode &n = table_.node(group);
  return !n.pattern_properties.empty() || n.additional_properties != NO_SCHEMA || n.property_names != NO_SCHEMA;
}

bool KeyRules::is_closed(SchemaId group) const {
  const SchemaNode &n = table_.node(group);
  return n.additional_properties != NO_SCHEMA && table_.node(n.additional_properties).boolean == false &&
         n.pattern_properties.empty();
}

Groups KeyRules::open_groups(const Groups &groups) const {
  charge(groups.size());
  Groups open;
  for (SchemaId g : groups)
    if (is_open(g)) open.push_back(g);
  return open;
}

// The index of all keys is built only after many lookups: objects that a few keys tell apart need no other keys.
Groups KeyRules::groups_naming(std::string_view key, const Groups &groups) {
  Groups found;
  if (!naming_.empty() || groups_looked_at_ >= table_.size()) {
    for (SchemaId g : groups_naming(key))
      if (std::binary_search(groups.begin(), groups.end(), g)) found.push_back(g);
    return found;
  }
  groups_looked_at_ += groups.size();
  charge(groups.size());
  for (SchemaId g : groups) {
    const SchemaNode &n = table_.node(g);
    if (n.property_index.contains(key) || std::find(n.required.begin(), n.required.end(), key) != n.required.end())
      found.push_back(g);
  }
  return found;
}

const Groups &KeyRules::groups_naming(std::string_view key) {
  if (naming_.empty()) {
    decltype(naming_) made;  // subtle: it is kept only when it is complete, since a limit may end the loop
    made.reserve(table_.size());
    for (SchemaId g = 0; g < table_.size(); ++g) {
      charge();
      const SchemaNode &n = table_.node(g);
      for (auto &[name, id] : n.properties) made[name].push_back(g);
      for (const std::string &name : n.required)
        if (!n.property_index.contains(name)) made[name].push_back(g);
    }
    naming_ = std::move(made);
  }
  static const Groups NONE;
  const auto it = naming_.find(key);
  return it == naming_.end() ? NONE : it->second;
}

Re KeyRules::name_language(SchemaId group) {
  if (const auto it = name_languages_.find(group); it != name_languages_.end()) return it->second;
  const SchemaId names = table_.node(group).property_names;
  return name_languages_[group] = scalars_.string_language(expansion_.expand(table_.leaf(names), Type::String));
}

// subtle: where declared keys have an order, these names have none, so they must remain undeclared.
const std::vector<std::string> &KeyRules::listed_names(SchemaId group) {
  if (const auto it = listed_names_.find(group); it != listed_names_.end()) return it->second;
  std::vector<std::string> out;
  if (table_.options().ordered) return listed_names_[group] = std::move(out);
  RegexSpace &space = table_.regex();
  const SchemaNode &n = table_.node(group);
  for (auto &[re, id] : n.pattern_properties) space.few_texts(re, MAX_LISTED_NAMES, &out);
  if (n.property_names == NO_SCHEMA) return listed_names_[group] = std::move(out);
  const Formula names = expansion_.expand(table_.leaf(n.property_names), Type::String);
  for (SchemaId id : formulas_.leaves(names)) {
    const SchemaNode &name = table_.node(id);
    if (name.strings.size() <= MAX_LISTED_NAMES) out.insert(out.end(), name.strings.begin(), name.strings.end());
    for (Re re : name.languages) space.few_texts(re, MAX_LISTED_NAMES, &out);
  }
  return listed_names_[group] = std::move(out);
}

}  // namespace structgen
