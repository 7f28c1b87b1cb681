// Builders of RegexSpace: smart constructors that keep expressions small and canonical.
#include <cstring>

#include "regex_nodes.h"

namespace structgen {
namespace {

constexpr uint32_t MAX_CODE = 0x10ffff;

std::vector<CodeRange> normalised(std::vector<CodeRange> r) {
  std::sort(r.begin(), r.end(), [](auto &a, auto &b) { return a.lo < b.lo; });
  std::vector<CodeRange> out;
  for (CodeRange x : r) {
    if (x.hi < x.lo) continue;
    if (!out.empty() && x.lo <= out.back().hi + 1) out.back().hi = std::max(out.back().hi, x.hi);
    else out.push_back(x);
  }
  return out;
}

std::vector<CodeRange> without(const std::vector<CodeRange> &r, CodeRange gap) {
  std::vector<CodeRange> out;
  for (CodeRange x : r) {
    if (x.hi < gap.lo || x.lo > gap.hi) {
      out.push_back(x);
      continue;
    }
    if (x.lo < gap.lo) out.push_back({x.lo, gap.lo - 1});
    if (x.hi > gap.hi) out.push_back({gap.hi + 1, x.hi});
  }
  return out;
}

// The characters that a lead byte begins.
CodeRange led_by(uint32_t b) {
  if (b < 0x80) return {b, b};
  if (b >= 0xc2 && b < 0xe0) return {(b & 0x1f) << 6, ((b & 0x1f) << 6) | 0x3f};
  if (b >= 0xe0 && b < 0xf0) return {std::max(0x800u, (b & 0x0f) << 12), ((b & 0x0f) << 12) | 0xfff};
  if (b >= 0xf0 && b < 0xf5) return {std::max(0x10000u, (b & 7) << 18), std::min(MAX_CODE, ((b & 7) << 18) | 0x3ffff)};
  return {1, 0};
}

}  // namespace

RegexSpace::RegexSpace(const std::bitset<256> &spellable, RegexLimits limits) : impl_(std::make_unique<Impl>()) {
  impl_->spellable = spellable;
  impl_->limits = limits;
  for (int b = 0x80; b < 0xc0; ++b) impl_->continuations_complete &= spellable.test(static_cast<size_t>(b));
  ReNode empty{ReKind::Empty};
  ReNode epsilon{ReKind::Epsilon};
  epsilon.nullable = true;
  impl_->intern(empty, {});
  impl_->intern(epsilon, {});
  // ANY_TEXT is number 2, its character number 3.
  ReNode any{ReKind::Repeat};
  any.nullable = true;
  any.hi = -1;
  const Re body[] = {3};
  impl_->intern(any, body);
  const CodeRange all[] = {{0, MAX_CODE}};
  impl_->any_character = text_class(all);
  impl_->nodes[ANY_TEXT].plain = impl_->nodes[impl_->any_character].plain;
  if (impl_->any_character != 3) throw std::invalid_argument("the vocabulary spells no text at all");
}

RegexSpace::~RegexSpace() = default;

Re RegexSpace::Impl::intern(ReNode n, std::span<const Re> its) {
  uint64_t h = mix(static_cast<uint64_t>(n.kind), n.index);
  h = mix(h, static_cast<uint64_t>(n.lo) * 31 + static_cast<uint64_t>(n.hi));
  h = mix(h, n.state * 5 + n.pending);
  for (Re p : its) h = mix(h, p);
  auto [first, last] = index.equal_range(h);
  for (auto it = first; it != last; ++it) {
    const ReNode &m = nodes[it->second];
    if (m.kind != n.kind || m.index != n.index || m.lo != n.lo || m.hi != n.hi || m.state != n.state ||
        m.pending != n.pending || m.end - m.begin != its.size())
      continue;
    bool equal = true;
    for (uint32_t i = 0; i < its.size() && equal; ++i) equal = parts[m.begin + i] == its[i];
    if (equal) return it->second;
  }
  if (nodes.size() >= limits.max_nodes)
    throw LimitError("regular expressions need more than " + std::to_string(limits.max_nodes) +
                     " nodes (limit regex_nodes of the vocabulary's engine)");
  auto r = static_cast<Re>(nodes.size());
  n.begin = static_cast<uint32_t>(parts.size());
  parts.insert(parts.end(), its.begin(), its.end());
  n.end = static_cast<uint32_t>(parts.size());
  nodes.push_back(n);
  rows.emplace_back();
  index.emplace(h, r);
  bytes += sizeof(ReNode) + 4 * its.size() + 56;
  return r;
}

uint32_t RegexSpace::Impl::intern_ranges(std::vector<CodeRange> r) {
  uint64_t h = r.size();
  for (CodeRange x : r) h = mix(h, static_cast<uint64_t>(x.lo) << 32 | x.hi);
  auto [first, last] = range_index.equal_range(h);
  for (auto it = first; it != last; ++it)
    if (ranges[it->second] == r) return it->second;
  auto id = static_cast<uint32_t>(ranges.size());
  bytes += r.size() * sizeof(CodeRange) + 64;
  ranges.push_back(std::move(r));
  range_index.emplace(h, id);
  return id;
}

Re RegexSpace::Impl::make_class(std::vector<CodeRange> r, uint8_t pending) {
  if (r.empty()) return EMPTY;
  ReNode n{ReKind::Class};
  n.pending = pending;
  // With a continuation byte that cannot be spelled, only a search tells whether a member can.
  n.plain = continuations_complete || (pending == 0 && r.back().hi < 0x80);
  n.index = intern_ranges(std::move(r));
  return intern(n, {});
}

Re RegexSpace::text_class(std::span<const CodeRange> given) {
  std::vector<CodeRange> r = normalised({given.begin(), given.end()});
  r = without(r, {0xd800, 0xdfff});
  r = without(r, {MAX_CODE + 1, UINT32_MAX});
  for (uint32_t b = 0; b < 256; ++b)
    if (!impl_->spellable.test(b)) {
      CodeRange gap = led_by(b);
      if (gap.lo <= gap.hi) r = without(r, gap);
    }
  return impl_->make_class(std::move(r), 0);
}

Re RegexSpace::any_char() { return impl_->any_character; }

Re RegexSpace::literal(std::string_view utf8) {
  if (utf8.empty()) return EPSILON;
  const std::string one[] = {std::string(utf8)};
  return literals(one);
}

Re RegexSpace::Impl::trie(const std::vector<std::string_view> &sorted, size_t from, size_t to, size_t depth) {
  if (to - from == 1) {
    // One text left: its chain from the end, without recursion.
    std::string_view text = sorted[from];
    Re r = EPSILON;
    for (size_t i = text.size(); i-- > depth && r != EMPTY;) {
      const auto c = static_cast<uint8_t>(text[i]);
      ReNode n{ReKind::Literals};
      const Re identity[] = {c, r};
      r = spellable.test(c) ? intern(n, identity) : EMPTY;
    }
    return r;
  }
  if (depth > 4'000) throw LimitError("two literals have more than 4000 bytes in common");
  TrieNode t;
  while (from < to && sorted[from].size() == depth) {
    t.end = true;
    ++from;
  }
  while (from < to) {
    const char c = sorted[from][depth];
    size_t next = from;
    while (next < to && sorted[next][depth] == c) ++next;
    if (spellable.test(static_cast<unsigned char>(c))) {
      Re child = trie(sorted, from, next, depth + 1);
      if (child != EMPTY) t.children.emplace_back(static_cast<uint8_t>(c), child);
    }
    from = next;
  }
  if (t.children.empty()) return t.end ? EPSILON : EMPTY;
  ReNode n{ReKind::Literals};
  n.nullable = t.end;
  // Equal sub-tries are one node: the children are its identity.
  std::vector<Re> identity;
  for (auto &[b, child] : t.children) {
    identity.push_back(b);
    identity.push_back(child);
  }
  n.lo = t.end;
  return intern(n, identity);
}

Re RegexSpace::literals(std::span<const std::string> texts) {
  std::vector<std::string_view> sorted(texts.begin(), texts.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return sorted.empty() ? EMPTY : impl_->trie(sorted, 0, sorted.size(), 0);
}

Re RegexSpace::Impl::concat(Re a, Re b) {
  if (a == EMPTY || b == EMPTY) return EMPTY;
  if (a == EPSILON) return b;
  if (b == EPSILON) return a;
  if (a == ANY_TEXT && b == ANY_TEXT) return ANY_TEXT;
  // Right-associate, without recursion: peel the heads of `a`.
  std::vector<Re> heads;
  while (nodes[a].kind == ReKind::Concat) {
    heads.push_back(part(a, 0));
    a = part(a, 1);
  }
  heads.push_back(a);
  for (auto it = heads.rbegin(); it != heads.rend(); ++it) {
    if (*it == ANY_TEXT && (b == ANY_TEXT || (nodes[b].kind == ReKind::Concat && part(b, 0) == ANY_TEXT))) continue;
    ReNode n{ReKind::Concat};
    n.nullable = nodes[*it].nullable && nodes[b].nullable;
    n.plain = nodes[*it].plain && nodes[b].plain;
    n.looks = nodes[*it].looks || nodes[b].looks;
    const Re both[] = {*it, b};
    b = intern(n, both);
  }
  return b;
}

Re RegexSpace::Impl::alternate(std::vector<Re> xs) {
  std::vector<Re> flat;
  for (Re x : xs) {
    if (x == EMPTY) continue;
    if (x == ANY_TEXT) return ANY_TEXT;
    if (nodes[x].kind == ReKind::Alternate)
      for (uint32_t i = 0; i < part_count(x); ++i) flat.push_back(part(x, i));
    else
      flat.push_back(x);
  }
  std::sort(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  // Classes of whole characters merge; epsilon goes when another part has it.
  std::vector<CodeRange> merged;
  size_t classes = 0;
  bool nullable = false;
  for (Re x : flat) {
    if (nodes[x].kind == ReKind::Class && nodes[x].pending == 0) {
      ++classes;
      const auto &r = ranges[nodes[x].index];
      merged.insert(merged.end(), r.begin(), r.end());
    }
    nullable |= x != EPSILON && nodes[x].nullable && !nodes[x].looks;
  }
  if (classes > 1) {
    std::erase_if(flat, [&](Re x) { return nodes[x].kind == ReKind::Class && nodes[x].pending == 0; });
    flat.push_back(make_class(normalised(std::move(merged)), 0));
    std::sort(flat.begin(), flat.end());
  }
  if (nullable) std::erase(flat, EPSILON);
  if (flat.empty()) return EMPTY;
  if (flat.size() == 1) return flat[0];
  ReNode n{ReKind::Alternate};
  for (Re x : flat) {
    n.nullable |= nodes[x].nullable;
    n.plain &= nodes[x].plain;
    n.looks |= nodes[x].looks;
  }
  return intern(n, flat);
}

Re RegexSpace::Impl::intersect(std::vector<Re> xs) {
  std::vector<Re> flat;
  for (Re x : xs) {
    if (x == EMPTY) return EMPTY;
    if (x == ANY_TEXT) continue;
    if (nodes[x].kind == ReKind::Intersect)
      for (uint32_t i = 0; i < part_count(x); ++i) flat.push_back(part(x, i));
    else
      flat.push_back(x);
  }
  std::sort(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  if (flat.empty()) return ANY_TEXT;
  if (flat.size() == 1) return flat[0];
  if (std::find(flat.begin(), flat.end(), EPSILON) != flat.end())
    return std::all_of(flat.begin(), flat.end(), [&](Re x) { return nodes[x].nullable; }) ? EPSILON : EMPTY;
  // Leaves of one machine meet in one state.
  for (size_t i = 0; i < flat.size(); ++i)
    for (size_t j = i + 1; j < flat.size(); ++j) {
      const ReNode &a = nodes[flat[i]], &b = nodes[flat[j]];
      if (a.kind != ReKind::Machine || b.kind != ReKind::Machine || a.index != b.index) continue;
      const structgen::Machine &m = *machines[a.index];
      std::optional<uint64_t> met = m.meet(a.state, b.state);
      if (!met) continue;
      if (*met == 0 || !m.alive(*met)) return EMPTY;
      ReNode n{ReKind::Machine};
      n.index = a.index;
      n.state = *met;
      n.nullable = m.accepts(*met);
      n.plain = true;
      flat[i] = intern(n, {});
      flat.erase(flat.begin() + static_cast<std::ptrdiff_t>(j));
      return intersect(std::move(flat));
    }
  ReNode n{ReKind::Intersect};
  n.nullable = true;
  n.plain = false;
  for (Re x : flat) {
    n.nullable &= nodes[x].nullable;
    n.looks |= nodes[x].looks;
  }
  return intern(n, flat);
}

Re RegexSpace::Impl::difference(Re all, Re r) {
  if (r == EMPTY || all == EMPTY) return all;
  if (all == r) return EMPTY;
  if (all == ANY_TEXT && nodes[r].kind == ReKind::Difference && part(r, 0) == ANY_TEXT) return part(r, 1);
  ReNode n{ReKind::Difference};
  n.nullable = nodes[all].nullable && !nodes[r].nullable;
  n.looks = nodes[all].looks || nodes[r].looks;
  n.plain = false;
  const Re both[] = {all, r};
  return intern(n, both);
}

Re RegexSpace::Impl::repeat(Re a, int64_t lo, int64_t hi) {
  if (hi >= 0 && hi < lo) return EMPTY;
  if (hi == 0 || a == EPSILON) return EPSILON;
  if (a == EMPTY) return lo == 0 ? EPSILON : EMPTY;
  if (nodes[a].nullable && !nodes[a].looks) lo = 0;
  if (lo == 1 && hi == 1) return a;
  if (a == any_character && lo == 0 && hi < 0) return ANY_TEXT;
  if (a == ANY_TEXT) return ANY_TEXT;
  const ReNode &body = nodes[a];
  if (hi < 0 && lo == 0 && body.kind == ReKind::Repeat && body.lo <= 1 && body.hi < 0) return repeat(part(a, 0), 0, -1);
  ReNode n{ReKind::Repeat};
  n.lo = lo;
  n.hi = hi < 0 ? -1 : hi;
  n.nullable = lo == 0 || body.nullable;
  n.plain = body.plain;
  n.looks = body.looks;
  const Re one[] = {a};
  return intern(n, one);
}

Re RegexSpace::concat(Re a, Re b) { return impl_->concat(a, b); }
Re RegexSpace::concat(std::span<const Re> xs) {
  Re r = EPSILON;
  for (size_t i = xs.size(); i-- > 0;) r = impl_->concat(xs[i], r);
  return r;
}
Re RegexSpace::alternate(std::span<const Re> xs) { return impl_->alternate({xs.begin(), xs.end()}); }
Re RegexSpace::intersect(std::span<const Re> xs) { return impl_->intersect({xs.begin(), xs.end()}); }
Re RegexSpace::alternate(Re a, Re b) { return impl_->alternate({a, b}); }
Re RegexSpace::intersect(Re a, Re b) { return impl_->intersect({a, b}); }
Re RegexSpace::complement(Re a) { return impl_->difference(ANY_TEXT, a); }
Re RegexSpace::repeat(Re a, int64_t lo, int64_t hi) { return impl_->repeat(a, lo, hi); }

Re RegexSpace::machine(std::shared_ptr<const Machine> m) {
  uint64_t start = m->start();
  return machine(std::move(m), start);
}

Re RegexSpace::machine(std::shared_ptr<const Machine> m, uint64_t state) {
  if (state == 0 || !m->alive(state)) return EMPTY;
  auto it = std::find(impl_->machines.begin(), impl_->machines.end(), m);
  ReNode n{ReKind::Machine};
  n.index = static_cast<uint32_t>(it - impl_->machines.begin());
  n.state = state;
  n.nullable = m->accepts(state);
  if (it == impl_->machines.end()) impl_->machines.push_back(std::move(m));
  return impl_->intern(n, {});
}

std::shared_ptr<const Machine> RegexSpace::find_machine(const std::function<bool(const Machine &)> &wanted) const {
  for (auto &m : impl_->machines)
    if (wanted(*m)) return m;
  return nullptr;
}

Re RegexSpace::look_ahead(Re a, bool negative) {
  if (a == EMPTY) return negative ? EPSILON : EMPTY;
  ReNode n{ReKind::LookAhead};
  n.lo = negative;
  n.nullable = impl_->nodes[a].nullable != negative;
  n.looks = true;
  n.plain = false;
  const Re body[] = {a};
  return impl_->intern(n, body);
}

Re RegexSpace::look_behind(Re a, bool negative) {
  if (impl_->nodes[a].looks)
    throw std::invalid_argument("a look-around inside a look-behind is not supported");
  return impl_->look_behind_state(impl_->concat(ANY_TEXT, a), negative);
}

Re RegexSpace::Impl::look_behind_state(Re state, bool negative) {
  if (state == EMPTY) return negative ? EPSILON : EMPTY;
  ReNode n{ReKind::LookBehind};
  n.lo = negative;
  n.nullable = nodes[state].nullable != negative;
  n.looks = true;
  n.plain = false;
  const Re body[] = {state};
  return intern(n, body);
}

bool RegexSpace::nullable(Re r) const { return impl_->nodes[r].nullable; }
size_t RegexSpace::unproven() const { return impl_->unproven; }
size_t RegexSpace::memory() const { return impl_->bytes; }
size_t RegexSpace::size() const { return impl_->nodes.size(); }

}  // namespace structgen
