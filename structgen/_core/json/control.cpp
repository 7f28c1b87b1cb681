#include "json/control.h"

#include <algorithm>

#include "json/oracle/oracle.h"
#include "text/json_space.h"
#include "json/shortest/shortest.h"
#include "util/sorting.h"
#include "util/work.h"

namespace structgen {
namespace {

constexpr size_t MAX_NESTED_APPLICATORS = 600;

}  // namespace

int64_t KeyUniverse::find(std::string_view key) const {
  charge(2 * search_work(keys.size()) + key.size() / COMPARED_BYTES_PER_UNIT);
  auto it = std::lower_bound(keys.begin(), keys.end(), key);
  return it != keys.end() && *it == key ? it - keys.begin() : -1;
}

JsonControl::JsonControl(Schema schema, TextSpace &text)
    : schema_(std::move(schema)), text_(text), oracle_(std::make_unique<JsonOracle>(*this)) {
  for (SchemaNode &n : schema_.nodes) {
    n.property_index.reserve(n.properties.size());
    for (auto &[name, id] : n.properties) {
      charge(3);
      n.property_index.emplace(name, id);
    }
  }
  find_written();
  root_ = intern({schema_leaf(schema_.root)}, formulas_.leaf(0));
}

// Brackets, separators and the white space that a writer's layout owes are as much a matter of the vocabulary as digits.
void JsonControl::find_written() {
  const JsonOptions &o = schema_.options;
  const bool written = o.whitespace == Whitespace::Written;
  auto spelled = [&](std::string_view text) {
    const std::bitset<256> &bytes = text_.vocabulary().spellable();
    return std::all_of(text.begin(), text.end(), [&](char c) { return bytes.test(static_cast<uint8_t>(c)); });
  };
  const auto leave_out = [&](Type type) { written_types_ &= static_cast<uint8_t>(~type_bit(type)); };
  if (!spelled("\"")) leave_out(Type::String);
  if (!spelled("{}")) leave_out(Type::Object);
  if (!spelled("[]")) leave_out(Type::Array);
  const std::string_view digits = "0123456789";
  if (std::none_of(digits.begin(), digits.end(), [&](const char &digit) { return spelled({&digit, 1}); })) leave_out(Type::Number);
  if (o.whitespace == Whitespace::Table) {
    find_gaps();
    const auto goes_on = [&](SpaceAt at) { return o.rows[space_start(o, at)].can_go_on; };
    const bool key = spelled("\":") && goes_on(SpaceAt::AfterKey) && goes_on(SpaceAt::AfterColon);
    const bool next = spelled(",") && goes_on(SpaceAt::AfterValue) && goes_on(SpaceAt::AfterComma);
    limit_structure(true, key, next);
    return;
  }
  auto blanks = [&](uint8_t before, uint8_t after) { return !written || before + after == 0 || spelled(" "); };
  const bool line = !written || !o.lines || spelled("\n" + o.indent);
  const bool one_key = line && spelled("\":") && blanks(o.before_colon, o.after_colon);
  const bool more = spelled(",") && blanks(o.before_comma, o.after_comma);
  limit_structure(line, one_key, more);
}

// White space that no token spells leads nowhere; which tokens may follow the rest is found backwards.
void JsonControl::find_gaps() {
  std::vector<SpaceRow> &rows = schema_.options.rows;
  const std::bitset<256> &bytes = text_.vocabulary().spellable();
  constexpr char BLANKS[] = {' ', '\t', '\n', '\r'};
  for (SpaceRow &row : rows) {
    row.can_go_on = row.goes_on;
    row.can_close = row.closes;
    for (int i = 0; i < 4; ++i)
      if (!bytes.test(static_cast<uint8_t>(BLANKS[i]))) row.next[i] = SpaceRow::NONE;
  }
  for (bool changed = true; changed;) {  // one byte further in each round, so that the texts are shortest ones
    changed = false;
    const std::vector<SpaceRow> before = rows;
    for (SpaceRow &row : rows) {
      charge();
      for (int i = 0; i < 4; ++i) {
        if (row.next[i] == SpaceRow::NONE) continue;
        const SpaceRow &next = before[row.next[i]];
        if (next.can_go_on && !row.can_go_on) row.can_go_on = changed = true, row.to_go_on = BLANKS[i];
        if (next.can_close && !row.can_close) row.can_close = changed = true, row.to_close = BLANKS[i];
      }
    }
  }
}

void JsonControl::limit_structure(bool line, bool one_key, bool more) {
  if (line && one_key && more) return;
  SchemaNode n;
  n.pointer = "#";
  if (!one_key || !more) n.max_properties = one_key ? 1 : 0;
  if (!line || !more) n.max_items = line ? 1 : 0;
  structure_ = static_cast<SchemaId>(schema_.nodes.size());
  schema_.nodes.push_back(std::move(n));
}

Formula JsonControl::written(Formula expanded, Type type) {
  if (!(written_types_ & type_bit(type))) return FormulaSpace::FALSE;
  if (structure_ == NO_SCHEMA || (type != Type::Object && type != Type::Array)) return expanded;
  return formulas_.both(expanded, formulas_.leaf(structure_));
}

JsonControl::~JsonControl() = default;

JsonControl::FormulaInfo &JsonControl::info(Formula f) {
  while (info_.size() <= f) info_.emplace_back();
  return info_[f];
}

Formula JsonControl::schema_leaf(SchemaId id) {
  const SchemaNode &n = schema_.nodes[id];
  if (n.boolean) return *n.boolean ? FormulaSpace::TRUE : FormulaSpace::FALSE;
  return formulas_.leaf(id);
}

// ---------------------------------------------------------------- expansion

Formula JsonControl::expand(Formula f, Type type) {
  charge();
  if (f <= FormulaSpace::TRUE) return f;
  const auto t = static_cast<int>(type);
  if (Formula known = info(f).expanded[t]; known != UINT32_MAX) return known;
  Formula result;
  if (formulas_.kind(f) == FormulaSpace::Kind::Leaf) {
    const SchemaId id = formulas_.leaf_id(f);
    result = schema_.nodes[id].excludes(type) ? FormulaSpace::FALSE : expand_schema(id, type);
  } else {
    result = formulas_.substitute(f, [&](uint32_t id) { return expand(formulas_.leaf(id), type); });
  }
  info(f).expanded[t] = result;
  return result;
}

// The sub-schemas whose expansion that of `id` is made of, in order.
std::vector<SchemaId> JsonControl::applied(SchemaId id, Type type) const {
  const SchemaNode &n = schema_.nodes[id];
  std::vector<SchemaId> out;
  if (n.boolean || n.excludes(type)) return out;
  auto add = [&](SchemaId s) {
    if (s != NO_SCHEMA && !schema_.nodes[s].boolean) out.push_back(s);
  };
  if (type == Type::Object || type == Type::Array)
    for (SchemaId s : n.values) add(s);
  for (const auto *parts : {&n.all_of, &n.refs, &n.nots})
    for (SchemaId s : *parts) add(s);
  for (const auto *lists : {&n.any_of, &n.one_of})
    for (const auto &branches : *lists)
      for (SchemaId s : branches) add(s);
  for (SchemaId s : {n.if_, n.then_, n.else_}) add(s);
  return out;
}

// Sub-schemas apply each other, and share those that they apply: each is expanded once, inner ones first, on a stack of
// our own.
Formula JsonControl::expand_schema(SchemaId root, Type type) {
  const auto t = static_cast<int>(type);
  struct Open {
    SchemaId id, target;
    std::vector<SchemaId> applied;
    size_t next = 0;
  };
  auto expanded = [&](SchemaId id) -> Formula & { return info(schema_leaf(id)).expanded[t]; };
  // A reference and nothing else, perhaps to another such: where it leads counts, and no chain is too long.
  auto opened = [&](SchemaId id) {
    SchemaId to = id;
    for (; schema_.nodes[to].only_refers() && expanded(to) == UINT32_MAX; to = schema_.nodes[to].refs[0]) charge();
    return Open{id, to, expanded(to) == UINT32_MAX ? applied(to, type) : std::vector<SchemaId>{}};
  };
  std::vector<Open> open{opened(root)};
  while (true) {
    charge();
    if (open.size() > MAX_NESTED_APPLICATORS + 1)
      throw LimitError("applicators (allOf, anyOf, $ref, ...) are nested more than " +
                       std::to_string(MAX_NESTED_APPLICATORS) + " deep (limit nested_applicators) at one place: " +
                       schema_.nodes[open.back().target].pointer);
    Open &now = open.back();
    if (now.next < now.applied.size()) {
      const SchemaId next = now.applied[now.next++];
      if (expanded(next) == UINT32_MAX) open.push_back(opened(next));
      continue;
    }
    const Formula known = expanded(now.target);
    const Formula result = known == UINT32_MAX ? expand_opened(now.target, type) : known;
    expanded(now.target) = result;
    for (SchemaId id = now.id; id != now.target; id = schema_.nodes[id].refs[0]) expanded(id) = result;
    open.pop_back();
    if (open.empty()) return result;
  }
}

// All that `id` applies is expanded already.
Formula JsonControl::expand_opened(SchemaId id, Type type) {
  const SchemaNode &n = schema_.nodes[id];
  if (n.boolean) return *n.boolean ? FormulaSpace::TRUE : FormulaSpace::FALSE;
  if (n.excludes(type)) return FormulaSpace::FALSE;
  auto sub = [&](SchemaId s) { return expand(schema_leaf(s), type); };
  std::vector<Formula> parts;
  switch (type) {
    case Type::Null:
    case Type::Boolean:
      if (n.has_values) parts.push_back(formulas_.leaf(id));
      break;
    case Type::Number:
      if (n.has_values || n.has_number) parts.push_back(formulas_.leaf(id));
      break;
    case Type::String:
      if (n.own_string()) parts.push_back(formulas_.leaf(id));
      break;
    case Type::Object:
    case Type::Array:
      if (type == Type::Object ? n.own_object() : n.own_array()) parts.push_back(formulas_.leaf(id));
      if (n.has_values) {
        std::vector<Formula> any;
        for (SchemaId v : n.values) any.push_back(sub(v));
        parts.push_back(formulas_.disjunction(std::move(any)));
      }
      break;
  }
  if (n.applies_others()) {
    for (SchemaId s : n.all_of) parts.push_back(sub(s));
    for (SchemaId s : n.refs) parts.push_back(sub(s));
    for (SchemaId s : n.nots) parts.push_back(formulas_.negation(sub(s)));
    for (auto &branches : n.any_of) {
      std::vector<Formula> any;
      for (SchemaId s : branches) any.push_back(sub(s));
      parts.push_back(formulas_.disjunction(std::move(any)));
    }
    for (auto &branches : n.one_of) {
      std::vector<Formula> one;
      for (SchemaId s : branches) one.push_back(sub(s));
      const bool exclude = type == Type::Object && objects_exclude(branches);
      parts.push_back(exclude ? formulas_.disjunction(std::move(one)) : formulas_.exactly_one(std::move(one)));
    }
    if (n.if_ != NO_SCHEMA) {
      Formula condition = sub(n.if_);
      Formula yes = n.then_ == NO_SCHEMA ? FormulaSpace::TRUE : sub(n.then_);
      Formula no = n.else_ == NO_SCHEMA ? FormulaSpace::TRUE : sub(n.else_);
      parts.push_back(formulas_.disjunction({formulas_.negation(condition), yes}));
      parts.push_back(formulas_.disjunction({condition, no}));
    }
  }
  return formulas_.conjunction(std::move(parts));
}

// ---------------------------------------------------------------- goals

GoalId JsonControl::intern(std::vector<Formula> roots, Formula need) {
  charge(1 + roots.size());
  need = formulas_.substitute(need, [&](uint32_t i) {
    return roots[i] <= FormulaSpace::TRUE ? roots[i] : formulas_.leaf(i);
  });
  uint64_t h = mix(need, roots.size());
  for (Formula r : roots) h = mix(h, r);
  auto [first, last] = goal_index_.equal_range(h);
  for (auto it = first; it != last; ++it)
    if (goals_[it->second].need == need && goals_[it->second].roots == roots) return it->second;
  Goal g;
  g.need = need;
  g.combined = formulas_.substitute(need, [&](uint32_t i) { return roots[i]; });
  g.simple = roots.size() == 1 && formulas_.is_conjunction(roots[0]) &&
             (roots[0] == FormulaSpace::TRUE || need == formulas_.leaf(0));
  g.roots = std::move(roots);
  auto id = static_cast<GoalId>(goals_.size());
  goals_.push_back(std::move(g));
  values_.emplace_back();
  goal_index_.emplace(h, id);
  return id;
}

GoalId JsonControl::expand_goal(GoalId goal, Type type) {
  std::vector<Formula> roots = goals_[goal].roots;
  for (Formula &r : roots) r = expand(r, type);
  Formula need = goals_[goal].need;
  if (roots.size() == 1 && need == formulas_.leaf(0)) {
    roots[0] = written(roots[0], type);
  } else if (const Formula all = written(FormulaSpace::TRUE, type); all != FormulaSpace::TRUE) {
    need = formulas_.both(need, formulas_.leaf(static_cast<uint32_t>(roots.size())));
    roots.push_back(all);
  }
  if (type == Type::Object || type == Type::Array) {
    // A group that cannot hold on its own is false now, so that no branch waits for it.
    bool plain = std::all_of(roots.begin(), roots.end(), [&](Formula r) { return formulas_.is_conjunction(r); });
    if (!plain || roots.size() > 1)
      formulas_.substitute(&roots, [&](uint32_t id) {
        return oracle_->group_can_hold(id, type) ? formulas_.leaf(id) : FormulaSpace::FALSE;
      });
  }
  return intern(std::move(roots), need);
}

// ---------------------------------------------------------------- values

ValueControl *JsonControl::value(GoalId goal) {
  charge();
  if (values_[goal]) return values_[goal].get();
  auto made = std::make_unique<ValueControl>();
  ValueControl &v = *made;
  v.goal = goal;
  const bool several = goals_[goal].roots.size() > 1 || goals_[goal].need != formulas_.leaf(0);
  Formula combined = goals_[goal].combined;
  Re number = RegexSpace::EMPTY;
  if (combined != FormulaSpace::FALSE) {
    for (Type t : {Type::Null, Type::Boolean, Type::Object, Type::Array, Type::Number, Type::String})
      if (holds_type(combined, t)) v.types |= type_bit(t);
    if (v.types & (type_bit(Type::Null) | type_bit(Type::Boolean))) {
      v.literal.re = literal_re(combined);
      if (several)
        for (Formula r : goals_[goal].roots) v.literal.roots.push_back(literal_re(r));
    }
    if (v.types & type_bit(Type::Number)) {
      GoalId g = expand_goal(goal, Type::Number);
      number = number_re(goals_[g].combined);
      if (schema_.options.integer_digits && must_be_integer(goals_[g].combined)) number = digits_only(number);
      v.number.re = number;
      if (several)
        for (Formula r : goals_[g].roots) v.number.roots.push_back(number_re(r));
    }
    if (v.types & type_bit(Type::String)) v.string = string_language(goals_[expand_goal(goal, Type::String)]);
    if (v.types & type_bit(Type::Object)) v.first.set('{');
    if (v.types & type_bit(Type::Array)) v.first.set('[');
    if (v.types & type_bit(Type::String)) v.first.set('"');
    for (Re re : {number, v.literal.re})
      if (re != RegexSpace::EMPTY) {
        const Row &row = text_.regex().row(re);
        for (int b = 0; b < 256; ++b)
          if (row[b] != RegexSpace::EMPTY) v.first.set(b);
      }
  }
  values_[goal] = std::move(made);
  return values_[goal].get();
}

std::vector<SchemaId> JsonControl::groups_of(GoalId goal) const {
  std::vector<SchemaId> groups;
  for (Formula r : goals_[goal].roots) {
    std::vector<uint32_t> leaves = formulas_.leaves(r);
    groups.insert(groups.end(), leaves.begin(), leaves.end());
  }
  sort_numbers(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  return groups;
}

ObjectControl *JsonControl::open_object(ValueControl *v) {
  if (!v->object) {
    GoalId g = expand_goal(v->goal, Type::Object);
    v->object = object_control(g, universe(groups_of(g)));
  }
  return v->object;
}

ArrayControl *JsonControl::open_array(ValueControl *v) {
  if (!v->array) v->array = array_control(expand_goal(v->goal, Type::Array));
  return v->array;
}

Shortest &JsonControl::shortest() {
  if (!shortest_) shortest_ = std::make_unique<Shortest>(*this);
  return *shortest_;
}

bool JsonControl::can_hold(Formula requirement) { return oracle_->can_hold(requirement); }
bool JsonControl::holds_type(Formula requirement, Type type) { return oracle_->holds_type(requirement, type); }

std::vector<SchemaId> JsonControl::empty_parts() {
  std::vector<SchemaId> out;
  std::vector<bool> reached(schema_.nodes.size(), false);
  std::vector<SchemaId> todo{schema_.root};
  reached[schema_.root] = true;
  // Only what the root needs: an optional property may be impossible on purpose.
  while (!todo.empty()) {
    charge();
    SchemaId id = todo.back();
    todo.pop_back();
    const SchemaNode &n = schema_.nodes[id];
    if (can_hold(schema_leaf(id))) continue;
    bool blamed = false;
    auto visit = [&](SchemaId s) {
      if (s == NO_SCHEMA || schema_.nodes[s].boolean || can_hold(schema_leaf(s))) return;
      blamed = true;
      if (!reached[s]) {
        reached[s] = true;
        todo.push_back(s);
      }
    };
    for (const std::string &name : n.required)
      if (auto it = n.property_index.find(name); it != n.property_index.end()) visit(it->second);
    for (SchemaId s : n.all_of) visit(s);
    for (SchemaId s : n.refs) visit(s);
    for (auto &branches : n.any_of)
      if (std::none_of(branches.begin(), branches.end(), [&](SchemaId s) { return can_hold(schema_leaf(s)); }))
        for (SchemaId s : branches) visit(s);
    for (uint64_t i = 0; i < n.min_items; ++i) {
      if (i < n.prefix_items.size()) visit(n.prefix_items[i]);
      else {
        visit(n.items);
        break;
      }
    }
    if (!blamed) out.push_back(id);
  }
  if (out.empty()) out.push_back(schema_.root);
  return out;
}

uint64_t JsonControl::unproven() const { return unproven_ + oracle_->unproven(); }

size_t JsonControl::memory() const {
  return formulas_.memory() + info_.size() * sizeof(FormulaInfo) + goals_.size() * 96 +
         objects_.size() * 400 + arrays_.size() * 200;
}

}  // namespace structgen
