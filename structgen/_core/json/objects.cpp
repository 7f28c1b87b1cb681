// Object frames: their keys, what each key asks of its value, and when they can go on or end.
#include "json/control.h"

#include <algorithm>

#include "json/oracle/oracle.h"
#include "util/sorting.h"

namespace structgen {
namespace {

constexpr size_t MAX_PATTERNS = 31;    // over the keys of one object: a kind of key is a set of them, in one word
constexpr size_t MAX_FEW_NAMES = 64;  // of one pattern, to be taken as if they were declared
constexpr size_t MAX_KEY_KINDS = 128;  // that are told apart
constexpr size_t FEW_GROUPS = 8;       // asked one by one without looking for those that name a key

}  // namespace

// Names that patterns, or the languages of names, tell apart one by one. As keys of the universe it is known which
// of them are there, so nobody has to ask how many keys of such a kind are left.
// subtle: where keys have an order, these have none, and must stay extra keys.
const std::vector<std::string> &JsonControl::few_names(SchemaId group) {
  if (const auto it = few_names_.find(group); it != few_names_.end()) return it->second;
  std::vector<std::string> out;
  if (schema_.options.ordered) return few_names_[group] = std::move(out);
  const SchemaNode &n = schema_.nodes[group];
  for (auto &[re, id] : n.pattern_properties) text_.regex().few_texts(re, MAX_FEW_NAMES, &out);
  if (n.property_names == NO_SCHEMA) return few_names_[group] = std::move(out);
  const Formula names = expand(schema_leaf(n.property_names), Type::String);
  for (SchemaId id : formulas_.leaves(names)) {
    const SchemaNode &name = schema_.nodes[id];
    if (name.strings.size() <= MAX_FEW_NAMES) out.insert(out.end(), name.strings.begin(), name.strings.end());
    for (Re re : name.languages) text_.regex().few_texts(re, MAX_FEW_NAMES, &out);
  }
  return few_names_[group] = std::move(out);
}

const KeyUniverse *JsonControl::universe(const std::vector<SchemaId> &groups) {
  auto &slot = universes_[groups];
  if (slot) return slot.get();
  auto made = std::make_unique<KeyUniverse>();
  std::vector<std::string_view> declared;
  // The order of keys where one is wanted: what any of them declares comes before what is only required.
  for (SchemaId g : groups)
    for (auto &[name, id] : schema_.nodes[g].properties) declared.push_back(name);
  for (SchemaId g : groups)
    for (auto &name : schema_.nodes[g].required) declared.push_back(name);
  charge(2 * groups.size());
  for (SchemaId g : groups)
    for (auto &name : few_names(g)) declared.push_back(name);
  std::unordered_map<std::string_view, uint32_t, KeyedTextHash> rank;
  rank.reserve(declared.size());
  for (std::string_view name : declared) {
    charge(3);
    rank.try_emplace(name, static_cast<uint32_t>(rank.size()));
  }
  std::vector<std::string_view> sorted;
  for (auto &[name, r] : rank) {
    charge();
    sorted.push_back(name);
  }
  sort_texts(sorted.begin(), sorted.end());
  made->by_rank.resize(sorted.size());
  for (std::string_view name : sorted) {
    charge(6 + name.size() / COMPARED_BYTES_PER_UNIT);
    const uint32_t at = rank[name];
    made->by_rank[at] = static_cast<uint32_t>(made->keys.size());
    made->rank.push_back(at);
    made->keys.emplace_back(name);
    made->hashes.push_back(hash_text(name));
  }
  slot = std::move(made);
  return slot.get();
}

ObjectControl *JsonControl::object_control(GoalId goal, const KeyUniverse *universe) {
  const std::pair key(goal, universe);
  if (auto known = objects_.find(key); known != objects_.end()) return known->second.get();
  auto made = std::make_unique<ObjectControl>();
  ObjectControl &o = *made;
  o.goal = goal;
  o.universe = universe;
  o.simple = goals_[goal].simple;
  o.groups = groups_of(goal);
  o.open = open_among(o.groups);
  const std::vector<Formula> &roots = goals_[goal].roots;
  o.alternatives = roots.size() == 1 && formulas_.kind(roots[0]) == FormulaSpace::Kind::Or &&
                   goals_[goal].need == formulas_.leaf(0) &&
                   std::all_of(formulas_.parts(roots[0]).begin(), formulas_.parts(roots[0]).end(),
                               [&](Formula p) { return formulas_.kind(p) == FormulaSpace::Kind::Leaf; });
  if (o.alternatives)
    for (SchemaId g : o.groups)
      if (!is_closed(g)) o.unclosed.push_back(g);
  o.required.resize(universe->words());
  for (SchemaId g : o.groups) {
    const SchemaNode &n = schema_.nodes[g];
    for (auto &[re, id] : n.pattern_properties) {
      charge(1 + o.patterns.size() / 16);
      if (std::find(o.patterns.begin(), o.patterns.end(), re) == o.patterns.end()) o.patterns.push_back(re);
    }
    if (n.property_names != NO_SCHEMA) {
      Re re = name_language(g);
      if (std::find(o.patterns.begin(), o.patterns.end(), re) == o.patterns.end()) o.patterns.push_back(re);
    }
    if (!o.simple) continue;
    for (const std::string &name : n.required) set_bit(o.required.data(), static_cast<uint32_t>(universe->find(name)));
    o.min = std::max(o.min, n.min_properties);
    o.max = std::min(o.max, n.max_properties);
  }
  o.id = static_cast<uint32_t>(objects_.size());
  return (objects_[key] = std::move(made)).get();
}

void JsonControl::prepare(ObjectControl *o) {
  charge();
  if (o->prepared) return;
  charge(o->universe->keys.size());
  o->prepared = true;
  struct Undo {  // where a limit is met on the way
    ObjectControl *o;
    ~Undo() {
      if (!o) return;
      o->prepared = o->impossible = false;
      o->usable.clear();
    }
  } undo{o};
  const KeyUniverse &u = *o->universe;
  o->usable.resize(u.words());
  if (o->simple) {
    for (uint32_t i = 0; i < u.keys.size(); ++i) {
      if (can_hold(key_requirement_of_all(u.keys[i], o->groups, o->open))) set_bit(o->usable.data(), i);
      else if (bit(o->required.data(), i)) o->impossible = true;
    }
  }
  std::vector<Re> good;
  bool all_good = true;
  for (auto &[matched, re] : extra_classes(o)) {
    bool possible;
    if (o->simple) {
      std::vector<Formula> all;
      for (SchemaId g : o->open) all.push_back(extra_requirement(g, *o, matched));
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
  undo.o = nullptr;
}

const std::vector<std::pair<uint32_t, Re>> &JsonControl::extra_classes(ObjectControl *o) {
  if (!o->classes.empty()) return o->classes;
  RegexSpace &space = text_.regex();
  if (o->patterns.empty()) {
    o->classes.emplace_back(0, RegexSpace::ANY_TEXT);
    return o->classes;
  }
  if (o->patterns.size() > MAX_PATTERNS)
    throw LimitError("more than " + std::to_string(MAX_PATTERNS) +
                     " different patterns apply to the keys of one object (limit key_patterns)");
  // Each pattern splits the kinds that there are; most patterns exclude each other, so they stay few.
  Re undeclared = RegexSpace::ANY_TEXT;
  if (!o->universe->keys.empty()) undeclared = space.complement(space.literals(o->universe->keys));
  std::vector<std::pair<uint32_t, Re>> kinds{{0, undeclared}}, split;
  for (size_t i = 0; i < o->patterns.size() && kinds.size() <= MAX_KEY_KINDS; ++i) {
    split.clear();
    for (auto &[matched, re] : kinds)
      for (bool with : {false, true}) {
        const Re part = space.intersect(re, with ? o->patterns[i] : space.complement(o->patterns[i]));
        if (part != RegexSpace::EMPTY && space.alive(part)) split.emplace_back(with ? matched | 1u << i : matched, part);
      }
    kinds.swap(split);
  }
  if (kinds.size() > MAX_KEY_KINDS) {
    // Too many to tell apart: keys are taken by the patterns they match when they are complete, and before that
    // they count as possible.
    ++unproven_;
    kinds = {{UINT32_MAX, RegexSpace::ANY_TEXT}};
  }
  if (kinds.empty()) kinds.emplace_back(0, RegexSpace::EMPTY);
  o->classes = std::move(kinds);
  return o->classes;
}

Re JsonControl::name_language(SchemaId group) {
  if (const auto it = name_languages_.find(group); it != name_languages_.end()) return it->second;
  const SchemaId names = schema_.nodes[group].property_names;
  return name_languages_[group] = string_re(expand(schema_leaf(names), Type::String));
}

uint32_t JsonControl::matched_patterns(const ObjectControl &o, std::string_view key) {
  charge(1 + o.patterns.size());
  uint32_t matched = 0;
  for (size_t i = 0; i < o.patterns.size(); ++i)
    if (text_.regex().matches(o.patterns[i], key)) matched |= 1u << i;
  return matched;
}

Formula JsonControl::key_requirement(SchemaId group, std::string_view key) {
  const SchemaNode &n = schema_.nodes[group];
  charge(1 + search_work(n.properties.size()) + key.size() / 16);
  std::vector<Formula> all;
  if (!text_.spells(key)) return FormulaSpace::FALSE;
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

// The index of all keys is built only after many lookups: objects that are distinguished by a few keys look up just those.
std::vector<SchemaId> JsonControl::naming_among(std::string_view key, const std::vector<SchemaId> &groups) {
  std::vector<SchemaId> found;
  if (!naming_.empty() || keys_looked_for_ >= schema_.nodes.size()) {
    for (SchemaId g : groups_naming(key))
      if (std::binary_search(groups.begin(), groups.end(), g)) found.push_back(g);
    return found;
  }
  keys_looked_for_ += groups.size();
  charge(groups.size());
  for (SchemaId g : groups) {
    const SchemaNode &n = schema_.nodes[g];
    if (n.property_index.contains(key) || std::find(n.required.begin(), n.required.end(), key) != n.required.end()) found.push_back(g);
  }
  return found;
}

const std::vector<SchemaId> &JsonControl::groups_naming(std::string_view key) {
  if (naming_.empty()) {
    decltype(naming_) made;  // subtle: kept when it is whole, since a limit may be met on the way
    made.reserve(schema_.nodes.size());
    for (SchemaId g = 0; g < schema_.nodes.size(); ++g) {
      charge();
      const SchemaNode &n = schema_.nodes[g];
      for (auto &[name, id] : n.properties) made[name].push_back(g);
      for (const std::string &name : n.required)
        if (!n.property_index.contains(name)) made[name].push_back(g);
    }
    naming_ = std::move(made);
  }
  static const std::vector<SchemaId> NONE;
  const auto it = naming_.find(key);
  return it == naming_.end() ? NONE : it->second;
}

bool JsonControl::is_open(SchemaId group) const {
  const SchemaNode &n = schema_.nodes[group];
  return !n.pattern_properties.empty() || n.additional_properties != NO_SCHEMA || n.property_names != NO_SCHEMA;
}

bool JsonControl::is_closed(SchemaId group) const {
  const SchemaNode &n = schema_.nodes[group];
  return n.additional_properties != NO_SCHEMA && schema_.nodes[n.additional_properties].boolean == false &&
         n.pattern_properties.empty();
}

std::vector<SchemaId> JsonControl::open_among(const std::vector<SchemaId> &groups) const {
  charge(groups.size());
  std::vector<SchemaId> open;
  for (SchemaId g : groups)
    if (is_open(g)) open.push_back(g);
  return open;
}

std::vector<SchemaId> JsonControl::asked_about(std::string_view key, const std::vector<SchemaId> &groups,
                                               const std::vector<SchemaId> &open) {
  if (groups.size() <= FEW_GROUPS) return groups;
  const std::vector<SchemaId> named = naming_among(key, groups);
  if (named.size() + open.size() >= groups.size()) return groups;
  std::vector<SchemaId> asked;
  std::set_union(named.begin(), named.end(), open.begin(), open.end(), std::back_inserter(asked));
  return asked;
}

Formula JsonControl::key_requirement_of_all(std::string_view key, const std::vector<SchemaId> &groups,
                                            const std::vector<SchemaId> &open) {
  charge(2 + key.size() / 16);
  if (!text_.spells(key)) return FormulaSpace::FALSE;
  std::vector<Formula> all;
  if (groups.size() <= FEW_GROUPS) {
    for (SchemaId g : groups) all.push_back(key_requirement(g, key));
  } else {
    for (SchemaId g : asked_about(key, groups, open)) all.push_back(key_requirement(g, key));
  }
  return formulas_.conjunction(std::move(all));
}

Formula JsonControl::extra_requirement(SchemaId group, const ObjectControl &o, uint32_t matched) {
  charge();
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
    const std::string &key = o->universe->keys[index];
    ObjectControl *frame = with_key_named(o, key);
    auto made = make_child<ObjectControl>(
        frame, asked_about(key, frame->groups, frame->open), [&](SchemaId g) { return key_requirement(g, key); },
        [&](GoalId g) { return object_control(g, o->universe); });
    slot = std::move(made);
  }
  return slot.get();
}

// The frame without the closed alternatives that do not name the key: they are not even looked at.
ObjectControl *JsonControl::with_key_named(ObjectControl *o, std::string_view key) {
  if (!o->alternatives) return o;
  charge(2 + o->unclosed.size());
  std::vector<SchemaId> left = naming_among(key, o->groups);
  for (SchemaId g : o->unclosed) left.push_back(g);
  sort_numbers(left.begin(), left.end());
  left.erase(std::unique(left.begin(), left.end()), left.end());
  if (left.empty() || left.size() == o->groups.size()) return o;
  std::vector<Formula> any;
  for (SchemaId g : left) any.push_back(formulas_.leaf(g));
  return object_control(intern({formulas_.disjunction(std::move(any))}, formulas_.leaf(0)), o->universe);
}

KeyControl *JsonControl::extra_key(ObjectControl *o, std::string_view key) {
  return extra_key_of(o, matched_patterns(*o, key));
}

KeyControl *JsonControl::extra_key_of(ObjectControl *o, uint32_t matched) {
  if (auto it = o->extras.find(matched); it != o->extras.end()) return it->second.get();
  auto made = make_child<ObjectControl>(
      o, o->open, [&](SchemaId g) { return extra_requirement(g, *o, matched); },
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

// Simple frames without an order are read a word of 64 keys at a time, all others key by key.
void charge_keys(const ObjectControl &o, bool ordered) {
  const size_t keys = o.universe->keys.size();
  charge(1 + (o.simple && !ordered ? keys / 64 : keys / 8));
}
}  // namespace

bool JsonControl::object_alive(ObjectControl *o, const ObjectView &view) {
  charge_keys(*o, schema_.options.ordered);
  if (!o->simple) return oracle_->object_alive(o, view, nullptr);
  prepare(o);
  // subtle: a simple frame is also made of one way to satisfy another frame, whose groups may contradict each other.
  if (o->impossible || o->min > o->max || view.count > o->max) return false;
  const KeyUniverse &u = *o->universe;
  uint64_t owed = popcount(o->required, view.seen);
  if (owed > 0 && schema_.options.ordered)
    for (uint32_t r = 0; r < u.keys.size() && static_cast<int64_t>(r) <= view.last_rank; ++r)
      if (bit(o->required.data(), u.by_rank[r]) && !bit(view.seen, u.by_rank[r])) return false;
  if (view.count + owed > o->max) return false;
  if (view.count + owed >= o->min) return true;
  uint64_t free = extra_keys_left(*o, view);
  if (free == UINT64_MAX) return true;
  charge(u.keys.size() / 8);
  for (uint32_t i = 0; i < u.keys.size(); ++i)
    free += bit(o->usable.data(), i) && !bit(view.seen, i) &&
            !(schema_.options.ordered && static_cast<int64_t>(u.rank[i]) <= view.last_rank);
  return view.count + free >= o->min;
}

// In a simple frame all extra keys that are there are in the language of those that may come.
uint64_t JsonControl::extra_keys_left(const ObjectControl &o, const ObjectView &view) {
  const uint64_t texts = count_keys(o.extra);
  if (texts == UINT64_MAX) return texts;
  uint64_t declared = 0;
  for (uint32_t w = 0; w < o.universe->words(); ++w) declared += static_cast<uint64_t>(__builtin_popcountll(view.seen[w]));
  const uint64_t there = view.count - declared;
  return texts > there ? texts - there : 0;
}

uint64_t JsonControl::count_keys(Re re) {
  const size_t before = text_.regex().unproven();
  const uint64_t texts = text_.regex().count_texts(re);
  unproven_ += text_.regex().unproven() - before;
  return texts;
}

bool JsonControl::allowed_keys(ObjectControl *o, const ObjectView &view, uint64_t *allowed) {
  charge_keys(*o, schema_.options.ordered);
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
  if (schema_.options.ordered && o->min > view.count + owed && extra_keys_left(*o, view) != UINT64_MAX) {
    // Skipping keys may leave too few for minProperties.
    for (uint32_t r = 0; r < u.keys.size(); ++r) {
      uint32_t i = u.by_rank[r];
      if (!bit(allowed, i)) continue;
      Bits seen(view.seen, view.seen + words);
      set_bit(seen.data(), i);
      if (!object_alive(o, {seen.data(), view.count + 1, static_cast<int64_t>(r)}))
        allowed[i >> 6] &= ~(uint64_t{1} << (i & 63));
    }
    extra = extra && object_alive(o, {view.seen, view.count + 1, static_cast<int64_t>(u.keys.size())});
  }
  return extra;
}

Re JsonControl::extra_keys(ObjectControl *o, const ObjectView &view) {
  if (o->simple || o->patterns.empty()) return o->extra;
  RegexSpace &space = text_.regex();
  std::vector<Re> good;
  bool all = true;
  for (auto &[matched, re] : std::vector<std::pair<uint32_t, Re>>(extra_classes(o))) {
    const bool alive = oracle_->extra_class_alive(o, view, matched);
    if (alive) good.push_back(re);
    all = all && alive;
  }
  if (all) return o->extra;
  const Re re = space.intersect(o->extra, space.alternate(good));
  return space.alive(re) ? re : RegexSpace::EMPTY;
}

std::optional<RestOfObject> JsonControl::rest_of_object(ObjectControl *o, const ObjectView &view, int64_t key) {
  if (key < 0) return oracle_->rest_of_object(o, view, nullptr);
  const JsonOracle::Include include{false, 0, o->universe->keys[static_cast<size_t>(key)]};
  return oracle_->rest_of_object(o, view, &include);
}

std::vector<std::string> JsonControl::extra_key_examples(ObjectControl *o) {
  RegexSpace &space = text_.regex();
  std::vector<std::string> out;
  for (auto &[matched, re] : std::vector<std::pair<uint32_t, Re>>(extra_classes(o))) {
    Re fresh = o->universe->keys.empty() ? re : space.intersect(re, space.complement(space.literals(o->universe->keys)));
    std::string text;
    if (space.witness(fresh, &text)) out.push_back(std::move(text));
  }
  return out;
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

}  // namespace structgen
