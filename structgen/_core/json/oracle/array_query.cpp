#include "json/oracle/array_query.h"

#include <algorithm>
#include <set>

#include "json/oracle/array_search.h"
#include "json/oracle/oracle.h"
#include "util/undo.h"

namespace structgen {
namespace {
constexpr size_t MAX_COUNTERS = 6;  // `contains` whose combinations in one item are distinguished
}  // namespace

ArraySearch::ArraySearch(JsonOracle &oracle) : oracle_(oracle), tables_(oracle.tables()) {}

bool ArraySearch::live(ArrayControl *a, uint64_t count, bool one_more, bool reading) {
  return oracle_.memoise(hash_words(3, a->id, count, one_more, reading), [&] {
    const ArrayControl *outer = std::exchange(oracle_.state().reading, reading ? a : nullptr);
    const auto check = [&](const Groups &satisfied, const Groups &violated) {
      return possible(satisfied, violated, a, count, one_more);
    };
    const bool live = oracle_.formulas().any(tables_.obligations[a->obligation].requirement, check, Type::Array);
    oracle_.state().reading = outer;
    return live;
  });
}

bool ArraySearch::possible(const Groups &satisfied, const Groups &violated, ArrayControl *frame, uint64_t count,
                           bool one_more) {
  return ArrayQuery(oracle_, satisfied, violated, frame, count).run(one_more);
}

ArrayQuery::ArrayQuery(JsonOracle &oracle, const Groups &satisfied, const Groups &violated, ArrayControl *frame,
                       uint64_t count)
    : oracle_(oracle),
      tables_(oracle.tables()),
      formulas_(oracle.tables().formulas()),
      satisfied_(satisfied),
      violated_(violated),
      frame_(frame),
      count_(count) {}

bool ArrayQuery::run(bool one_more) {
  if (!collect_bounds(one_more) || least_ > most_) return false;
  bound_length_by_items();
  return least_ <= most_ && choose_violations(0);
}

Formula ArrayQuery::item(uint64_t index) {
  std::vector<Formula> all;
  for (SchemaId g : satisfied_) all.push_back(tables_.arrays.requirement(g, index, frame_ ? frame_->used : NO_SCHEMA));
  if (auto it = demands_.find(index); it != demands_.end()) all.insert(all.end(), it->second.begin(), it->second.end());
  return formulas_.conjunction(std::move(all));
}

bool ArrayQuery::collect_bounds(bool one_more) {
  least_ = count_ + one_more;
  for (SchemaId g : satisfied_) {
    const SchemaNode &n = tables_.node(g);
    least_ = std::max(least_, n.min_items);
    most_ = std::min(most_, n.max_items);
    prefix_ = std::max<uint64_t>(prefix_, n.prefix_items.size());
    unique_ |= n.unique_items;
    if (n.contains == NO_SCHEMA) continue;
    const uint64_t matched = frame_ ? ArrayControls::count_of(*frame_, g) : 0;
    if (matched > n.max_contains || n.min_contains > n.max_contains) return false;
    if (matched < n.min_contains || n.max_contains != UNBOUNDED)
      counters_.push_back({tables_.table.leaf(n.contains), n.min_contains > matched ? n.min_contains - matched : 0,
                           n.max_contains == UNBOUNDED ? UNBOUNDED : n.max_contains - matched});
  }
  for (SchemaId g : violated_) prefix_ = std::max<uint64_t>(prefix_, tables_.node(g).prefix_items.size());
  return true;
}

// Items from `prefix_` on are alike, and the first one without a value bounds the length. Only those that can matter
// are looked at.
void ArrayQuery::bound_length_by_items() {
  beyond_ = std::max(prefix_, count_) + violated_.size();
  for (uint64_t i = count_; i <= beyond_ && i < most_; ++i) {
    if (violated_.empty() && counters_.empty() && i >= least_) break;
    if (!oracle_.can_hold(item(i))) {
      most_ = i;
      break;
    }
  }
}

// ---------------------------------------------------------------- what must fail

bool ArrayQuery::choose_violations(size_t next) {
  charge();
  if (!oracle_.budget().spend()) return true;
  if (next == violated_.size()) return finish();
  const SchemaId group = violated_[next];
  const SchemaNode &n = tables_.node(group);
  if (break_length(n, next + 1) || break_item(group, next + 1)) return true;
  if (n.contains != NO_SCHEMA && break_contains(group, next + 1)) return true;
  return n.unique_items && repeat_item(next + 1);
}

bool ArrayQuery::break_length(const SchemaNode &n, size_t next) {
  if (n.min_items > 0) {
    const uint64_t old = most_;
    const Undo undo([&] { most_ = old; });
    most_ = std::min(most_, n.min_items - 1);
    if (least_ <= most_ && choose_violations(next)) return true;
  }
  if (n.max_items != UNBOUNDED) {
    const uint64_t old = least_;
    const Undo undo([&] { least_ = old; });
    least_ = std::max(least_, n.max_items + 1);
    if (least_ <= most_ && choose_violations(next)) return true;
  }
  return false;
}

bool ArrayQuery::break_item(SchemaId group, size_t next) {
  for (uint64_t i = count_; i <= beyond_ && i < most_; ++i) {
    const Formula broken = formulas_.negation(tables_.arrays.requirement(group, i));
    if (!oracle_.can_hold(formulas_.both(item(i), broken))) continue;
    demands_[i].push_back(broken);
    const Undo undo([&] {
      demands_[i].pop_back();
      if (demands_[i].empty()) demands_.erase(i);
    });
    if (choose_violations(next)) return true;
  }
  return false;
}

bool ArrayQuery::break_contains(SchemaId group, size_t next) {
  const SchemaNode &n = tables_.node(group);
  const uint64_t matched = frame_ ? ArrayControls::count_of(*frame_, group) : 0;
  const Formula contains = tables_.table.leaf(n.contains);
  auto with = [&](uint64_t lo, uint64_t hi) {
    counters_.push_back({contains, lo, hi});
    const Undo undo([&] { counters_.pop_back(); });
    return choose_violations(next);
  };
  if (n.min_contains > matched && with(0, n.min_contains - matched - 1)) return true;
  return n.max_contains != UNBOUNDED && with(n.max_contains - std::min(matched, n.max_contains) + 1, UNBOUNDED);
}

// Some item has to occur twice: a copy of one that was read, or two new ones. That they can be equal is not proven.
bool ArrayQuery::repeat_item(size_t next) {
  const uint64_t old = least_;
  const Undo undo([&] { least_ = old; });
  least_ = std::max(least_, std::max<uint64_t>(count_ + 1, 2));
  if (least_ > most_ || !choose_violations(next)) return false;
  oracle_.budget().count_unproven();
  return true;
}

bool ArrayQuery::finish() {
  uint64_t length = least_;
  if (!demands_.empty()) length = std::max(length, demands_.rbegin()->first + 1);
  if (length > most_) return false;
  for (auto &[i, demands] : demands_)
    if (!oracle_.can_hold(item(i))) return false;
  if (!counters_.empty()) return can_count(length);
  return !unique_ || items_can_differ(length);
}

// ---------------------------------------------------------------- contains

// The combinations of counters that one item can match.
std::vector<uint32_t> ArrayQuery::profiles(uint64_t index) {
  std::vector<uint32_t> out;
  const Formula base = item(index);
  for (uint32_t profile = 0; profile < 1u << counters_.size(); ++profile) {
    std::vector<Formula> all{base};
    for (size_t j = 0; j < counters_.size(); ++j)
      all.push_back(profile >> j & 1 ? counters_[j].contains : formulas_.negation(counters_[j].contains));
    if (oracle_.can_hold(formulas_.conjunction(std::move(all)))) out.push_back(profile);
  }
  return out;
}

// False: one more item with this profile is too many for some counter.
bool ArrayQuery::count_item(const Tally &tally, uint32_t profile, Tally *next) const {
  *next = tally;
  for (size_t j = 0; j < counters_.size(); ++j) {
    if (!(profile >> j & 1)) continue;
    const ContainsCounter &c = counters_[j];
    if ((*next)[j] >= c.hi) return false;
    (*next)[j] = std::min((*next)[j] + 1, c.hi == UNBOUNDED ? c.lo : c.hi);
  }
  return true;
}

bool ArrayQuery::is_satisfied(const Tally &tally) const {
  for (size_t j = 0; j < counters_.size(); ++j)
    if (tally[j] < counters_[j].lo) return false;
  return true;
}

uint64_t ArrayQuery::first_alike() const {
  return std::max(count_, std::max(prefix_, demands_.empty() ? 0 : demands_.rbegin()->first + 1));
}

// One counter, and all further items alike: can it be brought into its bounds? Sets the length of such an array.
bool ArrayQuery::can_count_alike(const Tally &tally, const std::vector<uint32_t> &profiles, uint64_t at,
                                 uint64_t length, uint64_t *end) const {
  const bool none = std::count(profiles.begin(), profiles.end(), 0u) > 0;
  const bool one = std::count(profiles.begin(), profiles.end(), 1u) > 0;
  const ContainsCounter &c = counters_[0];
  const uint64_t missing = c.lo > tally[0] ? c.lo - tally[0] : 0;
  const uint64_t room = c.hi == UNBOUNDED ? UNBOUNDED : c.hi - tally[0];
  if (missing > 0 && !one) return false;
  const uint64_t items = std::max(length > at ? length - at : 0, missing);
  if (!none && (!one || items > room) && items > 0) return false;
  *end = at + items;
  return *end <= most_;
}

// Is there a length, `length` or more, and a choice of what each further item matches, such that every counter comes
// into its bounds? Item by item, over the tallies that can have been reached.
bool ArrayQuery::can_count(uint64_t length) {
  if (counters_.size() > MAX_COUNTERS) {
    oracle_.budget().count_unproven();
    return true;
  }
  const auto differ = [&](uint64_t end) {
    return !unique_ || (items_can_differ(end) && counted_items_can_differ(end));
  };
  const uint64_t alike = first_alike();
  std::set<Tally> reached{Tally(counters_.size(), 0)};
  std::vector<uint32_t> here;
  for (uint64_t at = count_;; ++at) {
    if (at >= length && std::any_of(reached.begin(), reached.end(), [&](const Tally &t) { return is_satisfied(t); }))
      return differ(at);
    if (at >= most_ || reached.empty()) return false;
    if (at <= alike) here = profiles(at);
    if (at >= alike && counters_.size() == 1) {
      uint64_t end;
      for (const Tally &tally : reached)
        if (can_count_alike(tally, here, at, length, &end)) return differ(end);
      return false;
    }
    std::set<Tally> next;
    for (const Tally &tally : reached)
      for (uint32_t profile : here) {
        Tally to;
        if (count_item(tally, profile, &to)) next.insert(std::move(to));
        if (!oracle_.budget().spend()) return true;
      }
    if (at >= alike && at >= length && next == reached) return false;
    reached = std::move(next);
  }
}

// ---------------------------------------------------------------- distinct items

// Can the items up to `length` all be different, and different from those that were read?
bool ArrayQuery::items_can_differ(uint64_t length) {
  DistinctValues &distinct = oracle_.distinct();
  if (frame_ && frame_ == oracle_.state().reading && length > count_) {
    // The value of the item that is being read may be one of those that are needed.
    bool sure = true;
    for (uint64_t i = count_; i < length && i <= beyond_; ++i)
      if (!distinct.has(item(i), length - count_ + 1, &sure)) {
        oracle_.budget().count_unproven();
        break;
      }
  }
  if (length <= count_ || (length == count_ + 1 && count_ == 0)) return true;
  if (length == count_ + 1) return next_item_can_differ();
  const uint64_t items = length - count_;
  std::set<Formula> kinds;
  for (uint64_t i = count_; i < length && i <= beyond_; ++i) kinds.insert(item(i));
  bool sure = true, all = true;
  for (Formula f : kinds) all = all && distinct.has(f, items, &sure);
  if (all) return true;
  if (kinds.size() == 1 && sure) return false;
  oracle_.budget().count_unproven();
  return true;
}

// The requirement on the next item is known to hold, and it excludes the scalars that were read, but no containers.
bool ArrayQuery::next_item_can_differ() {
  const Formula f = item(count_);
  bool sure = true;
  for (Type t : {Type::Null, Type::Boolean, Type::Number, Type::String})
    if (oracle_.holds_type(f, t)) return true;
  if (!oracle_.distinct().has(f, count_ + 1, &sure)) oracle_.budget().count_unproven();
  return true;
}

// Are there enough different items that match each counter, and enough that do not?
bool ArrayQuery::counted_items_can_differ(uint64_t length) {
  std::set<Formula> kinds;
  for (uint64_t i = count_; i <= std::max(count_, std::min(length, beyond_)); ++i) kinds.insert(item(i));
  bool sure = kinds.size() == 1 && counters_.size() == 1, enough = true;
  for (Formula kind : kinds)
    for (const ContainsCounter &c : counters_) {
      bool certain = true;
      if (!can_match_distinct(kind, c, length - count_, kinds.size() == 1, &enough, &certain)) return false;
      sure = sure && certain;
    }
  if (!enough || (counters_.size() > 1 && !sure)) oracle_.budget().count_unproven();
  return true;
}

// False: it is certain that there are too few. `only_kind`: all items have this requirement.
bool ArrayQuery::can_match_distinct(Formula item, const ContainsCounter &c, uint64_t items, bool only_kind,
                                    bool *enough, bool *sure) {
  DistinctValues &distinct = oracle_.distinct();
  const Formula with = formulas_.both(item, c.contains);
  const Formula without = formulas_.both(item, formulas_.negation(c.contains));
  if (frame_ && frame_ == oracle_.state().reading && c.lo > 0 && !distinct.has(with, c.lo + 1, sure)) *enough = false;
  if (!distinct.has(with, c.lo, sure)) {
    if (*sure && only_kind) return false;
    *enough = false;
  }
  const uint64_t most = std::min(items, c.hi);
  uint64_t matching = 0;  // different items that may match, as far as that matters
  while (matching < most && distinct.has(with, matching + 1, sure)) {
    charge();
    if (distinct.has(with, most, sure)) matching = most;
    else ++matching;
  }
  if (items > matching && !distinct.has(without, items - matching, sure)) {
    if (*sure && only_kind) return false;
    *enough = false;
  }
  return true;
}

}  // namespace structgen
