#include "json/tags.h"

#include <algorithm>
#include <unordered_set>

#include "json/value.h"

namespace structgen {
namespace {

constexpr int MAX_TAG_DEPTH = 8;          // references and allOf followed from a property to its values
constexpr size_t MAX_TAG_CONJUNCTS = 64;  // of a branch, searched for tags
constexpr size_t MAX_COMPARED_LANGUAGES = 32;
constexpr size_t MIN_TAG_GROUPS = 3;
constexpr size_t MAX_TAG_VALUES = 256;

}  // namespace

// The values that a value of this sub-schema can equal, each with its type in front; null: the values are not listed.
const std::vector<std::string> *Tags::candidate_values(SchemaId id) {
  for (int depth = 0; depth < MAX_TAG_DEPTH; ++depth) {
    const SchemaNode &n = table_.node(id);
    if (n.boolean) return nullptr;
    if (n.has_values) {
      if (!n.values.empty()) return nullptr;
      auto [it, fresh] = candidate_values_.try_emplace(id);
      if (fresh) {
        for (const std::string &s : n.strings) it->second.push_back('"' + s);
        // Constants of the schema and values of a text may spell one number differently.
        for (const std::string &d : n.numbers) it->second.push_back('#' + read_value(d).text);
        for (int i = 0; i < 3; ++i)
          if (n.literals >> i & 1) it->second.emplace_back(SchemaTable::LITERALS[i]);
      }
      return &it->second;
    }
    if (n.refs.size() == 1) id = n.refs[0];
    else if (n.refs.empty() && n.all_of.size() == 1) id = n.all_of[0];
    else return nullptr;
  }
  return nullptr;
}

// The same, where the sub-schema also holds for each of the values.
const std::vector<std::string> *Tags::exact_values(SchemaId id) {
  const std::vector<std::string> *values = candidate_values(id);
  if (!values) return nullptr;
  const bool only_strings =
      std::all_of(values->begin(), values->end(), [](const std::string &v) { return v[0] == '"'; });
  for (int depth = 0; depth < MAX_TAG_DEPTH; ++depth) {
    const SchemaNode &n = table_.node(id);
    if (n.types != ALL_TYPES && !(only_strings && (n.types & type_bit(Type::String)) != 0)) return nullptr;
    if (!n.languages.empty() || n.min_length > 0 || n.max_length != UNBOUNDED || n.has_number) return nullptr;
    if (n.has_values) return n.applies_others() ? nullptr : values;
    if (n.refs.size() + n.all_of.size() != 1 || !n.nots.empty() || !n.any_of.empty() || !n.one_of.empty() ||
        n.if_ != NO_SCHEMA)
      return nullptr;
    id = n.refs.empty() ? n.all_of[0] : n.refs[0];
  }
  return nullptr;
}

// The language of a sub-schema that holds for strings only, if its own keywords show it; EMPTY: unknown.
Re Tags::string_language(SchemaId id) {
  for (int depth = 0; depth < MAX_TAG_DEPTH; ++depth) {
    const SchemaNode &n = table_.node(id);
    if (n.boolean) return RegexSpace::EMPTY;
    if (n.types == type_bit(Type::String) && !n.languages.empty()) return table_.regex().intersect(n.languages);
    if (n.refs.size() != 1) return RegexSpace::EMPTY;
    id = n.refs[0];
  }
  return RegexSpace::EMPTY;
}

// ---------------------------------------------------------------- branches that exclude each other

Tags::BranchProperties Tags::collect_properties(SchemaId branch) const {
  BranchProperties found;
  std::vector<SchemaId> todo{branch};
  std::unordered_set<SchemaId> reached{branch};
  while (!todo.empty() && reached.size() <= MAX_TAG_CONJUNCTS) {
    charge();
    const SchemaNode &n = table_.node(todo.back());
    todo.pop_back();
    if (n.boolean) continue;
    for (const std::string &name : n.required) found.required.insert(name);
    for (auto &[name, sub] : n.properties) found.properties.emplace(name, sub);
    for (const std::vector<SchemaId> *conjuncts : {&n.all_of, &n.refs})
      for (SchemaId s : *conjuncts)
        if (reached.insert(s).second) todo.push_back(s);
  }
  return found;
}

// Does each branch require the property, with values that no other branch lists?
bool Tags::has_distinct_values(const std::vector<BranchProperties> &branches, const std::string &name) {
  std::unordered_set<std::string_view, KeyedTextHash> taken;
  for (const BranchProperties &branch : branches) {
    if (!branch.required.contains(name)) return false;
    const std::vector<std::string> *values = nullptr;
    for (auto [it, end] = branch.properties.equal_range(name); it != end && !values; ++it)
      values = candidate_values(it->second);
    if (!values) return false;
    for (const std::string &value : *values)
      if (!taken.insert(value).second) return false;
  }
  return true;
}

// Does each branch require the property, with strings whose languages do not intersect?
bool Tags::has_disjoint_texts(const std::vector<BranchProperties> &branches, const std::string &name) {
  RegexSpace &space = table_.regex();
  std::vector<Re> languages;
  for (const BranchProperties &branch : branches) {
    const auto it = branch.properties.find(name);
    if (!branch.required.contains(name) || it == branch.properties.end()) return false;
    const Re one = string_language(it->second);
    if (one == RegexSpace::EMPTY) return false;
    for (Re other : languages)
      if (space.intersect(one, other) != RegexSpace::EMPTY && space.alive(space.intersect(one, other))) return false;
    languages.push_back(one);
  }
  return true;
}

bool Tags::are_disjoint(const std::vector<SchemaId> &branches) {
  if (branches.size() < 2) return true;
  std::vector<BranchProperties> each(branches.size());
  for (size_t i = 0; i < branches.size(); ++i) each[i] = collect_properties(branches[i]);
  const std::set<std::string> &names = each[0].required;
  return std::any_of(names.begin(), names.end(), [&](auto &name) { return has_distinct_values(each, name); }) ||
         (branches.size() <= MAX_COMPARED_LANGUAGES &&
          std::any_of(names.begin(), names.end(), [&](auto &name) { return has_disjoint_texts(each, name); }));
}

// ---------------------------------------------------------------- what tags decide

Tags::ValueRows Tags::value_rows(const std::vector<Formula> &roots) {
  ValueRows out;
  std::vector<const std::vector<std::string> *> values;
  for (uint32_t i = 0; i < roots.size(); ++i) {
    if (formulas_.kind(roots[i]) != FormulaSpace::Kind::Leaf) continue;
    if (const auto *listed = exact_values(formulas_.leaf_id(roots[i]))) {
      out.roots.push_back(i);
      values.push_back(listed);
    }
  }
  std::unordered_map<std::string_view, std::vector<uint32_t>, KeyedTextHash> by_value;
  for (uint32_t i = 0; i < values.size(); ++i)
    for (const std::string &v : *values[i]) by_value[v].push_back(out.roots[i]);
  std::set<std::vector<uint32_t>> rows;
  for (auto &[value, row] : by_value) rows.insert(row);
  out.rows.assign(rows.begin(), rows.end());
  return out;
}

// Does the group only say that some properties have one of a few values?
bool Tags::is_tag_group(SchemaId group) {
  const SchemaNode &n = table_.node(group);
  if (n.properties.empty() || !n.pattern_properties.empty() || n.additional_properties != NO_SCHEMA ||
      n.property_names != NO_SCHEMA || n.min_properties > 0 || n.max_properties != UNBOUNDED)
    return false;
  return std::all_of(n.properties.begin(), n.properties.end(),
                     [&](auto &p) { return exact_values(p.second) != nullptr; }) &&
         std::all_of(n.required.begin(), n.required.end(), [&](auto &name) { return n.property_index.contains(name); });
}

bool Tags::has_tag_groups(Formula f) {
  if (const auto it = has_tag_groups_.find(f); it != has_tag_groups_.end()) return it->second;
  size_t found = 0;
  for (SchemaId g : formulas_.leaves(f))
    if (is_tag_group(g) && ++found == MIN_TAG_GROUPS) break;
  return has_tag_groups_[f] = found >= MIN_TAG_GROUPS;
}

std::vector<Tags::Case> Tags::cases(Formula f, const std::set<std::string_view> &known, std::string_view *tag) {
  // The property that most groups tell apart.
  std::map<std::string_view, std::vector<SchemaId>> by_name;
  for (SchemaId g : formulas_.leaves(f))
    if (is_tag_group(g))
      for (auto &[name, id] : table_.node(g).properties)
        if (!known.contains(name)) by_name[name].push_back(g);
  auto most = std::max_element(by_name.begin(), by_name.end(),
                               [](auto &a, auto &b) { return a.second.size() < b.second.size(); });
  if (most == by_name.end() || most->second.size() < MIN_TAG_GROUPS) return {};
  const auto &[name, groups] = *most;
  *tag = name;
  std::map<std::string_view, std::vector<bool>> holds;  // by value: which of the groups it satisfies
  for (size_t i = 0; i < groups.size(); ++i)
    for (const std::string &value : *exact_values(table_.node(groups[i]).property_index.at(name))) {
      auto &row = holds[value];
      row.resize(groups.size());
      row[i] = true;
    }
  if (holds.size() > MAX_TAG_VALUES) return {};
  std::set<std::vector<bool>> rows{std::vector<bool>(groups.size(), false)};  // a value that is not listed
  for (auto &[value, row] : holds) rows.insert(row);
  std::vector<Case> out;
  auto add = [&](const auto &holds_for) {
    Case &c = out.emplace_back();
    for (size_t i = 0; i < groups.size(); ++i) {
      const bool decided = table_.node(groups[i]).properties.size() == 1;
      if (!holds_for(i)) c.violated.push_back(groups[i]);
      else if (decided) c.satisfied.push_back(groups[i]);
    }
  };
  for (auto &row : rows) add([&](size_t i) -> bool { return row[i]; });
  add([&](size_t i) {  // the object does not have the property
    const auto &required = table_.node(groups[i]).required;
    return std::find(required.begin(), required.end(), name) == required.end();
  });
  return out;
}

}  // namespace structgen
