#include "json_control.h"

#include <algorithm>

#include "json_oracle.h"

namespace structgen {
namespace {

constexpr int MAX_NESTED_APPLICATORS = 600;
constexpr size_t MAX_PATTERN_CLASSES = 6;  // patterns of one object whose combinations are told apart

Re one_of(RegexSpace &space, std::span<const Re> xs, Re everything, Re *none) {
  if (xs.size() == 1) {
    *none = space.intersect(everything, space.complement(xs[0]));
    return xs[0];
  }
  size_t half = xs.size() / 2;
  Re none_left, none_right;
  Re left = one_of(space, xs.first(half), everything, &none_left);
  Re right = one_of(space, xs.subspan(half), everything, &none_right);
  *none = space.intersect(none_left, none_right);
  return space.alternate(space.intersect(left, none_right), space.intersect(none_left, right));
}

}  // namespace

int64_t KeyUniverse::find(std::string_view key) const {
  auto it = std::lower_bound(keys.begin(), keys.end(), key);
  return it != keys.end() && *it == key ? it - keys.begin() : -1;
}

JsonControl::JsonControl(Schema schema, TextSpace &text)
    : schema_(std::move(schema)), text_(text), oracle_(std::make_unique<JsonOracle>(*this)) {
  for (SchemaNode &n : schema_.nodes)
    for (auto &[name, id] : n.properties) n.property_index.emplace(name, id);
  root_ = intern({schema_leaf(schema_.root)}, formulas_.leaf(0));
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

Formula JsonControl::expand(Formula f, Type type, int depth) {
  if (f <= FormulaSpace::TRUE) return f;
  auto t = static_cast<int>(type);
  if (Formula known = info(f).expanded[t]; known != UINT32_MAX) return known;
  Formula result;
  if (formulas_.kind(f) == FormulaSpace::Kind::Leaf)
    result = expand_schema(formulas_.leaf_id(f), type, depth);
  else
    result = formulas_.substitute(f, [&](uint32_t id) { return expand(formulas_.leaf(id), type, depth + 1); });
  info(f).expanded[t] = result;
  return result;
}

Formula JsonControl::expand_schema(SchemaId id, Type type, int depth) {
  if (depth > MAX_NESTED_APPLICATORS)
    throw LimitError("applicators (allOf, anyOf, $ref, ...) are nested more than " +
                     std::to_string(MAX_NESTED_APPLICATORS) + " deep at one place: " + schema_.nodes[id].pointer);
  const SchemaNode &n = schema_.nodes[id];
  if (n.boolean) return *n.boolean ? FormulaSpace::TRUE : FormulaSpace::FALSE;
  if (!(n.types & type_bit(type))) return FormulaSpace::FALSE;
  auto sub = [&](SchemaId s) { return expand(schema_leaf(s), type, depth + 1); };
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
      parts.push_back(formulas_.exactly_one(std::move(one)));
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
  if (type == Type::Object || type == Type::Array) {
    // A group that cannot hold on its own is false now, so that no branch waits for it.
    bool plain = std::all_of(roots.begin(), roots.end(), [&](Formula r) { return formulas_.is_conjunction(r); });
    if (!plain || roots.size() > 1)
      for (Formula &r : roots)
        r = formulas_.substitute(r, [&](uint32_t id) {
          return oracle_->group_can_hold(id, type) ? formulas_.leaf(id) : FormulaSpace::FALSE;
        });
  }
  return intern(std::move(roots), need);
}

template <class Frame>
std::unique_ptr<ChildControl<Frame>> JsonControl::make_child(Frame *frame,
                                                             const std::function<Formula(SchemaId)> &requirement,
                                                             const std::function<Frame *(GoalId)> &with_goal) {
  auto made = std::make_unique<ChildControl<Frame>>();
  made->frame = frame;
  if (goals_[frame->goal].simple) {
    std::vector<Formula> all;
    for (SchemaId g : frame->groups) all.push_back(requirement(g));
    Formula f = formulas_.conjunction(std::move(all));
    made->possible = can_hold(f);
    if (made->possible) made->child = value(intern({f}, formulas_.leaf(0)));
    return made;
  }
  // Groups whose requirement cannot be met fail now.
  std::vector<Formula> roots = goals_[frame->goal].roots;
  bool failed = false;
  for (Formula &r : roots)
    r = formulas_.substitute(r, [&](uint32_t id) {
      if (requirement(id) != FormulaSpace::FALSE) return formulas_.leaf(id);
      failed = true;
      return FormulaSpace::FALSE;
    });
  if (failed) made->frame = with_goal(intern(std::move(roots), goals_[frame->goal].need));
  if (goals_[made->frame->goal].combined == FormulaSpace::FALSE) return made;
  made->possible = true;
  for (SchemaId g : made->frame->groups) {
    Formula r = requirement(g);
    if (r == FormulaSpace::TRUE) continue;
    size_t i = std::find(made->roots.begin(), made->roots.end(), r) - made->roots.begin();
    if (i == made->roots.size()) made->roots.push_back(r);
    made->on.emplace_back(g, static_cast<uint32_t>(i));
  }
  return made;
}

namespace {

// The formula over leaves first, first+1, ... whose truth table is `table` (leaf `first` is the lowest bit).
Formula from_table(FormulaSpace &fs, const std::vector<bool> &table, uint32_t leaf) {
  if (table.size() == 1) return table[0] ? FormulaSpace::TRUE : FormulaSpace::FALSE;
  std::vector<bool> without, with;
  bool grows = true;  // nothing that holds without the leaf is lost with it
  for (size_t v = 0; v < table.size(); v += 2) {
    without.push_back(table[v]);
    with.push_back(table[v + 1]);
    grows &= !table[v] || table[v + 1];
  }
  Formula no = from_table(fs, without, leaf + 1), yes = from_table(fs, with, leaf + 1), x = fs.leaf(leaf);
  if (no == yes) return no;
  if (grows) return fs.disjunction({fs.both(x, yes), no});
  return fs.disjunction({fs.both(x, yes), fs.both(fs.negation(x), no)});
}

constexpr size_t MAX_ROOTS_TOLD_APART = 6;

}  // namespace

template <class Frame>
ChildControl<Frame> *JsonControl::resolve_child(ChildControl<Frame> *child, const std::function<bool(GoalId)> &alive) {
  const GoalId frame_goal = child->frame->goal;
  const size_t m = child->roots.size();
  Formula need;
  if (m <= MAX_ROOTS_TOLD_APART) {
    // Each way the verdicts can turn out, and whether the frame survives it.
    std::vector<bool> table(size_t{1} << m);
    for (size_t v = 0; v < table.size(); ++v)
      table[v] = alive(goal_after(frame_goal, child->on, [&](uint32_t i) { return (v >> i & 1) != 0; }));
    need = from_table(formulas_, table, 0);
  } else {
    // Too many to tell apart: any of them, or none where the frame survives without. More than the
    // truth, so nothing is lost; the frame itself is asked again when the verdicts are there.
    ++unproven_;
    bool none = alive(goal_after(frame_goal, child->on, [](uint32_t) { return false; }));
    std::vector<Formula> any;
    for (uint32_t i = 0; i < m; ++i) any.push_back(formulas_.leaf(i));
    need = none ? FormulaSpace::TRUE : formulas_.disjunction(std::move(any));
  }
  if (need == FormulaSpace::FALSE) return nullptr;
  auto &slot = child->variants[need];
  if (slot) return slot->possible ? slot.get() : nullptr;
  auto made = std::make_unique<ChildControl<Frame>>();
  made->frame = child->frame;
  // Roots that must hold anyway become one, whose verdict is never in question.
  std::vector<bool> must(m, false);
  if (formulas_.kind(need) == FormulaSpace::Kind::Leaf) must[formulas_.leaf_id(need)] = true;
  if (formulas_.kind(need) == FormulaSpace::Kind::And)
    for (Formula p : formulas_.parts(need))
      if (formulas_.kind(p) == FormulaSpace::Kind::Leaf) must[formulas_.leaf_id(p)] = true;
  std::vector<Formula> kept, together;
  std::vector<uint32_t> index(m);
  const bool merged = m == 0 || std::find(must.begin(), must.end(), true) != must.end();
  if (merged) kept.push_back(FormulaSpace::TRUE);
  for (size_t i = 0; i < m; ++i) {
    if (must[i]) {
      together.push_back(child->roots[i]);
      index[i] = 0;
    } else {
      index[i] = static_cast<uint32_t>(kept.size());
      kept.push_back(child->roots[i]);
    }
  }
  if (merged) kept[0] = formulas_.conjunction(together);
  Formula renamed = m == 0 ? formulas_.leaf(0)
                           : formulas_.substitute(need, [&](uint32_t i) { return formulas_.leaf(index[i]); });
  for (auto &[g, i] : child->on)
    if (!must[i]) made->verdicts.emplace_back(g, index[i]);
  GoalId goal = intern(std::move(kept), renamed);
  made->possible = can_hold(goals_[goal].combined);
  if (made->possible) made->child = value(goal);
  ChildControl<Frame> *result = made->possible ? made.get() : nullptr;
  child->variants[need] = std::move(made);
  return result;
}

KeyControl *JsonControl::resolve(KeyControl *key, const ObjectView &view) {
  if (!key->possible) return nullptr;
  if (key->child) return key;
  return resolve_child<ObjectControl>(
      key, [&](GoalId g) { return oracle_->object_alive(object_control(g, key->frame->universe), view, nullptr); });
}

ItemControl *JsonControl::next_item(ArrayControl *a, uint64_t count) {
  ItemControl *it = item(a, count);
  if (!it->possible) return nullptr;
  if (it->child) return it;
  return resolve_child<ArrayControl>(
      it, [&](GoalId g) { return oracle_->array_alive(array_control(g), count + 1, false); });
}

// ---------------------------------------------------------------- scalars

template <class LeafFn>
Re JsonControl::boolean_language(Formula f, Re everything, LeafFn leaf) {
  RegexSpace &space = text_.regex();
  switch (formulas_.kind(f)) {
    case FormulaSpace::Kind::False: return RegexSpace::EMPTY;
    case FormulaSpace::Kind::True: return everything;
    case FormulaSpace::Kind::Leaf: return leaf(formulas_.leaf_id(f));
    default: break;
  }
  std::vector<Re> parts;
  std::vector<Formula> children(formulas_.parts(f).begin(), formulas_.parts(f).end());
  for (Formula p : children) parts.push_back(boolean_language(p, everything, leaf));
  switch (formulas_.kind(f)) {
    case FormulaSpace::Kind::And: return space.intersect(parts);
    case FormulaSpace::Kind::Or: return space.alternate(parts);
    case FormulaSpace::Kind::Not: return space.intersect(everything, space.complement(parts[0]));
    default: {
      Re none;
      return one_of(space, parts, everything, &none);
    }
  }
}

StringLanguage JsonControl::string_leaf(SchemaId id) {
  RegexSpace &space = text_.regex();
  const SchemaNode &n = schema_.nodes[id];
  StringLanguage s;
  s.min = n.min_length;
  s.max = n.max_length;
  std::vector<Re> all = n.languages;
  if (n.has_values) {
    all.push_back(space.literals(n.strings));
    if (s.min > 0 || s.max != UNBOUNDED) {
      if (s.max >= s.min)
        all.push_back(space.repeat(space.any_char(), static_cast<int64_t>(s.min),
                                   s.max == UNBOUNDED ? -1 : static_cast<int64_t>(s.max)));
      else
        all.push_back(RegexSpace::EMPTY);
      s.min = 0;
      s.max = UNBOUNDED;
    }
  }
  s.re = all.empty() ? RegexSpace::ANY_TEXT : space.intersect(all);
  return s;
}

Re JsonControl::string_re(Formula f) {
  RegexSpace &space = text_.regex();
  return boolean_language(f, RegexSpace::ANY_TEXT, [&](SchemaId id) {
    StringLanguage s = string_leaf(id);
    if (s.min == 0 && s.max == UNBOUNDED) return s.re;
    if (s.max < s.min) return RegexSpace::EMPTY;
    return space.intersect(s.re, space.repeat(space.any_char(), static_cast<int64_t>(s.min),
                                              s.max == UNBOUNDED ? -1 : static_cast<int64_t>(s.max)));
  });
}

StringLanguage JsonControl::string_language(const Goal &g) {
  StringLanguage s;
  if (g.simple) {
    std::vector<Re> all;
    for (SchemaId id : formulas_.leaves(g.combined)) {
      StringLanguage one = string_leaf(id);
      if (one.re != RegexSpace::ANY_TEXT) all.push_back(one.re);
      s.min = std::max(s.min, one.min);
      s.max = std::min(s.max, one.max);
    }
    if (!all.empty()) s.re = all.size() == 1 ? all[0] : text_.regex().intersect(all);
    bool fits = s.re == RegexSpace::ANY_TEXT || (s.min == 0 && s.max == UNBOUNDED)
                    ? s.min <= s.max && text_.regex().alive(s.re)
                    : s.min <= s.max &&
                          text_.regex().has_length(s.re, static_cast<int64_t>(s.min),
                                                   s.max == UNBOUNDED ? -1 : static_cast<int64_t>(s.max));
    if (!fits) s.re = RegexSpace::EMPTY;
    return s;
  }
  s.re = string_re(g.combined);
  if (!text_.regex().alive(s.re)) s.re = RegexSpace::EMPTY;
  if (g.roots.size() > 1 || g.need != formulas_.leaf(0))
    for (Formula r : g.roots) s.roots.push_back(string_re(r));
  return s;
}

Re JsonControl::number_leaf(SchemaId id) {
  if (auto it = number_leaves_.find(id); it != number_leaves_.end()) return it->second;
  RegexSpace &space = text_.regex();
  const SchemaNode &n = schema_.nodes[id];
  Re re = n.has_number || !n.has_values ? number_language(space, n.number) : RegexSpace::ANY_TEXT;
  if (n.has_values) {
    std::vector<Re> any;
    for (const std::string &d : n.numbers) any.push_back(number_equal(space, d));
    re = space.intersect(re, space.alternate(any));
  }
  number_leaves_.emplace(id, re);
  return re;
}

Re JsonControl::number_re(Formula f) {
  Re everything = number_language(text_.regex(), {});
  return boolean_language(f, everything, [&](SchemaId id) { return number_leaf(id); });
}

bool JsonControl::must_be_integer(const Goal &expanded) const {
  if (!expanded.simple) return false;
  std::vector<uint32_t> groups = formulas_.leaves(expanded.combined);
  return std::any_of(groups.begin(), groups.end(), [&](SchemaId g) { return schema_.nodes[g].number.integer; });
}

Re JsonControl::digits_only(Re numbers) {
  RegexSpace &space = text_.regex();
  const CodeRange any[] = {{'0', '9'}}, leading[] = {{'1', '9'}};
  const Re positive = space.concat(space.text_class(leading), space.repeat(space.text_class(any), 0, -1));
  const Re digits = space.concat(space.repeat(space.literal("-"), 0, 1), space.alternate(space.literal("0"), positive));
  const Re narrowed = space.intersect(numbers, digits);
  return space.alive(narrowed) ? narrowed : RegexSpace::EMPTY;
}

Re JsonControl::literal_re(Formula f) {
  static const char *const NAMES[] = {"null", "true", "false"};
  std::vector<Re> any;
  for (int i = 0; i < 3; ++i) {
    Formula e = expand(f, i == 0 ? Type::Null : Type::Boolean);
    bool holds = formulas_.evaluate(e, [&](uint32_t id) { return (schema_.nodes[id].literals >> i & 1) != 0; });
    if (holds) any.push_back(text_.regex().literal(NAMES[i]));
  }
  return any.empty() ? RegexSpace::EMPTY : text_.regex().alternate(any);
}

ValueControl *JsonControl::value(GoalId goal) {
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
      if (schema_.options.integer_digits && must_be_integer(goals_[g])) number = digits_only(number);
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

ObjectControl *JsonControl::open_object(ValueControl *v) {
  if (!v->object) {
    GoalId g = expand_goal(v->goal, Type::Object);
    std::vector<SchemaId> groups;
    for (Formula r : goals_[g].roots) {
      std::vector<uint32_t> leaves = formulas_.leaves(r);
      groups.insert(groups.end(), leaves.begin(), leaves.end());
    }
    std::sort(groups.begin(), groups.end());
    groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
    v->object = object_control(g, universe(groups));
  }
  return v->object;
}

ArrayControl *JsonControl::open_array(ValueControl *v) {
  if (!v->array) v->array = array_control(expand_goal(v->goal, Type::Array));
  return v->array;
}

bool JsonControl::can_hold(Formula requirement) { return oracle_->can_hold(requirement); }
bool JsonControl::holds_type(Formula requirement, Type type) { return oracle_->holds_type(requirement, type); }

// ---------------------------------------------------------------- objects

const KeyUniverse *JsonControl::universe(const std::vector<SchemaId> &groups) {
  auto &slot = universes_[groups];
  if (slot) return slot.get();
  auto made = std::make_unique<KeyUniverse>();
  std::vector<std::string_view> declared;
  for (SchemaId g : groups) {
    for (auto &[name, id] : schema_.nodes[g].properties) declared.push_back(name);
    for (auto &name : schema_.nodes[g].required) declared.push_back(name);
  }
  std::unordered_map<std::string_view, uint32_t> rank;
  for (std::string_view name : declared) rank.try_emplace(name, static_cast<uint32_t>(rank.size()));
  std::vector<std::string_view> sorted;
  for (auto &[name, r] : rank) sorted.push_back(name);
  std::sort(sorted.begin(), sorted.end());
  made->by_rank.resize(sorted.size());
  for (std::string_view name : sorted) {
    made->by_rank[rank[name]] = static_cast<uint32_t>(made->keys.size());
    made->rank.push_back(rank[name]);
    made->keys.emplace_back(name);
    made->hashes.push_back(hash_text(name));
  }
  slot = std::move(made);
  return slot.get();
}

ObjectControl *JsonControl::object_control(GoalId goal, const KeyUniverse *universe) {
  auto &slot = objects_[{goal, universe}];
  if (slot) return slot.get();
  auto made = std::make_unique<ObjectControl>();
  ObjectControl &o = *made;
  o.goal = goal;
  o.universe = universe;
  o.simple = goals_[goal].simple;
  o.id = static_cast<uint32_t>(objects_.size());
  for (Formula r : goals_[goal].roots) {
    std::vector<uint32_t> leaves = formulas_.leaves(r);
    o.groups.insert(o.groups.end(), leaves.begin(), leaves.end());
  }
  std::sort(o.groups.begin(), o.groups.end());
  o.groups.erase(std::unique(o.groups.begin(), o.groups.end()), o.groups.end());
  o.keys.resize(universe->keys.size());
  o.required.resize(universe->words());
  for (SchemaId g : o.groups) {
    const SchemaNode &n = schema_.nodes[g];
    for (auto &[re, id] : n.pattern_properties)
      if (std::find(o.patterns.begin(), o.patterns.end(), re) == o.patterns.end()) o.patterns.push_back(re);
    if (n.property_names != NO_SCHEMA) {
      Re re = name_language(g);
      if (std::find(o.patterns.begin(), o.patterns.end(), re) == o.patterns.end()) o.patterns.push_back(re);
    }
    if (!o.simple) continue;
    for (const std::string &name : n.required) set_bit(o.required.data(), static_cast<uint32_t>(universe->find(name)));
    o.min = std::max(o.min, n.min_properties);
    o.max = std::min(o.max, n.max_properties);
  }
  slot = std::move(made);
  return slot.get();
}

void JsonControl::prepare(ObjectControl *o) {
  if (o->prepared) return;
  o->prepared = true;
  const KeyUniverse &u = *o->universe;
  o->usable.resize(u.words());
  if (o->simple) {
    for (uint32_t i = 0; i < u.keys.size(); ++i) {
      std::vector<Formula> all;
      for (SchemaId g : o->groups) all.push_back(key_requirement(g, u.keys[i]));
      if (can_hold(formulas_.conjunction(std::move(all)))) set_bit(o->usable.data(), i);
      else if (bit(o->required.data(), i)) o->impossible = true;
    }
  }
  std::vector<Re> good;
  bool all_good = true;
  for (auto &[matched, re] : extra_classes(o)) {
    bool possible;
    if (o->simple) {
      std::vector<Formula> all;
      for (SchemaId g : o->groups) all.push_back(extra_requirement(g, *o, matched));
      possible = can_hold(formulas_.conjunction(std::move(all)));
    } else {
      possible = oracle_->extra_class_possible(o, matched);
    }
    if (possible) good.push_back(re);
    else all_good = false;
  }
  if (all_good) {
    o->extra = RegexSpace::ANY_TEXT;
  } else if (!good.empty()) {
    RegexSpace &space = text_.regex();
    Re re = space.alternate(good);
    if (!u.keys.empty()) re = space.intersect(re, space.complement(space.literals(u.keys)));
    o->extra = space.alive(re) ? re : RegexSpace::EMPTY;
  }
}

const std::vector<std::pair<uint32_t, Re>> &JsonControl::extra_classes(ObjectControl *o) {
  if (!o->classes.empty()) return o->classes;
  RegexSpace &space = text_.regex();
  if (o->patterns.empty()) {
    o->classes.emplace_back(0, RegexSpace::ANY_TEXT);
  } else if (o->patterns.size() <= MAX_PATTERN_CLASSES) {
    for (uint32_t matched = 0; matched < 1u << o->patterns.size(); ++matched) {
      std::vector<Re> all;
      for (size_t i = 0; i < o->patterns.size(); ++i)
        all.push_back(matched >> i & 1 ? o->patterns[i] : space.complement(o->patterns[i]));
      Re re = space.intersect(all);
      if (re != RegexSpace::EMPTY && space.alive(re)) o->classes.emplace_back(matched, re);
    }
    if (o->classes.empty()) o->classes.emplace_back(0, RegexSpace::EMPTY);
  } else {
    // Too many patterns to tell all combinations apart: keys are taken by the patterns they match
    // when they are complete, and before that they count as possible.
    if (o->patterns.size() > 31) throw LimitError("more than 31 different patterns apply to the keys of one object");
    ++unproven_;
    o->classes.emplace_back(UINT32_MAX, RegexSpace::ANY_TEXT);
  }
  return o->classes;
}

Re JsonControl::name_language(SchemaId group) {
  SchemaId names = schema_.nodes[group].property_names;
  return string_re(expand(schema_leaf(names), Type::String));
}

uint32_t JsonControl::matched_patterns(const ObjectControl &o, std::string_view key) {
  uint32_t matched = 0;
  for (size_t i = 0; i < o.patterns.size(); ++i)
    if (text_.regex().matches(o.patterns[i], key)) matched |= 1u << i;
  return matched;
}

Formula JsonControl::key_requirement(SchemaId group, std::string_view key) {
  const SchemaNode &n = schema_.nodes[group];
  std::vector<Formula> all;
  if (n.property_names != NO_SCHEMA && !text_.regex().matches(name_language(group), key)) return FormulaSpace::FALSE;
  bool named = false;
  if (auto it = n.property_index.find(key); it != n.property_index.end()) {
    named = true;
    all.push_back(schema_leaf(it->second));
  }
  for (auto &[re, id] : n.pattern_properties)
    if (text_.regex().matches(re, key)) {
      named = true;
      all.push_back(schema_leaf(id));
    }
  if (!named && n.additional_properties != NO_SCHEMA) all.push_back(schema_leaf(n.additional_properties));
  return formulas_.conjunction(std::move(all));
}

Formula JsonControl::extra_requirement(SchemaId group, const ObjectControl &o, uint32_t matched) {
  const SchemaNode &n = schema_.nodes[group];
  if (matched == UINT32_MAX) return FormulaSpace::TRUE;  // not told apart
  std::vector<Formula> all;
  auto has = [&](Re re) {
    size_t i = std::find(o.patterns.begin(), o.patterns.end(), re) - o.patterns.begin();
    return (matched >> i & 1) != 0;
  };
  if (n.property_names != NO_SCHEMA && !has(name_language(group))) return FormulaSpace::FALSE;
  bool named = false;
  for (auto &[re, id] : n.pattern_properties)
    if (has(re)) {
      named = true;
      all.push_back(schema_leaf(id));
    }
  if (!named && n.additional_properties != NO_SCHEMA) all.push_back(schema_leaf(n.additional_properties));
  return formulas_.conjunction(std::move(all));
}

KeyControl *JsonControl::key(ObjectControl *o, uint32_t index) {
  auto &slot = o->keys[index];
  if (!slot) {
    auto made = make_child<ObjectControl>(
        o, [&](SchemaId g) { return key_requirement(g, o->universe->keys[index]); },
        [&](GoalId g) { return object_control(g, o->universe); });
    o->keys[index] = std::move(made);
  }
  return o->keys[index].get();
}

KeyControl *JsonControl::extra_key(ObjectControl *o, std::string_view key) {
  uint32_t matched = matched_patterns(*o, key);
  if (auto it = o->extras.find(matched); it != o->extras.end()) return it->second.get();
  auto made = make_child<ObjectControl>(
      o, [&](SchemaId g) { return extra_requirement(g, *o, matched); },
      [&](GoalId g) { return object_control(g, o->universe); });
  return (o->extras[matched] = std::move(made)).get();
}

KeyControl *JsonControl::only_extra_class(ObjectControl *o) {
  return o->patterns.empty() ? extra_key(o, "") : nullptr;
}

// ---------------------------------------------------------------- object frames

namespace {
uint64_t popcount(const Bits &a, const uint64_t *without) {
  uint64_t n = 0;
  for (size_t i = 0; i < a.size(); ++i) n += static_cast<uint64_t>(__builtin_popcountll(a[i] & ~without[i]));
  return n;
}
}  // namespace

bool JsonControl::object_alive(ObjectControl *o, const ObjectView &view) {
  if (!o->simple) return oracle_->object_alive(o, view, nullptr);
  prepare(o);
  if (o->impossible || view.count > o->max) return false;
  const KeyUniverse &u = *o->universe;
  uint64_t owed = popcount(o->required, view.seen);
  if (owed > 0 && schema_.options.ordered)
    for (uint32_t r = 0; r < u.keys.size() && static_cast<int64_t>(r) <= view.last_rank; ++r)
      if (bit(o->required.data(), u.by_rank[r]) && !bit(view.seen, u.by_rank[r])) return false;
  if (view.count + owed > o->max) return false;
  if (view.count + owed >= o->min) return true;
  if (o->extra != RegexSpace::EMPTY) return oracle_->enough_extra_keys(o, o->min - view.count - owed);
  uint64_t free = 0;
  for (uint32_t i = 0; i < u.keys.size(); ++i)
    free += bit(o->usable.data(), i) && !bit(view.seen, i) &&
            !(schema_.options.ordered && static_cast<int64_t>(u.rank[i]) <= view.last_rank);
  return view.count + free >= o->min;
}

bool JsonControl::allowed_keys(ObjectControl *o, const ObjectView &view, uint64_t *allowed) {
  const KeyUniverse &u = *o->universe;
  const uint32_t words = u.words();
  prepare(o);
  if (!o->simple) {
    bool extra = oracle_->allowed_keys(o, view, allowed);
    return extra && o->extra != RegexSpace::EMPTY;
  }
  for (uint32_t i = 0; i < words; ++i) allowed[i] = 0;
  if (o->impossible || view.count >= o->max) return false;
  uint64_t owed = popcount(o->required, view.seen);
  const bool room = view.count + 1 + owed <= o->max;  // for a key that is not owed
  for (uint32_t i = 0; i < words; ++i)
    allowed[i] = (room ? o->usable[i] : o->required[i] & o->usable[i]) & ~view.seen[i];
  bool extra = room && o->extra != RegexSpace::EMPTY;
  if (schema_.options.ordered) {
    // Keys come by rank; no key may pass one that is still owed.
    bool stop = false;
    for (uint32_t r = 0; r < u.keys.size(); ++r) {
      uint32_t i = u.by_rank[r];
      if (stop || static_cast<int64_t>(r) <= view.last_rank) allowed[i >> 6] &= ~(uint64_t{1} << (i & 63));
      else if (bit(o->required.data(), i) && !bit(view.seen, i)) stop = true;
    }
    extra = extra && !stop;
  }
  if (o->min > view.count + 1 + owed && !extra && o->extra == RegexSpace::EMPTY && schema_.options.ordered) {
    // Ordered and closed: skipping keys may leave too few for minProperties.
    for (uint32_t r = 0; r < u.keys.size(); ++r) {
      uint32_t i = u.by_rank[r];
      if (!bit(allowed, i)) continue;
      Bits seen(view.seen, view.seen + words);
      set_bit(seen.data(), i);
      if (!object_alive(o, {seen.data(), view.count + 1, static_cast<int64_t>(r)}))
        allowed[i >> 6] &= ~(uint64_t{1} << (i & 63));
    }
  }
  return extra;
}

bool JsonControl::more_keys(ObjectControl *o, const ObjectView &view) {
  uint64_t local[16];
  Bits big;
  uint64_t *allowed = local;
  if (o->universe->words() > 16) {
    big.resize(o->universe->words());
    allowed = big.data();
  }
  if (allowed_keys(o, view, allowed)) return true;
  return std::any_of(allowed, allowed + o->universe->words(), [](uint64_t w) { return w != 0; });
}

std::vector<bool> JsonControl::object_verdicts(ObjectControl *o, const ObjectView &view) {
  auto holds = [&](uint32_t g) {
    const SchemaNode &n = schema_.nodes[g];
    if (view.count < n.min_properties || view.count > n.max_properties) return false;
    for (const std::string &name : n.required)
      if (!bit(view.seen, static_cast<uint32_t>(o->universe->find(name)))) return false;
    return true;
  };
  std::vector<bool> out;
  for (Formula r : goals_[o->goal].roots) out.push_back(formulas_.evaluate(r, holds));
  return out;
}

bool JsonControl::object_can_close(ObjectControl *o, const ObjectView &view) {
  if (o->simple) {
    if (view.count < o->min || view.count > o->max) return false;
    return popcount(o->required, view.seen) == 0;
  }
  std::vector<bool> v = object_verdicts(o, view);
  return formulas_.evaluate(goals_[o->goal].need, [&](uint32_t i) { return v[i]; });
}

// ---------------------------------------------------------------- arrays

ArrayControl *JsonControl::array_control(GoalId goal) {
  auto &slot = arrays_[goal];
  if (slot) return slot.get();
  auto made = std::make_unique<ArrayControl>();
  ArrayControl &a = *made;
  a.goal = goal;
  a.simple = goals_[goal].simple;
  a.id = static_cast<uint32_t>(arrays_.size());
  for (Formula r : goals_[goal].roots) {
    std::vector<uint32_t> leaves = formulas_.leaves(r);
    a.groups.insert(a.groups.end(), leaves.begin(), leaves.end());
  }
  std::sort(a.groups.begin(), a.groups.end());
  a.groups.erase(std::unique(a.groups.begin(), a.groups.end()), a.groups.end());
  for (SchemaId g : a.groups) {
    const SchemaNode &n = schema_.nodes[g];
    a.prefix = std::max<uint64_t>(a.prefix, n.prefix_items.size());
    if (!a.simple) continue;
    a.min = std::max(a.min, n.min_items);
    a.max = std::min(a.max, n.max_items);
  }
  a.items.resize(a.prefix + 1);
  slot = std::move(made);
  return slot.get();
}

void JsonControl::prepare(ArrayControl *a) {
  if (a->prepared) return;
  a->prepared = true;
  if (!a->simple) return;
  for (uint64_t i = 0; i <= a->prefix && i < a->max; ++i) {
    std::vector<Formula> all;
    for (SchemaId g : a->groups) all.push_back(item_requirement(g, i));
    if (!can_hold(formulas_.conjunction(std::move(all)))) a->max = i;
  }
}

Formula JsonControl::item_requirement(SchemaId group, uint64_t index) {
  const SchemaNode &n = schema_.nodes[group];
  if (index < n.prefix_items.size()) return schema_leaf(n.prefix_items[index]);
  return n.items == NO_SCHEMA ? FormulaSpace::TRUE : schema_leaf(n.items);
}

ItemControl *JsonControl::item(ArrayControl *a, uint64_t index) {
  index = std::min(index, a->prefix);
  if (a->items[index]) return a->items[index].get();
  auto made = make_child<ArrayControl>(
      a, [&](SchemaId s) { return item_requirement(s, index); }, [&](GoalId g) { return array_control(g); });
  a->items[index] = std::move(made);
  return a->items[index].get();
}

bool JsonControl::array_alive(ArrayControl *a, uint64_t count) {
  if (!a->simple) return oracle_->array_alive(a, count, false);
  prepare(a);
  return count <= a->max && a->min <= a->max;
}

bool JsonControl::item_allowed(ArrayControl *a, uint64_t count) {
  if (!a->simple) return oracle_->array_alive(a, count, true);
  prepare(a);
  return count < a->max && a->min <= a->max;
}

std::vector<bool> JsonControl::array_verdicts(ArrayControl *a, uint64_t count) {
  std::vector<bool> out;
  for (Formula r : goals_[a->goal].roots)
    out.push_back(formulas_.evaluate(r, [&](uint32_t g) {
      const SchemaNode &n = schema_.nodes[g];
      return count >= n.min_items && count <= n.max_items;
    }));
  return out;
}

bool JsonControl::array_can_close(ArrayControl *a, uint64_t count) {
  if (a->simple) return count >= a->min && count <= a->max;
  std::vector<bool> v = array_verdicts(a, count);
  return formulas_.evaluate(goals_[a->goal].need, [&](uint32_t i) { return v[i]; });
}

// ---------------------------------------------------------------- verdicts

GoalId JsonControl::goal_after(GoalId goal, const Verdicts &verdicts, const std::function<bool(uint32_t)> &holds) {
  std::vector<SchemaId> failed;
  for (auto &[group, root] : verdicts)
    if (!holds(root)) failed.push_back(group);
  if (failed.empty()) return goal;
  std::vector<Formula> roots = goals_[goal].roots;
  for (Formula &r : roots)
    r = formulas_.substitute(r, [&](uint32_t g) {
      return std::binary_search(failed.begin(), failed.end(), g) ? FormulaSpace::FALSE : formulas_.leaf(g);
    });
  return intern(std::move(roots), goals_[goal].need);
}

ObjectControl *JsonControl::after_child(ObjectControl *o, const Verdicts &verdicts,
                                        const std::function<bool(uint32_t)> &holds) {
  if (verdicts.empty()) return o;
  GoalId g = goal_after(o->goal, verdicts, holds);
  return g == o->goal ? o : object_control(g, o->universe);
}

ArrayControl *JsonControl::after_child(ArrayControl *a, const Verdicts &verdicts,
                                       const std::function<bool(uint32_t)> &holds) {
  if (verdicts.empty()) return a;
  GoalId g = goal_after(a->goal, verdicts, holds);
  return g == a->goal ? a : array_control(g);
}

std::vector<SchemaId> JsonControl::empty_parts() {
  std::vector<SchemaId> out;
  std::vector<bool> reached(schema_.nodes.size(), false);
  std::vector<SchemaId> todo{schema_.root};
  reached[schema_.root] = true;
  // Only what the root needs: an optional property may be impossible on purpose.
  while (!todo.empty()) {
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

uint64_t JsonControl::unproven() const { return unproven_ + oracle_->unproven() + text_.regex().unproven(); }

size_t JsonControl::memory() const {
  return formulas_.memory() + info_.size() * sizeof(FormulaInfo) + goals_.size() * 96 +
         objects_.size() * 400 + arrays_.size() * 200;
}

}  // namespace structgen
