// The shortest arrays: how many items, what each one is, which of them count, and how they differ.
#include <algorithm>
#include <optional>
#include <queue>
#include <unordered_set>

#include "json/value.h"
#include "json/shortest/shortest.h"

namespace structgen {
namespace {

constexpr size_t MAX_COUNTERS = 6;         // `contains` whose meetings in one item are told apart
constexpr uint64_t MAX_DISTINCT = 256;     // items that must differ, of which the shortest are looked for
constexpr uint64_t MAX_COMPARED = 1 << 16;  // bytes of one of them
constexpr uint64_t MAX_LISTED = 100'000;   // items before those that are alike
constexpr size_t MAX_CONFLICTS = 2'000;

// How often items may match one `contains`.
struct Counter {
  Formula contains;
  uint64_t lo, hi;
};

}  // namespace

struct Shortest::ArrayChoice {
  const Groups &yes, &no;
  Candidate *best;
  uint64_t least = 0, most = UNBOUNDED, prefix = 0, beyond = 0;
  std::map<uint64_t, std::vector<Formula>> demands{};
  std::vector<Counter> counters{};
  bool unique = false;
  std::optional<std::pair<uint64_t, uint64_t>> twins{};  // two items that must be equal

  uint64_t shortest_length() const {
    uint64_t length = least;
    if (!demands.empty()) length = std::max(length, demands.rbegin()->first + 1);
    return twins ? std::max(length, twins->second + 1) : length;
  }
  // From here on all items are alike.
  uint64_t alike() const {
    uint64_t at = prefix;
    if (!demands.empty()) at = std::max(at, demands.rbegin()->first + 1);
    return twins ? std::max(at, twins->second + 1) : at;
  }
};

void Shortest::arrays(ArrayControl *a, Candidate *best) {
  bool all_ways;
  for (const auto &[yes, no] : ways(c_.goals_[a->goal].combined, &all_ways)) {
    if (best->length <= EMPTY_CONTAINER || !spend(1)) return;
    ArrayChoice q{yes, no, best};
    bool possible = true;
    for (SchemaId g : yes) {
      const SchemaNode &n = c_.schema_.nodes[g];
      q.least = std::max(q.least, n.min_items);
      q.most = std::min(q.most, n.max_items);
      q.prefix = std::max<uint64_t>(q.prefix, n.prefix_items.size());
      q.unique |= n.unique_items;
      if (n.contains == NO_SCHEMA) continue;
      possible &= n.min_contains <= n.max_contains;
      if (n.min_contains > 0 || n.max_contains != UNBOUNDED)
        q.counters.push_back({c_.schema_leaf(n.contains), n.min_contains, n.max_contains});
    }
    for (SchemaId g : no) q.prefix = std::max<uint64_t>(q.prefix, c_.schema_.nodes[g].prefix_items.size());
    q.beyond = q.prefix + no.size() + 1;
    if (possible) violate(q, 0);
  }
  if (!all_ways && best->length > EMPTY_CONTAINER) doubt();
}

void Shortest::violate(ArrayChoice &q, size_t next) {
  const uint64_t length = q.shortest_length();
  if (!spend(1) || length > q.most) return;
  if (std::min(length, q.alike()) > MAX_LISTED) return doubt(SearchFailure::Length);
  if (items_length(items_of(q, length)) >= q.best->length) return;
  if (next == q.no.size()) return finish(q);
  const SchemaId group = q.no[next];
  const uint64_t min_items = c_.schema_.nodes[group].min_items, max_items = c_.schema_.nodes[group].max_items;
  const uint64_t min_contains = c_.schema_.nodes[group].min_contains, max_contains = c_.schema_.nodes[group].max_contains;
  const SchemaId contains = c_.schema_.nodes[group].contains;
  const bool unique = c_.schema_.nodes[group].unique_items;
  // It fails already.
  if (min_items > q.most || max_items < length || (unique && q.twins)) return violate(q, next + 1);
  auto break_item = [&](uint64_t i) {
    const Formula broken = c_.formulas_.negation(c_.item_requirement(group, i));
    if (broken == FormulaSpace::FALSE) return;
    q.demands[i].push_back(broken);
    violate(q, next + 1);
    q.demands[i].pop_back();
    if (q.demands[i].empty()) q.demands.erase(i);
  };
  // What costs least comes first, so that the bound cuts the rest: an item that is there anyway, the length, ...
  for (uint64_t i = 0; i <= q.beyond && i < length; ++i) break_item(i);
  if (min_items > 0) {
    const uint64_t old = q.most;
    q.most = std::min(q.most, min_items - 1);
    violate(q, next + 1);
    q.most = old;
  }
  if (max_items != UNBOUNDED) {
    const uint64_t old = q.least;
    q.least = std::max(q.least, max_items + 1);
    violate(q, next + 1);
    q.least = old;
  }
  if (contains != NO_SCHEMA) {
    auto with = [&](uint64_t lo, uint64_t hi) {
      q.counters.push_back({c_.schema_leaf(contains), lo, hi});
      violate(q, next + 1);
      q.counters.pop_back();
    };
    if (min_contains > 0) with(0, min_contains - 1);
    if (max_contains != UNBOUNDED) with(max_contains + 1, UNBOUNDED);
  }
  for (uint64_t i = length; i <= q.beyond && i < q.most; ++i) break_item(i);
  if (!unique) return;
  for (uint64_t j = 1; j <= q.beyond && j < q.most; ++j)
    for (uint64_t i = 0; i < j; ++i) {
      q.twins = {i, j};
      violate(q, next + 1);
    }
  q.twins.reset();
}

// The items up to `length`, the last ones together where they are alike.
std::vector<Shortest::Part> Shortest::items_of(const ArrayChoice &q, uint64_t length) {
  std::vector<Part> items;
  auto at = [&](uint64_t i) {
    std::vector<Formula> all;
    for (SchemaId g : q.yes) all.push_back(c_.item_requirement(g, i));
    if (auto it = q.demands.find(i); it != q.demands.end()) all.insert(all.end(), it->second.begin(), it->second.end());
    return c_.formulas_.conjunction(std::move(all));
  };
  const uint64_t alike = std::min(length, q.alike());
  for (uint64_t i = 0; i < alike; ++i) items.push_back({{}, at(i), 1});
  if (q.twins && q.twins->second < alike) {
    auto &[i, j] = *q.twins;
    items[i].value = items[j].value = c_.formulas_.both(items[i].value, items[j].value);
  }
  if (length > alike) items.push_back({{}, at(alike), length - alike});
  return items;
}

void Shortest::finish(ArrayChoice &q) {
  if (q.unique && q.twins) return;
  const uint64_t length = q.shortest_length();
  if (!q.counters.empty()) counted(q, length);
  else keep_items(q, items_of(q, length));
}

uint64_t Shortest::items_length(const std::vector<Part> &items) {
  uint64_t total = 2, count = 0;
  for (const Part &p : items) {
    const uint64_t one = length(p.value);
    if (one >= NONE || (NONE - total) / (one + 1) < p.times) return NONE;
    total += (one + 1) * p.times;
    count += p.times;
  }
  return count > 0 ? total - 1 : total;
}

void Shortest::keep_items(ArrayChoice &q, std::vector<Part> items) {
  const uint64_t total = items_length(items);
  if (total >= q.best->length) return;
  if (q.unique) return distinct(q, items);
  *q.best = {Candidate::Array, total, {}, std::move(items)};
}

// ---------------------------------------------------------------- contains

// Item by item: the counts that can have been reached, each at its least length.
void Shortest::counted(ArrayChoice &q, uint64_t length_owed) {
  const size_t k = q.counters.size();
  if (k > MAX_COUNTERS) return doubt();
  using State = std::vector<uint64_t>;
  struct Reached {
    uint64_t length;
    State from;
    Formula item;
  };
  uint64_t enough = length_owed + q.alike();
  for (const Counter &c : q.counters) enough += std::min(c.lo, MAX_LISTED);
  std::vector<std::map<State, Reached>> layers(1);
  layers[0][State(k, 0)] = {2, {}, FormulaSpace::TRUE};
  std::vector<std::pair<uint32_t, Formula>> profiles;  // which counters an item matches, and what it must be
  for (uint64_t at = 0;; ++at) {
    uint64_t least = NONE;
    for (auto &[state, reached] : layers[at]) {
      least = std::min(least, reached.length);
      bool satisfied = at >= length_owed;
      for (size_t j = 0; j < k; ++j) satisfied &= state[j] >= q.counters[j].lo;
      if (!satisfied || reached.length - (at > 0 ? 1 : 0) >= q.best->length) continue;
      std::vector<Part> items;
      State s = state;
      for (uint64_t i = at; i > 0; --i) {
        const Reached &r = layers[i].at(s);
        items.push_back({{}, r.item, 1});
        s = r.from;
      }
      std::reverse(items.begin(), items.end());
      if (q.twins) {
        doubt();  // what each of the two counts for has been chosen apart
        if (items[q.twins->first].value != items[q.twins->second].value) continue;
      }
      if (q.unique) doubt();  // the choice of what counts does not see which items differ
      keep_items(q, std::move(items));
    }
    if (at >= q.most || at >= enough || least >= q.best->length) return;
    if (at <= q.alike()) {
      profiles.clear();
      std::vector<Formula> base;
      for (SchemaId g : q.yes) base.push_back(c_.item_requirement(g, at));
      if (auto it = q.demands.find(at); it != q.demands.end()) base.insert(base.end(), it->second.begin(), it->second.end());
      if (q.twins && (at == q.twins->first || at == q.twins->second))
        for (SchemaId g : q.yes)
          base.push_back(c_.item_requirement(g, at == q.twins->first ? q.twins->second : q.twins->first));
      for (uint32_t s = 0; s < 1u << k; ++s) {
        std::vector<Formula> all = base;
        for (size_t j = 0; j < k; ++j)
          all.push_back(s >> j & 1 ? q.counters[j].contains : c_.formulas_.negation(q.counters[j].contains));
        const Formula f = c_.formulas_.conjunction(std::move(all));
        if (length(f) < NONE) profiles.emplace_back(s, f);
      }
    }
    layers.emplace_back();
    for (auto &[state, reached] : layers[at])
      for (auto &[profile, item] : profiles) {
        if (!spend(1)) return;
        State to = state;
        bool fits = true;
        for (size_t j = 0; j < k && fits; ++j) {
          if (!(profile >> j & 1)) continue;
          fits = to[j] < q.counters[j].hi;
          to[j] = std::min(to[j] + 1, q.counters[j].hi == UNBOUNDED ? q.counters[j].lo : q.counters[j].hi);
        }
        if (!fits) continue;
        const uint64_t total = reached.length + length(item) + 1;
        auto [it, fresh] = layers[at + 1].try_emplace(std::move(to), Reached{total, state, item});
        if (!fresh && total < it->second.length) it->second = {total, state, item};
      }
    if (layers[at + 1].empty()) return;
  }
}

// ---------------------------------------------------------------- items that must differ

// Each item takes the first scalar that no other has taken.
void Shortest::many_distinct(ArrayChoice &q, const std::vector<Part> &items) {
  std::unordered_map<Formula, size_t> taken;
  std::unordered_set<Hash128, HashOf128> there;
  std::string text = "[";
  doubt(SearchFailure::Nothing);  // other arrays may be shorter
  for (const Part &p : items)
    for (uint64_t n = p.times; n > 0; --n) {
      const std::string *one;
      do {
        charge(2);
        one = scalar(p.value, taken[p.value]++);
      } while (one && !there.insert(read_value(*one).hash).second);
      if (!one) return doubt(SearchFailure::Different);
      text += (text.size() > 1 ? "," : "") + *one;
      if (text.size() > MAX_TEXT) return doubt(SearchFailure::Length);
    }
  text += ']';
  if (text.size() < q.best->length) *q.best = {Candidate::Literal, text.size(), text, {}};
}

// Every item takes its shortest value; where two agree, the value is forbidden to one or to the other, and
// the cheapest such branch is followed. Of items with one requirement the first keeps it: they can be swapped.
void Shortest::distinct(ArrayChoice &q, const std::vector<Part> &items) {
  struct Branch {
    uint64_t length;
    std::vector<Formula> kind;                           // per item: the requirement it began with
    std::vector<std::vector<std::string>> forbidden;     // and the values it may not have
    bool operator<(const Branch &o) const { return length > o.length; }
  };
  Branch first{0, {}, {}};
  for (const Part &p : items) {
    if (first.kind.size() + p.times > MAX_DISTINCT) return many_distinct(q, items);
    if (length(p.value) > MAX_COMPARED) return doubt(SearchFailure::Different);
    first.kind.insert(first.kind.end(), p.times, p.value);
  }
  const size_t n = first.kind.size();
  first.forbidden.resize(n);
  std::map<std::pair<Formula, std::vector<std::string>>, Formula> known;
  auto formula = [&](const Branch &b, size_t i) {
    if (b.forbidden[i].empty()) return b.kind[i];
    auto [it, fresh] = known.try_emplace({b.kind[i], b.forbidden[i]}, FormulaSpace::FALSE);
    if (fresh) it->second = other_than(b.kind[i], b.forbidden[i]);
    return it->second;
  };
  auto parts_of = [&](const Branch &b) {
    std::vector<Part> parts;
    for (size_t i = 0; i < n; ++i) parts.push_back({{}, formula(b, i), 1});
    return parts;
  };
  std::priority_queue<Branch> open;
  auto offer = [&](Branch b) {
    b.length = items_length(parts_of(b));
    if (b.length < q.best->length) open.push(std::move(b));
  };
  offer(std::move(first));
  for (size_t taken = 0; !open.empty(); ++taken) {
    Branch b = open.top();
    open.pop();
    if (taken > MAX_CONFLICTS || !spend(1 + n / 8)) return doubt(SearchFailure::Different);
    std::map<Formula, std::pair<std::string, Hash128>> values;
    size_t i = 0, j = 0;
    for (size_t at = 0; at < n && j == 0; ++at) {
      auto [it, fresh] = values.try_emplace(formula(b, at));
      if (fresh) {
        if (!write(it->first, &it->second.first)) return;
        it->second.second = read_value(it->second.first).hash;
      }
      for (i = 0; i < at; ++i)
        if (values.at(formula(b, i)).second == it->second.second) {
          j = at;
          break;
        }
    }
    if (j == 0) {
      *q.best = {Candidate::Array, b.length, {}, parts_of(b)};
      return;
    }
    const std::string value = values.at(formula(b, i)).first;
    const Formula left = formula(b, i), right = formula(b, j);
    auto forbid = [&](Branch to, Formula which, size_t keep) {
      for (size_t at = 0; at < n; ++at)
        if (at != keep && formula(b, at) == which) {
          auto &list = to.forbidden[at];
          list.insert(std::lower_bound(list.begin(), list.end(), value), value);
        }
      offer(std::move(to));
    };
    if (left == right) {
      forbid(b, left, i);
    } else {
      forbid(b, left, n);
      forbid(b, right, n);
    }
  }
}

}  // namespace structgen
