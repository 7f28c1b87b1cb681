// Which expressions have a text at all.
//
// Without &, ~ and look-arounds an expression that is not EMPTY has one, by construction. For the others a search over
// derivatives decides: all states on a path to an accepting state are alive. If a search ends without such a path, all
// states that it visited are dead for good.
//
// The search is depth-first for a while, because conjunctions of many conditions have accepting states everywhere, but
// far away; then it is breadth-first. If a few states do not decide, the bytes of the operands may show that an
// intersection is empty (regex/regex_alphabet.cpp). The budget counts the work of making derivatives, too.
//
// Past the budget, all visited states count as alive, so a hard expression costs one search. They are remembered with
// the number of the search, so that every user of the space who relies on the assumption counts it (`rely_on`).
#include "regex/regex_nodes.h"

namespace structgen {
namespace {

constexpr size_t FEW_STATES = 64;  // visited before the alphabets are compared: they decide most expressions

}  // namespace

// The distinct derivatives that are not EMPTY, each with its first byte.
std::vector<std::pair<uint8_t, Re>> RegexSpace::Impl::successors(Re r) {
  const Steps all = steps(r);
  std::vector<std::pair<uint8_t, Re>> out;
  out.reserve(all.size());
  for (Step s : all) {
    if (s.to == EMPTY) continue;
    if (std::none_of(out.begin(), out.end(), [&](auto &o) { return o.second == s.to; })) out.emplace_back(s.from, s.to);
  }
  return out;
}

Life RegexSpace::Impl::search_alive(Re r, bool depth_first, size_t budget, std::vector<Re> *met) {
  struct Found {
    Re r;
    uint32_t from;
  };
  ++search;
  auto visit = [&](Re x) {
    if (visited.size() < nodes.size()) visited.resize(nodes.size() + nodes.size() / 2, 0);
    return std::exchange(visited[x], search) != search;
  };
  std::vector<Found> found{{r, 0}};
  std::vector<uint32_t> todo{0};  // for breadth-first search a queue
  visit(r);
  const Budget allowed(*this, budget);
  for (size_t front = 0; depth_first ? !todo.empty() : front < todo.size();) {
    charge();
    if (allowed.exceeded(found.size())) {
      for (const Found &f : found) met->push_back(f.r);
      return Life::Unknown;
    }
    const uint32_t at = depth_first ? todo.back() : todo[front++];
    if (depth_first) todo.pop_back();
    auto next = successors(found[at].r);
    // In depth-first search, the state with the fewest conditions comes first.
    auto conditions = [&](Re x) { return nodes[x].kind == ReKind::Intersect ? nodes[x].count : 0; };
    if (depth_first)
      std::stable_sort(next.begin(), next.end(),
                       [&](auto &a, auto &b) { return conditions(a.second) > conditions(b.second); });
    for (auto [byte, to] : next) {
      const ReNode &n = nodes[to];
      if (n.life == Life::Dead) continue;
      if (n.life != Life::Unknown || n.plain || n.nullable) {
        if (n.life != Life::Assumed) nodes[to].life = Life::Alive;
        const Life life = nodes[to].life;
        for (uint32_t back = at;; back = found[back].from) {
          if (life == Life::Assumed) assume_alive(found[back].r, assumed.at(to));
          else nodes[found[back].r].life = life;
          if (back == 0) return life;
        }
      }
      if (!visit(to)) continue;
      found.push_back({to, at});
      todo.push_back(static_cast<uint32_t>(found.size() - 1));
    }
  }
  for (const Found &f : found) nodes[f.r].life = Life::Dead;  // no state of the closure accepts
  return Life::Dead;
}

void RegexSpace::Impl::rely_on(uint32_t search_number) {
  ++unproven;
  if (assumptions) assumptions->insert(search_number);
}

void RegexSpace::Impl::assume_alive(Re r, uint32_t search_number) {
  if (!assumed.emplace(r, search_number).second) return;
  nodes[r].life = Life::Assumed;
  bytes += 48;
}

Life RegexSpace::Impl::decide_life(Re r) {
  std::vector<Re> met;
  const auto search_all = [&](Re of) {
    met.clear();
    const Life life = search_alive(of, true, limits.emptiness_budget / 8, &met);
    return life == Life::Unknown ? search_alive(of, false, limits.emptiness_budget, &met) : life;
  };
  Life life = search_alive(r, true, std::min(FEW_STATES, limits.emptiness_budget / 8), &met);
  if (life != Life::Unknown) return life;
  const Re narrower = restricted(r);
  if (narrower == EMPTY) return nodes[r].life = Life::Dead;
  life = search_all(r);
  if (life == Life::Unknown && narrower != r) {
    const std::vector<Re> met_before = met;
    life = nodes[narrower].plain || nodes[narrower].nullable ? Life::Alive : search_all(narrower);
    met.insert(met.end(), met_before.begin(), met_before.end());
    if (life == Life::Assumed) assume_alive(r, assumed.at(narrower));  // the search marked its own states only
    if (life == Life::Alive || life == Life::Dead) nodes[r].life = life;
  }
  if (life != Life::Unknown) return life;
  const uint32_t search_number = give_up();
  assume_alive(r, search_number);
  for (Re x : met) assume_alive(x, search_number);
  return Life::Assumed;
}

Life RegexSpace::Impl::life_of(Re r) {
  if (r == EMPTY) return Life::Dead;
  const ReNode &n = nodes[r];
  if (n.plain || n.nullable) return Life::Alive;
  return n.life != Life::Unknown ? n.life : decide_life(r);
}

bool RegexSpace::Impl::is_alive(Re r) {
  const Life life = life_of(r);
  if (life == Life::Assumed) rely_on(assumed.at(r));
  return life != Life::Dead;
}

bool RegexSpace::alive(Re r) { return impl_->is_alive(impl_->closed_form(r)); }

bool RegexSpace::open(Re r) {
  const Impl &s = *impl_;
  const ReNode &n = s.nodes[r];
  if (r == ANY_TEXT) return true;
  if (n.open || n.marked) return false;
  switch (n.kind) {
    case ReKind::Concat: return s.part(r, 0) == ANY_TEXT && alive(r);
    case ReKind::Difference: return s.part(r, 0) == ANY_TEXT && s.nodes[s.part(r, 1)].kind == ReKind::Literals;
    case ReKind::Alternate:
      for (Re part : s.all_parts(r))
        if (open(part)) return true;
      return false;
    default: return false;
  }
}

bool RegexSpace::witness(Re r, std::string *out) {
  Impl &s = *impl_;
  r = s.closed_form(r);
  if (!s.is_alive(r)) return false;
  struct Found {
    Re r;
    uint32_t from;
    uint8_t byte;
  };
  // Breadth-first search, letters before other bytes: people read witnesses.
  auto rank = [](uint8_t byte) { return static_cast<uint8_t>(byte - 'a'); };
  auto best_byte = [&](size_t from, size_t end) {
    for (size_t preferred : {size_t{'a'}, size_t{'0'}, size_t{'A'}, size_t{' '}})
      if (from <= preferred && preferred < end) return static_cast<uint8_t>(preferred);
    return static_cast<uint8_t>(from);
  };
  auto search_from = [&](bool depth_first) {
    const Impl::Budget allowed(s, s.limits.emptiness_budget);
    std::vector<Found> found{{r, 0, 0}};
    std::vector<uint32_t> todo{0};
    std::unordered_map<Re, bool> seen{{r, true}};
    for (size_t front = 0; (depth_first ? !todo.empty() : front < todo.size()) && !allowed.exceeded(found.size());) {
      charge();
      const uint32_t at = depth_first ? todo.back() : todo[front++];
      if (depth_first) todo.pop_back();
      if (s.nodes[found[at].r].nullable) {
        const size_t start = out->size();
        for (uint32_t back = at; back != 0; back = found[back].from) *out += static_cast<char>(found[back].byte);
        std::reverse(out->begin() + static_cast<std::ptrdiff_t>(start), out->end());
        return true;
      }
      const Steps all = s.steps(found[at].r);
      std::vector<std::pair<uint8_t, Re>> next;
      for (size_t i = 0; i < all.size(); ++i)
        if (s.life_of(all[i].to) != Life::Dead)
          next.emplace_back(best_byte(all[i].from, i + 1 < all.size() ? all[i + 1].from : 256), all[i].to);
      std::sort(next.begin(), next.end(), [&](auto &a, auto &b) {
        return depth_first ? rank(a.first) > rank(b.first) : rank(a.first) < rank(b.first);
      });
      for (auto [byte, to] : next) {
        if (!seen.emplace(to, true).second) continue;
        found.push_back({to, at, byte});
        todo.push_back(static_cast<uint32_t>(found.size() - 1));
      }
    }
    return false;
  };
  // Rows have no dead ends, so any walk finds some text if the shortest one is too far. Sources are not searched: they
  // may be infinite, and know a completion themselves.
  if (s.nodes[r].unfolds && s.shortest_plain(r, out)) return true;
  return search_from(false) || s.shortest_plain(r, out) || search_from(true);
}

}  // namespace structgen
