#include "json/expansion.h"

#include <string>
#include <utility>

#include "util/limit_error.h"

namespace structgen {
namespace {

constexpr size_t MAX_NESTED_APPLICATORS = 600;
constexpr Formula UNKNOWN = UINT32_MAX;

}  // namespace

Formula &Expansion::known(Formula f, Type type) {
  while (known_.size() <= f) known_.emplace_back().fill(UNKNOWN);
  return known_[f][static_cast<size_t>(type)];
}

Formula Expansion::expand(Formula f, Type type) {
  charge();
  if (f <= FormulaSpace::TRUE) return f;
  if (const Formula before = known(f, type); before != UNKNOWN) return before;
  Formula result;
  if (formulas_.kind(f) == FormulaSpace::Kind::Leaf) {
    const SchemaId id = formulas_.leaf_id(f);
    result = table_.node(id).excludes(type) ? FormulaSpace::FALSE : expand_schema(id, type);
  } else {
    result = formulas_.substitute(f, [&](uint32_t id) { return expand(formulas_.leaf(id), type); });
  }
  known(f, type) = result;
  return result;
}

// The sub-schemas whose expansions make up that of `id`, in order.
std::vector<SchemaId> Expansion::operands(SchemaId id, Type type) const {
  const SchemaNode &n = table_.node(id);
  std::vector<SchemaId> out;
  if (n.boolean || n.excludes(type)) return out;
  auto add = [&](SchemaId s) {
    if (s != NO_SCHEMA && !table_.node(s).boolean) out.push_back(s);
  };
  if (type == Type::Object || type == Type::Array)
    for (SchemaId s : n.values) add(s);
  for (const auto *list : {&n.all_of, &n.refs, &n.nots})
    for (SchemaId s : *list) add(s);
  for (const auto *lists : {&n.any_of, &n.one_of})
    for (const auto &branches : *lists)
      for (SchemaId s : branches) add(s);
  for (SchemaId s : {n.if_, n.then_, n.else_}) add(s);
  return out;
}

// Sub-schemas apply one another and share operands. Each is expanded once, operands first, on an explicit stack.
Formula Expansion::expand_schema(SchemaId root, Type type) {
  struct Open {
    SchemaId id, target;
    std::vector<SchemaId> operands;
    size_t next = 0;
  };
  auto expanded = [&](SchemaId id) -> Formula & { return known(table_.leaf(id), type); };
  // A schema that is only a reference takes the expansion of its target, so that chains of references may be long.
  auto open_schema = [&](SchemaId id) {
    SchemaId to = id;
    for (; table_.node(to).only_refers() && expanded(to) == UNKNOWN; to = table_.node(to).refs[0]) charge();
    return Open{id, to, expanded(to) == UNKNOWN ? operands(to, type) : std::vector<SchemaId>{}};
  };
  std::vector<Open> open{open_schema(root)};
  while (true) {
    charge();
    if (open.size() > MAX_NESTED_APPLICATORS + 1)
      throw LimitError("applicators (allOf, anyOf, $ref, ...) are nested more than " +
                       std::to_string(MAX_NESTED_APPLICATORS) +
                       " deep (limit nested_applicators) at one place: " + table_.node(open.back().target).pointer);
    Open &now = open.back();
    if (now.next < now.operands.size()) {
      const SchemaId next = now.operands[now.next++];
      if (expanded(next) == UNKNOWN) open.push_back(open_schema(next));
      continue;
    }
    const Formula before = expanded(now.target);
    const Formula result = before == UNKNOWN ? combine_operands(now.target, type) : before;
    expanded(now.target) = result;
    for (SchemaId id = now.id; id != now.target; id = table_.node(id).refs[0]) expanded(id) = result;
    open.pop_back();
    if (open.empty()) return result;
  }
}

// The operands of `id` have been expanded before.
Formula Expansion::combine_operands(SchemaId id, Type type) {
  const SchemaNode &n = table_.node(id);
  if (n.boolean) return *n.boolean ? FormulaSpace::TRUE : FormulaSpace::FALSE;
  if (n.excludes(type)) return FormulaSpace::FALSE;
  auto sub = [&](SchemaId s) { return expand(table_.leaf(s), type); };
  auto each = [&](const std::vector<SchemaId> &ids) {
    std::vector<Formula> out;
    for (SchemaId s : ids) out.push_back(sub(s));
    return out;
  };
  std::vector<Formula> all;
  if (n.has_keywords(type)) all.push_back(formulas_.leaf(id));
  if (n.has_values && (type == Type::Object || type == Type::Array))
    all.push_back(formulas_.disjunction(each(n.values)));
  if (n.applies_others()) {
    for (SchemaId s : n.all_of) all.push_back(sub(s));
    for (SchemaId s : n.refs) all.push_back(sub(s));
    for (SchemaId s : n.nots) all.push_back(formulas_.negation(sub(s)));
    for (auto &branches : n.any_of) all.push_back(formulas_.disjunction(each(branches)));
    for (auto &branches : n.one_of) {
      std::vector<Formula> one = each(branches);
      const bool disjoint = type == Type::Object && tags_.are_disjoint(branches);
      all.push_back(disjoint ? formulas_.disjunction(std::move(one)) : formulas_.exactly_one(std::move(one)));
    }
    if (n.if_ != NO_SCHEMA) {
      const Formula condition = sub(n.if_);
      const Formula yes = n.then_ == NO_SCHEMA ? FormulaSpace::TRUE : sub(n.then_);
      const Formula no = n.else_ == NO_SCHEMA ? FormulaSpace::TRUE : sub(n.else_);
      all.push_back(formulas_.disjunction({formulas_.negation(condition), yes}));
      all.push_back(formulas_.disjunction({condition, no}));
    }
  }
  return formulas_.conjunction(std::move(all));
}

}  // namespace structgen
