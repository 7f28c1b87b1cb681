#include "json/oracle/object_query.h"

#include <algorithm>

#include "json/oracle/oracle.h"
#include "util/sorting.h"
#include "util/undo.h"

namespace structgen {
namespace {
constexpr size_t KEY_WORK = 20;       // elementary operations to decide one key
constexpr size_t CONTROL_WORK = 500;  // elementary operations to make the control of some groups
constexpr uint64_t NAME_CHARGE = 4;   // units of work to put a name into a sorted set, and to take it out again

uint64_t name_charge(size_t names) { return NAME_CHARGE + search_work(names); }
}  // namespace

ObjectQuery::ObjectQuery(JsonOracle &oracle, const Groups &satisfied, const Groups &violated, ObjectControl *frame,
                         const ObjectView &view)
    : oracle_(oracle),
      tables_(oracle.tables()),
      formulas_(oracle.tables().formulas()),
      satisfied_(&satisfied),
      violated_(&violated),
      sorted_(satisfied),
      frame_(frame),
      view_(view) {
  sort_numbers(sorted_.begin(), sorted_.end());
  open_ = tables_.keys.open_groups(sorted_);
}

bool ObjectQuery::run(const NextKey *next, ObjectModel *model) {
  if (!collect_required_keys()) return false;
  const bool unrestricted = min_ == 0 && max_ == UNBOUNDED && violated_->empty() && included_.empty() && !next;
  if (!unrestricted && !search(next)) return false;
  if (model && (unrestricted || !oracle_.budget().exhausted())) describe(model);
  return true;
}

// ---------------------------------------------------------------- keys

Formula ObjectQuery::requirement(std::string_view key) { return tables_.keys.requirement(key, sorted_, open_); }

int64_t ObjectQuery::find(std::string_view key) const { return frame_ ? frame_->universe->find(key) : -1; }

bool ObjectQuery::seen(std::string_view key) const {
  const int64_t i = find(key);
  return i >= 0 && bit(view_.seen, static_cast<uint32_t>(i));
}

bool ObjectQuery::available(std::string_view key) const {
  const int64_t i = find(key);
  if (i < 0) return true;
  if (bit(view_.seen, static_cast<uint32_t>(i))) return false;
  return !tables_.table.options().ordered ||
         static_cast<int64_t>(frame_->universe->rank[static_cast<size_t>(i)]) > view_.last_rank;
}

uint64_t ObjectQuery::undeclared_seen() const {
  uint64_t declared = 0;
  if (frame_) charge(frame_->universe->keys.size() / 8);
  if (frame_)
    for (uint32_t i = 0; i < frame_->universe->keys.size(); ++i) declared += bit(view_.seen, i);
  return view_.count - declared;
}

uint64_t ObjectQuery::undeclared_included(KeyClass of) const {
  uint64_t included = 0;
  for (auto &key : undeclared_) included += key.first == of;
  return included;
}

// Does the class have a key beside those that are to come? The classes of undeclared keys that were read are unknown.
bool ObjectQuery::has_unused_key(KeyClass of, uint64_t included) {
  for (auto &[matched, re] : tables_.objects.classes(classes_)) {
    if (matched != of) continue;
    const uint64_t read = undeclared_seen(), texts = tables_.objects.count_keys(re);
    if (texts <= included) return false;
    if (texts <= included + read) oracle_.budget().count_unproven();
  }
  return true;
}

// ---------------------------------------------------------------- what must be there

bool ObjectQuery::collect_required_keys() {
  for (SchemaId g : *satisfied_) {
    const SchemaNode &n = tables_.node(g);
    min_ = std::max(min_, n.min_properties);
    max_ = std::min(max_, n.max_properties);
    for (const std::string &name : n.required) {
      const int64_t i = find(name);
      if (i >= 0 && bit(view_.seen, static_cast<uint32_t>(i))) continue;
      if (i >= 0 && tables_.table.options().ordered &&
          static_cast<int64_t>(frame_->universe->rank[static_cast<size_t>(i)]) <= view_.last_rank)
        return false;
      charge(name_charge(included_.size()));
      included_.try_emplace(name);
    }
  }
  return true;
}

bool ObjectQuery::search(const NextKey *next) {
  if (contradicts_itself(next)) return false;
  const bool undeclared = next && next->undeclared;
  if (!undeclared) {
    if (next) included_.try_emplace(std::string(next->name));
    if (needs_no_choice()) return included_can_hold();
  }
  if (!violated_->empty() || min_ > 0 || undeclared) {
    if (!oracle_.budget().spend(CONTROL_WORK)) return true;
    make_classes(next);
  }
  if (undeclared && !include_undeclared(next->of)) return false;
  order_violations();
  // If a key that must be there fails, no choice of violations helps.
  return included_can_hold() && choose_violations(0);
}

// subtle: what one key or the number of keys decides alone comes first, so that it does not depend on the budget.
bool ObjectQuery::contradicts_itself(const NextKey *next) {
  const bool one_more = next && (next->undeclared || !included_.contains(next->name));
  if (min_ > max_ || view_.count + included_.size() + one_more > max_) return true;
  for (auto &[name, demands] : included_)
    if (requirement(name) == FormulaSpace::FALSE) return true;
  if (!next || !next->undeclared) return false;
  return std::any_of(open_.begin(), open_.end(), [&](SchemaId g) {
    return tables_.objects.requirement(g, *frame_, next->of) == FormulaSpace::FALSE;
  });
}

// Are there enough keys, and does each group that must fail lack a required key? Records those keys in `absences_`.
bool ObjectQuery::needs_no_choice() {
  const uint64_t count = view_.count + included_.size();
  if (count < min_ || count > max_) return false;
  const auto present = [&](const std::string &name) { return seen(name) || included_.contains(name); };
  for (SchemaId g : *violated_) {
    const std::vector<std::string> &required = tables_.node(g).required;
    charge(1 + required.size() + search_work(included_.size()));
    const auto missing = std::find_if_not(required.begin(), required.end(), present);
    if (missing == required.end()) {
      absences_.clear();
      return false;
    }
    absences_.emplace_back(*missing, g);
  }
  return true;
}

bool ObjectQuery::included_can_hold() {
  for (auto &[name, demands] : included_) {
    oracle_.budget().add_work(KEY_WORK);
    if (!oracle_.can_hold(requirement(name))) return false;
  }
  return true;
}

// All groups in one control, so that classes of undeclared keys are the same for all.
void ObjectQuery::make_classes(const NextKey *next) {
  Groups all = *satisfied_;
  all.insert(all.end(), violated_->begin(), violated_->end());
  sort_numbers(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  classes_ = next && next->undeclared ? frame_ : tables_.objects.control_of_groups(all);
}

bool ObjectQuery::include_undeclared(KeyClass of) {
  if (!oracle_.can_hold(tables_.objects.requirement(open_, *classes_, of)) || !has_unused_key(of, 0)) return false;
  undeclared_.push_back({of, {}});
  return true;
}

// Groups that fail as soon as a key is left out come last: the needs of the others hardly conflict with them.
void ObjectQuery::order_violations() {
  ordered_ = *violated_;
  std::stable_partition(ordered_.begin(), ordered_.end(), [&](SchemaId g) {
    const std::vector<std::string> &required = tables_.node(g).required;
    return std::none_of(required.begin(), required.end(),
                        [&](const std::string &name) { return !seen(name) && !included_.contains(name); });
  });
}

// ---------------------------------------------------------------- what must fail

bool ObjectQuery::choose_violations(size_t next) {
  charge();
  if (next == ordered_.size()) return finish();
  if (!oracle_.budget().spend()) return true;
  const SchemaId group = ordered_[next];
  return omit_required_key(group, next + 1) || break_key_count(group, next + 1) ||
         break_declared_value(group, next + 1) || break_undeclared_value(group, next + 1);
}

bool ObjectQuery::omit_required_key(SchemaId group, size_t next) {
  for (const std::string &name : tables_.node(group).required) {
    charge(search_work(included_.size()));
    if (seen(name) || included_.contains(name)) continue;
    const bool fresh = omitted_.insert(name).second;
    absences_.emplace_back(name, group);
    Undo undo([&] {
      absences_.pop_back();
      if (fresh) omitted_.erase(name);
    });
    if (undo.keep_if(choose_violations(next))) return true;
  }
  return false;
}

bool ObjectQuery::break_key_count(SchemaId group, size_t next) {
  const SchemaNode &n = tables_.node(group);
  const uint64_t old_min = min_, old_max = max_;
  Undo undo([&] {
    min_ = old_min;
    max_ = old_max;
  });
  if (n.min_properties > 0) {
    max_ = std::min(max_, n.min_properties - 1);
    if (undo.keep_if(choose_violations(next))) return true;
    max_ = old_max;
  }
  if (n.max_properties != UNBOUNDED) {
    min_ = std::max(min_, n.max_properties + 1);
    if (undo.keep_if(choose_violations(next))) return true;
  }
  return false;
}

// Names of keys whose values can break what the group requires of them.
std::vector<std::string> ObjectQuery::breakable_names(SchemaId group) {
  const SchemaNode &n = tables_.node(group);
  std::vector<std::string> names;
  charge(2 * n.properties.size());
  for (auto &[name, id] : n.properties) names.push_back(name);
  const std::vector<std::string> &listed = tables_.keys.listed_names(group);
  names.insert(names.end(), listed.begin(), listed.end());
  if (!tables_.keys.is_open(group)) return names;
  for (const Groups *groups : std::initializer_list<const Groups *>{satisfied_, &ordered_})
    for (SchemaId g : *groups) {
      const SchemaNode &other = tables_.node(g);
      charge(1 + 2 * (other.properties.size() + other.required.size()));
      for (auto &[name, id] : other.properties) names.push_back(name);
      names.insert(names.end(), other.required.begin(), other.required.end());
      const std::vector<std::string> &more = tables_.keys.listed_names(g);
      names.insert(names.end(), more.begin(), more.end());
    }
  for (auto &[name, demands] : included_) names.push_back(name);
  sort_texts(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

bool ObjectQuery::break_declared_value(SchemaId group, size_t next) {
  for (const std::string &name : breakable_names(group)) {
    charge();
    if (!available(name) || omitted_.contains(name)) continue;
    oracle_.budget().add_work(KEY_WORK);
    const Formula broken = formulas_.negation(tables_.keys.requirement(group, name));
    if (broken == FormulaSpace::FALSE) continue;
    std::vector<Formula> all{requirement(name), broken};
    if (auto it = included_.find(name); it != included_.end())
      all.insert(all.end(), it->second.begin(), it->second.end());
    if (!oracle_.can_hold(formulas_.conjunction(std::move(all)))) continue;
    const auto [it, fresh] = included_.try_emplace(name);
    it->second.push_back(broken);
    Undo undo([&, at = it, added = fresh] {
      if (added) included_.erase(at);
      else at->second.pop_back();
    });
    if (undo.keep_if(choose_violations(next))) return true;
  }
  return false;
}

// By an undeclared key that is to come anyway, or by one more.
bool ObjectQuery::break_undeclared_value(SchemaId group, size_t next) {
  auto broken_in = [&](KeyClass of) { return formulas_.negation(tables_.objects.requirement(group, *classes_, of)); };
  auto can_have = [&](KeyClass of, std::vector<Formula> all) {
    for (SchemaId g : open_) all.push_back(tables_.objects.requirement(g, *classes_, of));
    return oracle_.can_hold(formulas_.conjunction(std::move(all)));
  };
  for (size_t i = 0; i < undeclared_.size(); ++i) {
    const KeyClass of = undeclared_[i].first;
    oracle_.budget().add_work(KEY_WORK);
    undeclared_[i].second.push_back(broken_in(of));
    Undo undo([&] { undeclared_[i].second.pop_back(); });
    if (can_have(of, undeclared_[i].second) && undo.keep_if(choose_violations(next))) return true;
  }
  // A copy: the search may make classes of other frames, and this one is read again further down.
  for (auto &[of, re] : std::vector<std::pair<KeyClass, Re>>(tables_.objects.classes(classes_))) {
    oracle_.budget().add_work(KEY_WORK);
    if (re == RegexSpace::EMPTY || !can_have(of, {broken_in(of)})) continue;
    if (!has_unused_key(of, undeclared_included(of))) continue;
    undeclared_.push_back({of, {broken_in(of)}});
    Undo undo([&] { undeclared_.pop_back(); });
    if (undo.keep_if(choose_violations(next))) return true;
  }
  return false;
}

// ---------------------------------------------------------------- the number of keys

bool ObjectQuery::finish() {
  charge();
  uint64_t count = view_.count + included_.size() + undeclared_.size();
  if (count > max_ || min_ > max_) return false;
  for (auto &[name, demands] : included_) {
    oracle_.budget().add_work(KEY_WORK);
    std::vector<Formula> all = demands;
    all.push_back(requirement(name));
    if (!oracle_.can_hold(formulas_.conjunction(std::move(all)))) return false;
  }
  if (count >= min_) return true;
  bool enough = false;
  const uint64_t undeclared = count_free_undeclared(min_ - count, &enough);
  if (enough) return true;
  count += undeclared;
  return count >= min_ || count + count_free_declared(min_ - count) >= min_;
}

// The number of undeclared keys that may be added. Those that were read are of unknown classes: in the worst case all
// of them are of the current class. `enough`: one class alone has the keys that are missing.
uint64_t ObjectQuery::count_free_undeclared(uint64_t missing, bool *enough) {
  const uint64_t read = undeclared_seen();
  uint64_t more = 0;
  for (auto &[of, re] : std::vector<std::pair<KeyClass, Re>>(tables_.objects.classes(classes_))) {
    const Formula value = tables_.objects.requirement(open_, *classes_, of);
    if (re == RegexSpace::EMPTY || !oracle_.can_hold(value)) continue;
    const uint64_t included = undeclared_included(of);
    const uint64_t wanted = missing + included, texts = tables_.objects.count_keys(re);
    if (texts >= wanted + read) {
      *enough = true;
      return 0;
    }
    more += texts > included ? texts - included : 0;
  }
  if (more >= missing && read > 0) oracle_.budget().count_unproven();  // unless too many of them have been read
  return more;
}

// The number of declared keys that may be added, up to `wanted`.
uint64_t ObjectQuery::count_free_declared(uint64_t wanted) {
  std::set<std::string_view> names;
  for (const Groups *groups : std::initializer_list<const Groups *>{satisfied_, &ordered_})
    for (SchemaId g : *groups) {
      const SchemaNode &n = tables_.node(g);
      charge(1 + (n.properties.size() + n.required.size()) * name_charge(names.size()));
      for (auto &[name, id] : n.properties) names.insert(name);
      names.insert(n.required.begin(), n.required.end());
      names.insert(tables_.keys.listed_names(g).begin(), tables_.keys.listed_names(g).end());
    }
  uint64_t count = 0;
  for (std::string_view name : names) {
    if (count >= wanted) break;
    charge(search_work(included_.size()));
    if (included_.contains(name) || omitted_.contains(name) || !available(name)) continue;
    if (oracle_.can_hold(requirement(name))) ++count;
  }
  return count;
}

// ---------------------------------------------------------------- what was found

void ObjectQuery::describe(ObjectModel *model) {
  model->found = true;
  model->satisfied = sorted_;
  model->open = open_;
  for (auto &[name, demands] : included_) {  // ascending, so that each one comes last
    charge(NAME_CHARGE);
    model->included.insert(model->included.end(), name);
  }
  model->count = view_.count + included_.size() + undeclared_.size();
  model->min = min_;
  model->max = max_;
  model->by_absence = undeclared_.empty() && absences_.size() == violated_->size();
  for (auto &[name, group] : absences_) {
    charge(NAME_CHARGE);
    model->absences[name].push_back(group);
  }
  if (model->completion) describe(model->completion);
}

void ObjectQuery::describe(ObjectCompletion *completion) {
  for (auto &[name, demands] : included_) {
    charge(2 + demands.size());
    std::vector<Formula> all = demands;
    all.push_back(requirement(name));
    completion->keys.emplace_back(name, formulas_.conjunction(std::move(all)));
  }
  const uint64_t count = view_.count + included_.size() + undeclared_.size();
  uint64_t missing = min_ > count ? min_ - count : 0;
  if (undeclared_.empty() && missing == 0) return;
  for (auto &[of, re] : std::vector<std::pair<KeyClass, Re>>(tables_.objects.classes(classes_))) {
    std::vector<Formula> base;
    for (SchemaId g : open_) base.push_back(tables_.objects.requirement(g, *classes_, of));
    for (auto &[included, demands] : undeclared_) {
      if (included != of) continue;
      std::vector<Formula> all = base;
      all.insert(all.end(), demands.begin(), demands.end());
      completion->extras.emplace_back(re, formulas_.conjunction(std::move(all)));
    }
    const Formula value = formulas_.conjunction(std::move(base));
    for (; missing > 0 && re != RegexSpace::EMPTY && oracle_.can_hold(value) &&
           tables_.objects.count_keys(re) == UNBOUNDED;
         --missing) {
      charge();
      completion->extras.emplace_back(re, value);
    }
  }
}

}  // namespace structgen
