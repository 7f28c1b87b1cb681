// Tags: properties that tell branches apart.
//
// `oneOf` over records that each demand another constant in the same property is the most common way to
// write a tagged union. Branches with different tags exclude each other, and knowing that turns exactly-one
// into or, and thousands of combinations of verdicts into one for each tag. All answers here err on one
// side: where nothing is found, branches count as possibly overlapping.
#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "json/control.h"
#include "json/value.h"

namespace structgen {
namespace {

constexpr int MAX_TAG_DEPTH = 8;       // references and allOf followed from a property to its few values
constexpr size_t MAX_TAG_PARTS = 64;   // parts of a branch searched for tags
constexpr size_t MAX_COMPARED_LANGUAGES = 32;
constexpr size_t MIN_TAGGED_GROUPS = 3;
constexpr size_t MAX_TAG_VALUES = 256;

}  // namespace

// The texts that a value of this sub-schema can be one of, each with its type in front; null: not just a few.
const std::vector<std::string> *JsonControl::few_values(SchemaId id) {
  for (int depth = 0; depth < MAX_TAG_DEPTH; ++depth) {
    const SchemaNode &n = schema_.nodes[id];
    if (n.boolean) return nullptr;
    if (n.has_values) {
      if (!n.values.empty()) return nullptr;
      auto [it, fresh] = few_values_.try_emplace(id);
      if (fresh) {
        for (const std::string &s : n.strings) it->second.push_back('"' + s);
        // Constants of the schema and values that have been read are spelled in different ways.
        for (const std::string &d : n.numbers) it->second.push_back('#' + read_value(d).text);
        for (int i = 0; i < 3; ++i)
          if (n.literals >> i & 1) it->second.emplace_back(LITERALS[i]);
      }
      return &it->second;
    }
    if (n.refs.size() == 1) id = n.refs[0];
    else if (n.refs.empty() && n.all_of.size() == 1) id = n.all_of[0];
    else return nullptr;
  }
  return nullptr;
}

void JsonControl::collect_tags(SchemaId id, Tags *tags) const {
  std::vector<SchemaId> todo{id};
  std::unordered_set<SchemaId> reached{id};
  while (!todo.empty() && reached.size() <= MAX_TAG_PARTS) {
    charge();
    const SchemaNode &n = schema_.nodes[todo.back()];
    todo.pop_back();
    if (n.boolean) continue;
    for (const std::string &name : n.required) tags->required.insert(name);
    for (auto &[name, sub] : n.properties) tags->properties.emplace(name, sub);
    for (const std::vector<SchemaId> *parts : {&n.all_of, &n.refs})
      for (SchemaId s : *parts)
        if (reached.insert(s).second) todo.push_back(s);
  }
}

bool JsonControl::objects_exclude(const std::vector<SchemaId> &branches) {
  if (branches.size() < 2) return true;
  std::vector<Tags> tags(branches.size());
  for (size_t i = 0; i < branches.size(); ++i) collect_tags(branches[i], &tags[i]);
  // Texts in languages that do not meet are different, too.
  auto no_text_in_common = [&](const std::string &name) {
    RegexSpace &space = text_.regex();
    std::vector<Re> languages;
    for (Tags &t : tags) {
      const auto it = t.properties.find(name);
      if (!t.required.contains(name) || it == t.properties.end()) return false;
      const Re one = texts_of(it->second);
      if (one == RegexSpace::EMPTY) return false;
      for (Re other : languages)
        if (space.intersect(one, other) != RegexSpace::EMPTY && space.alive(space.intersect(one, other))) return false;
      languages.push_back(one);
    }
    return true;
  };
  auto apart = [&](const std::string &name) {
    std::unordered_set<std::string_view, KeyedTextHash> taken;
    for (Tags &t : tags) {
      if (!t.required.contains(name)) return false;
      const std::vector<std::string> *few = nullptr;
      for (auto [it, end] = t.properties.equal_range(name); it != end && !few; ++it) few = few_values(it->second);
      if (!few) return false;
      for (const std::string &value : *few)
        if (!taken.insert(value).second) return false;
    }
    return true;
  };
  return std::any_of(tags[0].required.begin(), tags[0].required.end(), apart) ||
         (branches.size() <= MAX_COMPARED_LANGUAGES &&
          std::any_of(tags[0].required.begin(), tags[0].required.end(), no_text_in_common));
}

// The language of a sub-schema that holds for strings alone, as far as it says so itself; EMPTY: not known.
Re JsonControl::texts_of(SchemaId id) {
  for (int depth = 0; depth < MAX_TAG_DEPTH; ++depth) {
    const SchemaNode &n = schema_.nodes[id];
    if (n.boolean) return RegexSpace::EMPTY;
    if (n.types == type_bit(Type::String) && !n.languages.empty()) return text_.regex().intersect(n.languages);
    if (n.refs.size() != 1) return RegexSpace::EMPTY;
    id = n.refs[0];
  }
  return RegexSpace::EMPTY;
}

// The same, where the sub-schema holds for each of them, too.
const std::vector<std::string> *JsonControl::exactly_few(SchemaId id) {
  const std::vector<std::string> *few = few_values(id);
  if (!few) return nullptr;
  const bool only_strings = std::all_of(few->begin(), few->end(), [](const std::string &v) { return v[0] == '"'; });
  for (int depth = 0; depth < MAX_TAG_DEPTH; ++depth) {
    const SchemaNode &n = schema_.nodes[id];
    if (n.types != ALL_TYPES && !(only_strings && (n.types & type_bit(Type::String)) != 0)) return nullptr;
    if (!n.languages.empty() || n.min_length > 0 || n.max_length != UNBOUNDED || n.has_number) return nullptr;
    if (n.has_values) return n.applies_others() ? nullptr : few;
    if (n.refs.size() + n.all_of.size() != 1 || !n.nots.empty() || !n.any_of.empty() || !n.one_of.empty() ||
        n.if_ != NO_SCHEMA)
      return nullptr;
    id = n.refs.empty() ? n.all_of[0] : n.refs[0];
  }
  return nullptr;
}

JsonControl::ValueRows JsonControl::value_rows(const std::vector<Formula> &roots) {
  ValueRows out;
  std::vector<const std::vector<std::string> *> values;
  for (uint32_t i = 0; i < roots.size(); ++i)
    if (const auto *few = formulas_.kind(roots[i]) == FormulaSpace::Kind::Leaf ? exactly_few(formulas_.leaf_id(roots[i])) : nullptr) {
      out.roots.push_back(i);
      values.push_back(few);
    }
  std::unordered_map<std::string_view, std::vector<uint32_t>, KeyedTextHash> by_value;
  for (uint32_t i = 0; i < values.size(); ++i)
    for (const std::string &v : *values[i]) by_value[v].push_back(out.roots[i]);
  std::set<std::vector<uint32_t>> rows;
  for (auto &[value, row] : by_value) rows.insert(row);
  out.rows.assign(rows.begin(), rows.end());
  return out;
}

// A group that says nothing but that some properties are one of a few values.
bool JsonControl::only_tags(SchemaId group) {
  const SchemaNode &n = schema_.nodes[group];
  if (n.properties.empty() || !n.pattern_properties.empty() || n.additional_properties != NO_SCHEMA ||
      n.property_names != NO_SCHEMA || n.min_properties > 0 || n.max_properties != UNBOUNDED)
    return false;
  return std::all_of(n.properties.begin(), n.properties.end(), [&](auto &p) { return exactly_few(p.second) != nullptr; }) &&
         std::all_of(n.required.begin(), n.required.end(), [&](auto &name) { return n.property_index.contains(name); });
}

bool JsonControl::has_tags(Formula f) {
  if (const auto it = has_tags_.find(f); it != has_tags_.end()) return it->second;
  size_t tagged = 0;
  for (SchemaId g : formulas_.leaves(f))
    if (only_tags(g) && ++tagged == MIN_TAGGED_GROUPS) break;
  return has_tags_[f] = tagged >= MIN_TAGGED_GROUPS;
}

std::vector<JsonControl::TagCase> JsonControl::tag_cases(Formula f, const std::set<std::string_view> &done,
                                                         std::string_view *tag) {
  // The property that most groups tell apart.
  std::map<std::string_view, std::vector<SchemaId>> by_name;
  for (SchemaId g : formulas_.leaves(f))
    if (only_tags(g))
      for (auto &[name, id] : schema_.nodes[g].properties)
        if (!done.contains(name)) by_name[name].push_back(g);
  auto most = std::max_element(by_name.begin(), by_name.end(),
                               [](auto &a, auto &b) { return a.second.size() < b.second.size(); });
  if (most == by_name.end() || most->second.size() < MIN_TAGGED_GROUPS) return {};
  const auto &[name, groups] = *most;
  *tag = name;
  std::map<std::string_view, std::vector<bool>> holds;  // by value: which of the groups it satisfies
  for (size_t i = 0; i < groups.size(); ++i)
    for (const std::string &value : *exactly_few(schema_.nodes[groups[i]].property_index.at(name))) {
      auto &row = holds[value];
      row.resize(groups.size());
      row[i] = true;
    }
  if (holds.size() > MAX_TAG_VALUES) return {};
  std::set<std::vector<bool>> rows{std::vector<bool>(groups.size(), false)};  // another value than all of them
  for (auto &[value, row] : holds) rows.insert(row);
  std::vector<TagCase> out;
  auto add = [&](const std::function<int(size_t)> &verdict) {
    TagCase &c = out.emplace_back();
    for (size_t i = 0; i < groups.size(); ++i) {
      const int told = verdict(i);
      const bool alone = schema_.nodes[groups[i]].properties.size() == 1;
      if (told == 0) c.no.push_back(groups[i]);
      else if (alone) c.yes.push_back(groups[i]);
    }
  };
  for (auto &row : rows) add([&](size_t i) { return row[i] ? 1 : 0; });
  add([&](size_t i) {  // the property is not there
    const auto &required = schema_.nodes[groups[i]].required;
    return std::find(required.begin(), required.end(), name) == required.end() ? 1 : 0;
  });
  return out;
}

}  // namespace structgen
