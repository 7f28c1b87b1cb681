#include "json/schema_table.h"

#include <type_traits>
#include <utility>

namespace structgen {

SchemaTable::SchemaTable(Schema schema, TextSpace &text) : schema_(std::move(schema)), text_(text) {
  for (SchemaNode &n : schema_.nodes) {
    n.property_index.reserve(n.properties.size());
    for (auto &[name, id] : n.properties) {
      charge(3);
      n.property_index.emplace(name, id);
    }
  }
}

SchemaId SchemaTable::add(SchemaNode node) {
  static_assert(std::is_nothrow_move_constructible_v<SchemaNode>, "views of names remain valid when nodes move");
  const auto id = static_cast<SchemaId>(schema_.nodes.size());
  schema_.nodes.push_back(std::move(node));
  SchemaNode &kept = schema_.nodes.back();
  for (auto &[name, value] : kept.properties) kept.property_index.emplace(name, value);
  return id;
}

Formula SchemaTable::leaf(SchemaId id) {
  const SchemaNode &n = schema_.nodes[id];
  if (n.boolean) return *n.boolean ? FormulaSpace::TRUE : FormulaSpace::FALSE;
  return formulas_.leaf(id);
}

}  // namespace structgen
