#include "json/object_control.h"

#include <algorithm>

#include "util/limit_error.h"
#include "util/sorting.h"

namespace structgen {
namespace {

constexpr size_t MAX_PATTERNS = 31;      // over the keys of one object: a class is a set of them, in one word
constexpr size_t MAX_KEY_CLASSES = 128;  // that are distinguished

void add_pattern(std::vector<Re> *patterns, Re re) {
  if (std::find(patterns->begin(), patterns->end(), re) == patterns->end()) patterns->push_back(re);
}

}  // namespace

int64_t KeyUniverse::find(std::string_view key) const {
  charge(2 * search_work(keys.size()) + key.size() / COMPARED_BYTES_PER_UNIT);
  auto it = std::lower_bound(keys.begin(), keys.end(), key);
  return it != keys.end() && *it == key ? it - keys.begin() : -1;
}

const KeyUniverse *ObjectControls::universe(const Groups &groups) {
  auto &slot = universes_[groups];
  if (slot) return slot.get();
  auto made = std::make_unique<KeyUniverse>();
  std::vector<std::string_view> declared;
  // In the order of keys, where there is one, declared keys come before keys that are only required.
  for (SchemaId g : groups)
    for (auto &[name, id] : table_.node(g).properties) declared.push_back(name);
  for (SchemaId g : groups)
    for (auto &name : table_.node(g).required) declared.push_back(name);
  charge(2 * groups.size());
  for (SchemaId g : groups)
    for (auto &name : rules_.listed_names(g)) declared.push_back(name);
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

ObjectControl *ObjectControls::control(ObligationId expanded, const KeyUniverse *universe) {
  const std::pair key(expanded, universe);
  if (auto known = controls_.find(key); known != controls_.end()) return known->second.get();
  std::unique_ptr<ObjectControl> made = make_control(expanded, universe);
  made->id = static_cast<uint32_t>(controls_.size());
  return (controls_[key] = std::move(made)).get();
}

std::unique_ptr<ObjectControl> ObjectControls::make_control(ObligationId expanded, const KeyUniverse *universe) {
  auto made = std::make_unique<ObjectControl>();
  ObjectControl &o = *made;
  const Obligation &obligation = obligations_[expanded];
  o.obligation = expanded;
  o.universe = universe;
  o.simple = obligation.conjunctive;
  o.groups = obligations_.groups(expanded);
  o.open = rules_.open_groups(o.groups);
  const std::vector<Formula> &roots = obligation.roots;
  o.alternatives = roots.size() == 1 && formulas_.kind(roots[0]) == FormulaSpace::Kind::Or &&
                   obligation.condition == formulas_.leaf(0) &&
                   std::all_of(formulas_.parts(roots[0]).begin(), formulas_.parts(roots[0]).end(),
                               [&](Formula p) { return formulas_.kind(p) == FormulaSpace::Kind::Leaf; });
  if (o.alternatives)
    for (SchemaId g : o.groups)
      if (!rules_.is_closed(g)) o.unclosed.push_back(g);
  o.required.resize(universe->words());
  for (SchemaId g : o.groups) {
    const SchemaNode &n = table_.node(g);
    for (auto &[re, id] : n.pattern_properties) {
      charge(1 + o.patterns.size() / 16);
      add_pattern(&o.patterns, re);
    }
    if (n.property_names != NO_SCHEMA) add_pattern(&o.patterns, rules_.name_language(g));
    if (!o.simple) continue;
    for (const std::string &name : n.required) set_bit(o.required.data(), static_cast<uint32_t>(universe->find(name)));
    o.min = std::max(o.min, n.min_properties);
    o.max = std::min(o.max, n.max_properties);
  }
  return made;
}

ObjectControl *ObjectControls::control_of_groups(const Groups &groups) {
  std::vector<Formula> leaves;
  for (SchemaId g : groups) leaves.push_back(formulas_.leaf(g));
  const ObligationId all = obligations_.require(formulas_.conjunction(std::move(leaves)));
  return control(all, universe(groups));
}

ObjectControl *ObjectControls::with_key_named(ObjectControl *o, std::string_view key) {
  if (!o->alternatives) return o;
  charge(2 + o->unclosed.size());
  Groups left = rules_.groups_naming(key, o->groups);
  for (SchemaId g : o->unclosed) left.push_back(g);
  sort_numbers(left.begin(), left.end());
  left.erase(std::unique(left.begin(), left.end()), left.end());
  if (left.empty() || left.size() == o->groups.size()) return o;
  std::vector<Formula> any;
  for (SchemaId g : left) any.push_back(formulas_.leaf(g));
  return control(obligations_.require(formulas_.disjunction(std::move(any))), o->universe);
}

// ---------------------------------------------------------------- undeclared keys

const std::vector<std::pair<KeyClass, Re>> &ObjectControls::classes(ObjectControl *o) {
  if (!o->classes.empty()) return o->classes;
  RegexSpace &space = table_.regex();
  if (o->patterns.empty()) {
    o->classes.emplace_back(0, RegexSpace::ANY_TEXT);
    return o->classes;
  }
  if (o->patterns.size() > MAX_PATTERNS)
    throw LimitError("more than " + std::to_string(MAX_PATTERNS) +
                     " different patterns apply to the keys of one object (limit key_patterns)");
  // Each pattern splits the classes so far. Most patterns exclude each other, so that classes remain few.
  Re undeclared = RegexSpace::ANY_TEXT;
  if (!o->universe->keys.empty()) undeclared = space.complement(space.literals(o->universe->keys));
  std::vector<std::pair<KeyClass, Re>> classes{{0, undeclared}}, split;
  for (size_t i = 0; i < o->patterns.size() && classes.size() <= MAX_KEY_CLASSES; ++i) {
    split.clear();
    for (auto &[matched, re] : classes)
      for (bool with : {false, true}) {
        const Re half = space.intersect(re, with ? o->patterns[i] : space.complement(o->patterns[i]));
        if (half != RegexSpace::EMPTY && space.alive(half))
          split.emplace_back(with ? matched | 1u << i : matched, half);
      }
    classes.swap(split);
  }
  if (classes.size() > MAX_KEY_CLASSES) {
    // A complete key is judged by the patterns it matches; until then it counts as possible.
    table_.count_unproven();
    classes = {{UNKNOWN_CLASS, RegexSpace::ANY_TEXT}};
  }
  if (classes.empty()) classes.emplace_back(0, RegexSpace::EMPTY);
  o->classes = std::move(classes);
  return o->classes;
}

KeyClass ObjectControls::class_of(const ObjectControl &o, std::string_view key) {
  charge(1 + o.patterns.size());
  KeyClass matched = 0;
  for (size_t i = 0; i < o.patterns.size(); ++i)
    if (table_.regex().matches(o.patterns[i], key)) matched |= 1u << i;
  return matched;
}

Formula ObjectControls::requirement(SchemaId group, const ObjectControl &o, KeyClass of) {
  charge();
  const SchemaNode &n = table_.node(group);
  if (of == UNKNOWN_CLASS) return FormulaSpace::TRUE;
  std::vector<Formula> all;
  auto matches = [&](Re re) {
    const size_t i = std::find(o.patterns.begin(), o.patterns.end(), re) - o.patterns.begin();
    return (of >> i & 1) != 0;
  };
  if (n.property_names != NO_SCHEMA && !matches(rules_.name_language(group))) return FormulaSpace::FALSE;
  bool named = false;
  for (auto &[re, id] : n.pattern_properties)
    if (matches(re)) {
      named = true;
      all.push_back(table_.leaf(id));
    }
  if (!named && n.additional_properties != NO_SCHEMA) all.push_back(table_.leaf(n.additional_properties));
  return formulas_.conjunction(std::move(all));
}

Formula ObjectControls::requirement(const Groups &groups, const ObjectControl &frame, KeyClass of) {
  std::vector<Formula> all;
  for (SchemaId g : groups) all.push_back(requirement(g, frame, of));
  return formulas_.conjunction(std::move(all));
}

// ---------------------------------------------------------------- the end of an object

std::vector<bool> ObjectControls::verdicts(const ObjectControl &o, const ObjectView &view) {
  return obligations_.evaluate(o.obligation, [&](SchemaId group) {
    const SchemaNode &n = table_.node(group);
    if (view.count < n.min_properties || view.count > n.max_properties) return false;
    return std::all_of(n.required.begin(), n.required.end(), [&](const std::string &name) {
      return bit(view.seen, static_cast<uint32_t>(o.universe->find(name)));
    });
  });
}

bool ObjectControls::can_close(const ObjectControl &o, const ObjectView &view) {
  if (!o.simple) return obligations_.is_met(o.obligation, verdicts(o, view));
  if (view.count < o.min || view.count > o.max) return false;
  for (size_t i = 0; i < o.required.size(); ++i)
    if (o.required[i] & ~view.seen[i]) return false;
  return true;
}

}  // namespace structgen
