// Which expressions have a text at all.
//
// Without &, ~ and look-arounds an expression that is not EMPTY has one, by construction. For the others a search over
// derivatives decides: all states on a path to an accepting state are alive. If a search ends without such a path, all
// states that it visited are dead for good.
//
// The search is depth-first for a while, because conjunctions of many conditions have accepting states everywhere, but
// far away; then it is breadth-first. Its budget counts the work of making derivatives, too. Past the budget, all
// visited states count as alive, so a hard expression costs one search, and `unproven` counts it.
#include "regex/regex_nodes.h"

namespace structgen {

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
      if (n.life == Life::Alive || n.plain || n.nullable) {
        nodes[to].life = Life::Alive;
        for (uint32_t back = at;; back = found[back].from) {
          nodes[found[back].r].life = Life::Alive;
          if (back == 0) return Life::Alive;
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

bool RegexSpace::Impl::is_alive(Re r) {
  if (r == EMPTY) return false;
  const ReNode &n = nodes[r];
  if (n.plain || n.nullable) return true;
  if (n.life != Life::Unknown) return n.life == Life::Alive;
  std::vector<Re> met;
  Life life = search_alive(r, true, limits.emptiness_budget / 8, &met);
  if (life == Life::Unknown) life = search_alive(r, false, limits.emptiness_budget, &met);
  if (life != Life::Unknown) return life == Life::Alive;
  ++unproven;
  for (Re x : met) nodes[x].life = Life::Alive;
  return true;
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
        if (s.is_alive(all[i].to))
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
