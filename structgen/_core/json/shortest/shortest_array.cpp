#include "json/shortest/shortest_array.h"

#include <algorithm>

#include "json/shortest/distinct_items.h"
#include "util/undo.h"

namespace structgen {
namespace {

constexpr size_t MAX_COUNTERS = 6;        // `contains` whose combinations in one item are distinguished
constexpr uint64_t MAX_LISTED = 100'000;  // items before those that are alike

}  // namespace

uint64_t array_length(ShortestValues &values, const std::vector<Member> &items) {
  uint64_t total = 2, count = 0;
  for (const Member &item : items) {
    const uint64_t one = values.length(item.value);
    if (one >= NO_LENGTH || (NO_LENGTH - total) / (one + 1) < item.times) return NO_LENGTH;
    total += (one + 1) * item.times;
    count += item.times;
  }
  return count > 0 ? total - 1 : total;
}

ShortestArray::ShortestArray(ShortestValues &values, const Groups &satisfied, const Groups &violated, Candidate *best)
    : values_(values),
      tables_(values.tables()),
      formulas_(values.tables().formulas()),
      satisfied_(satisfied),
      violated_(violated),
      best_(best) {}

void ShortestArray::run() {
  if (collect_bounds()) choose_violations(0);
}

// False: some `contains` cannot be met.
bool ShortestArray::collect_bounds() {
  bool possible = true;
  for (SchemaId g : satisfied_) {
    const SchemaNode &n = tables_.node(g);
    least_ = std::max(least_, n.min_items);
    most_ = std::min(most_, n.max_items);
    prefix_ = std::max<uint64_t>(prefix_, n.prefix_items.size());
    unique_ |= n.unique_items;
    if (n.contains == NO_SCHEMA) continue;
    possible &= n.min_contains <= n.max_contains;
    if (n.min_contains > 0 || n.max_contains != UNBOUNDED)
      counters_.push_back({tables_.table.leaf(n.contains), n.min_contains, n.max_contains});
  }
  for (SchemaId g : violated_) prefix_ = std::max<uint64_t>(prefix_, tables_.node(g).prefix_items.size());
  beyond_ = prefix_ + violated_.size() + 1;
  return possible;
}

uint64_t ShortestArray::least_items() const {
  uint64_t length = least_;
  if (!demands_.empty()) length = std::max(length, demands_.rbegin()->first + 1);
  return twins_ ? std::max(length, twins_->second + 1) : length;
}

uint64_t ShortestArray::first_alike() const {
  uint64_t at = prefix_;
  if (!demands_.empty()) at = std::max(at, demands_.rbegin()->first + 1);
  return twins_ ? std::max(at, twins_->second + 1) : at;
}

std::vector<Formula> ShortestArray::item_requirements(uint64_t index) {
  std::vector<Formula> all;
  for (SchemaId g : satisfied_) all.push_back(tables_.arrays.requirement(g, index));
  if (auto it = demands_.find(index); it != demands_.end()) all.insert(all.end(), it->second.begin(), it->second.end());
  return all;
}

std::vector<Member> ShortestArray::items(uint64_t length) {
  std::vector<Member> items;
  auto at = [&](uint64_t i) { return formulas_.conjunction(item_requirements(i)); };
  const uint64_t alike = std::min(length, first_alike());
  for (uint64_t i = 0; i < alike; ++i) items.push_back({{}, at(i), 1});
  if (twins_ && twins_->second < alike) {
    auto &[i, j] = *twins_;
    items[i].value = items[j].value = formulas_.both(items[i].value, items[j].value);
  }
  if (length > alike) items.push_back({{}, at(alike), length - alike});
  return items;
}

void ShortestArray::finish() {
  if (unique_ && twins_) return;
  if (!counters_.empty()) search_counts(least_items());
  else keep(items(least_items()));
}

void ShortestArray::keep(std::vector<Member> items) {
  const uint64_t total = array_length(values_, items);
  if (total >= best_->length) return;
  if (unique_) return DistinctItems(values_, best_).run(items);
  *best_ = {Candidate::Array, total, {}, std::move(items)};
}

// ---------------------------------------------------------------- groups that must fail

void ShortestArray::choose_violations(size_t next) {
  const uint64_t length = least_items();
  if (!values_.spend(1) || length > most_) return;
  if (std::min(length, first_alike()) > MAX_LISTED) return values_.mark_inexact(SearchFailure::Length);
  if (array_length(values_, items(length)) >= best_->length) return;
  if (next == violated_.size()) return finish();
  const SchemaId group = violated_[next];
  const uint64_t min_items = tables_.node(group).min_items, max_items = tables_.node(group).max_items;
  const bool unique = tables_.node(group).unique_items;
  const bool fails_already = min_items > most_ || max_items < length || (unique && twins_);
  if (fails_already) return choose_violations(next + 1);
  // The cheapest comes first, so that its length bounds the rest: first an item that is there anyway.
  for (uint64_t i = 0; i <= beyond_ && i < length; ++i) break_item(group, i, next + 1);
  break_length(group, next + 1);
  break_contains(group, next + 1);
  for (uint64_t i = length; i <= beyond_ && i < most_; ++i) break_item(group, i, next + 1);
  if (unique) repeat_item(next + 1);
}

void ShortestArray::break_item(SchemaId group, uint64_t index, size_t next) {
  const Formula broken = formulas_.negation(tables_.arrays.requirement(group, index));
  if (broken == FormulaSpace::FALSE) return;
  demands_[index].push_back(broken);
  const Undo undo([&] {
    demands_[index].pop_back();
    if (demands_[index].empty()) demands_.erase(index);
  });
  choose_violations(next);
}

void ShortestArray::break_length(SchemaId group, size_t next) {
  const uint64_t min_items = tables_.node(group).min_items, max_items = tables_.node(group).max_items;
  if (min_items > 0) {
    const uint64_t old = most_;
    const Undo undo([&] { most_ = old; });
    most_ = std::min(most_, min_items - 1);
    choose_violations(next);
  }
  if (max_items != UNBOUNDED) {
    const uint64_t old = least_;
    const Undo undo([&] { least_ = old; });
    least_ = std::max(least_, max_items + 1);
    choose_violations(next);
  }
}

void ShortestArray::break_contains(SchemaId group, size_t next) {
  const SchemaId contains = tables_.node(group).contains;
  if (contains == NO_SCHEMA) return;
  const uint64_t min_contains = tables_.node(group).min_contains, max_contains = tables_.node(group).max_contains;
  auto with = [&](uint64_t lo, uint64_t hi) {
    counters_.push_back({tables_.table.leaf(contains), lo, hi});
    const Undo undo([&] { counters_.pop_back(); });
    choose_violations(next);
  };
  if (min_contains > 0) with(0, min_contains - 1);
  if (max_contains != UNBOUNDED) with(max_contains + 1, UNBOUNDED);
}

void ShortestArray::repeat_item(size_t next) {
  const Undo undo([&] { twins_.reset(); });
  for (uint64_t j = 1; j <= beyond_ && j < most_; ++j)
    for (uint64_t i = 0; i < j; ++i) {
      twins_ = {i, j};
      choose_violations(next);
    }
}

// ---------------------------------------------------------------- contains

// Counters that the item at `index` can match together.
ShortestArray::Profiles ShortestArray::profiles(uint64_t index) {
  Profiles out;
  std::vector<Formula> base = item_requirements(index);
  if (twins_ && (index == twins_->first || index == twins_->second))
    for (SchemaId g : satisfied_)
      base.push_back(tables_.arrays.requirement(g, index == twins_->first ? twins_->second : twins_->first));
  for (uint32_t profile = 0; profile < 1u << counters_.size(); ++profile) {
    std::vector<Formula> all = base;
    for (size_t j = 0; j < counters_.size(); ++j)
      all.push_back(profile >> j & 1 ? counters_[j].contains : formulas_.negation(counters_[j].contains));
    const Formula f = formulas_.conjunction(std::move(all));
    if (values_.length(f) < NO_LENGTH) out.emplace_back(profile, f);
  }
  return out;
}

// False: one more item with this profile is too many for some counter.
bool ShortestArray::count_item(const Tally &tally, uint32_t profile, Tally *next) const {
  *next = tally;
  for (size_t j = 0; j < counters_.size(); ++j) {
    if (!(profile >> j & 1)) continue;
    const Counter &c = counters_[j];
    if ((*next)[j] >= c.hi) return false;
    (*next)[j] = std::min((*next)[j] + 1, c.hi == UNBOUNDED ? c.lo : c.hi);
  }
  return true;
}

// Item by item: the tallies that can be reached, each with its least length.
void ShortestArray::search_counts(uint64_t length) {
  if (counters_.size() > MAX_COUNTERS) return values_.mark_inexact();
  uint64_t enough = length + first_alike();
  for (const Counter &c : counters_) enough += std::min(c.lo, MAX_LISTED);
  std::vector<Layer> layers(1);
  layers[0][Tally(counters_.size(), 0)] = {2, {}, FormulaSpace::TRUE};
  Profiles here;
  for (uint64_t at = 0;; ++at) {
    uint64_t least = NO_LENGTH;
    for (auto &[tally, reached] : layers[at]) {
      least = std::min(least, reached.length);
      bool satisfied = at >= length;
      for (size_t j = 0; j < counters_.size(); ++j) satisfied &= tally[j] >= counters_[j].lo;
      if (satisfied && reached.length - (at > 0 ? 1 : 0) < best_->length) keep_counted(layers, tally);
    }
    if (at >= most_ || at >= enough || least >= best_->length) return;
    if (at <= first_alike()) here = profiles(at);
    Layer next;
    if (!add_items(layers[at], here, &next) || next.empty()) return;
    layers.push_back(std::move(next));
  }
}

// False: the budget is used up.
bool ShortestArray::add_items(const Layer &layer, const Profiles &profiles, Layer *next) {
  for (auto &[tally, reached] : layer)
    for (auto &[profile, item] : profiles) {
      if (!values_.spend(1)) return false;
      Tally to;
      if (!count_item(tally, profile, &to)) continue;
      const uint64_t total = reached.length + values_.length(item) + 1;
      auto [it, fresh] = next->try_emplace(std::move(to), Reached{total, tally, item});
      if (!fresh && total < it->second.length) it->second = {total, tally, item};
    }
  return true;
}

// Keeps the items that lead to a tally of the last layer.
void ShortestArray::keep_counted(const std::vector<Layer> &layers, const Tally &tally) {
  std::vector<Member> items;
  Tally t = tally;
  for (size_t i = layers.size() - 1; i > 0; --i) {
    const Reached &r = layers[i].at(t);
    items.push_back({{}, r.item, 1});
    t = r.from;
  }
  std::reverse(items.begin(), items.end());
  if (twins_) {
    values_.mark_inexact();  // what each of the two counts for was chosen separately
    if (items[twins_->first].value != items[twins_->second].value) return;
  }
  if (unique_) values_.mark_inexact();  // the choice of what counts does not see which items differ
  keep(std::move(items));
}

}  // namespace structgen
