#include "json/control/control.h"

#include <algorithm>
#include <utility>

namespace structgen {
namespace {
constexpr size_t MANY_OBJECTS = 16;  // fewer are resolved in little time when a mask needs it
}  // namespace

JsonControl::JsonControl(Schema schema, TextSpace &text)
    : tables_(std::move(schema), text),
      formulas_(tables_.formulas()),
      oracle_(tables_),
      values_(tables_, oracle_),
      shortest_(tables_, oracle_, values_),
      children_(tables_, oracle_, values_),
      counts_(tables_, oracle_),
      objects_(tables_, oracle_, children_, counts_),
      arrays_(tables_, oracle_, values_, children_),
      root_(tables_.obligations.require(tables_.table.leaf(tables_.table.schema().root))) {}

ValueControl *JsonControl::value_excluding(const ValueControl *value, const std::vector<std::string> &texts) {
  const Formula f = shortest_.exclude(obligation(value->obligation).requirement, texts);
  return can_hold(f) ? values_.control_of(f) : nullptr;
}

void JsonControl::prepare_first_key() {
  if (!root()->first.test('{')) return;
  const Formula objects = tables_.expansion.expand(root_requirement(), Type::Object);
  const auto is_leaf = [&](Formula p) { return formulas_.kind(p) == FormulaSpace::Kind::Leaf; };
  if (formulas_.kind(objects) != FormulaSpace::Kind::Or || formulas_.parts(objects).size() < MANY_OBJECTS) return;
  if (!std::all_of(formulas_.parts(objects).begin(), formulas_.parts(objects).end(), is_leaf)) return;
  ObjectControl *object = open_object(root());
  const KeyUniverse &keys = *object->universe;
  Bits seen(keys.words()), allowed(keys.words());
  objects_.allowed_keys(object, {seen.data(), 0, -1}, allowed.data());
  const auto first =
      std::find_if(keys.by_rank.begin(), keys.by_rank.end(), [&](uint32_t key) { return bit(allowed.data(), key); });
  if (first == keys.by_rank.end()) return;
  set_bit(seen.data(), *first);
  const int64_t rank = tables_.table.options().ordered ? int64_t{keys.rank[*first]} : -1;
  objects_.resolve(objects_.key(object, *first), {seen.data(), 1, rank});
}

// ---------------------------------------------------------------- reasons why nothing satisfies the schema

std::vector<SchemaId> JsonControl::unsatisfiable_schemas() {
  std::vector<SchemaId> out;
  std::vector<bool> reached(schema().nodes.size(), false);
  std::vector<SchemaId> todo{schema().root};
  reached[schema().root] = true;
  while (!todo.empty()) {
    charge();
    const SchemaId id = todo.back();
    todo.pop_back();
    if (!can_hold(tables_.table.leaf(id)) && is_reason(id, &todo, &reached)) out.push_back(id);
  }
  if (out.empty()) out.push_back(schema().root);
  return out;
}

// Is a sub-schema that no value satisfies the reason itself? If not, adds to `todo` the sub-schemas that it needs and
// that no value satisfies. Optional properties are not needed: one may be impossible on purpose.
bool JsonControl::is_reason(SchemaId id, std::vector<SchemaId> *todo, std::vector<bool> *reached) {
  const SchemaNode &n = tables_.node(id);
  bool reason = true;
  auto visit = [&](SchemaId s) {
    if (s == NO_SCHEMA || tables_.node(s).boolean || can_hold(tables_.table.leaf(s))) return;
    reason = false;
    if ((*reached)[s]) return;
    (*reached)[s] = true;
    todo->push_back(s);
  };
  for (const std::string &name : n.required)
    if (auto it = n.property_index.find(name); it != n.property_index.end()) visit(it->second);
  for (SchemaId s : n.all_of) visit(s);
  for (SchemaId s : n.refs) visit(s);
  for (auto &branches : n.any_of)
    if (std::none_of(branches.begin(), branches.end(), [&](SchemaId s) { return can_hold(tables_.table.leaf(s)); }))
      for (SchemaId s : branches) visit(s);
  for (uint64_t i = 0; i < n.min_items && i <= n.prefix_items.size(); ++i)
    visit(i < n.prefix_items.size() ? n.prefix_items[i] : n.items);
  return reason;
}

size_t JsonControl::memory() const {
  constexpr size_t OBLIGATION = 96, OBJECT = 400, ARRAY = 200;  // bytes of one entry, estimated
  return tables_.table.formula_memory() + tables_.expansion.memory() + oracle_.memory() +
         tables_.obligations.size() * OBLIGATION + tables_.objects.size() * OBJECT + tables_.arrays.size() * ARRAY;
}

}  // namespace structgen
