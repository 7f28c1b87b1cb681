// The number of texts of an expression.
#include "regex/regex_nodes.h"

namespace structgen {
namespace {

uint64_t plus(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }
uint64_t times(uint64_t a, uint64_t b) { return a != 0 && b > UINT64_MAX / a ? UINT64_MAX : a * b; }

}  // namespace

// Depth-first search over the derivatives. A live state that occurs again below itself has infinitely many texts, and
// so have all states that lead to it.
// NOLINTNEXTLINE(readability-function-size): one search, whose path and budget all of its steps share
uint64_t RegexSpace::count_texts(Re root) {
  Impl &s = *impl_;
  root = s.closed_form(root);
  if (root == ANY_TEXT) return UINT64_MAX;
  const auto rely_on_assumed = [&] {
    if (auto it = s.assumed_counts.find(root); it != s.assumed_counts.end()) s.rely_on(it->second);
  };
  if (const auto known = s.counts.find(root); known != s.counts.end()) {
    rely_on_assumed();
    return known->second;
  }
  struct Open {
    Re r;
    Steps steps;
    size_t next;
    uint64_t count;
  };
  std::vector<Open> path;
  std::unordered_set<Re> on_path;
  const auto enter = [&](Re r) {
    path.push_back({r, s.steps(r), 0, s.nodes[r].nullable});
    on_path.insert(r);
  };
  const auto found = [&](Re r, uint64_t count) {
    s.counts[r] = count;
    s.bytes += 48;
  };
  const Impl::Budget allowed(s, s.limits.emptiness_budget);
  size_t states = 0;
  enter(root);
  while (!path.empty()) {
    charge();
    Open &top = path.back();
    if (top.next == top.steps.size()) {
      const Open done = top;
      path.pop_back();
      on_path.erase(done.r);
      found(done.r, done.count);
      continue;
    }
    const Re to = top.steps[top.next].to;
    if (to == EMPTY || !s.is_alive(to)) {
      ++top.next;
      continue;
    }
    const auto known = s.counts.find(to);
    const bool gives_up = allowed.exceeded(++states) || s.nodes[to].unfolds;
    if (gives_up || to == ANY_TEXT || on_path.contains(to) ||
        (known != s.counts.end() && known->second == UINT64_MAX)) {
      std::optional<uint32_t> assumption;
      if (auto it = s.assumed_counts.find(to); it != s.assumed_counts.end()) assumption = it->second;
      else if (gives_up) assumption = s.nodes[to].unfolds ? Impl::SOURCES : s.give_up();
      for (const Open &open : path) {
        found(open.r, UINT64_MAX);
        if (assumption) s.assumed_counts.emplace(open.r, *assumption);
      }
      break;
    }
    if (known == s.counts.end()) {
      enter(to);
      continue;
    }
    const size_t end = top.next + 1 < top.steps.size() ? top.steps[top.next + 1].from : 256;
    top.count = plus(top.count, times(known->second, end - top.steps[top.next].from));
    ++top.next;
  }
  rely_on_assumed();
  return s.counts.at(root);
}

}  // namespace structgen
