#include "grammar/bodies.h"

#include <algorithm>
#include <unordered_set>

#include "util/work.h"

namespace structgen {
namespace {

constexpr uint64_t BODY = 83;
constexpr size_t MOST_PARTS = 100;  // with more, the search ends: further rules stay as they are

// The counts of `outer` rounds of `inner`; nullopt if there are gaps between them, or if they are too large.
std::optional<Bodies::Counts> product(Bodies::Counts inner, Bodies::Counts outer) {
  if (inner.none()) return std::nullopt;
  const auto times = [](int64_t a, int64_t b) { return static_cast<__int128>(a) * b; };
  const bool endless = inner.high == Bodies::UNBOUNDED;
  bool touch = outer.low == outer.high;
  if (!touch && endless) touch = outer.low > 0 || inner.low <= 1;
  else if (!touch) touch = times(inner.low, 1) + times(outer.low, inner.low) <= times(outer.low, inner.high) + 1;
  if (!touch) return std::nullopt;
  const __int128 low = times(inner.low, outer.low);
  __int128 high = Bodies::UNBOUNDED;
  if (outer.high == 0 || inner.high == 0) high = 0;
  else if (outer.high != Bodies::UNBOUNDED && !endless) high = times(inner.high, outer.high);
  if (low > Bodies::MOST_COUNTED || high > Bodies::MOST_COUNTED) return std::nullopt;
  return Bodies::Counts{static_cast<int64_t>(low), static_cast<int64_t>(high)};
}

}  // namespace

Bodies::Id Bodies::add(Kind kind, uint32_t first, uint32_t count, Counts counts) {
  charge(3);
  const auto [it, fresh] = index_.try_emplace(
      hash_words(BODY, kind, first, count, static_cast<uint64_t>(counts.low), static_cast<uint64_t>(counts.high)),
      static_cast<Id>(bodies_.size()));
  if (fresh) {
    bodies_.push_back({kind, first, count, counts.low, counts.high});
    heights_.push_back(1);
  }
  return it->second;
}

Bodies::Id Bodies::find(Hash128 key, Kind kind, std::span<const Id> parts, Counts counts) {
  const auto [it, fresh] = index_.try_emplace(key, static_cast<Id>(bodies_.size()));
  if (!fresh) return it->second;
  const auto first = static_cast<uint32_t>(children_.size());
  bodies_.push_back({kind, first, static_cast<uint32_t>(parts.size()), counts.low, counts.high});
  children_.insert(children_.end(), parts.begin(), parts.end());
  uint32_t height = 0;
  for (Id part : parts) height = std::max(height, heights_[part]);
  heights_.push_back(height + 1);
  return it->second;
}

Bodies::Id Bodies::group(Kind kind, std::span<const Id> parts) {
  charge(4 + parts.size() / 2);
  Hash128 key = hash_words(BODY, kind);
  for (Id part : parts) key = extend(key, part);
  return find(key, kind, parts, {});
}

Bodies::Id Bodies::repeat(Id inner, Counts counts) {
  const Hash128 key =
      hash_words(BODY, Repeat, inner, static_cast<uint64_t>(counts.low), static_cast<uint64_t>(counts.high));
  return find(key, Repeat, {&inner, 1}, counts);
}

void Bodies::define(uint32_t rule, Id body) {
  if (rule >= definitions_.size()) definitions_.resize(rule + 1, NONE);
  definitions_[rule] = body;
}

// Removes sequences and choices with one part.
Bodies::Id Bodies::alone(Id id) const {
  while ((bodies_[id].kind == Sequence || bodies_[id].kind == Choice) && bodies_[id].count == 1) id = parts(id)[0];
  return id;
}

Bodies::Id Bodies::simplified(Id repetition) {
  const auto it = simplified_.find(repetition);
  return it != simplified_.end() ? it->second : simplified_[repetition] = simplify_repetition(repetition);
}

Bodies::Id Bodies::simplify_repetition(Id repetition) {
  Id inner = parts(repetition)[0];
  Counts counts = this->counts(repetition);
  if (counts.none()) return no_text();
  const Counts once{1, 1}, option{0, 1};
  while (bodies_[inner = alone(inner)].kind == Repeat) {
    charge();
    const auto both = product(this->counts(inner), counts);
    if (!both) break;
    inner = parts(inner)[0];
    counts = *both;
  }
  if (counts.high == UNBOUNDED && (counts.low <= 1 || has_empty(inner))) return without_bound(inner, counts.low);
  // subtle: not if `inner` has the empty text because of a rule, since that may be due to this option.
  if (counts == once || (counts == option && is_empty(inner, NoRule))) return inner;
  return repeat(inner, counts);
}

Bodies::Id Bodies::without_bound(Id inner, int64_t low) {
  if (has_empty(inner)) low = 0;
  const std::vector<Id> parts = repeated_parts(inner);
  if (parts.empty()) return low == 0 ? nothing() : no_text();
  return repeat(parts.size() == 1 ? parts[0] : group(Choice, parts), {low, UNBOUNDED});
}

// Bodies whose repetition has the same texts as the repetition of `inner`.
//
// If every part of a sequence has the empty text, each of them can be written alone.
std::vector<Bodies::Id> Bodies::repeated_parts(Id inner) {
  std::vector<Id> found, pending{inner};
  std::unordered_set<Id> known, met;  // bodies share their parts
  std::unordered_set<uint32_t> taken_apart;
  while (!pending.empty()) {
    charge();
    const Id one = alone(pending.back());
    pending.pop_back();
    if (!met.insert(one).second) continue;
    const Body &body = bodies_[one];
    if (body.kind == Choice || (body.kind == Sequence && has_empty(one))) {
      const auto parts = this->parts(one);
      charge(parts.size() / 8);
      pending.insert(pending.end(), parts.rbegin(), parts.rend());
    } else if (body.kind == Repeat && body.high != UNBOUNDED && body.high < std::max<int64_t>(body.low, 1)) {
      continue;  // the empty text, or none
    } else if (body.kind == Repeat && body.low <= 1) {
      pending.push_back(parts(one)[0]);
    } else if (body.kind == Rule && taken_apart.contains(body.first)) {
      continue;
    } else if (body.kind == Rule &&
               found.size() + pending.size() + taken_apart.size() + alternatives(body.first) < MOST_PARTS &&
               has_empty(one)) {
      taken_apart.insert(body.first);
      pending.push_back(definitions_[body.first]);
    } else if (known.insert(one).second) {
      found.push_back(one);
    }
  }
  return found;
}

// The number of parts of a rule: rules are not copied into every repetition of them.
size_t Bodies::alternatives(uint32_t rule) const {
  if (kept_.contains(rule)) return MOST_PARTS;
  const Id body = definition(rule);
  return body == NONE ? 0 : std::max<size_t>(1, bodies_[alone(body)].kind <= Leaf ? 1 : bodies_[alone(body)].count);
}

// Is it known that the body has the empty text?
bool Bodies::has_empty(Id id) {
  if (!is_empty(id, EveryRule)) return false;
  settle(id);
  return is_empty(id, KnownRules);
}

bool Bodies::is_empty(Id root, Rules rules) const {
  struct Open {
    Id id;
    uint32_t next = 0;
  };
  std::vector<Open> open;
  std::unordered_map<Id, bool> known;  // bodies share their parts
  auto enter = [&](Id id) -> std::optional<bool> {
    const Body &body = bodies_[id];
    if (body.kind == Rule)
      return rules == EveryRule || (rules == KnownRules && body.first < facts_.size() && facts_[body.first] == Empty);
    if (body.kind == Leaf) return leaf_is_empty_(body.first);
    if (body.kind == Repeat && counts(id).none()) return false;
    if (body.kind == Repeat && body.low == 0) return true;
    if (const auto it = known.find(id); it != known.end()) return it->second;
    open.push_back({id});
    return std::nullopt;
  };
  std::optional<bool> last = enter(root);
  while (!open.empty()) {
    charge();
    Open &now = open.back();
    const Kind kind = bodies_[now.id].kind;
    const bool is_decided = last && (kind == Repeat || *last == (kind == Choice));
    if (!is_decided && now.next < bodies_[now.id].count) {
      last = enter(parts(now.id)[now.next++]);
      continue;
    }
    if (!is_decided) last = kind == Sequence;
    known.emplace(now.id, *last);
    open.pop_back();
  }
  return *last;
}

void Bodies::used_rules(Id body, std::vector<uint32_t> &out) const {
  std::vector<Id> pending{body};
  std::unordered_set<Id> met;
  while (!pending.empty()) {
    charge();
    const Id one = pending.back();
    pending.pop_back();
    if (!met.insert(one).second) continue;
    if (bodies_[one].kind == Rule) out.push_back(bodies_[one].first);
    else if (bodies_[one].kind != Leaf) pending.insert(pending.end(), parts(one).begin(), parts(one).end());
  }
}

// Computes which of the rules in a body have the empty text.
void Bodies::settle(Id body) {
  // In most rules, each alternative has a symbol without the empty text, which ends the search.
  std::vector<uint32_t> pending, open;
  std::unordered_map<uint32_t, std::vector<uint32_t>> users;
  used_rules(body, pending);
  while (!pending.empty()) {
    charge();
    const uint32_t rule = pending.back();
    pending.pop_back();
    if (rule >= facts_.size()) facts_.resize(std::max<size_t>(rule + 1, definitions_.size()), Unknown);
    if (facts_[rule] != Unknown) continue;
    const Id defined = definition(rule);
    if (defined == NONE || !is_empty(defined, EveryRule)) {
      facts_[rule] = NotEmpty;
      continue;
    }
    facts_[rule] = Open;
    open.push_back(rule);
    std::vector<uint32_t> used;
    used_rules(defined, used);
    for (uint32_t one : used) users[one].push_back(rule);
    pending.insert(pending.end(), used.begin(), used.end());
  }
  pending = open;
  while (!pending.empty()) {
    charge();
    const uint32_t rule = pending.back();
    pending.pop_back();
    if (facts_[rule] != Open || !is_empty(definitions_[rule], KnownRules)) continue;
    facts_[rule] = Empty;
    if (const auto it = users.find(rule); it != users.end())
      pending.insert(pending.end(), it->second.begin(), it->second.end());
  }
  for (uint32_t rule : open)
    if (facts_[rule] == Open) facts_[rule] = NotEmpty;
}

}  // namespace structgen
