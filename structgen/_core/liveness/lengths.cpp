// The fewest characters that a completion needs, and the most that the outer language allows.
#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>

#include "liveness/costs.h"
#include "liveness/liveness.h"

namespace structgen {
namespace {

constexpr uint32_t LONG = 16'000;     // states; with more states, a text counts as unbounded
constexpr size_t MOST_RULES = 3'000;  // that end on the path to the end of the text; with more, a lower bound is used
constexpr uint64_t FEWEST = 85;

}  // namespace

// Computes the fewest characters of a lexeme of each terminal, and of the rest of each production.
void GrammarLiveness::measure_items() {
  if (!fewest_left_.empty()) return;
  std::vector<uint64_t> shortest(g_.terminals.size());
  for (uint32_t t = 0; t < g_.terminals.size(); ++t)
    if (g_.terminals[t].kind == GrammarTerminal::Text && plain_[t] != Lexemes::DEAD && !g_.terminals[t].nullable) {
      const bool counts = g_.outer_language != RegexSpace::ANY_TEXT;  // otherwise the lengths only order the search
      const int64_t least = counts ? lexemes_.space().regex().min_length(lexemes_.language(plain_[t])) : 1;
      shortest[t] = static_cast<uint64_t>(std::clamp<int64_t>(least, 1, FAR));
    }
  const RuleCosts rules = rule_costs(g_, shortest);
  auto fewest = [&](Symbol s) {
    return s >= 0 ? rules.cost[static_cast<uint32_t>(s)] : shortest[static_cast<uint32_t>(~s)];
  };
  auto bounded = [](uint64_t n) { return static_cast<uint32_t>(std::min<uint64_t>(FAR, n)); };
  fewest_of_start_ = bounded(rules.cost[g_.start]);
  fewest_left_.assign(g_.symbols.size(), 0);
  for (Item first : g_.first) {
    Item end = first;
    while (g_.symbols[end] != Grammar::END) ++end;
    for (Item i = end; i-- > first;) fewest_left_[i] = bounded(fewest_left_[i + 1] + fewest(g_.symbols[i]));
  }
}

// Computes the most characters that may follow, for all states that the search visits at once. There is no bound if a
// state can reach itself, or if too many states follow it.
uint32_t GrammarLiveness::most_left(OuterState outer) {
  if (outer == ANYTHING) return FAR;
  if (auto it = most_left_.find(outer); it != most_left_.end()) return it->second;
  struct Frame {
    OuterState at;
    uint32_t most;
    std::vector<std::pair<OuterState, uint32_t>> next;  // with the characters that the step adds
  };
  std::vector<Frame> path;
  std::unordered_set<OuterState> open;
  size_t met = 0;
  auto enter = [&](OuterState at) {
    Frame frame{at, 0, {}};
    for (size_t b = 0; b < 256; ++b) {
      const OuterState to = lexemes_.step_outer(at, static_cast<uint8_t>(b));
      if (to == Lexemes::DEAD) continue;
      const std::pair<OuterState, uint32_t> step{to, b < 0x80 || b >= 0xC0};
      if (std::find(frame.next.begin(), frame.next.end(), step) == frame.next.end()) frame.next.push_back(step);
    }
    open.insert(at);
    path.push_back(std::move(frame));
    ++met;
  };
  enter(outer);
  while (!path.empty()) {
    charge();
    Frame &frame = path.back();
    if (frame.next.empty()) {
      const uint32_t most = most_left_[frame.at] = frame.most;
      open.erase(frame.at);
      path.pop_back();
      if (!path.empty()) {
        auto &[to, characters] = path.back().next.back();
        path.back().most = std::max(path.back().most, most + characters);
        path.back().next.pop_back();
      }
      continue;
    }
    const auto [to, characters] = frame.next.back();
    const auto known = most_left_.find(to);
    if (to == ANYTHING || open.contains(to) || met > LONG || (known != most_left_.end() && known->second == FAR)) {
      for (const Frame &f : path) most_left_[f.at] = FAR;
      break;
    }
    if (known != most_left_.end()) {
      frame.most = std::max(frame.most, known->second + characters);
      frame.next.pop_back();
    } else {
      enter(to);
    }
  }
  return most_left_[outer];
}

// The fewest characters that complete the text from `set` on, as if any terminals could follow each other. With
// `ended`: after the end of that rule, which began at the set.
uint32_t GrammarLiveness::fewest_after(const EarleySet *set, std::optional<uint32_t> ended) {
  if (ended) return fewest_after_rule(set, *ended);
  if (set->accepting) return 0;
  uint32_t fewest = FAR;
  for (uint32_t i = 0; i < set->count; ++i)
    for (Item item : items_.items(set->kernels[i])) {
      charge();
      if (fewest_left(item) < fewest)
        fewest = std::min(fewest, fewest_left(item) + fewest_after_rule(set->origins[i], items_.head(item)));
    }
  return fewest;
}

std::optional<uint32_t> GrammarLiveness::known_after_rule(const EarleySet *set, uint32_t rule) const {
  if (rule == items_.accepting_rule()) return 0;
  const auto it = fewest_after_.find(extend(hash_words(FEWEST, rule), set->identity));
  return it == fewest_after_.end() ? std::nullopt : std::optional(it->second);
}

// When a rule ends, rules around it may end, and so on: these are shortest paths to the end of the text (Dijkstra). All
// points of the search are solved at once and stored, so each is visited once: a text of n bytes may have n rules that
// end in each of n sets.
// NOLINTNEXTLINE(readability-function-size): both directions of the search share its points
uint32_t GrammarLiveness::fewest_after_rule(const EarleySet *set, uint32_t rule) {
  if (const auto known = known_after_rule(set, rule)) return *known;
  if (fewest_after_.size() > MOST_KNOWN) fewest_after_.clear();
  struct Point {
    uint32_t rule;  // the rule that has ended
    const EarleySet *back;
    uint32_t cost;                                    // from the first point, as far as is known
    uint32_t fewest = FAR;                            // to the end of the text
    std::vector<std::pair<uint32_t, uint32_t>> from;  // points that lead here, with the characters between
  };
  using Step = std::pair<uint32_t, uint32_t>;  // characters, point
  using Queue = std::priority_queue<Step, std::vector<Step>, std::greater<>>;
  std::vector<Point> points;
  std::unordered_map<Hash128, uint32_t, HashOf128> index;
  Queue fresh, solved;
  auto point_of = [&](const EarleySet *back, uint32_t ended, uint32_t cost) {
    const auto [it, is_new] =
        index.try_emplace(extend(hash_words(FEWEST, ended), back->identity), static_cast<uint32_t>(points.size()));
    if (is_new) points.push_back({ended, back, FAR, FAR, {}});
    if (is_new || cost < points[it->second].cost) {
      points[it->second].cost = cost;
      fresh.push({cost, it->second});
    }
    return it->second;
  };
  std::vector<Item> items;
  point_of(set, rule, 0);
  uint32_t known_end = FAR;  // the fewest characters of a way out through points that were known before
  for (size_t expanded = 0; !fresh.empty();) {
    const auto [cost, at] = fresh.top();
    fresh.pop();
    if (cost > points[at].cost) continue;  // it has been reached by fewer characters
    // This is a lower bound, since the remaining points cost as much or more.
    if (++expanded > MOST_RULES)
      return fewest_after_[extend(hash_words(FEWEST, rule), set->identity)] = std::min(cost, known_end);
    const EarleySet *back = points[at].back;
    auto reach = [&](const EarleySet *origin) {
      for (Item item : items) {
        charge();
        const uint32_t left = fewest_left(item), head = items_.head(item);
        if (const auto known = known_after_rule(origin, head)) {
          points[at].fewest = std::min({FAR, points[at].fewest, left + *known});
          known_end = std::min(known_end, cost + points[at].fewest);
        } else {
          const uint32_t to = point_of(origin, head, std::min(FAR, cost + left));
          points[to].from.push_back({at, left});
        }
      }
      items.clear();
    };
    charge(1 + back->count / 4);
    for (uint32_t i = 0; i < back->count; ++i) {
      items_.moved_items(back->kernels[i], static_cast<Symbol>(points[at].rule), &items);
      reach(back->origins[i]);
    }
    items_.predicted_items(back->outlook, static_cast<Symbol>(points[at].rule), &items);
    reach(back);
    if (points[at].fewest < FAR) solved.push({points[at].fewest, at});
  }
  lengths_steps_ += points.size();
  while (!solved.empty()) {
    charge();
    const auto [fewest, at] = solved.top();
    solved.pop();
    if (fewest > points[at].fewest) continue;
    for (const auto &[from, left] : points[at].from)
      if (left + fewest < points[from].fewest) solved.push({points[from].fewest = left + fewest, from});
  }
  for (const Point &point : points)
    fewest_after_[extend(hash_words(FEWEST, point.rule), point.back->identity)] = point.fewest;
  return points[0].fewest;
}

}  // namespace structgen
