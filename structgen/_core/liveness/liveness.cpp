#include "liveness/liveness.h"

#include <algorithm>
#include <bitset>
#include <deque>
#include <set>

#include "liveness/intersection.h"
#include "liveness/search.h"

namespace structgen {
namespace {

constexpr size_t MOST_STATES = 3'000;  // of a lexeme, visited to find its ends
constexpr size_t NEAR_STATES = 12;     // the number of states that are visited first
// The same with another constraint on the text: at first, and if the ends among those few do not suffice.
constexpr size_t FEW_STATES = 100;
constexpr size_t MANY_STATES = 5'000;
constexpr uint32_t MOST_WRITTEN = 10'000;  // characters of a completion
constexpr size_t BITS_PER_UNIT = 512;      // that are set
constexpr size_t PAIRS_PER_UNIT = 8;       // of terminals that are known to fit
constexpr uint64_t CONTINUE = 81, NEAR = 82, LEXEME = 83, NEAREST = 87;

}  // namespace

GrammarLiveness::GrammarLiveness(const Grammar &grammar, ItemSets &items, Lexer &lexer, Earley &earley, size_t budget)
    : g_(grammar),
      items_(items),
      lexer_(lexer),
      lexemes_(lexer.lexemes()),
      inclusion_(lexemes_.space().regex()),
      earley_(earley),
      budget_(budget) {
  always_ = g_.lexing == Lexing::Scannerless;
  if (always_ && g_.outer_language == RegexSpace::ANY_TEXT) return;
  plain_.resize(g_.terminals.size());
  bool separates_all = true;
  for (uint32_t t = 0; t < g_.terminals.size(); ++t) {
    if (g_.terminals[t].kind != GrammarTerminal::Text || lexer_.dead()[t]) continue;
    plain_[t] = lexer_.plain(t);
    if (plain_[t] != Lexemes::DEAD || lexer_.is_replaced(t)) continue;
    // If only some terminals compete, a text that is correct with all of them is correct, too. But a terminal that
    // never wins among all may win in a context, so no separator lets all terminals be written.
    if (has_contexts()) separates_all = false;
    else plain_[t] = lexer_.alone(t);
  }
  if (always_) return;
  if (separates_all) find_separators();
  always_ = separators_.empty() && !g_.contextual && !g_.indentation.active() && fits_everywhere();
}

GrammarLiveness::~GrammarLiveness() = default;

LexemeState GrammarLiveness::begin(uint32_t t, Re boundary) {
  if (plain_[t] == Lexemes::DEAD) return Lexemes::DEAD;
  if (!lexer_.may_begin(t, plain_[t], lexemes_.first_of(boundary))) return plain_[t];
  return lexemes_.restricted(plain_[t], boundary);
}

// ---------------------------------------------------------------- separators

bool GrammarLiveness::separates(const Separator &separator, Re boundary) {
  for (unsigned char c : separator.text) {
    boundary = lexemes_.rest_of(boundary, c);
    if (boundary == RegexSpace::EMPTY) return true;
    if (lexemes_.nullable(boundary)) return false;
  }
  return false;  // it might continue into what follows
}

std::string GrammarLiveness::separator(Re boundary) {
  for (const Separator &s : separators_)
    if (separates(s, boundary)) return s.text;
  return {};
}

bool GrammarLiveness::separable(Re boundary) {
  if (auto it = separable_.find(boundary); it != separable_.end()) return it->second;
  // subtle: stored only when it is known, since the computation may reach a limit.
  const bool found =
      std::any_of(separators_.begin(), separators_.end(), [&](const Separator &s) { return separates(s, boundary); });
  return separable_[boundary] = found;
}

void GrammarLiveness::find_separators() {
  for (uint32_t t : g_.ignore) {
    if (plain_[t] == Lexemes::DEAD) continue;
    for (int b = 0; b < 256 && separators_.size() < 8; ++b) {
      const LexemeState s = lexemes_.step(plain_[t], static_cast<uint8_t>(b));
      if (s != Lexemes::DEAD && lexemes_.complete(s))
        separators_.push_back({std::string(1, static_cast<char>(b)), lexemes_.after(s)});
    }
  }
  // Keeps separators after which every terminal can be written, up to a boundary where a separator can stand again.
  for (bool changed = true; changed && !separators_.empty();) {
    changed = false;
    free_.clear();
    separable_.clear();
    // subtle: this reads the list that it erases from. Elements move only in rounds that are not the last one.
    std::erase_if(separators_, [&](const Separator &s) {
      for (uint32_t t = 0; t < g_.terminals.size(); ++t) {
        if (g_.terminals[t].kind != GrammarTerminal::Text || plain_[t] == Lexemes::DEAD) continue;
        if (lexer_.ignores(t) || g_.indentation.newline == t) continue;
        const LexemeState begin = this->begin(t, s.after);
        if (begin == Lexemes::DEAD || !(begin == plain_[t] ? stops(t) : free(begin))) return changed = true;
      }
      return false;
    });
  }
}

bool GrammarLiveness::stops(uint32_t t) {
  bool known = true;
  for (const Separator &s : separators_) {
    const std::optional<bool> found = lexer_.ends_before(t, s.text);
    if (found.value_or(false)) return true;
    known &= found.has_value();
  }
  return !known && free(plain_[t]);
}

bool GrammarLiveness::free(LexemeState s) {
  if (separators_.empty()) return false;  // a search would find none either
  if (auto it = free_.find(s); it != free_.end()) return it->second;
  // Breadth first: most lexemes end within a few bytes. State by state: a name has a hundred next states when no
  // keyword matches any more.
  auto known = [&](LexemeState at) {
    if (auto it = free_.find(at); it != free_.end()) return it->second;
    return lexemes_.complete(at) && separable(lexemes_.after(at));
  };
  std::deque<LexemeState> queue{s};
  std::set<LexemeState> met{s};
  bool found = s != Lexemes::DEAD && known(s);
  while (!queue.empty() && !found && met.size() < MOST_STATES) {
    charge();
    const LexemeState now = queue.front();
    queue.pop_front();
    const std::bitset<256> bytes = lexemes_.first(now);
    for (size_t b = 0; b < 256 && !found; ++b) {
      if (!bytes.test(b)) continue;
      const LexemeState to = lexemes_.step(now, static_cast<uint8_t>(b));
      if (to == Lexemes::DEAD || !met.insert(to).second) continue;
      found = known(to);
      if (!found && !free_.contains(to)) queue.push_back(to);
    }
  }
  return free_[s] = found;
}

bool GrammarLiveness::all_free(Lexemes::Fragment &f) {
  if (always_) return true;
  if (f.asked_by != serial_) {
    f.free = std::all_of(f.ends.begin(), f.ends.end(), [&](LexemeState s) { return free(s); });
    f.asked_by = serial_;
  }
  return f.free;
}

// ---------------------------------------------------------------- without separators

namespace {

// By rule and terminal: can a text of the rule begin, or end, with the terminal?
struct EdgeTerminals {
  std::vector<std::vector<bool>> first, last;
};

EdgeTerminals edge_terminals(const Grammar &g) {
  const size_t rules = g.rules.size(), terminals = g.terminals.size();
  EdgeTerminals out;
  auto &[first, last] = out;
  for (uint32_t r = 0; r < rules; ++r) {
    charge(2 + terminals / BITS_PER_UNIT);
    first.emplace_back(terminals);
    last.emplace_back(terminals);
  }
  auto add = [&](std::vector<bool> &to, Symbol s, const std::vector<std::vector<bool>> &of) {
    bool changed = false;
    if (s < 0) {
      const auto t = static_cast<uint32_t>(~s);
      changed = !to[t];
      to[t] = true;
      return changed;
    }
    charge(1 + terminals / 16);
    for (size_t t = 0; t < terminals; ++t)
      if (of[static_cast<uint32_t>(s)][t] && !to[t]) to[t] = changed = true;
    return changed;
  };
  // A rule is processed again only after a rule that it uses has grown.
  std::vector<std::vector<uint32_t>> users(rules);
  std::vector<uint32_t> pending;
  std::vector<bool> is_pending(rules, true);
  for (uint32_t r = 0; r < rules; ++r) {
    pending.push_back(r);
    charge(1 + g.productions(r).size());
    for (Item begin : g.productions(r))
      for (Item i = begin; g.symbols[i] != Grammar::END; ++i)
        if (g.symbols[i] >= 0) users[static_cast<uint32_t>(g.symbols[i])].push_back(r);
  }
  while (!pending.empty()) {
    const uint32_t r = pending.back();
    pending.pop_back();
    is_pending[r] = false;
    charge();
    bool changed = false;
    for (Item begin : g.productions(r)) {
      charge();
      Item end = begin;
      while (g.symbols[end] != Grammar::END) ++end;
      for (Item i = begin; i < end; ++i) {
        changed |= add(first[r], g.symbols[i], first);
        if (!g.nullable(g.symbols[i])) break;
      }
      for (Item i = end; i > begin; --i) {
        changed |= add(last[r], g.symbols[i - 1], last);
        if (!g.nullable(g.symbols[i - 1])) break;
      }
    }
    if (!changed) continue;
    for (uint32_t user : users[r])
      if (!is_pending[user]) {
        is_pending[user] = true;
        pending.push_back(user);
      }
  }
  return out;
}

}  // namespace

// Can all terminals that the grammar allows in sequence be written so, at each end of the lexeme before?
bool GrammarLiveness::fits_everywhere() {
  const size_t rules = g_.rules.size(), terminals = g_.terminals.size();
  if (rules * terminals > 4'000'000) return false;
  // Text to ignore may stand before and after anything.
  for (uint32_t i : g_.ignore)
    if (plain_[i] != Lexemes::DEAD) return false;
  const auto &[first, last] = edge_terminals(g_);
  auto each = [&](Symbol s, const std::vector<std::vector<bool>> &of, auto visit) {
    if (s < 0) return visit(static_cast<uint32_t>(~s));
    charge(1 + terminals / 16);
    for (uint32_t t = 0; t < terminals; ++t)
      if (of[static_cast<uint32_t>(s)][t] && !visit(t)) return false;
    return true;
  };
  std::vector<std::vector<bool>> known(terminals);  // rows are computed when they are needed; mostly few are
  size_t asked = 0;
  auto fits = [&](uint32_t a, uint32_t b) {
    if (++asked % PAIRS_PER_UNIT == 0) charge();
    if (known[a].empty()) {
      charge(1 + terminals / BITS_PER_UNIT);
      known[a].resize(terminals);
    }
    if (known[a][b]) return true;
    charge(2);
    if (g_.terminals[a].kind == GrammarTerminal::Text && g_.terminals[b].kind == GrammarTerminal::Text) {
      const Ends &ends = this->ends(plain_[a], ANYTHING, MOST_STATES);
      if (!ends.all) return false;
      for (auto &[boundary, text] : ends.found)
        // No forbidden text begins with this byte, so no restriction continues after it.
        if ((lexemes_.first(plain_[b]) & ~lexemes_.first_of(boundary.after)).none()) return false;
    }
    return static_cast<bool>(known[a][b] = true);
  };
  for (uint32_t r = 0; r < rules; ++r)
    for (Item begin : g_.productions(r))
      for (Item i = begin; g_.symbols[i] != Grammar::END; ++i)
        for (Item j = i + 1; g_.symbols[j] != Grammar::END; ++j) {
          const bool good = each(g_.symbols[i], last, [&](uint32_t a) {
            return each(g_.symbols[j], first, [&](uint32_t b) { return fits(a, b); });
          });
          if (!good) return false;
          if (!g_.nullable(g_.symbols[j])) break;
        }
  return true;
}

bool GrammarLiveness::empty() {
  const OuterState outer = lexemes_.begin_outer(g_.outer_language);
  if (outer == Lexemes::DEAD) return true;
  if (outer == ANYTHING && always_) return false;
  if (outer != ANYTHING) {
    chart_ = std::make_unique<Chart>(*this);
    if (const std::optional<bool> none = chart_->empty()) return *none;
    chart_.reset();
  }
  Search search(*this, false, outer == ANYTHING ? MOST_STATES : MANY_STATES);
  bool alive = search.from_start(items_.items(items_.start())[0], outer), spent = search.spent();
  if (!alive && has_contexts()) {
    Arena scratch;
    alive = in_contexts(earley_.start(scratch), RegexSpace::EMPTY, &spent, scratch) || spent;
  }
  if (spent) ++unproven_;
  return !alive;
}

std::optional<uint32_t> GrammarLiveness::opened(uint32_t brackets, uint32_t t) const {
  const int change = g_.indentation.bracket(t);
  if (change < 0 && brackets == 0) return std::nullopt;
  return brackets + static_cast<uint32_t>(change);
}

// Decides liveness from the terminals that may come next, without a search, if possible.
GrammarLiveness::Near GrammarLiveness::near(Outlook outlook, uint32_t brackets, Re boundary) {
  const Hash128 key = hash_words(NEAR, outlook, boundary, brackets > 0);  // their number does not matter
  if (auto it = near_.find(key); it != near_.end()) return it->second;
  Near found = Near::Dead;
  auto look_at = [&](uint32_t t) {
    const GrammarTerminal &terminal = g_.terminals[t];
    if (terminal.kind != GrammarTerminal::Text) {
      // Indentation terminals come directly after a newline only, and have no text.
      if (!terminal.is_made()) found = Near::Open;
      return false;
    }
    const LexemeState s = opened(brackets, t) ? begin(t, boundary) : Lexemes::DEAD;
    if (s == Lexemes::DEAD) return false;
    found = Near::Open;
    return free(s);
  };
  const auto expected = items_.expected(outlook);
  if (std::any_of(expected.begin(), expected.end(), look_at) ||
      std::any_of(g_.ignore.begin(), g_.ignore.end(), look_at) || (brackets > 0 && look_at(g_.indentation.newline)))
    found = Near::Free;
  return near_[key] = found;
}

// The result of a search depends on the whole set that it starts from.
void GrammarLiveness::record_dependencies(MaskDependencies &dependencies) const {
  dependencies.record_identity();
  if (!g_.indentation.change.empty()) dependencies.record_all_brackets();
}

bool GrammarLiveness::can_continue(const EarleySet *set, uint32_t brackets, bool after_newline, Re boundary,
                                   MaskDependencies *dependencies, Arena &scratch) {
  if (set->accepting || separable(boundary)) return true;
  switch (near(set->outlook, brackets, boundary)) {
    case Near::Free: return true;
    case Near::Dead:
      if (!after_newline && !has_contexts()) return false;
      break;
    case Near::Open: break;
  }
  if (dependencies) record_dependencies(*dependencies);
  const Hash128 key = extend(hash_words(CONTINUE, boundary, brackets), earley_.rest(set, nullptr));
  if (auto known = known_liveness_.find(key); known != known_liveness_.end()) return known->second;
  Search search(*this, false, MOST_STATES);
  const End end{{boundary, ANYTHING}, {}};
  bool alive = search.from(set, brackets, {&end, 1}), spent = search.spent();
  if (!alive && has_contexts()) alive = in_contexts(set, boundary, &spent, scratch) || spent;
  if (spent) ++unproven_;
  if (known_liveness_.size() > MOST_KNOWN) known_liveness_.clear();
  return known_liveness_[key] = alive;
}

// The set after a lexeme of `t`; null: it is not expected there.
const EarleySet *GrammarLiveness::after(const EarleySet *set, uint32_t brackets, uint32_t t,
                                        MaskDependencies *dependencies, Arena &scratch) {
  if (lexer_.ignores(t) || (brackets > 0 && t == g_.indentation.newline)) return set;
  Earley::Builder builder(earley_, dependencies);
  builder.recognised(set, ~static_cast<Symbol>(t));
  return builder.finish(scratch);
}

bool GrammarLiveness::is_lexeme_live(const EarleySet *set, uint32_t brackets, uint32_t t, LexemeState s,
                                     OuterState outer, MaskDependencies *dependencies, Arena &scratch) {
  if (outer == ANYTHING && (always_ || free(s))) return true;
  if (ends_.size() > MOST_KNOWN) ends_.clear();  // subtle: only here, since running searches refer to entries
  if (outer != ANYTHING) return is_lexeme_live_in_both(set, brackets, t, s, outer, dependencies, scratch);
  const Arena::Mark mark = scratch.mark();
  const EarleySet *next = after(set, brackets, t, dependencies, scratch);
  // After a closing bracket, the continuation depends on whether it was the last open one.
  if (dependencies && g_.indentation.bracket(t) < 0 && brackets > 0) dependencies->record_brackets(brackets);
  const std::optional<uint32_t> open = opened(brackets, t);
  auto lives = [&] {
    if (!next || !open) return false;
    // A lexeme with thousands of states, such as a part of a long text, mostly has a near end after which the text can
    // be completed.
    for (const size_t states : {NEAR_STATES, MOST_STATES}) {
      const Ends &boundaries = ends(s, outer, states);
      if (states == MOST_STATES && !boundaries.all) break;
      if (std::any_of(boundaries.found.begin(), boundaries.found.end(), [&](const End &end) {
            return can_continue(next, *open, t == g_.indentation.newline, end.boundary.after, dependencies, scratch);
          }))
        return true;
      if (boundaries.all) return false;
    }
    ++unproven_;
    return true;
  };
  const bool alive = lives();
  scratch.release(mark);
  return alive;
}

bool GrammarLiveness::is_nonlexical_live(const EarleySet *set, uint32_t brackets, uint32_t t,
                                         MaskDependencies *dependencies, Arena &scratch) {
  if (always_ || separable(RegexSpace::EMPTY)) return true;
  const Arena::Mark mark = scratch.mark();
  const EarleySet *next = after(set, brackets, t, dependencies, scratch);
  const bool alive = next && can_continue(next, brackets, false, RegexSpace::EMPTY, dependencies, scratch);
  scratch.release(mark);
  return alive;
}

bool GrammarLiveness::is_reachable(LexemeState s, OuterState outer) {
  return !chart_ || chart_->is_reachable(s, outer);
}

// Can the text be completed after the nearest end of a lexeme? The result belongs to the set after it, which other
// lexemes reach as well.
bool GrammarLiveness::leads_on(const EarleySet *set, uint32_t brackets, const End &end) {
  if (set->accepting && lexemes_.may_end(end.boundary.outer)) return true;
  const Hash128 key =
      extend(hash_words(NEAREST, end.boundary.after, brackets, end.boundary.outer), earley_.rest(set, nullptr));
  if (auto known = known_liveness_.find(key); known != known_liveness_.end()) return known->second;
  Search search(*this, false, FEW_STATES);
  return known_liveness_[key] = search.from(set, brackets, {&end, 1}) && !search.spent();
}

// Otherwise one search follows all ends of the lexeme: first with few states of lexemes, then with all of them.
bool GrammarLiveness::is_lexeme_live_in_both(const EarleySet *set, uint32_t brackets, uint32_t t, LexemeState s,
                                             OuterState outer, MaskDependencies *dependencies, Arena &scratch) {
  if (dependencies) record_dependencies(*dependencies);
  const Hash128 key =
      extend(hash_words(LEXEME, static_cast<uint64_t>(t) << 32 | brackets, s, outer), earley_.rest(set, nullptr));
  if (auto known = known_liveness_.find(key); known != known_liveness_.end()) return known->second;
  const Arena::Mark mark = scratch.mark();
  const EarleySet *next = after(set, brackets, t, nullptr, scratch);
  const std::optional<uint32_t> open = opened(brackets, t);
  auto lives = [&] {
    if (chart_)
      if (const std::optional<bool> known = chart_->alive(next, s, outer)) return *known;
    for (const size_t states : {FEW_STATES, MANY_STATES}) {
      const Ends &boundaries = ends(s, outer, states);
      if (boundaries.found.empty() && boundaries.all) return false;
      if (!boundaries.found.empty() && leads_on(next, *open, boundaries.found[0])) return true;
      Search search(*this, false, states);
      if (search.from(next, *open, boundaries.found) && !search.spent()) return true;
      if (boundaries.all && !search.left_out() && !search.spent()) return false;
    }
    ++unproven_;
    return true;
  };
  const bool alive = next && open && lives();
  scratch.release(mark);
  if (known_liveness_.size() > MOST_KNOWN) known_liveness_.clear();
  return known_liveness_[key] = alive;
}

// Searches for a completion from `set` on, after the ends among this number of states of a lexeme.
template <class EndsOf>
std::optional<std::string> GrammarLiveness::written(const EarleySet *set, uint32_t brackets, const EndsOf &ends_of) {
  measure_items();
  if (fewest_after(set) > MOST_WRITTEN) return std::nullopt;
  for (const size_t states : {FEW_STATES, MANY_STATES}) {
    Search search(*this, true, states);
    if (search.from(set, brackets, ends_of(states)) && !search.spent()) return search.text();
  }
  return std::nullopt;
}

std::optional<std::string> GrammarLiveness::completion(const EarleySet *set, uint32_t brackets, OuterState outer,
                                                       Arena &scratch) {
  const End here{{RegexSpace::EMPTY, outer}, {}};
  if (chart_) {
    measure_items();
    const Chart::Ended end{{RegexSpace::EMPTY, outer}, {}};
    if (auto text = chart_->completion(set, {&end, 1}, scratch)) return text;
  }
  std::optional<std::string> found = written(set, brackets, [&](size_t) { return std::span(&here, 1); });
  bool spent;
  return found || !has_contexts() ? found : in_contexts(set, RegexSpace::EMPTY, &spent, scratch);
}

std::optional<std::string> GrammarLiveness::completion(const EarleySet *set, uint32_t brackets, uint32_t t,
                                                       LexemeState s, OuterState outer, Arena &scratch) {
  const EarleySet *next = after(set, brackets, t, nullptr, scratch);
  const std::optional<uint32_t> open = opened(brackets, t);
  if (!next || !open) return std::nullopt;
  if (chart_) {
    measure_items();
    if (const std::vector<Chart::Ended> *ended = chart_->written(s, outer))
      if (auto text = chart_->completion(next, std::vector(*ended), scratch)) return text;
  }
  auto all = [&](size_t states) { return std::span(ends(s, outer, states).found); };
  std::optional<std::string> found = written(next, *open, all);
  if (found || !has_contexts()) return found;
  for (const End &end : all(MANY_STATES)) {
    bool spent;
    if (auto rest = in_contexts(next, end.boundary.after, &spent, scratch)) return end.text + *rest;
  }
  return std::nullopt;
}

}  // namespace structgen
