#include "json/shortest/constants.h"

#include <algorithm>
#include <utility>

#include "json/value.h"
#include "util/stack.h"

namespace structgen {
namespace {

// Adds the sub-schema that exactly one value satisfies, from the JSON of the value.
class ConstantReader {
 public:
  ConstantReader(std::string_view json, SchemaTable &table) : s_(json), table_(table) {}

  SchemaId value() {
    check_stack("a value is nested too deeply");
    skip_space();
    SchemaNode n;
    if (peek() == '[') {
      n.types = type_bit(Type::Array);
      for (++at_, skip_space(); at_ < s_.size() && peek() != ']'; skip_comma()) n.prefix_items.push_back(value());
      ++at_;
      n.min_items = n.max_items = n.prefix_items.size();
    } else if (peek() == '{') {
      n.types = type_bit(Type::Object);
      for (++at_, skip_space(); at_ < s_.size() && peek() != '}'; skip_comma()) {
        n.required.push_back(read_value(scalar()).text);
        skip_space();
        ++at_;  // the colon
        n.properties.emplace_back(n.required.back(), value());
      }
      ++at_;
      n.min_properties = n.max_properties = n.properties.size();
    } else {
      const ItemValue v = read_value(scalar());
      n.has_values = true;
      if (v.kind == ItemValue::String) n.strings.push_back(v.text);
      else if (v.kind == ItemValue::Number) n.numbers.push_back(v.text);
      else n.literals = v.text == "null" ? 1 : v.text == "true" ? 2 : 4;
    }
    return table_.add(std::move(n));
  }

 private:
  char peek() const { return at_ < s_.size() ? s_[at_] : '\0'; }
  void skip_space() { at_ = std::min(s_.find_first_not_of(" \t\r\n", at_), s_.size()); }
  void skip_comma() {
    skip_space();
    if (peek() == ',') ++at_, skip_space();
  }
  std::string_view scalar() {
    const size_t start = at_;
    if (peek() == '"') {
      for (++at_; at_ < s_.size() && peek() != '"'; ++at_) at_ += peek() == '\\';
      ++at_;
    } else {
      at_ = std::min(s_.find_first_of(",]} \t\r\n", at_), s_.size());
    }
    return s_.substr(start, at_ - start);
  }

  std::string_view s_;
  SchemaTable &table_;
  size_t at_ = 0;
};

}  // namespace

SchemaId Constants::schema_of(const std::string &text) {
  charge(8 + text.size() / 8);
  SchemaId &known = constants_.try_emplace(text, NO_SCHEMA).first->second;
  // subtle: an entry without a schema is also what remains after a limit ended the reader.
  if (known == NO_SCHEMA) known = ConstantReader(text, table_).value();
  return known;
}

Formula Constants::exclude(Formula requirement, const std::vector<std::string> &texts) {
  // Scalars and containers together in one enum, so that its negation is one leaf.
  std::vector<SchemaId> ids;
  for (const std::string &text : texts) ids.push_back(schema_of(text));
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  const auto it = enums_.try_emplace(ids, NO_SCHEMA).first;
  if (it->second == NO_SCHEMA) {
    SchemaNode n;
    n.has_values = true;
    for (SchemaId id : ids) {
      const SchemaNode &one = table_.node(id);
      if (!one.has_values) n.values.push_back(id);
      n.strings.insert(n.strings.end(), one.strings.begin(), one.strings.end());
      n.numbers.insert(n.numbers.end(), one.numbers.begin(), one.numbers.end());
      n.literals |= one.literals;
    }
    it->second = table_.add(std::move(n));
  }
  FormulaSpace &formulas = table_.formulas();
  return formulas.both(requirement, formulas.negation(formulas.leaf(it->second)));
}

}  // namespace structgen
