// The lengths of the texts of an expression, in characters.
//
// For plain expressions (no &, ~, look-arounds, machines) the structure shows them: the lengths of a sequence are sums,
// those of a counted repetition multiples, and all are a few intervals. For all others, a search follows the set of
// states after exactly n characters, n = 0, 1, ... This sequence of sets is ultimately periodic, and whole periods
// below `lo` are skipped.
//
// A state inside a character has read the first byte of it, so this character is not counted again.
#include "regex/regex_nodes.h"

namespace structgen {
namespace {

constexpr size_t MAX_INTERVALS = 32;
constexpr int64_t FOREVER = Lengths::FOREVER;
constexpr int64_t LONG_TEXT = 1 << 20;  // a machine whose texts are all shorter has finitely many
constexpr int64_t MANY_LENGTHS = 16;    // fewer states are cheaper than a separate bound on the length

int64_t plus(int64_t a, int64_t b) { return a >= FOREVER - b ? FOREVER : a + b; }
int64_t times(int64_t a, int64_t n) { return a == 0 || n == 0 ? 0 : a >= FOREVER / n ? FOREVER : a * n; }

Lengths exactly(int64_t n) { return {{{n, n}}}; }
Lengths unknown() { return {{}, false}; }

Lengths tidy(std::vector<Lengths::Interval> all) {
  std::sort(all.begin(), all.end(), [](auto &a, auto &b) { return a.lo < b.lo; });
  Lengths out;
  for (auto x : all) {
    if (!out.intervals.empty() && x.lo <= plus(out.intervals.back().hi, 1))
      out.intervals.back().hi = std::max(out.intervals.back().hi, x.hi);
    else out.intervals.push_back(x);
  }
  return out.intervals.size() > MAX_INTERVALS ? unknown() : out;
}

Lengths sum(const Lengths &a, const Lengths &b) {
  if (!a.known || !b.known) return unknown();
  std::vector<Lengths::Interval> all;
  for (auto x : a.intervals)
    for (auto y : b.intervals) all.push_back({plus(x.lo, y.lo), plus(x.hi, y.hi)});
  return tidy(std::move(all));
}

Lengths either(const Lengths &a, const Lengths &b) {
  if (!a.known || !b.known) return unknown();
  std::vector<Lengths::Interval> all = a.intervals;
  all.insert(all.end(), b.intervals.begin(), b.intervals.end());
  return tidy(std::move(all));
}

Lengths repeated(const Lengths &body, int64_t lo, int64_t hi) {
  if (!body.known) return unknown();
  std::vector<Lengths::Interval> all;
  if (body.intervals.size() == 1) {
    const auto [a, b] = body.intervals[0];
    for (int64_t k = lo; hi < 0 || k <= hi; ++k) {
      if (all.size() > MAX_INTERVALS) return unknown();
      const int64_t most = hi < 0 ? (b == 0 ? 0 : FOREVER) : times(b, hi);
      // From k on, the intervals of k and k + 1 iterations touch.
      if (times(a, k + 1) <= plus(times(b, k), 1)) {
        all.push_back({times(a, k), most});
        break;
      }
      all.push_back({times(a, k), times(b, k)});
    }
    return tidy(std::move(all));
  }
  if (hi < 0 || hi > static_cast<int64_t>(MAX_INTERVALS)) return unknown();
  Lengths power = exactly(0), out = lo == 0 ? power : Lengths{};
  for (int64_t k = 1; k <= hi; ++k) {
    power = sum(power, body);
    if (k >= lo) out = either(out, power);
    if (!out.known || !power.known) return unknown();
  }
  return out;
}

Lengths lengths_of_texts(const std::vector<std::string_view> &texts) {
  std::vector<Lengths::Interval> all;
  size_t read = 0;
  for (const std::string_view text : texts) {
    read += text.size();
    const auto n = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
    if (all.empty() || all.back().lo != n) all.push_back({n, n});
  }
  charge(read / 16);
  return tidy(std::move(all));
}

bool meets(const Lengths &l, int64_t lo, int64_t hi) {
  return std::any_of(l.intervals.begin(), l.intervals.end(),
                     [&](auto x) { return x.hi >= lo && (hi < 0 || x.lo <= hi); });
}

}  // namespace

// The lengths of a node, after those of its parts.
Lengths RegexSpace::Impl::own_lengths(Re r) {
  const ReNode &n = nodes[r];
  switch (n.kind) {
    case ReKind::Empty: return {};
    case ReKind::Epsilon: return exactly(0);
    case ReKind::Class: return n.plain ? exactly(n.pending == 0) : unknown();
    case ReKind::Concat: return sum(lengths.at(part(r, 0)), lengths.at(part(r, 1)));
    case ReKind::Alternate: {
      Lengths out;
      for (Re p : all_parts(r)) out = either(out, lengths.at(p));
      return out;
    }
    case ReKind::Repeat: return repeated(lengths.at(part(r, 0)), n.lo, n.hi);
    case ReKind::Literals: {
      if (is_run(r)) return lengths_of_texts(rests_of_run(r));
      Lengths out = n.lo ? exactly(0) : Lengths{};
      for (uint32_t i = 0; i < n.count; i += 2) {
        const bool first_byte = (part(r, i) & 0xc0) != 0x80;
        out = either(out, sum(exactly(first_byte), lengths.at(part(r, i + 1))));
      }
      return out;
    }
    default: return unknown();
  }
}

// Pushes the parts of a plain expression that are not known yet; true if all are known.
template <class Known>
bool RegexSpace::Impl::push_unknown_parts(Re r, const Known &known, std::vector<Re> &stack) const {
  const size_t before = stack.size();
  const ReNode &n = nodes[r];
  if (n.plain) {
    const bool trie = n.kind == ReKind::Literals;
    for (uint32_t i = trie; i < n.count; i += 1 + trie)
      if (!known.contains(part(r, i))) stack.push_back(part(r, i));
  }
  return stack.size() == before;
}

const Lengths &RegexSpace::Impl::lengths_of(Re root) {
  std::vector<Re> stack{root};
  while (!stack.empty()) {
    charge();
    const Re r = stack.back();
    if (!lengths.contains(r)) {
      if (!push_unknown_parts(r, lengths, stack)) continue;
      Lengths own = nodes[r].plain ? own_lengths(r) : unknown();
      bytes += 64 + own.intervals.size() * sizeof(Lengths::Interval);
      lengths.emplace(r, std::move(own));
    }
    stack.pop_back();
  }
  return lengths.at(root);
}

std::optional<RegexSpace::LengthBounds> RegexSpace::length_bounds(Re r) {
  const Lengths &l = impl_->lengths_of(impl_->closed_form(r));
  if (!l.known || l.intervals.empty()) return std::nullopt;
  const int64_t hi = l.intervals.back().hi;
  return LengthBounds{l.intervals.front().lo, hi >= FOREVER ? -1 : hi};
}

// The greatest minimal length of the derivatives of a node, after those of its parts. For a union it is the least over
// the alternatives that can continue, so at most the greatest of them.
int64_t RegexSpace::Impl::own_most_missing(Re r) {
  const ReNode &n = nodes[r];
  if (!n.plain) return -1;
  const auto least = [&](Re x) {
    const Lengths &l = lengths_of(x);
    return l.known && !l.intervals.empty() ? l.intervals.front().lo : -1;
  };
  const auto of = [&](uint32_t i) { return most_missing.at(part(r, i)); };
  switch (n.kind) {
    case ReKind::Empty:
    case ReKind::Epsilon:
    case ReKind::Class: return 0;  // the character was counted at its first byte
    case ReKind::Concat: {
      const int64_t after = least(part(r, 1));
      return of(0) < 0 || of(1) < 0 || after < 0 ? -1 : std::max(plus(of(0), after), of(1));
    }
    case ReKind::Repeat: {
      const int64_t body = least(part(r, 0));
      return of(0) < 0 || body < 0 ? -1 : plus(of(0), times(body, std::max<int64_t>(n.lo - 1, 0)));
    }
    case ReKind::Alternate: {
      int64_t most = 0;
      for (uint32_t i = 0; i < n.count; ++i) {
        if (of(i) < 0) return -1;
        most = std::max(most, of(i));
      }
      return most;
    }
    case ReKind::Literals: {
      const Lengths &l = lengths_of(r);
      return l.known && !l.intervals.empty() ? l.intervals.back().hi : -1;
    }
    case ReKind::Machine: return machines[n.index]->most_missing().value_or(-1);
    default: return -1;
  }
}

int64_t RegexSpace::most_missing(Re root) {
  Impl &s = *impl_;
  root = s.closed_form(root);
  std::vector<Re> stack{root};
  while (!stack.empty()) {
    charge();
    const Re r = stack.back();
    const bool is_trie = s.nodes[r].kind == ReKind::Literals;
    if (!s.most_missing.contains(r)) {
      if (!is_trie && !s.push_unknown_parts(r, s.most_missing, stack)) continue;
      s.most_missing.emplace(r, s.own_most_missing(r));
      s.bytes += 48;
    }
    stack.pop_back();
  }
  return s.most_missing.at(root);
}

// What is open is an alternative of every derivative, or becomes smaller as an exception from it does.
int64_t RegexSpace::padded_length(Re r) {
  const Impl &s = *impl_;
  if (r == ANY_TEXT) return 0;
  if (!open(r)) return -1;
  switch (s.nodes[r].kind) {
    case ReKind::Concat: {  // any text, then others
      const std::optional<LengthBounds> bounds = length_bounds(r);
      return bounds ? bounds->lo : -1;
    }
    case ReKind::Difference: {  // any text but some literals
      const std::optional<LengthBounds> bounds = length_bounds(s.part(r, 1));
      return bounds && bounds->hi >= 0 ? bounds->hi + 1 : -1;
    }
    case ReKind::Alternate: {
      int64_t least = -1;
      for (const Re part : s.all_parts(r)) {
        const int64_t of_part = padded_length(part);
        if (of_part >= 0 && (least < 0 || of_part < least)) least = of_part;
      }
      return least;
    }
    default: return -1;
  }
}

// By structure: one part may lose its bound if the lengths of all others are fixed, or are within the bound anyway.
RegexSpace::Impl::Bounded RegexSpace::Impl::bounded_by_length(Re r, int depth, std::unordered_map<Re, Bounded> &known) {
  constexpr int MAX_DEPTH = 64;
  const ReKind kind = nodes[r].kind;
  if (!nodes[r].plain || depth > MAX_DEPTH) return std::nullopt;
  if (kind != ReKind::Repeat && kind != ReKind::Concat && kind != ReKind::Alternate) return std::nullopt;
  if (const auto it = known.find(r); it != known.end()) return it->second;
  const Bounded made = make_bounded_by_length(r, depth, known);
  known.emplace(r, made);
  return made;
}

RegexSpace::Impl::Bounded RegexSpace::Impl::make_bounded_by_length(Re r, int depth,
                                                                   std::unordered_map<Re, Bounded> &known) {
  const ReNode n = nodes[r];
  auto fixed = [&](Re x) -> int64_t {
    const Lengths &l = lengths_of(x);
    return l.known && l.intervals.size() == 1 && l.intervals[0].lo == l.intervals[0].hi ? l.intervals[0].lo : -1;
  };
  switch (n.kind) {
    case ReKind::Repeat: {
      const Re body = part(r, 0);
      if (n.lo == 0 && n.hi == 1) {
        auto inner = bounded_by_length(body, depth + 1, known);
        if (!inner) return std::nullopt;
        return std::pair{repeat(inner->first, 0, 1), inner->second};
      }
      if (n.hi < 0 || nodes[body].kind != ReKind::Class || nodes[body].pending != 0 || n.hi - n.lo < MANY_LENGTHS)
        return std::nullopt;
      return std::pair{repeat(body, n.lo, -1), n.hi};
    }
    case ReKind::Concat: {
      const Re head = part(r, 0), tail = part(r, 1);
      if (const int64_t length = fixed(head); length >= 0) {
        auto inner = bounded_by_length(tail, depth + 1, known);
        if (!inner) return std::nullopt;
        return std::pair{concat(head, inner->first), plus(inner->second, length)};
      }
      const int64_t length = fixed(tail);
      if (length < 0) return std::nullopt;
      auto inner = bounded_by_length(head, depth + 1, known);
      if (!inner) return std::nullopt;
      return std::pair{concat(inner->first, tail), plus(inner->second, length)};
    }
    case ReKind::Alternate: {
      std::vector<Re> all = all_parts(r);
      Bounded inner;
      size_t which = 0;
      for (; which < all.size() && !inner; ++which) inner = bounded_by_length(all[which], depth + 1, known);
      if (!inner) return std::nullopt;
      for (size_t i = 0; i < all.size(); ++i) {
        if (i + 1 == which) continue;
        const Lengths &l = lengths_of(all[i]);
        if (!l.known || meets(l, plus(inner->second, 1), -1)) return std::nullopt;
      }
      all[which - 1] = inner->first;
      return std::pair{alternate(all), inner->second};
    }
    default: return std::nullopt;
  }
}

std::optional<std::pair<Re, int64_t>> RegexSpace::bounded_by_length(Re r) {
  Impl &s = *impl_;
  if (const auto it = s.bounded.find(r); it != s.bounded.end()) return it->second;
  std::unordered_map<Re, Impl::Bounded> known;
  return s.bounded[r] = s.bounded_by_length(r, 0, known);
}

// The number of bytes that complete the character of the state.
int RegexSpace::Impl::pending_bytes(Re r) {
  int pending = 0;
  for (; pending < 3; ++pending) {
    charge();
    Re inside = EMPTY;
    for (Step s : steps(r))
      if (s.from >= 0x80 && s.from < 0xc0 && is_alive(s.to)) inside = s.to;
    if (inside == EMPTY) break;
    r = inside;
  }
  return pending;
}

// The live states after the character of `r`, or after one more if `r` is between characters.
void RegexSpace::Impl::after_character(Re r, std::vector<Re> &out) {
  struct Inside {
    Re r;
    int more;
    bool operator==(const Inside &) const = default;
  };
  std::vector<Inside> todo;
  auto visit = [&](Re from, int pending) {
    const Steps all = steps(from);
    for (size_t i = 0; i < all.size(); ++i) {
      const Re to = all[i].to;
      if (to == EMPTY || !is_alive(to)) continue;
      const int lo = all[i].from, hi = i + 1 < all.size() ? all[i + 1].from - 1 : 255;
      auto add = [&](int more) {
        if (more == 0) out.push_back(to);
        else if (std::find(todo.begin(), todo.end(), Inside{to, more}) == todo.end()) todo.push_back({to, more});
      };
      if (pending > 0) {
        if (lo < 0xc0 && hi >= 0x80) add(pending - 1);
        continue;
      }
      if (lo < 0x80) add(0);
      if (lo < 0xe0 && hi >= 0xc2) add(1);
      if (lo < 0xf0 && hi >= 0xe0) add(2);
      if (hi >= 0xf0) add(3);
    }
  };
  visit(r, pending_bytes(r));
  for (size_t i = 0; i < todo.size(); ++i) visit(todo[i].r, todo[i].more);
}

// Are the lengths of the texts of a live state unbounded? Then some state that it reaches leads back to itself.
// Nothing: the budget ended the search.
std::optional<bool> RegexSpace::Impl::is_endless(Re root) {
  struct Visit {
    Re state;
    std::vector<Re> next;
  };
  constexpr size_t MOST_KNOWN = 200'000;
  if (endless.size() > MOST_KNOWN) endless.clear();
  if (const auto known = endless.find(root); known != endless.end()) return known->second;
  std::vector<Visit> path;
  std::unordered_map<Re, bool> on_path;
  const auto enter = [&](Re r) {
    path.push_back({r, {}});
    on_path[r] = true;
    // A machine without texts of this length need not be searched.
    if (const ReNode &n = nodes[r]; n.kind == ReKind::Machine && n.plain)
      if (machines[n.index]->has_length(static_cast<uint64_t>(n.lo), LONG_TEXT, -1) == false) return;
    after_character(r, path.back().next);
  };
  const Budget allowed(*this, limits.emptiness_budget);
  enter(root);
  for (size_t states = 1; !path.empty();) {
    charge();
    if (path.back().next.empty()) {
      endless[path.back().state] = false;
      on_path.erase(path.back().state);
      path.pop_back();
      continue;
    }
    const Re to = path.back().next.back();
    path.back().next.pop_back();
    const auto known = endless.find(to);
    if (on_path.contains(to) || (known != endless.end() && known->second)) {
      for (const Visit &one : path) endless[one.state] = true;
      return true;
    }
    if (known != endless.end()) continue;
    if (allowed.exceeded(++states)) return std::nullopt;
    enter(to);
  }
  return false;
}

// Removes machines that know their lengths from the alternatives of these states. True: one of them has a text of such
// a length.
bool RegexSpace::Impl::machine_has_length(std::vector<Re> &states, int64_t lo, int64_t hi, bool *dropped) {
  std::vector<Re> others;
  for (size_t i = 0; i < states.size(); ++i) {
    const ReNode &n = nodes[states[i]];
    if (n.kind == ReKind::Alternate && n.plain) {
      const std::vector<Re> parts = all_parts(states[i]);
      states.insert(states.end(), parts.begin(), parts.end());
      continue;
    }
    std::optional<bool> known;
    if (n.kind == ReKind::Machine && n.plain)
      known = machines[n.index]->has_length(static_cast<uint64_t>(n.lo), lo, hi);
    if (known == true) return true;
    if (!known) others.push_back(states[i]);
    else *dropped = true;
  }
  states = std::move(others);
  return false;
}

bool RegexSpace::has_length(Re r, int64_t lo, int64_t hi) {
  charge();
  Impl &s = *impl_;
  r = s.closed_form(r);
  lo = std::max<int64_t>(lo, 0);
  if (r == EMPTY || (hi >= 0 && hi < lo)) return false;
  if (r == ANY_TEXT) return true;
  if (lo == 0 && hi < 0) return s.is_alive(r);
  if (const Lengths &l = s.lengths_of(r); l.known) return meets(l, lo, hi);
  if (s.nodes[r].unfolds) {  // a search would unfold it completely
    s.rely_on(Impl::SOURCES);
    return true;
  }
  if (const ReNode &n = s.nodes[r]; n.kind == ReKind::Machine && n.plain)
    if (const auto known = s.machines[n.index]->has_length(static_cast<uint64_t>(n.lo), lo, hi)) return *known;
  if (hi < 0 && s.is_endless(r) == true) return true;
  const Hash128 key = hash_words(11, r, lo, hi);
  auto it = s.has_length.find(key);
  if (it == s.has_length.end()) {
    const std::optional<bool> found = s.search_length(s.states_between_characters(r), lo, hi);
    if (s.has_length.size() > 200'000) s.has_length.clear(), s.assumed_lengths.clear();
    if (!found) s.assumed_lengths.emplace(key, s.give_up());
    it = s.has_length.emplace(key, found.value_or(true)).first;
  }
  if (auto assumed = s.assumed_lengths.find(key); assumed != s.assumed_lengths.end()) s.rely_on(assumed->second);
  return it->second;
}

// The state itself, or if it is inside a character, the states after that character.
std::vector<Re> RegexSpace::Impl::states_between_characters(Re r) {
  if (pending_bytes(r) == 0) return {r};
  std::vector<Re> out;
  after_character(r, out);
  return out;
}

// Follows the set of states after n characters, n = 0, 1, ..., and skips whole periods below `lo`. Nothing: the budget
// ended. Long, because every step may end the loop.
std::optional<bool> RegexSpace::Impl::search_length(std::vector<Re> now, int64_t lo, int64_t hi) {
  const auto hash_of = [](const std::vector<Re> &states) {
    Hash128 h = hash_words(12);
    for (Re x : states) h = extend(h, x);
    return h;
  };
  std::unordered_map<Hash128, int64_t, HashOf128> seen;  // sets of states, with the number of characters
  bool jumped = false, dropped = false;
  size_t states = 0;
  const Budget allowed(*this, limits.emptiness_budget);
  for (int64_t n = 0; !now.empty(); ++n) {
    std::sort(now.begin(), now.end());
    now.erase(std::unique(now.begin(), now.end()), now.end());
    if (machine_has_length(now, std::max<int64_t>(lo - n, 0), hi < 0 ? -1 : hi - n, &dropped)) return true;
    if (now.empty()) return false;
    // subtle: each machine is queried at every length at which it starts, so no length may be skipped once there is
    // one.
    if (dropped) {
      seen.clear();
    } else if (!jumped) {
      const auto [it, fresh] = seen.emplace(hash_of(now), n);
      if (!fresh) {
        const int64_t period = n - it->second;
        if (it->second >= lo) return false;  // a whole period within the bounds had no accepting state
        if (n < lo) n += (lo - n) / period * period;
        jumped = true;  // from here on, at most one period past `lo` is left
        seen.clear();
      }
    } else if (n >= lo && !seen.emplace(hash_of(now), n).second) {
      return false;
    }
    if (hi >= 0 && n > hi) return false;
    if (n >= lo && std::any_of(now.begin(), now.end(), [&](Re x) { return nodes[x].nullable; })) return true;
    if (hi >= 0 && n >= hi) return false;
    states += now.size();
    if (allowed.exceeded(states)) return std::nullopt;
    std::vector<Re> next;
    for (Re x : now) after_character(x, next);
    now = std::move(next);
  }
  return false;
}

int64_t RegexSpace::min_length(Re r) {
  Impl &s = *impl_;
  r = s.closed_form(r);
  if (!s.is_alive(r)) return -1;
  if (const Lengths &l = s.lengths_of(r); l.known) return l.intervals.front().lo;
  if (s.nodes[r].unfolds) return 0;  // a lower bound
  if (const ReNode &n = s.nodes[r]; n.kind == ReKind::Machine && n.plain)
    if (const auto known = s.machines[n.index]->shortest(static_cast<uint64_t>(n.lo))) return *known;
  if (auto it = s.min_lengths.find(r); it != s.min_lengths.end()) return it->second;
  std::vector<Re> now = s.states_between_characters(r);
  std::unordered_map<Re, bool> seen;
  for (Re x : now) seen.emplace(x, true);
  const Impl::Budget allowed(s, s.limits.emptiness_budget);
  int64_t result = 0;
  for (int64_t n = 0; !now.empty() && !allowed.exceeded(seen.size()); ++n) {
    result = n;  // a lower bound if the budget ends the search
    if (std::any_of(now.begin(), now.end(), [&](Re x) { return s.nodes[x].nullable; })) break;
    std::vector<Re> next, found;
    for (Re x : now) s.after_character(x, found);
    for (Re x : found)
      if (seen.emplace(x, true).second) next.push_back(x);
    now = std::move(next);
  }
  return s.min_lengths[r] = result;
}

}  // namespace structgen
