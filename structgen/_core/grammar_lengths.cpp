// How many characters are needed to complete a text, and how many another constraint leaves.
#include <algorithm>
#include <functional>
#include <queue>
#include <set>

#include "grammar_costs.h"
#include "grammar_life.h"

namespace structgen {
namespace {

constexpr uint32_t LONG = 16'000;       // states; where there are more, a text counts as unbounded
constexpr size_t MOST_RULES = 3'000;    // ended on the way out of a set; then what is known so far is told
constexpr uint64_t FEWEST = 85;

}  // namespace

// How many characters a lexeme of each terminal takes at least, and what is left of each production.
void GrammarLife::measure_items() {
  if (!fewest_left_.empty()) return;
  std::vector<uint64_t> shortest(g_.terminals.size());
  for (uint32_t t = 0; t < g_.terminals.size(); ++t)
    if (g_.terminals[t].kind == GrammarTerminal::Text && plain_[t] != Lexemes::DEAD && !g_.terminals[t].nullable) {
      const bool counts = g_.within != RegexSpace::ANY_TEXT;  // otherwise it only says what to try first
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

// The most characters that may follow, of all states on the way at once; a state that can come back to itself, or
// one where too many follow to tell, has no bound.
uint32_t GrammarLife::most_left(Within within) {
  if (within == ANYTHING) return FAR;
  if (auto it = most_left_.find(within); it != most_left_.end()) return it->second;
  struct Frame {
    Within at;
    uint32_t most;
    std::vector<std::pair<Within, uint32_t>> next;  // with the characters that the step adds
  };
  std::vector<Frame> path;
  std::unordered_set<Within> open;
  size_t met = 0;
  auto enter = [&](Within at) {
    Frame frame{at, 0, {}};
    for (size_t b = 0; b < 256; ++b) {
      const Within to = lexemes_.step_within(at, static_cast<uint8_t>(b));
      if (to == Lexemes::DEAD) continue;
      const std::pair<Within, uint32_t> step{to, b < 0x80 || b >= 0xC0};
      if (std::find(frame.next.begin(), frame.next.end(), step) == frame.next.end()) frame.next.push_back(step);
    }
    open.insert(at);
    path.push_back(std::move(frame));
    ++met;
  };
  enter(within);
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
  return most_left_[within];
}

// The fewest characters that complete the text from `set` on, as if all could stand side by side; with `ended`, once
// that rule has ended, which began there.
uint32_t GrammarLife::fewest_after(const EarleySet *set, std::optional<uint32_t> ended) {
  if (set->accepting && !ended) return 0;
  const Hash128 key = extend(hash_words(FEWEST, ended.value_or(UINT32_MAX)), set->identity);
  if (auto it = fewest_after_.find(key); it != fewest_after_.end()) return it->second;
  if (fewest_after_.size() > MOST_KNOWN) fewest_after_.clear();
  struct Point {
    uint32_t cost;
    uint32_t rule;  // ended
    const EarleySet *back;
    bool operator>(const Point &o) const { return cost > o.cost; }
  };
  std::priority_queue<Point, std::vector<Point>, std::greater<>> queue;
  std::set<std::pair<uint32_t, const EarleySet *>> done;
  auto reach = [&](Item item, const EarleySet *back, uint32_t cost) {
    queue.push({std::min(FAR, cost + fewest_left(item)), items_.head(item), back});
  };
  if (ended) queue.push({0, *ended, set});
  for (uint32_t i = 0; i < set->count && !ended; ++i)
    for (Item item : items_.items(set->kernels[i])) reach(item, set->origins[i], 0);
  std::vector<Item> items;
  uint32_t found = FAR;
  while (!queue.empty()) {
    charge();
    const Point point = queue.top();
    queue.pop();
    if (point.rule == items_.accepting_rule() || done.size() > MOST_RULES) {  // then a lower bound
      found = point.cost;
      break;
    }
    if (!done.insert({point.rule, point.back}).second) continue;
    const EarleySet *back = point.back;
    for (uint32_t i = 0; i < back->count; ++i) {
      items.clear();
      items_.moved_items(back->kernels[i], static_cast<Symbol>(point.rule), &items);
      for (Item item : items) reach(item, back->origins[i], point.cost);
    }
    items.clear();
    items_.predicted_items(back->outlook, static_cast<Symbol>(point.rule), &items);
    for (Item item : items) reach(item, back, point.cost);
  }
  lengths_steps_ += done.size();
  return fewest_after_[key] = found;
}

}  // namespace structgen
