// The emptiness oracle on arrays: lengths, `contains`, and items that must differ.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "json/oracle/oracle.h"

namespace structgen {
namespace {
constexpr size_t MAX_COUNTERS = 6;        // `contains` whose meetings in one item are told apart
constexpr size_t MAX_VALUE_WAYS = 16;      // to satisfy what a container must, looked into for them
constexpr int MAX_VALUE_DEPTH = 4;        // containers looked into for different values
constexpr int MAX_COUNTED_LENGTH = 200;   // of texts, when they are counted
}  // namespace

// How often items may still match one `contains`.
struct Counter {
  Formula contains;
  uint64_t lo, hi;
};

struct JsonOracle::ArrayQuery {
  const Groups *yes, *no;
  ArrayControl *frame;  // null: an array not yet begun
  uint64_t count;       // items read
  uint64_t least, most, prefix, beyond;
  std::map<uint64_t, std::vector<Formula>> demands;
  std::vector<Counter> counters;
  bool unique = false;
};

Formula JsonOracle::item(const ArrayQuery &q, uint64_t index) {
  std::vector<Formula> all;
  for (SchemaId g : *q.yes) all.push_back(c_.item_requirement(g, index, q.frame ? q.frame->used : NO_SCHEMA));
  if (auto it = q.demands.find(index); it != q.demands.end()) all.insert(all.end(), it->second.begin(), it->second.end());
  return c_.formulas_.conjunction(std::move(all));
}

bool JsonOracle::array_possible(const Groups &yes, const Groups &no, ArrayControl *frame, uint64_t count,
                                bool one_more) {
  ArrayQuery q{};
  q.yes = &yes;
  q.no = &no;
  q.frame = frame;
  q.count = count;
  q.least = count + one_more;
  q.most = UNBOUNDED;
  for (SchemaId g : yes) {
    const SchemaNode &n = c_.schema_.nodes[g];
    q.least = std::max(q.least, n.min_items);
    q.most = std::min(q.most, n.max_items);
    q.prefix = std::max<uint64_t>(q.prefix, n.prefix_items.size());
    q.unique |= n.unique_items;
    if (n.contains == NO_SCHEMA) continue;
    const uint64_t met = frame ? JsonControl::counted(*frame, g) : 0;
    if (met > n.max_contains || n.min_contains > n.max_contains) return false;
    if (met < n.min_contains || n.max_contains != UNBOUNDED)
      q.counters.push_back({c_.schema_leaf(n.contains), n.min_contains > met ? n.min_contains - met : 0,
                            n.max_contains == UNBOUNDED ? UNBOUNDED : n.max_contains - met});
  }
  for (SchemaId g : no) q.prefix = std::max<uint64_t>(q.prefix, c_.schema_.nodes[g].prefix_items.size());
  if (q.least > q.most) return false;
  // Items from `prefix` on are alike; the first one without a value bounds the length. Only as
  // many are looked at as could matter.
  q.beyond = std::max(q.prefix, count) + no.size();
  for (uint64_t i = count; i <= q.beyond && i < q.most; ++i) {
    if (no.empty() && q.counters.empty() && i >= q.least) break;
    if (!can_hold(item(q, i))) {
      q.most = i;
      break;
    }
  }
  if (q.least > q.most) return false;
  return choose_violations(q, 0);
}

bool JsonOracle::choose_violations(ArrayQuery &q, size_t next) {
  charge();
  if (!spend()) return true;
  if (next == q.no->size()) return finish_array(q);
  const SchemaId group = (*q.no)[next];
  const SchemaNode &n = c_.schema_.nodes[group];
  if (n.min_items > 0) {
    const uint64_t old = q.most;
    q.most = std::min(q.most, n.min_items - 1);
    bool ok = q.least <= q.most && choose_violations(q, next + 1);
    q.most = old;
    if (ok) return true;
  }
  if (n.max_items != UNBOUNDED) {
    const uint64_t old = q.least;
    q.least = std::max(q.least, n.max_items + 1);
    bool ok = q.least <= q.most && choose_violations(q, next + 1);
    q.least = old;
    if (ok) return true;
  }
  for (uint64_t i = q.count; i <= q.beyond && i < q.most; ++i) {
    Formula broken = c_.formulas_.negation(c_.item_requirement(group, i));
    if (!can_hold(c_.formulas_.both(item(q, i), broken))) continue;
    q.demands[i].push_back(broken);
    bool ok = choose_violations(q, next + 1);
    q.demands[i].pop_back();
    if (q.demands[i].empty()) q.demands.erase(i);
    if (ok) return true;
  }
  if (n.contains != NO_SCHEMA) {
    const uint64_t met = q.frame ? JsonControl::counted(*q.frame, group) : 0;
    const Formula contains = c_.schema_leaf(n.contains);
    auto with = [&](uint64_t lo, uint64_t hi) {
      q.counters.push_back({contains, lo, hi});
      bool ok = choose_violations(q, next + 1);
      q.counters.pop_back();
      return ok;
    };
    if (n.min_contains > met && with(0, n.min_contains - met - 1)) return true;
    if (n.max_contains != UNBOUNDED && with(n.max_contains - std::min(met, n.max_contains) + 1, UNBOUNDED)) return true;
  }
  if (n.unique_items) {
    // Some item has to come twice: a copy of one that is there, or two new ones.
    const uint64_t old = q.least;
    q.least = std::max(q.least, std::max<uint64_t>(q.count + 1, 2));
    bool ok = q.least <= q.most && choose_violations(q, next + 1);
    q.least = old;
    if (ok) ++unproven_;
    if (ok) return true;
  }
  return false;
}

bool JsonOracle::finish_array(ArrayQuery &q) {
  uint64_t length = q.least;
  if (!q.demands.empty()) length = std::max(length, q.demands.rbegin()->first + 1);
  if (length > q.most) return false;
  for (auto &[i, fs] : q.demands)
    if (!can_hold(item(q, i))) return false;
  if (!q.counters.empty()) return can_count(q, length);
  return !q.unique || distinct_items(q, length);
}

// Is there a length from `length` on, and a choice of what each further item matches, that brings every
// counter into its bounds? Item by item: the sets of counts that can have been reached.
bool JsonOracle::can_count(ArrayQuery &q, uint64_t length) {
  const size_t k = q.counters.size();
  if (k > MAX_COUNTERS) {
    ++unproven_;
    return true;
  }
  // Which counters one item can match at the same time.
  auto profiles = [&](uint64_t index) {
    std::vector<uint32_t> out;
    const Formula base = item(q, index);
    for (uint32_t s = 0; s < 1u << k; ++s) {
      std::vector<Formula> all{base};
      for (size_t j = 0; j < k; ++j)
        all.push_back(s >> j & 1 ? q.counters[j].contains : c_.formulas_.negation(q.counters[j].contains));
      if (can_hold(c_.formulas_.conjunction(std::move(all)))) out.push_back(s);
    }
    return out;
  };
  const uint64_t alike = std::max(q.count, std::max(q.prefix, q.demands.empty() ? 0 : q.demands.rbegin()->first + 1));
  using State = std::vector<uint64_t>;
  auto advance = [&](const State &s, uint32_t profile, State *to) {
    *to = s;
    for (size_t j = 0; j < k; ++j) {
      if (!(profile >> j & 1)) continue;
      const Counter &c = q.counters[j];
      if ((*to)[j] >= c.hi) return false;
      (*to)[j] = std::min((*to)[j] + 1, c.hi == UNBOUNDED ? c.lo : c.hi);
    }
    return true;
  };
  auto satisfied = [&](const State &s) {
    for (size_t j = 0; j < k; ++j)
      if (s[j] < q.counters[j].lo) return false;
    return true;
  };
  std::set<State> reached{State(k, 0)};
  std::vector<uint32_t> here;
  for (uint64_t at = q.count;; ++at) {
    if (at >= length && std::any_of(reached.begin(), reached.end(), satisfied)) {
      return !q.unique || (distinct_items(q, at) && distinct_counted(q, at));
    }
    if (at >= q.most || reached.empty()) return false;
    if (at <= alike) here = profiles(at);
    if (at >= alike && k == 1) {
      // One counter and items all alike: arithmetic.
      const bool none = std::count(here.begin(), here.end(), 0u) > 0, one = std::count(here.begin(), here.end(), 1u) > 0;
      for (const State &s : reached) {
        const Counter &c = q.counters[0];
        const uint64_t owed = c.lo > s[0] ? c.lo - s[0] : 0;
        const uint64_t room = c.hi == UNBOUNDED ? UNBOUNDED : c.hi - s[0];
        uint64_t items = length > at ? length - at : 0;
        if (owed > 0 && !one) continue;
        items = std::max(items, owed);
        if (!none && (!one || items > room) && items > 0) continue;
        if (at + items > q.most) continue;
        return !q.unique || (distinct_items(q, at + items) && distinct_counted(q, at + items));
      }
      return false;
    }
    std::set<State> next;
    for (const State &s : reached)
      for (uint32_t p : here) {
        State to;
        if (advance(s, p, &to)) next.insert(std::move(to));
        if (!spend()) return true;
      }
    if (at >= alike && at >= length && next == reached) return false;
    reached = std::move(next);
  }
}

// Are there enough different items that match each counter, and enough that do not?
bool JsonOracle::distinct_counted(ArrayQuery &q, uint64_t length) {
  const uint64_t n = length - q.count;
  std::set<Formula> kinds;
  for (uint64_t i = q.count; i <= std::max(q.count, std::min(length, q.beyond)); ++i) kinds.insert(item(q, i));
  bool sure = kinds.size() == 1 && q.counters.size() == 1, enough = true;
  for (Formula base : kinds)
    for (const Counter &c : q.counters) {
      const Formula with = c_.formulas_.both(base, c.contains);
      const Formula without = c_.formulas_.both(base, c_.formulas_.negation(c.contains));
      // Of so many the frame needs at least so many that match, and at most so many may.
      bool known = true;
      if (q.frame && q.frame == reading_ && c.lo > 0 && !has_values(with, c.lo + 1, 0, &known)) enough = false;
      if (!has_values(with, c.lo, 0, &known)) {
        if (known && kinds.size() == 1) return false;
        enough = false;
      }
      uint64_t matching = 0;  // different ones that may be there, as far as that matters
      while (matching < std::min(n, c.hi) && has_values(with, matching + 1, 0, &known)) {
        charge();
        if (has_values(with, std::min(n, c.hi), 0, &known)) matching = std::min(n, c.hi);
        else ++matching;
      }
      if (n > matching && !has_values(without, n - matching, 0, &known)) {
        if (known && kinds.size() == 1) return false;
        enough = false;
      }
      sure = sure && known;
    }
  if (!enough || (q.counters.size() > 1 && !sure)) ++unproven_;
  return true;
}

// Can the items up to `length` all be different, and different from those already there?
bool JsonOracle::distinct_items(ArrayQuery &q, uint64_t length) {
  if (q.frame && q.frame == reading_ && length > q.count) {
    // The value of the item that is being read may be one of those that are needed.
    bool known = true;
    for (uint64_t i = q.count; i < length && i <= q.beyond; ++i)
      if (!has_values(item(q, i), length - q.count + 1, 0, &known)) {
        ++unproven_;
        break;
      }
  }
  // One more: its own requirement has been asked, and leaves out the scalars that are there. Containers it does not.
  if (length <= q.count + 1 && (length <= q.count || q.count == 0)) return true;
  if (length == q.count + 1) {
    const Formula f = item(q, q.count);
    bool sure = true;
    for (Type t : {Type::Null, Type::Boolean, Type::Number, Type::String})
      if (holds_type(f, t)) return true;
    if (!has_values(f, length, 0, &sure)) ++unproven_;
    return true;
  }
  const uint64_t n = length - q.count;
  std::set<Formula> kinds;
  for (uint64_t i = q.count; i < length && i <= q.beyond; ++i) kinds.insert(item(q, i));
  bool sure = true, all = true;
  for (Formula f : kinds) all = all && has_values(f, n, 0, &sure);
  if (all) return true;
  if (kinds.size() == 1 && sure) return false;
  ++unproven_;
  return true;
}

uint64_t JsonOracle::count_texts(Re re, uint64_t most) {
  RegexSpace &space = c_.text_.regex();
  std::map<Re, uint64_t> layer{{re, 1}};
  uint64_t total = 0;
  for (int length = 0; length < MAX_COUNTED_LENGTH && !layer.empty() && total < most; ++length) {
    std::map<Re, uint64_t> next;
    for (auto &[r, ways] : layer) {
      if (space.nullable(r)) total = std::min(most, total + ways);
      const Row row = space.row(r);
      for (Re to : row)
        if (to != RegexSpace::EMPTY && space.alive(to)) {
          uint64_t &w = next[to];
          w = std::min(most, w + ways);
        }
      if (!spend()) return most;
    }
    layer = std::move(next);
  }
  return layer.empty() ? total : most;  // longer ones: no end of them, or as good as none
}

// The same for the containers that satisfy all of some groups.
bool JsonOracle::way_has_values(Type t, const Groups &groups, uint64_t n, int depth) {
  bool inner = true;
  if (t == Type::Array) {
    // What items must be together is not looked into.
    for (SchemaId g : groups)
      if (c_.schema_.nodes[g].contains != NO_SCHEMA || c_.schema_.nodes[g].unique_items) return false;
    ArrayQuery q{};
    q.yes = &groups;
    return array_possible(groups, {}, nullptr, 0, true) && has_values(item(q, 0), n, depth + 1, &inner);
  }
  if (!object_possible(groups, {}, nullptr, {nullptr, 0, -1}, nullptr)) return false;
  std::vector<Formula> leaves;
  for (SchemaId g : groups) leaves.push_back(c_.formulas_.leaf(g));
  Groups sorted = groups;
  std::sort(sorted.begin(), sorted.end());
  ObjectControl *o =
      c_.object_control(c_.intern({c_.formulas_.conjunction(std::move(leaves))}, c_.formulas_.leaf(0)), c_.universe(sorted));
  if (o->patterns.empty() && o->max > o->universe->keys.size()) {
    std::vector<Formula> all;
    for (SchemaId g : groups) all.push_back(c_.extra_requirement(g, *o, 0));
    if (can_hold(c_.formulas_.conjunction(std::move(all)))) return true;
  }
  const Groups open = c_.open_among(sorted);
  for (const std::string &key : o->universe->keys) {
    inner = true;
    if (o->max >= o->universe->keys.size() && has_values(c_.key_requirement_of_all(key, sorted, open), n, depth + 1, &inner)) return true;
  }
  return false;
}

bool JsonOracle::has_many(Formula f, uint64_t many) {
  const Question question(*this);
  bool sure = true;
  return has_values(f, many, 0, &sure);
}

// Containers inside each other share their parts, so each is looked into once.
bool JsonOracle::has_values(Formula f, uint64_t n, int depth, bool *sure) {
  charge();
  const Hash128 key = hash_words(13, f, n, static_cast<uint64_t>(depth));
  if (const auto it = enough_.find(key); it != enough_.end()) {
    *sure = *sure && it->second.sure;
    return it->second.has;
  }
  if (!spend()) {
    *sure = false;
    return false;
  }
  const uint32_t outer = std::exchange(lowest_, UINT32_MAX);
  Enough found{false, true};
  found.has = find_values(f, n, depth, &found.sure);
  // subtle: a negative answer that leaned on a question in progress holds for that question alone.
  if (asking_ && (found.has || lowest_ == UINT32_MAX)) enough_.emplace(key, found);
  lowest_ = std::min(outer, lowest_);
  *sure = *sure && found.sure;
  return found.has;
}

bool JsonOracle::find_values(Formula f, uint64_t n, int depth, bool *sure) {
  RegexSpace &space = c_.text_.regex();
  uint64_t total = 0;
  for (int i = 0; i < 3; ++i) {
    Formula e = c_.expand(f, i == 0 ? Type::Null : Type::Boolean);
    total += c_.formulas_.evaluate(e, [&](uint32_t id) { return (c_.schema_.nodes[id].literals >> i & 1) != 0; });
  }
  if (total >= n) return true;
  if (holds_type(f, Type::String)) {
    Formula e = c_.expand(f, Type::String);
    Goal g{{e}, c_.formulas_.leaf(0), e, c_.formulas_.is_conjunction(e)};
    StringLanguage s = c_.string_language(g);
    if (s.re == RegexSpace::ANY_TEXT && s.max > 1) return true;  // a million characters in one place are enough
    Re re = s.min == 0 && s.max == UNBOUNDED
                ? s.re
                : space.intersect(s.re, space.repeat(space.any_char(), static_cast<int64_t>(s.min),
                                                     s.max == UNBOUNDED ? -1 : static_cast<int64_t>(s.max)));
    total += count_texts(re, n - total);
    if (total >= n) return true;
  }
  if (holds_type(f, Type::Number)) {
    // One spelling for each value: no exponent, no zeros at the end of a fraction.
    const CodeRange digit[] = {{'0', '9'}}, first[] = {{'1', '9'}};
    Re digits = space.repeat(space.text_class(digit), 0, -1);
    Re whole = space.alternate(space.literal("0"), space.concat(space.text_class(first), digits));
    Re fraction = space.concat(space.literal("."), space.concat(digits, space.text_class(first)));
    Re plain = space.concat(space.repeat(space.literal("-"), 0, 1), space.concat(whole, space.repeat(fraction, 0, 1)));
    plain = space.intersect(plain, space.complement(space.literal("-0")));
    total += count_texts(space.intersect(plain, c_.number_re(c_.expand(f, Type::Number))), n - total);
    if (total >= n) return true;
  }
  for (Type t : {Type::Array, Type::Object}) {
    if (!holds_type(f, t)) continue;
    Formula e = c_.written(c_.expand(f, t), t);
    if (e == FormulaSpace::TRUE) return true;
    std::vector<std::pair<Groups, Groups>> all_ways;
    if (depth < MAX_VALUE_DEPTH) ways(e, c_.formulas_.is_conjunction(e) ? 1 : MAX_VALUE_WAYS, &all_ways);
    // The values of one way are enough.
    for (auto &[yes, no] : all_ways)
      if (no.empty() && way_has_values(t, yes, n, depth)) return true;
    *sure = false;
  }
  return false;
}

bool JsonOracle::array_alive(ArrayControl *a, uint64_t count, bool one_more, bool reading) {
  const Hash128 frame = hash_words(3, a->id, count, one_more, reading);
  return remembered(frame, [&] {
    const ArrayControl *outer = std::exchange(reading_, reading ? a : nullptr);
    const bool alive = any_way(c_.goals_[a->goal].combined, [&](const Groups &yes, const Groups &no) {
      return array_possible(yes, no, a, count, one_more);
    }, Type::Array);
    reading_ = outer;
    return alive;
  });
}

}  // namespace structgen
