// Objects for the oracle: is there one that satisfies some keyword groups and violates others?
#include <algorithm>
#include <set>

#include "json/oracle/object_query.h"
#include "util/sorting.h"

namespace structgen {
namespace {
constexpr size_t MAX_FRAME_MEMO = 100'000;
constexpr size_t QUESTION = 20;   // elementary steps to ask about one key
constexpr size_t CONTROL = 500;   // elementary steps to make a control for some groups
constexpr uint64_t KEPT_NAME = 4;  // units of work to put a name in a sorted set, and to take it out again

// Work of putting one more name into a sorted set of so many.
uint64_t name_work(size_t names) { return KEPT_NAME + search_work(names); }
}  // namespace

JsonOracle::Settled JsonOracle::settled(const ObjectControl &frame, const ObjectView &view) {
  Settled out{c_.goals_[frame.goal].combined, {}};
  if (c_.formulas_.is_conjunction(out.formula)) return out;
  std::unordered_map<SchemaId, Formula> known;
  for (SchemaId g : frame.groups) {
    const bool begun = all_there(g, frame, view, {});
    if (begun && !c_.schema_.nodes[g].required.empty()) out.begun.push_back(g);
    if (view.count > c_.schema_.nodes[g].max_properties) known.emplace(g, FormulaSpace::FALSE);
    else if (begun && asks_nothing_more(g, frame, view, view.count)) known.emplace(g, FormulaSpace::TRUE);
  }
  out.formula = with_verdicts(out.formula, known);
  return out;
}

JsonOracle::Told JsonOracle::told_by(const ObjectControl &frame, const ObjectView &view, std::string_view next) {
  Told out;
  for (SchemaId g : c_.asked_about(next, frame.groups, frame.open)) {
    if (view.count >= c_.schema_.nodes[g].max_properties || c_.key_requirement(g, next) == FormulaSpace::FALSE) {
      out.verdicts.emplace(g, FormulaSpace::FALSE);
    } else if (all_there(g, frame, view, next)) {
      const std::vector<std::string> &required = c_.schema_.nodes[g].required;
      if (std::find(required.begin(), required.end(), next) != required.end()) out.begun.push_back(g);
      if (asks_nothing_more(g, frame, view, view.count + 1)) out.verdicts.emplace(g, FormulaSpace::TRUE);
    }
  }
  return out;
}

JsonOracle::Told JsonOracle::told_by_extra(const ObjectControl &frame, const ObjectView &view, uint32_t matched) {
  Told out;
  for (SchemaId g : frame.groups)
    if (view.count >= c_.schema_.nodes[g].max_properties || c_.extra_requirement(g, frame, matched) == FormulaSpace::FALSE)
      out.verdicts.emplace(g, FormulaSpace::FALSE);
  return out;
}

JsonOracle::Settled JsonOracle::settled(const Settled &before, const Told &told) {
  if (c_.formulas_.is_conjunction(before.formula)) return before;
  Settled out = before;
  out.begun.insert(out.begun.end(), told.begun.begin(), told.begun.end());
  sort_numbers(out.begun.begin(), out.begun.end());
  out.formula = with_verdicts(out.formula, told.verdicts);
  return out;
}

bool JsonOracle::all_there(SchemaId group, const ObjectControl &frame, const ObjectView &view, std::string_view next) {
  const std::vector<std::string> &required = c_.schema_.nodes[group].required;
  return std::all_of(required.begin(), required.end(), [&](const std::string &name) {
    return (next.data() && name == next) || bit(view.seen, static_cast<uint32_t>(frame.universe->find(name)));
  });
}

bool JsonOracle::asks_nothing_more(SchemaId group, const ObjectControl &frame, const ObjectView &view, uint64_t count) {
  const SchemaNode &n = c_.schema_.nodes[group];
  if (count < std::max<uint64_t>(n.min_properties, 1) || n.max_properties != UNBOUNDED || c_.is_open(group)) return false;
  return std::all_of(n.properties.begin(), n.properties.end(), [&](auto &p) {
    return bit(view.seen, static_cast<uint32_t>(frame.universe->find(p.first)));
  });
}

Formula JsonOracle::with_verdicts(Formula f, const std::unordered_map<SchemaId, Formula> &known) {
  if (known.empty()) return f;
  return c_.formulas_.substitute(f, [&](uint32_t g) {
    const auto it = known.find(g);
    return it == known.end() ? c_.formulas_.leaf(g) : it->second;
  });
}

bool JsonOracle::any_object(const Settled &settled, const ObjectControl &frame, const ObjectView &view, const Check &check) {
  const Formula f = settled.formula;
  if (f == FormulaSpace::FALSE) return false;
  if (f == FormulaSpace::TRUE || c_.formulas_.is_conjunction(f)) return check(c_.formulas_.leaves(f), {});
  // A branch whose keys are all there is the most likely one to hold.
  const auto outer = std::exchange(preferred_, settled.begun.empty() ? nullptr : &settled.begun);
  std::optional<bool> any = any_branch(f, check);
  if (!any) {
    std::set<std::string_view> seen;
    if (c_.has_tags(f))
      for (uint32_t i = 0; i < frame.universe->keys.size(); ++i)
        if (bit(view.seen, i)) seen.insert(frame.universe->keys[i]);
    any = any_object(f, seen, {}, check);
  }
  preferred_ = outer;
  return *any;
}

bool JsonOracle::any_object(Formula f, const Check &check) {
  if (c_.formulas_.is_conjunction(f)) return check(c_.formulas_.leaves(f), {});
  if (const std::optional<bool> any = any_branch(f, check)) return *any;
  return any_object(f, std::set<std::string_view>{}, {}, check);
}

// `done`: properties that are there already, or whose cases are being gone through.
bool JsonOracle::any_object(Formula f, const std::set<std::string_view> &done, const Way &way, const Check &check) {
  std::string_view tag;
  std::vector<JsonControl::TagCase> cases;
  if (c_.has_tags(f)) cases = c_.tag_cases(f, done, &tag);
  if (cases.empty()) {
    Way found = way;
    found.type = Type::Object;
    return any_way({{f, true}}, &found, check);
  }
  auto done_now = done;
  done_now.insert(tag);
  auto has = [](const Groups &groups, SchemaId g) { return std::find(groups.begin(), groups.end(), g) != groups.end(); };
  for (const JsonControl::TagCase &one : cases) {
    if (!spend(one.yes.size() + one.no.size())) return true;
    const Formula left = c_.formulas_.substitute(f, [&](uint32_t g) {
      return has(one.yes, g) ? FormulaSpace::TRUE : has(one.no, g) ? FormulaSpace::FALSE : c_.formulas_.leaf(g);
    });
    if (left == FormulaSpace::FALSE) continue;
    Way told = way;
    bool possible = true;
    for (SchemaId g : one.yes) possible = possible && told.groups.assign(g, true);
    for (SchemaId g : one.no) possible = possible && told.groups.assign(g, false);
    if (possible && any_object(left, done_now, told, check)) return true;
  }
  return false;
}

bool JsonOracle::object_possible(const Groups &yes, const Groups &no, ObjectControl *frame, const ObjectView &view,
                                 const Include *include, ObjectModel *model) {
  ObjectQuery q{};
  q.yes = &yes;
  q.no = &no;
  q.frame = frame;
  q.view = view;
  q.sorted = yes;
  sort_numbers(q.sorted.begin(), q.sorted.end());
  q.open = c_.open_among(q.sorted);
  for (SchemaId g : yes) {
    const SchemaNode &n = c_.schema_.nodes[g];
    q.min = std::max(q.min, n.min_properties);
    q.max = std::min(q.max, n.max_properties);
    for (const std::string &name : n.required) {
      int64_t i = frame ? frame->universe->find(name) : -1;
      if (i >= 0 && bit(view.seen, static_cast<uint32_t>(i))) continue;
      if (i >= 0 && c_.schema_.options.ordered &&
          static_cast<int64_t>(frame->universe->rank[static_cast<size_t>(i)]) <= view.last_rank)
        return false;
      charge(name_work(q.included.size()));
      q.included.try_emplace(name);
    }
  }
  if (q.min == 0 && q.max == UNBOUNDED && no.empty() && q.included.empty() && !include) {
    if (model) tell(q, model);
    return true;
  }
  // subtle: what one key or the number of keys decides alone comes first, so that it does not depend on the budget.
  const bool counted = include && (include->extra || !q.included.contains(include->name));
  if (q.min > q.max || view.count + q.included.size() + counted > q.max) return false;
  for (auto &[name, demands] : q.included)
    if (q.key(c_, name) == FormulaSpace::FALSE) return false;
  if (include && include->extra)
    for (SchemaId g : q.open)
      if (c_.extra_requirement(g, *frame, include->matched) == FormulaSpace::FALSE) return false;
  if (!include || !include->extra) {
    if (include) q.included.try_emplace(std::string(include->name));
    if (needs_no_choice(q)) {
      for (auto &[name, demands] : q.included) {
        work_ += QUESTION;
        if (!can_hold(q.key(c_, name))) return false;
      }
      if (model && !spent_) tell(q, model);
      return true;
    }
  }
  // Groups in one control, so that classes of extra keys are the same for all.
  if (!no.empty() || q.min > 0 || (include && include->extra)) {
    if (!spend(CONTROL)) return true;
    Groups all = yes;
    all.insert(all.end(), no.begin(), no.end());
    sort_numbers(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    std::vector<Formula> leaves;
    for (SchemaId g : all) leaves.push_back(c_.formulas_.leaf(g));
    Formula f = c_.formulas_.conjunction(std::move(leaves));
    q.classes = include && include->extra ? frame
                                          : c_.object_control(c_.intern({f}, c_.formulas_.leaf(0)), c_.universe(all));
  }
  if (include && include->extra) {
    std::vector<Formula> all;
    for (SchemaId g : q.open) all.push_back(c_.extra_requirement(g, *q.classes, include->matched));
    if (!can_hold(c_.formulas_.conjunction(std::move(all)))) return false;
    if (!has_key_left(q, include->matched, 0)) return false;
    q.extras.push_back({include->matched, {}});
  }
  // Those that fail as soon as a key is left out come last: whatever the others need, they hardly are in the way.
  Groups ordered = no;
  std::stable_partition(ordered.begin(), ordered.end(), [&](SchemaId g) {
    const std::vector<std::string> &required = c_.schema_.nodes[g].required;
    return std::none_of(required.begin(), required.end(), [&](const std::string &name) {
      const int64_t i = frame ? frame->universe->find(name) : -1;
      return !(i >= 0 && bit(view.seen, static_cast<uint32_t>(i))) && !q.included.contains(name);
    });
  });
  q.no = &ordered;
  // What must be there anyway: if that fails, no choice of violations helps.
  for (auto &[name, demands] : q.included) {
    work_ += QUESTION;
    if (!can_hold(q.key(c_, name))) return false;
  }
  if (!choose_violations(q, 0)) return false;
  if (model && !spent_) tell(q, model);
  return true;
}

// Are there enough keys, and does each group that must fail lack a required key? Records those keys in `absences`.
bool JsonOracle::needs_no_choice(ObjectQuery &q) {
  const uint64_t count = q.view.count + q.included.size();
  if (count < q.min || count > q.max) return false;
  const auto there = [&](const std::string &name) {
    const int64_t i = q.frame ? q.frame->universe->find(name) : -1;
    return (i >= 0 && bit(q.view.seen, static_cast<uint32_t>(i))) || q.included.contains(name);
  };
  for (SchemaId g : *q.no) {
    const std::vector<std::string> &required = c_.schema_.nodes[g].required;
    charge(1 + required.size() + search_work(q.included.size()));
    const auto left_out = std::find_if_not(required.begin(), required.end(), there);
    if (left_out == required.end()) {
      q.absences.clear();
      return false;
    }
    q.absences.emplace_back(*left_out, g);
  }
  return true;
}

// How many undeclared keys the object has already.
uint64_t JsonOracle::extras_there(const ObjectQuery &q) {
  uint64_t declared = 0;
  if (q.frame) charge(q.frame->universe->keys.size() / 8);
  if (q.frame)
    for (uint32_t i = 0; i < q.frame->universe->keys.size(); ++i) declared += bit(q.view.seen, i);
  return q.view.count - declared;
}

// Is there a key of this kind beside those that are to come already? Keys that are there are of kinds unknown here.
bool JsonOracle::has_key_left(const ObjectQuery &q, uint32_t kind, uint64_t included) {
  for (auto &[matched, re] : c_.extra_classes(q.classes)) {
    if (matched != kind) continue;
    const uint64_t there = extras_there(q), texts = c_.count_keys(re);
    if (texts <= included) return false;
    if (texts <= included + there) ++unproven_;
  }
  return true;
}

bool JsonOracle::choose_violations(ObjectQuery &q, size_t next) {
  charge();
  if (next == q.no->size()) return finish_object(q);
  if (!spend()) return true;
  SchemaId group = (*q.no)[next];
  const SchemaNode &n = c_.schema_.nodes[group];
  auto seen = [&](std::string_view name) {
    int64_t i = q.frame ? q.frame->universe->find(name) : -1;
    return i >= 0 && bit(q.view.seen, static_cast<uint32_t>(i));
  };
  auto available = [&](std::string_view name) {
    int64_t i = q.frame ? q.frame->universe->find(name) : -1;
    if (i < 0) return true;
    if (bit(q.view.seen, static_cast<uint32_t>(i))) return false;
    return !c_.schema_.options.ordered ||
           static_cast<int64_t>(q.frame->universe->rank[static_cast<size_t>(i)]) > q.view.last_rank;
  };
  // a required key left out
  for (const std::string &name : n.required) {
    charge(search_work(q.included.size()));
    if (seen(name) || q.included.count(name)) continue;
    bool fresh = q.omitted.insert(name).second;
    q.absences.emplace_back(name, group);
    if (choose_violations(q, next + 1)) return true;
    q.absences.pop_back();
    if (fresh) q.omitted.erase(name);
  }
  // too few or too many keys
  if (n.min_properties > 0) {
    uint64_t old = q.max;
    q.max = std::min(q.max, n.min_properties - 1);
    if (choose_violations(q, next + 1)) return true;
    q.max = old;
  }
  if (n.max_properties != UNBOUNDED) {
    uint64_t old = q.min;
    q.min = std::max(q.min, n.max_properties + 1);
    if (choose_violations(q, next + 1)) return true;
    q.min = old;
  }
  // a value that breaks the group's requirement on its key
  std::vector<std::string> names;
  charge(2 * n.properties.size());
  for (auto &[name, id] : n.properties) names.push_back(name);
  const std::vector<std::string> &few = c_.few_names(group);
  names.insert(names.end(), few.begin(), few.end());
  if (n.additional_properties != NO_SCHEMA || !n.pattern_properties.empty() || n.property_names != NO_SCHEMA) {
    for (const Groups *groups : {q.yes, q.no})
      for (SchemaId g : *groups) {
        const SchemaNode &other = c_.schema_.nodes[g];
        charge(1 + 2 * (other.properties.size() + other.required.size()));
        for (auto &[name, id] : other.properties) names.push_back(name);
        names.insert(names.end(), other.required.begin(), other.required.end());
        const std::vector<std::string> &some = c_.few_names(g);
        names.insert(names.end(), some.begin(), some.end());
      }
    for (auto &[name, demands] : q.included) names.push_back(name);
    sort_texts(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
  }
  for (const std::string &name : names) {
    charge();
    if (!available(name) || q.omitted.count(name)) continue;
    work_ += QUESTION;
    Formula broken = c_.formulas_.negation(c_.key_requirement(group, name));
    if (broken == FormulaSpace::FALSE) continue;
    std::vector<Formula> all{q.key(c_, name), broken};
    if (auto it = q.included.find(name); it != q.included.end())
      all.insert(all.end(), it->second.begin(), it->second.end());
    if (!can_hold(c_.formulas_.conjunction(std::move(all)))) continue;
    auto [it, fresh] = q.included.try_emplace(name);
    it->second.push_back(broken);
    if (choose_violations(q, next + 1)) return true;
    it = q.included.find(name);
    if (fresh) q.included.erase(it);
    else it->second.pop_back();
  }
  // an extra key that breaks it: one that is included anyway, or a new one
  auto broken_by = [&](uint32_t matched) {
    return c_.formulas_.negation(c_.extra_requirement(group, *q.classes, matched));
  };
  auto possible = [&](uint32_t matched, std::vector<Formula> all) {
    for (SchemaId g : q.open) all.push_back(c_.extra_requirement(g, *q.classes, matched));
    return can_hold(c_.formulas_.conjunction(std::move(all)));
  };
  for (size_t i = 0; i < q.extras.size(); ++i) {
    const uint32_t matched = q.extras[i].first;
    work_ += QUESTION;
    q.extras[i].second.push_back(broken_by(matched));
    if (possible(matched, q.extras[i].second) && choose_violations(q, next + 1)) return true;
    q.extras[i].second.pop_back();
  }
  for (auto &[matched, re] : std::vector<std::pair<uint32_t, Re>>(c_.extra_classes(q.classes))) {
    work_ += QUESTION;
    if (re == RegexSpace::EMPTY || !possible(matched, {broken_by(matched)})) continue;
    uint64_t included = 0;
    for (auto &extra : q.extras) included += extra.first == matched;
    if (!has_key_left(q, matched, included)) continue;
    q.extras.push_back({matched, {broken_by(matched)}});
    if (choose_violations(q, next + 1)) return true;
    q.extras.pop_back();
  }
  return false;
}

bool JsonOracle::finish_object(ObjectQuery &q) {
  charge();
  uint64_t count = q.view.count + q.included.size() + q.extras.size();
  if (count > q.max || q.min > q.max) return false;
  for (auto &[name, demands] : q.included) {
    work_ += QUESTION;
    std::vector<Formula> all = demands;
    all.push_back(q.key(c_, name));
    if (!can_hold(c_.formulas_.conjunction(std::move(all)))) return false;
  }
  if (count >= q.min) return true;
  // Extra keys that are there already are of kinds unknown here: the worst is that all are of the one at hand.
  const uint64_t there = extras_there(q);
  uint64_t more = 0;
  for (auto &[matched, re] : std::vector<std::pair<uint32_t, Re>>(c_.extra_classes(q.classes))) {
    std::vector<Formula> all;
    for (SchemaId g : q.open) all.push_back(c_.extra_requirement(g, *q.classes, matched));
    if (re == RegexSpace::EMPTY || !can_hold(c_.formulas_.conjunction(std::move(all)))) continue;
    uint64_t included = 0;
    for (auto &extra : q.extras) included += extra.first == matched;
    const uint64_t wanted = q.min - count + included, texts = c_.count_keys(re);
    if (texts >= wanted + there) return true;
    more += texts > included ? texts - included : 0;
  }
  count += more;
  if (count >= q.min && there > 0) ++unproven_;  // unless too many of them are there
  std::set<std::string_view> names;
  for (const Groups *groups : {q.yes, q.no})
    for (SchemaId g : *groups) {
      const SchemaNode &n = c_.schema_.nodes[g];
      charge(1 + (n.properties.size() + n.required.size()) * name_work(names.size()));
      for (auto &[name, id] : n.properties) names.insert(name);
      names.insert(n.required.begin(), n.required.end());
      names.insert(c_.few_names(g).begin(), c_.few_names(g).end());
    }
  for (std::string_view name : names) {
    if (count >= q.min) return true;
    charge(search_work(q.included.size()));
    if (q.included.count(name) || q.omitted.count(name)) continue;
    if (q.frame) {
      int64_t i = q.frame->universe->find(name);
      if (i >= 0 && (bit(q.view.seen, static_cast<uint32_t>(i)) ||
                     (c_.schema_.options.ordered &&
                      static_cast<int64_t>(q.frame->universe->rank[static_cast<size_t>(i)]) <= q.view.last_rank)))
        continue;
    }
    if (can_hold(q.key(c_, name))) ++count;
  }
  return count >= q.min;
}

bool JsonOracle::object_alive(ObjectControl *o, const ObjectView &view, const Include *include) {
  return remembered(hash_of(*o, view, include), [&] {
    Settled now = settled(*o, view);
    if (include)
      now = settled(now, include->extra ? told_by_extra(*o, view, include->matched) : told_by(*o, view, include->name));
    return any_object(now, *o, view, [&](const Groups &yes, const Groups &no) {
      return object_possible(yes, no, o, view, include);
    });
  });
}

Hash128 JsonOracle::hash_of(const ObjectControl &o, const ObjectView &view, const Include *include) {
  charge(1 + o.universe->words());
  Hash128 h = hash_words(6, o.id, view.last_rank, view.count);
  for (uint32_t i = 0; i < o.universe->words(); ++i) h = extend(h, view.seen[i]);
  if (include) h = extend(extend(h, include->extra ? uint64_t{include->matched} + 1 : 0), hash_text(include->name));
  return h;
}

bool JsonOracle::find_model(const Settled &settled, ObjectControl *o, const ObjectView &view, const Include *include,
                            ObjectModel *model) {
  RestOfObject *const rest = model->rest;
  *model = {};
  model->rest = rest;
  const Question question(*this);
  return any_object(settled, *o, view, [&](const Groups &yes, const Groups &no) {
    return object_possible(yes, no, o, view, include, model);
  });
}

void JsonOracle::tell(const ObjectQuery &q, ObjectModel *model) {
  model->found = true;
  model->satisfied = q.sorted;
  model->open = q.open;
  for (auto &[name, demands] : q.included) {  // ascending: each comes last
    charge(KEPT_NAME);
    model->included.insert(model->included.end(), name);
  }
  model->count = q.view.count + q.included.size() + q.extras.size();
  model->min = q.min;
  model->max = q.max;
  model->plain = q.extras.empty() && q.absences.size() == q.no->size();
  for (auto &[name, group] : q.absences) {
    charge(KEPT_NAME);
    model->absences[name].push_back(group);
  }
  if (model->rest) tell(q, model->rest);
}

void JsonOracle::tell(const ObjectQuery &q, RestOfObject *rest) {
  auto &formulas = c_.formulas_;
  for (auto &[name, demands] : q.included) {
    charge(2 + demands.size());
    std::vector<Formula> all = demands;
    all.push_back(q.key(c_, name));
    rest->keys.emplace_back(name, formulas.conjunction(std::move(all)));
  }
  uint64_t owed = q.view.count + q.included.size() + q.extras.size();
  owed = q.min > owed ? q.min - owed : 0;
  if (q.extras.empty() && owed == 0) return;
  for (auto &[matched, re] : std::vector<std::pair<uint32_t, Re>>(c_.extra_classes(q.classes))) {
    std::vector<Formula> base;
    for (SchemaId g : q.open) base.push_back(c_.extra_requirement(g, *q.classes, matched));
    for (auto &[kind, demands] : q.extras) {
      if (kind != matched) continue;
      std::vector<Formula> all = base;
      all.insert(all.end(), demands.begin(), demands.end());
      rest->extras.emplace_back(re, formulas.conjunction(std::move(all)));
    }
    const Formula value = formulas.conjunction(std::move(base));
    for (; owed > 0 && re != RegexSpace::EMPTY && can_hold(value) && c_.count_keys(re) == UNBOUNDED; --owed) {
      charge();
      rest->extras.emplace_back(re, value);
    }
  }
}

std::optional<RestOfObject> JsonOracle::rest_of_object(ObjectControl *o, const ObjectView &view, const Include *include) {
  RestOfObject rest;
  ObjectModel model;
  model.rest = &rest;
  Settled now = settled(*o, view);
  if (include) now = settled(now, told_by(*o, view, include->name));
  if (!find_model(now, o, view, include, &model) || !model.found) return std::nullopt;
  return rest;
}

bool JsonOracle::remembered(const Hash128 &frame, const std::function<bool()> &ask) {
  if (auto it = frames_.find(frame); it != frames_.end()) return it->second;
  const bool outermost = in_progress_.empty();
  const Question question(*this);
  const bool alive = ask();
  if (frames_.size() > MAX_FRAME_MEMO) frames_.clear();
  if (outermost) frames_.emplace(frame, alive);
  return alive;
}

}  // namespace structgen
