// Smart constructors of RegexSpace: they keep expressions small, and make equal expressions one number in most cases.
//
// The rules are those of Brzozowski's similarity: unions and products are sets, sequences associate to the right, and
// identities and absorbing elements are removed. They keep the number of derivatives finite. A few more rules keep it
// small: classes of a union are merged, and so are repetitions of one body with touching counts. So `.*a.{0,50}` has 52
// states and not 2^50.
// Source: Brzozowski, "Derivatives of regular expressions", JACM 11 (1964).
//
// A look-behind can be nullable now and not later. So no rule may use `nullable` of a part that has one, except rules
// about the current position.
#include <bit>

#include "regex/regex_nodes.h"
#include "util/sorting.h"

namespace structgen {
namespace {

constexpr size_t MAX_TERMS = 256;         // of a distributed intersection
constexpr long MAX_COMPARED_LEAVES = 64;  // of a union; longer ones, as of an enum, are not compared

std::vector<CodeRange> normalised(std::vector<CodeRange> r) {
  sort_numbers(r.begin(), r.end(), [](auto &a, auto &b) { return a.lo < b.lo; });
  std::vector<CodeRange> out;
  for (CodeRange x : r) {
    if (x.hi < x.lo) continue;
    if (!out.empty() && x.lo <= out.back().hi + 1) out.back().hi = std::max(out.back().hi, x.hi);
    else out.push_back(x);
  }
  return out;
}

void make_set(std::vector<Re> &xs) {
  sort_numbers(xs.begin(), xs.end());
  xs.erase(std::unique(xs.begin(), xs.end()), xs.end());
}

bool holds(const std::vector<Re> &sorted, Re x) { return std::binary_search(sorted.begin(), sorted.end(), x); }

}  // namespace

std::vector<CodeRange> in_both(const std::vector<CodeRange> &a, const std::vector<CodeRange> &b) {
  std::vector<CodeRange> out;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    charge();
    uint32_t lo = std::max(a[i].lo, b[j].lo), hi = std::min(a[i].hi, b[j].hi);
    if (lo <= hi) out.push_back({lo, hi});
    if (a[i].hi < b[j].hi) ++i;
    else ++j;
  }
  return out;
}

Re RegexSpace::Impl::make_class(std::vector<CodeRange> r, uint8_t pending) {
  if (r.empty()) return EMPTY;
  ReNode n{.kind = ReKind::Class, .pending = pending};
  // If some continuation byte cannot be spelled, only a search decides whether a member can.
  n.plain = continuations_complete || (pending == 0 && r.back().hi < 0x80);
  n.index = intern_ranges(std::move(r));
  return intern(n, {});
}

Re RegexSpace::text_class(std::span<const CodeRange> given) {
  return impl_->make_class(in_both(normalised({given.begin(), given.end()}), impl_->spellable_characters), 0);
}

Re RegexSpace::any_char() { return impl_->any_character; }

Re RegexSpace::Impl::concat(Re a, Re b) {
  if (a == EMPTY || b == EMPTY) return EMPTY;
  if (a == EPSILON) return b;
  if (b == EPSILON) return a;
  // Right-associate, without recursion: peel the heads of `a`.
  auto join = [&](Re head, Re tail) {
    const bool leads_any = tail == ANY_TEXT || (nodes[tail].kind == ReKind::Concat && part(tail, 0) == ANY_TEXT);
    if (head == ANY_TEXT && leads_any) return tail;
    const Re both[] = {head, tail};
    return intern({.kind = ReKind::Concat, .nullable = nodes[head].nullable && nodes[tail].nullable}, both);
  };
  if (nodes[a].kind != ReKind::Concat) return join(a, b);
  std::vector<Re> heads;
  for (; nodes[a].kind == ReKind::Concat; a = part(a, 1)) heads.push_back(part(a, 0));
  b = join(a, b);
  while (!heads.empty()) {
    charge();
    b = join(heads.back(), b);
    heads.pop_back();
  }
  return b;
}

void RegexSpace::Impl::merge_classes(std::vector<Re> &xs) {
  for (uint8_t pending = 0; pending < 4; ++pending) {
    auto is_class = [&](Re x) { return nodes[x].kind == ReKind::Class && nodes[x].pending == pending; };
    if (std::count_if(xs.begin(), xs.end(), is_class) < 2) continue;
    std::vector<CodeRange> all;
    for (Re x : xs)
      if (is_class(x)) all.insert(all.end(), ranges[nodes[x].index].begin(), ranges[nodes[x].index].end());
    std::erase_if(xs, is_class);
    xs.push_back(make_class(normalised(std::move(all)), pending));
  }
}

// Drops intersections that another operand includes; keeps formulas over loops finite.
void RegexSpace::Impl::absorb(std::vector<Re> &xs) {
  make_set(xs);
  if (xs.size() > MAX_TERMS) return;
  std::vector<std::vector<Re>> sets;
  for (Re x : xs) sets.push_back(nodes[x].kind == ReKind::Intersect ? all_parts(x) : std::vector<Re>{x});
  std::vector<Re> kept;
  for (size_t i = 0; i < xs.size(); ++i) {
    charge(sets.size());
    bool within = false;
    for (size_t j = 0; j < xs.size() && !within; ++j)
      within = i != j && sets[j].size() < sets[i].size() &&
               std::includes(sets[i].begin(), sets[i].end(), sets[j].begin(), sets[j].end());
    if (!within) kept.push_back(xs[i]);
  }
  xs = std::move(kept);
}

// Drops the leaves that another leaf of the same machine includes.
void RegexSpace::Impl::merge_machines(std::vector<Re> &xs) {
  auto is_leaf = [&](Re x) { return nodes[x].kind == ReKind::Machine; };
  const auto leaves = std::count_if(xs.begin(), xs.end(), is_leaf);
  if (leaves < 2 || leaves > MAX_COMPARED_LEAVES) return;
  auto wider = [&](Re x, Re y) {
    const ReNode &a = nodes[x], &b = nodes[y];
    return a.index == b.index && machines[a.index]->includes(static_cast<uint64_t>(a.lo), static_cast<uint64_t>(b.lo));
  };
  std::vector<Re> kept;
  for (size_t i = 0; i < xs.size(); ++i) {
    charge(xs.size());
    bool dropped = false;
    for (size_t j = 0; is_leaf(xs[i]) && j < xs.size() && !dropped; ++j)
      dropped = j != i && is_leaf(xs[j]) && wider(xs[j], xs[i]) && (j < i || !wider(xs[i], xs[j]));
    if (!dropped) kept.push_back(xs[i]);
  }
  xs = std::move(kept);
}

Re RegexSpace::Impl::alternate(const std::vector<Re> &xs) {
  charge(1 + xs.size());
  std::vector<Re> flat;
  flat.reserve(xs.size());
  bool loops = false;
  for (Re x : xs) {
    charge();
    if (x == EMPTY) continue;
    if (x == ANY_TEXT) return ANY_TEXT;
    loops |= nodes[x].loops;
    if (nodes[x].kind == ReKind::Alternate) {
      charge(nodes[x].count / 8);
      for (uint32_t i = 0; i < nodes[x].count; ++i) flat.push_back(part(x, i));
    } else {
      flat.push_back(x);
    }
  }
  if (flat.size() > 1) {
    united += flat.size();
    make_set(flat);
    merge_classes(flat);
    merge_repeats(flat);
    merge_machines(flat);
    merge_texts(flat);
    if (loops) absorb(flat);
    make_set(flat);
    if (holds(flat, ANY_TEXT)) return ANY_TEXT;
  }
  const bool has_empty_text = std::any_of(flat.begin(), flat.end(), [&](Re x) {
    return x != EPSILON && nodes[x].nullable && !nodes[x].has_look_behind && !nodes[x].open;
  });
  if (has_empty_text) std::erase(flat, EPSILON);
  if (flat.empty()) return EMPTY;
  if (flat.size() == 1) return flat[0];
  ReNode n{.kind = ReKind::Alternate};
  for (Re x : flat) n.nullable |= nodes[x].nullable;
  return intern(n, flat);
}

// Replaces leaves of one machine by their intersection; false: it is empty.
bool RegexSpace::Impl::meet_machines(std::vector<Re> &xs) {
  std::vector<Re> leaves;
  for (Re x : xs)
    if (nodes[x].kind == ReKind::Machine) leaves.push_back(x);
  if (leaves.size() < 2) return true;
  for (size_t i = 0; i < leaves.size(); ++i)
    for (size_t j = i + 1; j < leaves.size();) {
      charge();
      const ReNode a = nodes[leaves[i]], b = nodes[leaves[j]];
      if (a.index != b.index) {
        ++j;
        continue;
      }
      const auto one = static_cast<uint64_t>(a.lo), other = static_cast<uint64_t>(b.lo);
      const structgen::Machine &m = *machines[a.index];
      const std::optional<uint64_t> met = m.includes(one, other)   ? other
                                          : m.includes(other, one) ? one
                                                                   : m.meet(one, other);
      if (!met) {
        ++j;
        continue;
      }
      leaves[i] = *met == 0 ? EMPTY : machine_leaf(a.index, *met);
      if (leaves[i] == EMPTY) return false;
      leaves.erase(leaves.begin() + static_cast<std::ptrdiff_t>(j));
    }
  std::erase_if(xs, [&](Re x) { return nodes[x].kind == ReKind::Machine; });
  xs.insert(xs.end(), leaves.begin(), leaves.end());
  make_set(xs);
  return true;
}

// The intersection as a union of intersections, if that is small; EMPTY: it is not.
Re RegexSpace::Impl::distribute(const std::vector<Re> &xs) {
  size_t terms = 1;
  bool any = false;
  for (Re x : xs) {
    if (nodes[x].kind != ReKind::Alternate) continue;
    any = true;
    terms *= nodes[x].count;
    if (terms > MAX_TERMS) return EMPTY;
  }
  if (!any) return EMPTY;
  std::vector<std::vector<Re>> products{{}};
  for (Re x : xs) {
    charge(products.size());
    std::vector<Re> choices = nodes[x].kind == ReKind::Alternate ? all_parts(x) : std::vector<Re>{x};
    std::vector<std::vector<Re>> longer;
    for (const auto &p : products)
      for (Re c : choices) {
        longer.push_back(p);
        longer.back().push_back(c);
      }
    products = std::move(longer);
  }
  std::vector<Re> sum;
  for (const auto &p : products) sum.push_back(intersect(p));
  return alternate(sum);
}

Re RegexSpace::Impl::intersect(const std::vector<Re> &xs) {
  charge(1 + xs.size());
  if (std::find(xs.begin(), xs.end(), EMPTY) != xs.end()) return EMPTY;
  std::vector<Re> flat;
  flat.reserve(xs.size());
  bool loops = false;
  for (Re x : xs) {
    charge();
    if (x == ANY_TEXT) continue;
    loops |= nodes[x].loops;
    if (nodes[x].kind == ReKind::Intersect) {
      charge(nodes[x].count / 8);
      for (uint32_t i = 0; i < nodes[x].count; ++i) flat.push_back(part(x, i));
    } else {
      flat.push_back(x);
    }
  }
  make_set(flat);
  if (flat.empty()) return ANY_TEXT;
  if (flat.size() == 1) return flat[0];
  const bool timeless =
      std::none_of(flat.begin(), flat.end(), [&](Re x) { return nodes[x].has_look_behind || nodes[x].marked; });
  if (timeless && holds(flat, EPSILON))
    return std::all_of(flat.begin(), flat.end(), [&](Re x) { return nodes[x].nullable; }) ? EPSILON : EMPTY;
  for (Re x : flat)
    if (nodes[x].kind == ReKind::Difference && holds(flat, part(x, 1))) return EMPTY;
  if (!meet_machines(flat)) return EMPTY;
  if (flat.size() == 1) return flat[0];
  if (loops)
    if (Re sum = distribute(flat); sum != EMPTY) return sum;
  ReNode n{.kind = ReKind::Intersect, .nullable = true, .plain = false};
  for (Re x : flat) n.nullable &= nodes[x].nullable;
  return intern(n, flat);
}

Re RegexSpace::Impl::difference(Re all, Re r) {
  if (r == EMPTY || all == EMPTY) return all;
  if (all == r || r == ANY_TEXT) return EMPTY;
  if (all == ANY_TEXT && nodes[r].kind == ReKind::Difference && part(r, 0) == ANY_TEXT) return part(r, 1);
  const Re both[] = {all, r};
  return intern({.kind = ReKind::Difference, .nullable = nodes[all].nullable && !nodes[r].nullable, .plain = false},
                both);
}

// `.|..|...` is `.{1,3}`: repeated as a union it would have a state for each way to split the text.
Re RegexSpace::Impl::power_of_class(Re a) {
  constexpr int64_t MOST = 64;
  Re body = EMPTY;
  uint64_t lengths = 0;
  for (Re x : all_parts(a)) {
    charge();
    int64_t length = 0;
    while (x != EPSILON) {
      charge();
      const Re head = nodes[x].kind == ReKind::Concat ? part(x, 0) : x;
      if (nodes[head].kind != ReKind::Class || nodes[head].pending != 0 || (body != EMPTY && head != body)) return a;
      body = head;
      if (++length == MOST) return a;
      x = head == x ? EPSILON : part(x, 1);
    }
    lengths |= uint64_t{1} << length;
  }
  const int least = std::countr_zero(lengths), several = std::popcount(lengths);
  if (body == EMPTY || std::popcount((lengths >> least) + 1) != 1) return a;
  return repeat(body, least, least + several - 1);
}

Re RegexSpace::Impl::repeat(Re a, int64_t lo, int64_t hi) {
  if (nodes[a].kind == ReKind::Alternate && nodes[a].plain) a = power_of_class(a);
  if (hi >= 0 && hi < lo) return EMPTY;
  if (hi == 0 || a == EPSILON) return EPSILON;
  if (a == EMPTY) return lo <= 0 ? EPSILON : EMPTY;
  lo = std::max<int64_t>(lo, 0);
  if (nodes[a].nullable && !nodes[a].has_look_behind && !nodes[a].open) lo = 0;
  if (lo == 1 && hi == 1) return a;
  if (a == any_character && lo == 0 && hi < 0) return ANY_TEXT;
  if (a == ANY_TEXT) return ANY_TEXT;
  // (r*)* and (r+)* are r*; so are (r?)* and (r{0,n})*.
  if (hi < 0 && lo == 0)
    while (nodes[a].kind == ReKind::Repeat && nodes[a].lo <= 1) a = part(a, 0);
  if (nodes[a].kind == ReKind::Repeat) {
    // (r{a,b}){c,d} is r{ac,bd} where the counts of c and of c + 1 rounds touch.
    const int64_t a_lo = nodes[a].lo, a_hi = nodes[a].hi;
    constexpr int64_t SMALL = 1 << 20;  // so that products do not overflow
    if (lo < SMALL && hi < SMALL && a_lo < SMALL && a_hi < SMALL) {
      const bool touch = lo == hi || (a_hi < 0 ? lo > 0 || a_lo <= 1 : (lo + 1) * a_lo <= lo * a_hi + 1);
      if (touch) return repeat(part(a, 0), lo * a_lo, a_hi < 0 || hi < 0 ? -1 : hi * a_hi);
    }
  }
  ReNode n{.kind = ReKind::Repeat, .lo = lo, .hi = hi < 0 ? -1 : hi};
  n.nullable = lo == 0 || nodes[a].nullable;
  return intern(n, std::span<const Re>(&a, 1));
}

Re RegexSpace::Impl::machine_leaf(uint32_t index, uint64_t state) {
  const structgen::Machine &m = *machines[index];
  if (state == 0 || !m.alive(state)) return EMPTY;
  ReNode n{.kind = ReKind::Machine, .nullable = m.accepts(state), .plain = machine_spelled[index], .index = index};
  n.lo = static_cast<int64_t>(state);
  return intern(n, {});
}

bool RegexSpace::Impl::spells(const structgen::Machine &m) const {
  if (!m.lists_edges()) return ascii_complete;
  const std::string_view bytes = m.alphabet();
  return std::all_of(bytes.begin(), bytes.end(), [&](char c) { return spellable.test(static_cast<unsigned char>(c)); });
}

Re RegexSpace::concat(Re a, Re b) { return impl_->concat(a, b); }
Re RegexSpace::concat(std::span<const Re> xs) {
  Re r = EPSILON;
  for (size_t i = xs.size(); i-- > 0;) r = impl_->concat(xs[i], r);
  return r;
}
Re RegexSpace::alternate(std::span<const Re> xs) { return impl_->alternate({xs.begin(), xs.end()}); }
Re RegexSpace::alternate(Re a, Re b) { return impl_->alternate({a, b}); }
Re RegexSpace::repeat(Re a, int64_t lo, int64_t hi) { return impl_->repeat(a, lo, hi); }

// The operands of Boolean operators are languages of their own span of text.
Re RegexSpace::intersect(std::span<const Re> xs) {
  std::vector<Re> own;
  for (Re x : xs) own.push_back(impl_->scope(x));
  return impl_->intersect(own);
}
Re RegexSpace::intersect(Re a, Re b) {
  const Re both[] = {a, b};
  return intersect(both);
}
Re RegexSpace::complement(Re a) { return impl_->complement(impl_->scope(a)); }
Re RegexSpace::scope(Re a) { return impl_->scope(a); }

Re RegexSpace::machine(std::shared_ptr<const Machine> m) {
  uint64_t start = m->start();
  return machine(std::move(m), start);
}

Re RegexSpace::machine(std::shared_ptr<const Machine> m, uint64_t state) {
  if (state == 0 || !m->alive(state)) return EMPTY;
  auto it = std::find(impl_->machines.begin(), impl_->machines.end(), m);
  const auto index = static_cast<uint32_t>(it - impl_->machines.begin());
  if (it == impl_->machines.end()) {
    impl_->machine_spelled.push_back(impl_->spells(*m));
    impl_->machines.push_back(std::move(m));
  }
  return impl_->machine_leaf(index, state);
}

std::optional<std::pair<std::shared_ptr<const Machine>, uint64_t>> RegexSpace::spelled_machine(Re r) const {
  const ReNode &n = impl_->nodes[r];
  if (n.kind != ReKind::Machine || !n.plain) return std::nullopt;
  return std::pair{impl_->machines[n.index], static_cast<uint64_t>(n.lo)};
}

std::vector<Re> RegexSpace::alternatives(Re r) const {
  const ReNode &n = impl_->nodes[r];
  if (n.kind != ReKind::Alternate || n.open || n.has_look_behind || n.loops || n.marked || n.unfolds) return {};
  return impl_->all_parts(r);
}

std::shared_ptr<const Machine> RegexSpace::find_machine(const std::function<bool(const Machine &)> &wanted) const {
  for (auto &m : impl_->machines)
    if (wanted(*m)) return m;
  return nullptr;
}

}  // namespace structgen
