#include "liveness/intersection.h"

#include <algorithm>
#include <bitset>
#include <queue>
#include <unordered_set>

#include "util/bits.h"

namespace structgen {
namespace {

constexpr uint64_t FINISHING = 88;
// To a completion: a shortest one, and one that is found soon.
constexpr size_t SHORTEST_STEPS = 1'000, MOST_STEPS = 20'000;
constexpr size_t HASTE = 8;

void set_bit(std::vector<uint64_t> &bits, uint32_t bit) { bits[bit / 64] |= uint64_t{1} << bit % 64; }

bool meet(const std::vector<uint64_t> &a, const std::vector<uint64_t> &b) {
  for (size_t w = 0; w < a.size(); ++w)
    if (a[w] & b[w]) return true;
  return false;
}

bool merge(std::vector<uint64_t> &to, const uint64_t *bits) { return merge_bits(to.data(), bits, 0, to.size()); }

}  // namespace

GrammarLiveness::Chart::Chart(GrammarLiveness &liveness) : l_(liveness), grammar_(liveness.g_, liveness.lexer_) {
  const OuterState first = l_.lexemes_.begin_outer(l_.g_.outer_language);
  const uint32_t start = position_of({RegexSpace::EMPTY, first});
  positions_[start].may = grammar_.first;
  if (grammar_.blank != BinaryGrammar::NONE)
    for (uint32_t t = 0; t < grammar_.terminal_count(); ++t)
      if (l_.lexer_.ignores(grammar_.terminals[t].number)) set_bit(positions_[start].may, t);
  build();
}

uint32_t GrammarLiveness::Chart::position_of(At at) {
  auto [it, is_new] = index_.try_emplace(key_of(at), static_cast<uint32_t>(positions_.size()));
  if (is_new) {
    const size_t words = (grammar_.terminal_count() + 63) / 64;
    positions_.push_back({at, Bits(words), Bits(words)});
    cuts_ |= l_.lexemes_.forbids_more(at.after);
    fresh_.push_back(it->second);
  }
  return it->second;
}

// The positions where a lexeme may end; null if it has too many states.
LexemeEnds::Set GrammarLiveness::Chart::ends(LexemeState s, OuterState outer) {
  size_t left = MOST_POINTS;
  LexemeEnds::Set found = l_.lexemes_.ends().of(s, outer, &left);
  points_ += MOST_POINTS - left;
  return found;
}

// The same with texts, found breadth first.
const std::vector<GrammarLiveness::Chart::Ended> *GrammarLiveness::Chart::written(LexemeState s, OuterState outer) {
  const uint64_t key = static_cast<uint64_t>(s) << 32 | outer;
  if (auto it = written_.find(key); it != written_.end()) return &it->second;
  struct Point {
    LexemeState lexeme;
    OuterState left;
    uint32_t from;
    char byte;
  };
  std::vector<Ended> found;
  std::unordered_set<uint64_t> known, met{key};
  std::vector<Point> points{{s, outer, 0, 0}};  // breadth first
  auto text = [&](uint32_t at) {
    std::string read;
    for (; at; at = points[at].from) read.push_back(points[at].byte);
    std::reverse(read.begin(), read.end());
    return read;
  };
  for (uint32_t at = 0; at < points.size(); ++at) {
    const Point now = points[at];
    if (at > MOST_WRITTEN) return nullptr;
    if (l_.lexemes_.complete(now.lexeme)) {
      const At end{l_.lexemes_.coarsen(l_.lexemes_.after(now.lexeme)), now.left};
      if (known.insert(key_of(end)).second) found.push_back({end, text(at)});
    }
    std::bitset<256> bytes = l_.lexemes_.first(now.lexeme);
    if (now.left != ANYTHING) bytes &= l_.lexemes_.first(now.left);
    std::pair<LexemeState, OuterState> last{Lexemes::DEAD, Lexemes::DEAD};
    for (size_t b = 0; b < 256; ++b) {
      if (!bytes.test(b)) continue;
      const auto byte = static_cast<uint8_t>(b);
      const std::pair to{l_.lexemes_.step(now.lexeme, byte), l_.lexemes_.step_outer(now.left, byte)};
      if (to.first == Lexemes::DEAD || to.second == Lexemes::DEAD || last == to) continue;
      last = to;
      if (met.insert(static_cast<uint64_t>(to.first) << 32 | to.second).second)
        points.push_back({to.first, to.second, at, static_cast<char>(b)});
    }
  }
  if (written_.size() > MOST_WRITTEN_ENDS) written_.clear();
  return &(written_[key] = std::move(found));
}

// Finds all positions that lexemes lead to, with the arcs between them; false if there are too many.
bool GrammarLiveness::Chart::find_positions() {
  while (!fresh_.empty()) {
    charge();
    const uint32_t from = fresh_.back();
    fresh_.pop_back();
    for (uint32_t t = 0; t < grammar_.terminal_count(); ++t) {
      if (!has(positions_[from].may, t) || has(positions_[from].done, t)) continue;
      set_bit(positions_[from].done, t);
      const LexemeState s = l_.begin(grammar_.terminals[t].number, positions_[from].at.after);
      if (s == Lexemes::DEAD) continue;
      const LexemeEnds::Set to = ends(s, positions_[from].at.outer);
      if (!to || points_ > MOST_IN_ALL || positions_.size() > MOST_POSITIONS || arcs_.size() > MOST_ARCS) return false;
      for (const At &target : *to) {
        const uint32_t end = position_of(target);
        arcs_.push_back({from, t, end});
        if (merge(positions_[end].may, grammar_.follow[t].data())) fresh_.push_back(end);
      }
    }
  }
  return true;
}

// The positions in topological order, those that lead to each other side by side (Tarjan's algorithm).
std::vector<uint32_t> GrammarLiveness::Chart::sorted(std::vector<std::pair<uint32_t, uint32_t>> *loops) const {
  const auto count = static_cast<uint32_t>(positions_.size());
  std::vector<std::vector<uint32_t>> to(count);
  std::vector<uint8_t> itself(count);
  for (const Arc &arc : arcs_) {
    to[arc.from].push_back(arc.to);
    if (arc.from == arc.to) itself[arc.from] = true;
  }
  std::vector<uint32_t> low(count, UINT32_MAX), number(count, UINT32_MAX), stack, out;
  std::vector<uint8_t> open(count);
  std::vector<std::pair<uint32_t, uint32_t>> parts;  // of `out`, which is made backwards
  uint32_t next = 0;
  struct Frame {
    uint32_t at;
    size_t edge;
  };
  for (uint32_t root = 0; root < count; ++root) {
    if (number[root] != UINT32_MAX) continue;
    std::vector<Frame> path{{root, 0}};
    number[root] = low[root] = next++;
    stack.push_back(root);
    open[root] = true;
    while (!path.empty()) {
      charge();
      Frame &f = path.back();
      if (f.edge < to[f.at].size()) {
        const uint32_t v = to[f.at][f.edge++];
        if (number[v] == UINT32_MAX) {
          number[v] = low[v] = next++;
          stack.push_back(v);
          open[v] = true;
          path.push_back({v, 0});
        } else if (open[v]) {
          low[f.at] = std::min(low[f.at], number[v]);
        }
        continue;
      }
      const uint32_t at = f.at;
      path.pop_back();
      if (!path.empty()) low[path.back().at] = std::min(low[path.back().at], low[at]);
      if (low[at] != number[at]) continue;
      const auto first = static_cast<uint32_t>(out.size());
      while (true) {
        charge();
        const uint32_t v = stack.back();
        stack.pop_back();
        open[v] = false;
        out.push_back(v);
        if (v == at) break;
      }
      const auto end = static_cast<uint32_t>(out.size());
      if (end - first > 1 || itself[at]) parts.push_back({count - end, count - first});
    }
  }
  std::reverse(out.begin(), out.end());
  loops->assign(parts.rbegin(), parts.rend());
  return out;
}

bool GrammarLiveness::Chart::build() {
  finishing_.clear();
  if (!find_positions()) return usable_ = false;
  nodes_ = positions_.size();
  words_ = (nodes_ + 63) / 64;
  std::vector<std::pair<uint32_t, uint32_t>> loops;
  const std::vector<uint32_t> order = sorted(&loops);
  node_of_.resize(nodes_);
  for (uint32_t n = 0; n < nodes_; ++n) node_of_[order[n]] = n;
  try {
    chart_ = std::make_unique<SpanChart>(grammar_, nodes_, std::move(loops), MOST_BYTES, MOST_WORDS);
    for (const Arc &arc : arcs_) chart_->add(arc.terminal, node_of_[arc.from], node_of_[arc.to]);
    chart_->fill({}, {});
  } catch (const LimitError &) {
    return usable_ = false;
  }
  may_end_.assign(words_, 0);
  for (uint32_t p = 0; p < nodes_; ++p)
    if (l_.lexemes_.may_end(positions_[p].at.outer)) set_bit(may_end_, node_of_[p]);
  return true;
}

std::optional<bool> GrammarLiveness::Chart::empty() {
  if (!usable_) return std::nullopt;
  if (grammar_.accepts_empty && has(may_end_, node_of_[0])) return false;
  Bits reached(words_);
  merge(reached, chart_->spans(grammar_.start, node_of_[0]));
  if (meet(reached, may_end_)) return false;
  return cuts_ ? std::nullopt : std::optional(true);  // `cuts_`: a text may exist that the chart leaves out
}

bool GrammarLiveness::Chart::is_reachable(LexemeState s, OuterState outer) {
  const LexemeEnds::Set found = usable_ ? ends(s, outer) : nullptr;
  return !found ||
         std::all_of(found->begin(), found->end(), [&](const At &end) { return index_.contains(key_of(end)); });
}

std::optional<bool> GrammarLiveness::Chart::alive(const EarleySet *set, LexemeState s, OuterState outer) {
  const LexemeEnds::Set found = usable_ ? ends(s, outer) : nullptr;
  if (!found) {
    usable_ = false;
    return std::nullopt;
  }
  std::vector<uint32_t> positions;
  bool all = true;
  for (const At &end : *found) {
    const auto known = index_.find(key_of(end));
    if (known != index_.end()) positions.push_back(known->second);
    else all = false;
  }
  if (alive(set, positions)) return true;
  // Unknown positions come after lexemes for which some continuations are left out (`Lexemes::coarsen`).
  return all || cuts_ ? std::optional(false) : std::nullopt;
}

bool GrammarLiveness::Chart::alive(const EarleySet *set, std::span<const uint32_t> positions) {
  Bits at(words_);
  for (uint32_t p : positions) {
    set_bit(at, node_of_[p]);
    if (grammar_.blank != BinaryGrammar::NONE) merge(at, chart_->spans(grammar_.blank, node_of_[p]));
  }
  if (set->accepting && meet(at, may_end_)) return true;
  for (uint32_t i = 0; i < set->count; ++i)
    for (Item item : l_.items_.items(set->kernels[i])) {
      const Bits reached = forward(item, at);
      if (std::all_of(reached.begin(), reached.end(), [](uint64_t w) { return w == 0; })) continue;
      if (meet(reached, finishing(set->origins[i], l_.items_.head(item)))) return true;
    }
  return false;
}

uint32_t GrammarLiveness::Chart::least_left(OuterState outer) {
  if (outer == ANYTHING) return 0;
  if (auto known = least_left_.find(outer); known != least_left_.end()) return known->second;
  const int64_t least = l_.lexemes_.space().regex().min_length(l_.lexemes_.language(outer));
  return least_left_[outer] = static_cast<uint32_t>(std::clamp<int64_t>(least, 0, FAR));
}

std::optional<std::string> GrammarLiveness::Chart::completion(const EarleySet *set, std::span<const Ended> ended,
                                                              Arena &scratch) {
  if (!usable_) return std::nullopt;
  auto found = completion(set, ended, scratch, 1, SHORTEST_STEPS);
  return found ? found : completion(set, ended, scratch, HASTE, MOST_STEPS);
}

// Terminal after terminal, what may be the nearest to the end first, where `haste` counts what is left at least so many
// times (Pohl, "Heuristic search viewed as path finding in a graph", 1970); nothing is followed that does not lead
// there.
std::optional<std::string> GrammarLiveness::Chart::completion(const EarleySet *set, std::span<const Ended> ended,
                                                              Arena &scratch, size_t haste, size_t most) {
  struct Step {
    const EarleySet *set;  // at the end of `text`, once `read`; before that where its last lexeme began
    uint32_t terminal;
    bool is_read;
    At at;
    std::string text;
    size_t length;  // of the whole, at least, if there is no haste
    bool operator<(const Step &o) const { return length > o.length; }
  };
  std::priority_queue<Step> queue;
  std::unordered_set<Hash128, HashOf128> met;
  std::unordered_map<Hash128, const EarleySet *, HashOf128> after;
  auto add = [&](const EarleySet *from, uint32_t t, bool is_read, At at, std::string text) {
    if (!index_.contains(key_of(at))) return;
    const size_t length = text.size() + haste * least_left(at.outer);
    queue.push({from, t, is_read, at, std::move(text), length});
  };
  for (const Ended &end : ended) add(set, 0, true, end.at, end.text);
  if (queue.empty())  // positions that differ from none by too little were left out
    for (const Ended &end : ended)
      for (const Position &p : positions_)
        if (p.at.outer == end.at.outer) add(set, 0, true, p.at, end.text);
  for (size_t steps = 0; !queue.empty() && steps < most; ++steps) {
    Step now = queue.top();
    queue.pop();
    if (!now.is_read) {
      auto [it, is_new] = after.try_emplace(extend(hash_words(FINISHING, now.terminal), now.set->identity));
      if (is_new) it->second = l_.after(now.set, 0, now.terminal, nullptr, scratch);
      if (!it->second) continue;
      now.set = it->second;
      now.is_read = true;
      now.length = std::max(now.length, now.text.size() + haste * l_.fewest_after(now.set));
      if (!queue.empty() && now < queue.top()) {
        queue.push(std::move(now));
        continue;
      }
    }
    if (!met.insert(extend(hash_words(FINISHING, key_of(now.at)), now.set->identity)).second) continue;
    const uint32_t position = index_.at(key_of(now.at));
    if (!alive(now.set, {&position, 1})) continue;
    if (now.set->accepting && l_.lexemes_.may_end(now.at.outer)) return now.text;
    auto read = [&](uint32_t t) {
      const LexemeState s = l_.begin(t, now.at.after);
      if (s == Lexemes::DEAD) return;
      const std::vector<Ended> *found = written(s, now.at.outer);
      if (!found) return;
      for (const Ended &end : *found) add(now.set, t, false, end.at, now.text + end.text);
    };
    for (uint32_t t : l_.items_.expected(now.set->outlook)) read(t);
    for (uint32_t t : l_.g_.ignore) read(t);
  }
  return std::nullopt;
}

// The positions that the rest of an item leads to.
GrammarLiveness::Chart::Bits GrammarLiveness::Chart::forward(Item item, Bits at) const {
  for (Symbol s; (s = l_.items_.symbol_after_dot(item)) != Grammar::END; ++item) {
    Bits next(words_);
    if (l_.g_.nullable(s)) next = at;
    const uint32_t spanned = symbol(s);
    each_bit(at.data(), 0, words_, [&](uint32_t node) { merge(next, chart_->spans(spanned, node)); });
    at = std::move(next);
  }
  return at;
}

// The positions from which the rest of an item leads to some of `ends`.
GrammarLiveness::Chart::Bits GrammarLiveness::Chart::backward(Item item, const Bits &ends) const {
  std::vector<Symbol> symbols;
  for (Symbol s; (s = l_.items_.symbol_after_dot(item)) != Grammar::END; ++item) symbols.push_back(s);
  Bits at = ends;
  for (auto s = symbols.rbegin(); s != symbols.rend(); ++s) {
    Bits before(words_);
    if (l_.g_.nullable(*s)) before = at;
    const uint32_t spanned = symbol(*s);
    for (uint32_t node = 0; node < nodes_; ++node) {
      const uint64_t *row = chart_->spans(spanned, node);
      for (size_t w = 0; w < words_; ++w)
        if (row[w] & at[w]) {
          set_bit(before, node);
          break;
        }
    }
    at = std::move(before);
  }
  return at;
}

// The positions from which the text can be completed if a rule that began at `set` ends there.
const GrammarLiveness::Chart::Bits &GrammarLiveness::Chart::finishing(const EarleySet *set, uint32_t rule) {
  if (rule == l_.items_.accepting_rule()) return may_end_;
  const Hash128 key = extend(hash_words(FINISHING, rule), set->identity);
  if (auto it = finishing_.find(key); it != finishing_.end()) return it->second;
  if (finishing_.size() > MOST_FINISHING) finishing_.clear();
  std::vector<Goal> goals;
  std::unordered_map<Hash128, uint32_t, HashOf128> index;
  auto goal = [&](const EarleySet *at, uint32_t asked) {
    const bool accepts = asked == l_.items_.accepting_rule();
    const Hash128 name = accepts ? hash_words(FINISHING, asked) : extend(hash_words(FINISHING, asked), at->identity);
    auto [it, is_new] = index.try_emplace(name, static_cast<uint32_t>(goals.size()));
    if (is_new) {
      goals.push_back({at, asked, name, accepts, accepts ? may_end_ : Bits(words_), {}, {}});
      if (auto known = finishing_.find(name); known != finishing_.end()) {
        goals.back().known = true;
        goals.back().bits = known->second;
      }
    }
    return it->second;
  };
  goal(set, rule);
  for (uint32_t g = 0; g < goals.size(); ++g) {
    if (goals[g].known) continue;
    const EarleySet *at = goals[g].set;
    const auto asked = static_cast<Symbol>(goals[g].rule);
    std::vector<Item> items;
    auto need = [&](const EarleySet *origin) {
      for (Item item : items) {
        const uint32_t target = goal(origin, l_.items_.head(item));
        goals[g].needs.push_back({item, target});
        goals[target].dependents.push_back(g);
      }
      items.clear();
    };
    for (uint32_t i = 0; i < at->count; ++i) {
      l_.items_.moved_items(at->kernels[i], asked, &items);
      need(at->origins[i]);
    }
    l_.items_.predicted_items(at->outlook, asked, &items);
    need(at);
  }
  solve(goals);
  for (Goal &made : goals)
    if (made.rule != l_.items_.accepting_rule()) finishing_[made.key] = made.bits;
  return finishing_[key];
}

// Computes the least fixpoint. Goals that others depend on come later, so the last one is solved first.
void GrammarLiveness::Chart::solve(std::vector<Goal> &goals) {
  std::vector<uint32_t> queue;
  std::vector<uint8_t> queued(goals.size());
  for (uint32_t g = 0; g < goals.size(); ++g)
    if (!goals[g].known) {
      queue.push_back(g);
      queued[g] = true;
    }
  while (!queue.empty()) {
    charge();
    const uint32_t g = queue.back();
    queue.pop_back();
    queued[g] = false;
    bool grew = false;
    for (const Need &need : goals[g].needs)
      grew |= merge(goals[g].bits, backward(need.item, goals[need.goal].bits).data());
    if (!grew) continue;
    for (uint32_t by : goals[g].dependents)
      if (!queued[by]) {
        queued[by] = true;
        queue.push_back(by);
      }
  }
}

}  // namespace structgen
