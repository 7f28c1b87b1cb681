#include "json/oracle/object_search.h"

#include <algorithm>

#include "json/oracle/object_query.h"
#include "json/oracle/oracle.h"
#include "util/sorting.h"

namespace structgen {

ObjectSearch::ObjectSearch(JsonOracle &oracle)
    : oracle_(oracle), tables_(oracle.tables()), formulas_(oracle.tables().formulas()) {}

bool ObjectSearch::live(ObjectControl *o, const ObjectView &view, const NextKey *next) {
  return oracle_.memoise(hash_of(*o, view, next), [&] {
    ResidualFormula now = residual(*o, view);
    if (next)
      now = residual(now,
                     next->undeclared ? verdicts_of_class(*o, view, next->of) : verdicts_of_key(*o, view, next->name));
    return any(now, *o, view, [&](const Groups &satisfied, const Groups &violated) {
      return possible(satisfied, violated, o, view, next);
    });
  });
}

bool ObjectSearch::class_allowed(ObjectControl *o, const ObjectView &view, KeyClass of) {
  if (o->alternatives && o->unclosed.empty()) return false;
  const NextKey next{true, of, {}};
  ObjectView after = view;
  if (tables_.table.options().ordered) after.last_rank = static_cast<int64_t>(o->universe->keys.size());
  return live(o, after, &next);
}

bool ObjectSearch::class_possible(ObjectControl *o, KeyClass of) {
  if (o->alternatives && o->unclosed.empty()) return false;
  const Bits none(o->universe->words());
  const NextKey next{true, of, {}};
  return live(o, {none.data(), 0, -1}, &next);
}

bool ObjectSearch::find_model(const ResidualFormula &residual, ObjectControl *o, const ObjectView &view,
                              const NextKey *next, ObjectModel *model) {
  ObjectCompletion *const completion = model->completion;
  *model = {};
  model->completion = completion;
  const Query query(oracle_.budget(), oracle_.state());
  return any(residual, *o, view, [&](const Groups &satisfied, const Groups &violated) {
    return possible(satisfied, violated, o, view, next, model);
  });
}

std::optional<ObjectCompletion> ObjectSearch::complete(ObjectControl *o, const ObjectView &view, const NextKey *next) {
  ObjectCompletion completion;
  ObjectModel model;
  model.completion = &completion;
  ResidualFormula now = residual(*o, view);
  if (next) now = residual(now, verdicts_of_key(*o, view, next->name));
  if (!find_model(now, o, view, next, &model) || !model.found) return std::nullopt;
  return completion;
}

bool ObjectSearch::possible(const Groups &satisfied, const Groups &violated, ObjectControl *frame,
                            const ObjectView &view, const NextKey *next, ObjectModel *model) {
  return ObjectQuery(oracle_, satisfied, violated, frame, view).run(next, model);
}

Hash128 ObjectSearch::hash_of(const ObjectControl &o, const ObjectView &view, const NextKey *next) {
  charge(1 + o.universe->words());
  Hash128 h = hash_words(6, o.id, view.last_rank, view.count);
  for (uint32_t i = 0; i < o.universe->words(); ++i) h = extend(h, view.seen[i]);
  if (next) h = extend(extend(h, next->undeclared ? uint64_t{next->of} + 1 : 0), hash_text(next->name));
  return h;
}

// ---------------------------------------------------------------- residual formulas

ResidualFormula ObjectSearch::residual(const ObjectControl &frame, const ObjectView &view) {
  ResidualFormula out{tables_.obligations[frame.obligation].requirement, {}};
  if (formulas_.is_conjunction(out.formula)) return out;
  std::unordered_map<SchemaId, Formula> known;
  for (SchemaId g : frame.groups) {
    const bool seen = required_keys_seen(g, frame, view, {});
    if (seen && !tables_.node(g).required.empty()) out.satisfied_keys.push_back(g);
    if (view.count > tables_.node(g).max_properties) known.emplace(g, FormulaSpace::FALSE);
    else if (seen && is_satisfied(g, frame, view, view.count)) known.emplace(g, FormulaSpace::TRUE);
  }
  out.formula = with_verdicts(out.formula, known);
  return out;
}

ResidualFormula ObjectSearch::residual(const ResidualFormula &before, const KeyVerdicts &key) {
  if (formulas_.is_conjunction(before.formula)) return before;
  ResidualFormula out = before;
  out.satisfied_keys.insert(out.satisfied_keys.end(), key.satisfied_keys.begin(), key.satisfied_keys.end());
  sort_numbers(out.satisfied_keys.begin(), out.satisfied_keys.end());
  out.formula = with_verdicts(out.formula, key.verdicts);
  return out;
}

KeyVerdicts ObjectSearch::verdicts_of_key(const ObjectControl &frame, const ObjectView &view, std::string_view key) {
  KeyVerdicts out;
  for (SchemaId g : tables_.keys.relevant_groups(key, frame.groups, frame.open)) {
    if (view.count >= tables_.node(g).max_properties || tables_.keys.requirement(g, key) == FormulaSpace::FALSE) {
      out.verdicts.emplace(g, FormulaSpace::FALSE);
    } else if (required_keys_seen(g, frame, view, key)) {
      const std::vector<std::string> &required = tables_.node(g).required;
      if (std::find(required.begin(), required.end(), key) != required.end()) out.satisfied_keys.push_back(g);
      if (is_satisfied(g, frame, view, view.count + 1)) out.verdicts.emplace(g, FormulaSpace::TRUE);
    }
  }
  return out;
}

KeyVerdicts ObjectSearch::verdicts_of_class(const ObjectControl &frame, const ObjectView &view, KeyClass of) {
  KeyVerdicts out;
  for (SchemaId g : frame.groups)
    if (view.count >= tables_.node(g).max_properties ||
        tables_.objects.requirement(g, frame, of) == FormulaSpace::FALSE)
      out.verdicts.emplace(g, FormulaSpace::FALSE);
  return out;
}

bool ObjectSearch::required_keys_seen(SchemaId group, const ObjectControl &frame, const ObjectView &view,
                                      std::string_view next) {
  const std::vector<std::string> &required = tables_.node(group).required;
  return std::all_of(required.begin(), required.end(), [&](const std::string &name) {
    return (next.data() && name == next) || bit(view.seen, static_cast<uint32_t>(frame.universe->find(name)));
  });
}

// Does the group hold for any keys that follow? Its required keys have been read.
bool ObjectSearch::is_satisfied(SchemaId group, const ObjectControl &frame, const ObjectView &view, uint64_t count) {
  const SchemaNode &n = tables_.node(group);
  if (count < std::max<uint64_t>(n.min_properties, 1) || n.max_properties != UNBOUNDED || tables_.keys.is_open(group))
    return false;
  return std::all_of(n.properties.begin(), n.properties.end(),
                     [&](auto &p) { return bit(view.seen, static_cast<uint32_t>(frame.universe->find(p.first))); });
}

Formula ObjectSearch::with_verdicts(Formula f, const std::unordered_map<SchemaId, Formula> &known) {
  if (known.empty()) return f;
  return formulas_.substitute(f, [&](uint32_t g) {
    const auto it = known.find(g);
    return it == known.end() ? formulas_.leaf(g) : it->second;
  });
}

// ---------------------------------------------------------------- ways to satisfy a formula

bool ObjectSearch::any(const ResidualFormula &residual, const ObjectControl &frame, const ObjectView &view,
                       const Check &check) {
  const Formula f = residual.formula;
  if (f == FormulaSpace::FALSE) return false;
  if (f == FormulaSpace::TRUE || formulas_.is_conjunction(f)) return check(formulas_.leaves(f), {});
  // A branch whose required keys have all been read is the most likely one to hold.
  QueryState &state = oracle_.state();
  const auto outer =
      std::exchange(state.preferred, residual.satisfied_keys.empty() ? nullptr : &residual.satisfied_keys);
  std::optional<bool> any = oracle_.branches().any(f, check);
  if (!any) {
    std::set<std::string_view> seen;
    if (tables_.tags.has_tag_groups(f))
      for (uint32_t i = 0; i < frame.universe->keys.size(); ++i)
        if (bit(view.seen, i)) seen.insert(frame.universe->keys[i]);
    any = any_case(f, seen, {}, check);
  }
  state.preferred = outer;
  return *any;
}

bool ObjectSearch::any(Formula f, const Check &check) {
  if (formulas_.is_conjunction(f)) return check(formulas_.leaves(f), {});
  if (const std::optional<bool> any = oracle_.branches().any(f, check)) return *any;
  return any_case(f, {}, {}, check);
}

bool ObjectSearch::any(Formula f, const FormulaSearch::Path &path, const Check &check) {
  return any_case(f, {}, path, check);
}

// `known`: properties that have been read, or whose cases are being tried.
bool ObjectSearch::any_case(Formula f, const std::set<std::string_view> &known, const FormulaSearch::Path &path,
                            const Check &check) {
  std::string_view tag;
  std::vector<Tags::Case> cases;
  if (tables_.tags.has_tag_groups(f)) cases = tables_.tags.cases(f, known, &tag);
  if (cases.empty()) {
    FormulaSearch::Path found = path;
    found.type = Type::Object;
    return oracle_.formulas().any(f, &found, check);
  }
  auto known_now = known;
  known_now.insert(tag);
  auto has = [](const Groups &groups, SchemaId g) {
    return std::find(groups.begin(), groups.end(), g) != groups.end();
  };
  for (const Tags::Case &one : cases) {
    if (!oracle_.budget().spend(one.satisfied.size() + one.violated.size())) return true;
    const Formula left = formulas_.substitute(f, [&](uint32_t g) {
      return has(one.satisfied, g)  ? FormulaSpace::TRUE
             : has(one.violated, g) ? FormulaSpace::FALSE
                                    : formulas_.leaf(g);
    });
    if (left == FormulaSpace::FALSE) continue;
    FormulaSearch::Path decided = path;
    bool consistent = true;
    for (SchemaId g : one.satisfied) consistent = consistent && decided.groups.assign(g, true);
    for (SchemaId g : one.violated) consistent = consistent && decided.groups.assign(g, false);
    if (consistent && any_case(left, known_now, decided, check)) return true;
  }
  return false;
}

}  // namespace structgen
