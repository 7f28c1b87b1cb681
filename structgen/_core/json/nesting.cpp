// The least nesting of values is computed by induction, from "no value is known" downwards, over the requirements of
// each keyword alone. What keywords forbid together only makes values deeper.
//
// If the limit on open containers excludes every value, this reports it before the first token.
// Cost: one sweep over the schema for each reference against its order that matters; 0 is returned after MAX_SWEEPS.
#include "json/nesting.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "util/work.h"

namespace structgen {

namespace {

constexpr int MAX_SWEEPS = 64;
constexpr uint32_t NO_VALUE = UINT32_MAX;
constexpr uint8_t CONTAINERS = type_bit(Type::Object) | type_bit(Type::Array);

class Nesting {
 public:
  explicit Nesting(const Schema &schema) : schema_(schema), least_(schema.nodes.size(), NO_VALUE) {}

  uint32_t of_root() {
    bool changed = true;
    for (int sweep = 0; changed; ++sweep) {
      if (sweep == MAX_SWEEPS) return 0;
      changed = false;
      for (size_t id = least_.size(); id-- > 0;) {  // sub-schemas come after the schemas that contain them
        const uint32_t now = of_node(schema_.nodes[id]);
        changed |= now != least_[id];
        least_[id] = now;
      }
    }
    return least_[schema_.root] == NO_VALUE ? 0 : least_[schema_.root];
  }

 private:
  const Schema &schema_;
  std::vector<uint32_t> least_;

  uint32_t of(SchemaId id) const { return id == NO_SCHEMA ? 0 : least_[id]; }

  static uint32_t around(uint32_t inner) { return inner == NO_VALUE ? NO_VALUE : inner + 1; }

  uint32_t least_of(const std::vector<SchemaId> &branches) const {
    charge(1 + branches.size() / 8);
    uint32_t least = NO_VALUE;
    for (SchemaId id : branches) least = std::min(least, of(id));
    return least;
  }

  uint32_t of_object(const SchemaNode &n) const {
    uint32_t inner = 0;
    for (const std::string &key : n.required)  // hashing a key is charged
      if (auto found = n.property_index.find(key); found != n.property_index.end())
        inner = std::max(inner, of(found->second));
    return around(inner);
  }

  uint32_t of_array(const SchemaNode &n) const {
    uint32_t inner = 0;
    const size_t fixed = static_cast<size_t>(std::min<uint64_t>(n.min_items, n.prefix_items.size()));
    charge(fixed / 8);
    for (size_t i = 0; i < fixed; ++i) inner = std::max(inner, of(n.prefix_items[i]));
    if (n.min_items > n.prefix_items.size()) inner = std::max(inner, of(n.items));
    return around(inner);
  }

  uint32_t of_node(const SchemaNode &n) const {
    charge(2 + (n.all_of.size() + n.refs.size()) / 8);
    if (n.boolean) return *n.boolean ? 0 : NO_VALUE;
    uint32_t least = NO_VALUE;
    if (n.has_values) {
      if (!n.strings.empty() || !n.numbers.empty() || n.literals) least = 0;
      least = std::min(least, least_of(n.values));
    } else {
      if (n.types & ~CONTAINERS & ALL_TYPES) least = 0;
      if (n.types & type_bit(Type::Object)) least = std::min(least, of_object(n));
      if (n.types & type_bit(Type::Array)) least = std::min(least, of_array(n));
    }
    for (SchemaId id : n.all_of) least = std::max(least, of(id));
    for (SchemaId id : n.refs) least = std::max(least, of(id));
    for (const auto &branches : n.any_of) least = std::max(least, least_of(branches));
    for (const auto &branches : n.one_of) least = std::max(least, least_of(branches));
    return least;
  }
};

}  // namespace

uint32_t least_nesting(const Schema &schema) { return Nesting(schema).of_root(); }

bool applies_itself(const Schema &schema) {
  enum : uint8_t { New, Open, Done };
  std::vector<uint8_t> state(schema.nodes.size(), New);
  auto beside = [&](SchemaId id) {
    const SchemaNode &n = schema.nodes[id];
    std::vector<SchemaId> out;
    for (const auto *part : {&n.all_of, &n.refs, &n.nots}) out.insert(out.end(), part->begin(), part->end());
    for (const auto *parts : {&n.any_of, &n.one_of})
      for (const auto &branches : *parts) out.insert(out.end(), branches.begin(), branches.end());
    for (SchemaId other : {n.if_, n.then_, n.else_})
      if (other != NO_SCHEMA) out.push_back(other);
    return out;
  };
  std::vector<std::pair<SchemaId, std::vector<SchemaId>>> path;  // with the nodes to visit from each
  for (SchemaId start = 0; start < schema.nodes.size(); ++start) {
    charge();
    if (state[start] != New) continue;
    state[start] = Open;
    path.emplace_back(start, beside(start));
    while (!path.empty()) {
      charge();
      auto &[at, rest] = path.back();
      if (rest.empty()) {
        state[at] = Done;
        path.pop_back();
        continue;
      }
      const SchemaId next = rest.back();
      rest.pop_back();
      if (state[next] == Open) return true;
      if (state[next] == Done) continue;
      state[next] = Open;
      path.emplace_back(next, beside(next));
    }
  }
  return false;
}

}  // namespace structgen
