#include "json/shortest/shortest_object.h"

#include <algorithm>

#include "util/sorting.h"
#include "util/undo.h"

namespace structgen {
namespace {

constexpr uint64_t MAX_FILLED = 20'000;  // keys that only minProperties requires
constexpr uint64_t LEAST_MEMBER = 4;     // bytes: a key of one character, its quotes and the colon

}  // namespace

ShortestObject::ShortestObject(ShortestValues &values, ObjectControl *frame, const Groups &satisfied,
                               const Groups &violated, Candidate *best)
    : values_(values),
      tables_(values.tables()),
      formulas_(values.tables().formulas()),
      frame_(frame),
      universe_(*frame->universe),
      satisfied_(satisfied),
      violated_(violated),
      best_(best) {}

void ShortestObject::run() {
  uint64_t length = 0;
  if (!include_required(&length) || min_ > max_ || keys_.size() > max_) return;
  if (!violated_.empty() || min_ > keys_.size()) find_classes();
  choose_violations(0, length);
}

// False: the keys alone are as long as the best object.
bool ShortestObject::include_required(uint64_t *length) {
  for (SchemaId g : satisfied_) {
    min_ = std::max(min_, tables_.node(g).min_properties);
    max_ = std::min(max_, tables_.node(g).max_properties);
    // Copies, here and below: while lengths are searched, sub-schemas are added, and nodes move.
    const std::vector<std::string> required = tables_.node(g).required;
    for (const std::string &name : required) {
      charge(search_work(keys_.size()));
      const auto i = static_cast<uint32_t>(universe_.find(name));
      if (!keys_.try_emplace(i).second) continue;
      *length += key_length(name) + values_.length(requirement(i));
      if (*length >= best_->length) break;
    }
  }
  return *length < best_->length;
}

void ShortestObject::find_classes() {
  classes_ = tables_.objects.classes(frame_);
  for (auto &[of, re] : classes_) {
    const Formula value = tables_.objects.requirement(satisfied_, *frame_, of);
    class_requirements_.push_back(re == RegexSpace::EMPTY ? FormulaSpace::FALSE : value);
    if (of == UNKNOWN_CLASS) values_.mark_inexact();
  }
}

Formula ShortestObject::requirement(uint32_t key) {
  const auto [it, fresh] = requirements_.try_emplace(key, FormulaSpace::FALSE);
  if (!fresh) return it->second;
  std::vector<Formula> all;
  charge(2 + satisfied_.size());
  for (SchemaId g : satisfied_) all.push_back(tables_.keys.requirement(g, universe_.keys[key]));
  return it->second = formulas_.conjunction(std::move(all));
}

Formula ShortestObject::with_demands(Formula requirement, const std::vector<Formula> &demands) {
  std::vector<Formula> all = demands;
  all.push_back(requirement);
  return formulas_.conjunction(std::move(all));
}

const std::string *ShortestObject::undeclared_key(size_t key_class, size_t i) {
  ShortestTexts &texts = values_.undeclared_keys(*frame_, classes_[key_class].second);
  const std::string *text = texts.get(i);
  if (!text && texts.gave_up()) values_.mark_inexact();
  return text;
}

// ---------------------------------------------------------------- groups that must fail

// `length`: of the members so far, without separators and brackets.
void ShortestObject::choose_violations(size_t next, uint64_t length) {
  if (!values_.spend(1) || count() > max_ || min_ > max_) return;
  // Keys that only minProperties requires have names, too, and at most one name is empty.
  const uint64_t missing = missing_keys(), all = count() + missing;
  const uint64_t missing_length = missing > 0 && missing <= MAX_FILLED ? missing * (LEAST_MEMBER + 1) - 1 : 0;
  if (2 + length + missing_length + (all > 1 ? all - 1 : 0) >= best_->length) return;
  if (next == violated_.size()) return finish(length);
  const SchemaId group = violated_[next];
  const std::vector<std::string> required = tables_.node(group).required;
  for (const std::string &name : required)
    if (omitted_.contains(static_cast<uint32_t>(universe_.find(name)))) return choose_violations(next + 1, length);
  omit_key(required, next + 1, length);
  break_key_count(group, next + 1, length);
  break_value(group, next + 1, length);
}

void ShortestObject::omit_key(const std::vector<std::string> &required, size_t next, uint64_t length) {
  for (const std::string &name : required) {
    const auto i = static_cast<uint32_t>(universe_.find(name));
    if (keys_.contains(i)) continue;
    omitted_.insert(i);
    const Undo undo([&] { omitted_.erase(i); });
    choose_violations(next, length);
  }
}

void ShortestObject::break_key_count(SchemaId group, size_t next, uint64_t length) {
  const uint64_t least = tables_.node(group).min_properties, most = tables_.node(group).max_properties;
  if (least > 0) {
    const uint64_t old = max_;
    const Undo undo([&] { max_ = old; });
    max_ = std::min(max_, least - 1);
    choose_violations(next, length);
  }
  if (most != UNBOUNDED) {
    const uint64_t old = min_;
    const Undo undo([&] { min_ = old; });
    min_ = std::max(min_, most + 1);
    choose_violations(next, length);
  }
}

void ShortestObject::break_value(SchemaId group, size_t next, uint64_t length) {
  std::vector<BrokenValue> values;
  if (!list_broken_values(group, &values)) return;
  std::stable_sort(values.begin(), values.end(),
                   [](const BrokenValue &a, const BrokenValue &b) { return a.added_length < b.added_length; });
  for (const BrokenValue &v : values) {
    if (!v.undeclared) {
      const auto i = static_cast<uint32_t>(v.index);
      const bool fresh = keys_.try_emplace(i).second;
      keys_[i].push_back(v.broken);
      const Undo undo([&] {
        if (fresh) keys_.erase(i);
        else keys_[i].pop_back();
      });
      choose_violations(next, length + v.added_length);
    } else if (v.index == NEW_KEY) {
      undeclared_.push_back({v.key_class, {v.broken}});
      const Undo undo([&] { undeclared_.pop_back(); });
      choose_violations(next, length + v.added_length);
    } else {
      undeclared_[v.index].second.push_back(v.broken);
      const Undo undo([&] { undeclared_[v.index].second.pop_back(); });
      choose_violations(next, length + v.added_length);
    }
  }
}

// False: the budget is used up.
bool ShortestObject::list_broken_values(SchemaId group, std::vector<BrokenValue> *out) {
  auto length_with = [&](Formula base, const std::vector<Formula> &demands, Formula broken) {
    std::vector<Formula> all = demands;
    all.push_back(base);
    if (broken != FormulaSpace::TRUE) all.push_back(broken);
    return values_.length(formulas_.conjunction(std::move(all)));
  };
  auto offer = [&](uint64_t now, uint64_t before, BrokenValue value) {
    if (now >= NO_LENGTH) return;
    value.added_length = now > before ? now - before : 0;
    out->push_back(value);
  };
  for (uint32_t i = 0; i < universe_.keys.size(); ++i) {
    charge();
    if (omitted_.contains(i) || requirement(i) == FormulaSpace::FALSE) continue;
    const Formula broken = formulas_.negation(tables_.keys.requirement(group, universe_.keys[i]));
    if (broken == FormulaSpace::FALSE) continue;
    if (!values_.spend(1)) return false;
    const auto it = keys_.find(i);
    if (it != keys_.end())
      offer(length_with(requirement(i), it->second, broken),
            length_with(requirement(i), it->second, FormulaSpace::TRUE), {0, false, i, 0, broken});
    else offer(length_with(requirement(i), {}, broken) + key_length(universe_.keys[i]), 0, {0, false, i, 0, broken});
  }
  for (size_t k = 0; k < classes_.size(); ++k) {
    const Formula base = class_requirements_[k];
    if (base == FormulaSpace::FALSE) continue;
    const Formula broken = formulas_.negation(tables_.objects.requirement(group, *frame_, classes_[k].first));
    if (broken == FormulaSpace::FALSE) continue;
    for (size_t i = 0; i < undeclared_.size(); ++i)
      if (undeclared_[i].first == k)
        offer(length_with(base, undeclared_[i].second, broken),
              length_with(base, undeclared_[i].second, FormulaSpace::TRUE), {0, true, i, k, broken});
    offer(length_with(base, {}, broken), 0, {0, true, NEW_KEY, k, broken});
  }
  return true;
}

// ---------------------------------------------------------------- the object

void ShortestObject::finish(uint64_t length) {
  if (missing_keys() > MAX_FILLED) return values_.mark_inexact(SearchFailure::Keys);
  std::vector<size_t> taken(classes_.size(), 0);  // keys of each class that are in use
  std::vector<Member> members;
  for (auto &[i, demands] : keys_) {
    charge(3);
    members.push_back({universe_.keys[i], with_demands(requirement(i), demands), 1});
  }
  for (auto &[k, demands] : undeclared_) {
    const std::string *text = undeclared_key(k, taken[k]++);
    if (!text) return;
    length += key_length(*text);
    members.push_back({*text, with_demands(class_requirements_[k], demands), 1});
  }
  const uint64_t missing = missing_keys();
  if (missing > 0 && !fill_up(missing, std::move(taken), &members, &length)) return;
  const uint64_t total = 2 + length + (members.size() > 1 ? members.size() - 1 : 0);
  if (total < best_->length) keep(std::move(members), total);
}

// Adds the shortest members for minProperties; false where there are not enough.
bool ShortestObject::fill_up(uint64_t missing, std::vector<size_t> taken, std::vector<Member> *members,
                             uint64_t *length) {
  struct Option {
    uint64_t length;
    Member member;
  };
  std::vector<Option> options;
  for (uint32_t i = 0; i < universe_.keys.size(); ++i) {
    charge(1 + search_work(keys_.size()));
    if (keys_.contains(i) || omitted_.contains(i)) continue;
    const uint64_t value = values_.length(requirement(i));
    if (value < NO_LENGTH)
      options.push_back({key_length(universe_.keys[i]) + value, {universe_.keys[i], requirement(i), 1}});
  }
  for (size_t k = 0; k < classes_.size(); ++k) {
    if (class_requirements_[k] == FormulaSpace::FALSE) continue;
    const uint64_t value = values_.length(class_requirements_[k]);
    if (value >= NO_LENGTH) continue;
    for (uint64_t i = 0; i < missing && values_.spend(1); ++i) {
      const std::string *text = undeclared_key(k, taken[k] + i);
      if (!text) break;
      options.push_back({key_length(*text) + value, {*text, class_requirements_[k], 1}});
    }
  }
  if (options.size() < missing) return false;
  charge(options.size() * search_work(options.size()));
  std::stable_sort(options.begin(), options.end(),
                   [](const Option &a, const Option &b) { return a.length < b.length; });
  for (uint64_t i = 0; i < missing; ++i) {
    *length += options[i].length;
    members->push_back(std::move(options[i].member));
  }
  return true;
}

// Declared keys come in their order, before all others: the option `ordered` requires it, and it is easy to read.
void ShortestObject::keep(std::vector<Member> members, uint64_t total) {
  std::vector<std::pair<size_t, size_t>> order;  // the rank of a member, and its index
  for (size_t at = 0; at < members.size(); ++at) {
    const int64_t i = universe_.find(members[at].key);
    order.emplace_back(i < 0 ? universe_.keys.size() : universe_.rank[static_cast<size_t>(i)], at);
  }
  sort_numbers(order.begin(), order.end());
  std::vector<Member> in_order;
  in_order.reserve(members.size());
  charge(members.size());
  for (auto &[rank, at] : order) in_order.push_back(std::move(members[at]));
  *best_ = {Candidate::Object, total, {}, std::move(in_order)};
}

}  // namespace structgen
