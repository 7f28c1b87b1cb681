#include "grammar_life.h"

#include <algorithm>
#include <bitset>
#include <deque>
#include <set>
#include <tuple>

namespace structgen {
namespace {

constexpr size_t MOST_STATES = 3'000;  // of a lexeme, looked at to find its ends
constexpr size_t MOST_ENDS = 64;
constexpr uint64_t PLACE = 81, NEAR = 82, LEXEME = 83;

}  // namespace

GrammarLife::GrammarLife(const Grammar &grammar, ItemSets &items, Lexer &lexer, Earley &earley, size_t budget)
    : g_(grammar), items_(items), lexer_(lexer), lexemes_(lexer.lexemes()), earley_(earley), budget_(budget) {
  if (g_.lexing == Lexing::Scannerless) {
    always_ = true;
    return;
  }
  plain_.resize(g_.terminals.size());
  for (uint32_t t = 0; t < g_.terminals.size(); ++t) {
    if (g_.terminals[t].kind != GrammarTerminal::Text || lexer_.dead()[t]) continue;
    plain_[t] = lexer_.plain(t);
    // Where only some compete: what is written as if all did is written right, too. A terminal that would never win
    // then has competitors less.
    if (plain_[t] == Lexemes::DEAD) plain_[t] = lexer_.alone(t);
  }
  find_separators();
  always_ = separators_.empty() && !g_.contextual && !g_.indentation.active() && fits_everywhere();
}

LexemeState GrammarLife::begin(uint32_t t, Re boundary) {
  if (plain_[t] == Lexemes::DEAD) return Lexemes::DEAD;
  if ((lexemes_.first(plain_[t]) & lexemes_.first_of(boundary)).none()) return plain_[t];
  return lexemes_.restricted(plain_[t], boundary);
}

// ---------------------------------------------------------------- separators

bool GrammarLife::separates(const Separator &separator, Re boundary) {
  for (unsigned char c : separator.text) {
    boundary = lexemes_.rest_of(boundary, c);
    if (boundary == RegexSpace::EMPTY) return true;
    if (lexemes_.nullable(boundary)) return false;
  }
  return false;  // it might go on into what follows
}

std::string GrammarLife::separator(Re boundary) {
  for (const Separator &s : separators_)
    if (separates(s, boundary)) return s.text;
  return {};
}

bool GrammarLife::separable(Re boundary) {
  if (auto it = separable_.find(boundary); it != separable_.end()) return it->second;
  // subtle: kept when it is known, since a limit may be met on the way.
  const bool found =
      std::any_of(separators_.begin(), separators_.end(), [&](const Separator &s) { return separates(s, boundary); });
  return separable_[boundary] = found;
}

void GrammarLife::find_separators() {
  for (uint32_t t : g_.ignore) {
    if (plain_[t] == Lexemes::DEAD) continue;
    for (int b = 0; b < 256 && separators_.size() < 8; ++b) {
      const LexemeState s = lexemes_.step(plain_[t], static_cast<uint8_t>(b));
      if (s != Lexemes::DEAD && lexemes_.complete(s))
        separators_.push_back({std::string(1, static_cast<char>(b)), lexemes_.after(s)});
    }
  }
  // Those stay after which every terminal can be written, up to a boundary where one of those can stand.
  for (bool changed = true; changed && !separators_.empty();) {
    changed = false;
    free_.clear();
    separable_.clear();
    std::erase_if(separators_, [&](const Separator &s) {
      for (uint32_t t = 0; t < g_.terminals.size(); ++t) {
        if (g_.terminals[t].kind != GrammarTerminal::Text || plain_[t] == Lexemes::DEAD) continue;
        if (lexer_.ignores(t) || g_.indentation.newline == t) continue;
        const LexemeState begin = this->begin(t, s.after);
        if (begin == Lexemes::DEAD || !free(begin)) return changed = true;
      }
      return false;
    });
  }
}

bool GrammarLife::free(LexemeState s) {
  if (auto it = free_.find(s); it != free_.end()) return it->second;
  // Breadth first: most lexemes end within a few bytes.
  std::deque<LexemeState> queue{s};
  std::set<LexemeState> met{s};
  bool found = false;
  while (!queue.empty() && !found && met.size() < MOST_STATES) {
    const LexemeState now = queue.front();
    queue.pop_front();
    if (lexemes_.complete(now) && separable(lexemes_.after(now))) {
      found = true;
      break;
    }
    if (auto it = free_.find(now); it != free_.end() && now != s) {
      found = it->second;
      if (found) break;
      continue;
    }
    for (LexemeState to : lexemes_.successors(now))
      if (met.insert(to).second) queue.push_back(to);
  }
  return free_[s] = found;
}

bool GrammarLife::all_free(Lexemes::Fragment &f) {
  if (always_) return true;
  if (f.asked_by != this) {
    f.free = std::all_of(f.ends.begin(), f.ends.end(), [&](LexemeState s) { return free(s); });
    f.asked_by = this;
  }
  return f.free;
}

// ---------------------------------------------------------------- without separators

const GrammarLife::Ends &GrammarLife::ends(LexemeState s) {
  if (auto it = ends_.find(s); it != ends_.end()) return it->second;
  Ends out;
  std::deque<LexemeState> queue{s};
  std::set<LexemeState> met{s};
  std::set<Re> after;
  while (!queue.empty()) {
    const LexemeState now = queue.front();
    queue.pop_front();
    if (lexemes_.complete(now)) after.insert(lexemes_.after(now));
    if (met.size() > MOST_STATES || after.size() > MOST_ENDS) {
      out.all = false;
      break;
    }
    for (LexemeState to : lexemes_.successors(now))
      if (met.insert(to).second) queue.push_back(to);
  }
  out.after.assign(after.begin(), after.end());
  return ends_[s] = std::move(out);
}

// Can whatever the grammar puts side by side be written so, wherever the lexeme before it ends?
bool GrammarLife::fits_everywhere() {
  const size_t rules = g_.rules.size(), terminals = g_.terminals.size();
  std::vector<std::vector<bool>> first(rules, std::vector<bool>(terminals)), last = first;
  if (rules * terminals > 4'000'000) return false;
  auto add = [&](std::vector<bool> &to, Symbol s, const std::vector<std::vector<bool>> &of) {
    bool changed = false;
    if (s < 0) {
      const auto t = static_cast<uint32_t>(~s);
      changed = !to[t];
      to[t] = true;
      return changed;
    }
    for (size_t t = 0; t < terminals; ++t)
      if (of[static_cast<uint32_t>(s)][t] && !to[t]) to[t] = changed = true;
    return changed;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t r = 0; r < rules; ++r)
      for (Item begin : g_.productions(r)) {
        Item end = begin;
        while (g_.symbols[end] != Grammar::END) ++end;
        for (Item i = begin; i < end; ++i) {
          if (add(first[r], g_.symbols[i], first)) changed = true;
          if (!g_.nullable(g_.symbols[i])) break;
        }
        for (Item i = end; i > begin; --i) {
          if (add(last[r], g_.symbols[i - 1], last)) changed = true;
          if (!g_.nullable(g_.symbols[i - 1])) break;
        }
      }
  }
  auto each = [&](Symbol s, const std::vector<std::vector<bool>> &of, auto visit) {
    if (s < 0) return visit(static_cast<uint32_t>(~s));
    for (uint32_t t = 0; t < terminals; ++t)
      if (of[static_cast<uint32_t>(s)][t] && !visit(t)) return false;
    return true;
  };
  std::vector<std::vector<bool>> known(terminals, std::vector<bool>(terminals));
  auto fits = [&](uint32_t a, uint32_t b) {
    if (known[a][b]) return true;
    if (g_.terminals[a].kind == GrammarTerminal::Text && g_.terminals[b].kind == GrammarTerminal::Text) {
      const Ends &after = ends(plain_[a]);
      if (!after.all) return false;
      for (Re boundary : after.after)
        // A byte that what must not follow does not begin with: then nothing of it is carried on either.
        if ((lexemes_.first(plain_[b]) & ~lexemes_.first_of(boundary)).none()) return false;
    }
    return static_cast<bool>(known[a][b] = true);
  };
  // Text to ignore may stand before and after anything.
  for (uint32_t i : g_.ignore)
    if (plain_[i] != Lexemes::DEAD)
      return false;
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

// ---------------------------------------------------------------- the search

// Facts are (item, what its end leads to, boundary): the item's production has been written up to the dot, and
// the boundary is what the last lexeme left. A production that ends leads to a goal (a rule from a boundary on,
// whose results others wait for) or back to an Earley set.
class GrammarLife::Search {
 public:
  Search(GrammarLife &life, bool in_brackets) : l_(life), in_brackets_(in_brackets) {}

  bool from(const EarleySet *set, Re boundary) {
    for (uint32_t i = 0; i < set->count; ++i) {
      if (set->accepting) return true;
      for (Item item : l_.items_.items(set->kernels[i])) follow(item, back_to(set->origins[i]), boundary);
    }
    return set->accepting || run();
  }
  bool from_start(Item start) {
    follow(start, back_to(nullptr), RegexSpace::EMPTY);
    return run();
  }
  bool spent() const { return spent_; }

 private:
  using Return = uint32_t;  // an index into returns_
  struct ReturnTo {
    const EarleySet *set = nullptr;  // back into this set; null with no rule: the text ends
    bool is_goal = false;
    uint32_t rule = 0;
    std::vector<Re> results;
    std::vector<std::pair<Item, Return>> waiting;
  };
  struct Fact {
    Item item;
    Return to;
    Re boundary;
    auto operator<=>(const Fact &) const = default;
  };

  Return back_to(const EarleySet *set) {
    auto [it, fresh] = sets_.try_emplace(set, static_cast<Return>(returns_.size()));
    if (fresh) {
      returns_.emplace_back();
      returns_.back().set = set;
    }
    return it->second;
  }

  void follow(Item item, Return to, Re boundary) {
    const Fact fact{item, to, boundary};
    if (met_.insert(fact).second) work_.push_back(fact);
  }

  bool run() {
    while (!work_.empty() && !alive_) {
      if (met_.size() > l_.budget_) {
        spent_ = true;
        return true;
      }
      const Fact fact = work_.back();
      work_.pop_back();
      step(fact);
    }
    return alive_;
  }

  void step(const Fact &fact) {
    if (l_.separable(fact.boundary)) {
      alive_ = true;
      return;
    }
    const Symbol s = l_.items_.symbol_before(fact.item);
    if (s == Grammar::END) return end(l_.items_.head(fact.item), fact.to, fact.boundary);
    if (s < 0) {
      const auto t = static_cast<uint32_t>(~s);
      const GrammarTerminal &terminal = l_.g_.terminals[t];
      if (terminal.kind == GrammarTerminal::Text) {
        for (Re before : ignored(fact.boundary)) lexeme(t, before, fact.item + 1, fact.to);
        if (terminal.nullable) follow(fact.item + 1, fact.to, fact.boundary);
      } else {
        // What the indentation makes has no text; after a special token nothing of a lexeme is left.
        const bool made = terminal.token == UINT32_MAX && terminal.kind == GrammarTerminal::Special;
        follow(fact.item + 1, fact.to, made ? fact.boundary : RegexSpace::EMPTY);
      }
      return;
    }
    const auto key = std::make_pair(static_cast<uint32_t>(s), fact.boundary);
    auto [it, fresh] = goals_.try_emplace(key, static_cast<Return>(returns_.size()));
    const Return goal = it->second;
    if (fresh) {
      returns_.emplace_back();
      returns_.back().is_goal = true;
      returns_.back().rule = static_cast<uint32_t>(s);
      for (Item first : l_.g_.productions(static_cast<uint32_t>(s))) follow(first, goal, fact.boundary);
    }
    returns_[goal].waiting.push_back({fact.item + 1, fact.to});
    for (size_t i = 0; i < returns_[goal].results.size(); ++i) follow(fact.item + 1, fact.to, returns_[goal].results[i]);
  }

  void lexeme(uint32_t t, Re boundary, Item next, Return to) {
    const LexemeState begin = l_.begin(t, boundary);
    if (begin == Lexemes::DEAD) return;
    const Ends &ends = l_.ends(begin);
    if (!ends.all) {
      spent_ = alive_ = true;
      return;
    }
    for (Re after : ends.after) follow(next, to, after);
  }

  // Boundaries after any text to ignore.
  std::vector<Re> ignored(Re boundary) {
    std::vector<Re> out{boundary};
    auto read_over = [&](uint32_t t, Re before) {
      const LexemeState begin = l_.begin(t, before);
      if (begin == Lexemes::DEAD) return;
      const Ends &ends = l_.ends(begin);
      if (!ends.all) spent_ = alive_ = true;
      for (Re after : ends.after)
        if (std::find(out.begin(), out.end(), after) == out.end()) out.push_back(after);
    };
    for (size_t i = 0; i < out.size() && out.size() < MOST_ENDS; ++i) {
      for (uint32_t t : l_.g_.ignore) read_over(t, out[i]);
      if (in_brackets_) read_over(l_.g_.indentation.newline, out[i]);
    }
    return out;
  }

  void end(uint32_t rule, Return to, Re boundary) {
    if (rule == l_.items_.accepting_rule()) {
      alive_ = true;
      return;
    }
    if (returns_[to].is_goal) {
      std::vector<Re> &results = returns_[to].results;
      if (std::find(results.begin(), results.end(), boundary) != results.end()) return;
      results.push_back(boundary);
      for (size_t i = 0; i < returns_[to].waiting.size(); ++i) {
        const auto [item, next] = returns_[to].waiting[i];
        follow(item, next, boundary);
      }
      return;
    }
    const EarleySet *set = returns_[to].set;
    std::vector<Item> items;
    for (uint32_t i = 0; i < set->count; ++i) {
      items.clear();
      l_.items_.moved_items(set->kernels[i], static_cast<Symbol>(rule), &items);
      for (Item item : items) follow(item, back_to(set->origins[i]), boundary);
    }
    items.clear();
    l_.items_.predicted_items(set->outlook, static_cast<Symbol>(rule), &items);
    for (Item item : items) follow(item, to, boundary);
  }

  GrammarLife &l_;
  bool in_brackets_;
  bool alive_ = false, spent_ = false;
  std::deque<ReturnTo> returns_;
  std::unordered_map<const EarleySet *, Return> sets_;
  std::map<std::pair<uint32_t, Re>, Return> goals_;
  std::set<Fact> met_;
  std::vector<Fact> work_;
};

bool GrammarLife::empty() {
  if (always_) return false;
  Search search(*this, false);
  const bool alive = search.from_start(items_.items(items_.start())[0]);
  if (search.spent()) ++unproven_;
  return !alive;
}

// What the terminals that may come next tell by themselves.
GrammarLife::Near GrammarLife::near(Outlook outlook, bool in_brackets, Re boundary) {
  const Hash128 key = hash_words(NEAR, outlook, boundary, in_brackets);
  if (auto it = near_.find(key); it != near_.end()) return it->second;
  Near found = Near::Dead;
  auto look_at = [&](uint32_t t) {
    const GrammarTerminal &terminal = g_.terminals[t];
    if (terminal.kind != GrammarTerminal::Text) {
      // What an indentation makes comes right after a newline only, and is no text.
      if (terminal.token != UINT32_MAX || terminal.kind != GrammarTerminal::Special) found = Near::Open;
      return false;
    }
    const LexemeState s = begin(t, boundary);
    if (s == Lexemes::DEAD) return false;
    found = Near::Open;
    return free(s);
  };
  const auto expected = items_.expected(outlook);
  if (std::any_of(expected.begin(), expected.end(), look_at) ||
      std::any_of(g_.ignore.begin(), g_.ignore.end(), look_at) || (in_brackets && look_at(g_.indentation.newline)))
    found = Near::Free;
  return near_[key] = found;
}

bool GrammarLife::place(const EarleySet *set, bool in_brackets, bool after_newline, Re boundary, Reads *reads) {
  if (set->accepting || separable(boundary)) return true;
  switch (near(set->outlook, in_brackets, boundary)) {
    case Near::Free: return true;
    case Near::Dead:
      if (!after_newline) return false;
      break;
    case Near::Open: break;
  }
  if (reads) reads->ask_identity();
  const Hash128 key = extend(hash_words(PLACE, boundary, in_brackets), set->identity);
  if (auto known = places_.find(key); known != places_.end()) return known->second;
  Search search(*this, in_brackets);
  const bool alive = search.from(set, boundary);
  if (search.spent()) ++unproven_;
  if (places_.size() > 100'000) places_.clear();
  return places_[key] = alive;
}

bool GrammarLife::lexeme(const EarleySet *set, bool in_brackets, uint32_t t, LexemeState s, Reads *reads,
                         Arena &scratch) {
  if (always_ || free(s)) return true;
  const Ends &boundaries = ends(s);
  if (!boundaries.all) {
    ++unproven_;
    return true;
  }
  const Arena::Mark mark = scratch.mark();
  const EarleySet *after = set;
  if (!lexer_.ignores(t) && !(in_brackets && t == g_.indentation.newline)) {
    Earley::Builder builder(earley_, reads);
    builder.recognised(set, ~static_cast<Symbol>(t));
    after = builder.finish(scratch);
  }
  const bool alive = after && std::any_of(boundaries.after.begin(), boundaries.after.end(), [&](Re boundary) {
    return place(after, in_brackets, t == g_.indentation.newline, boundary, reads);
  });
  scratch.release(mark);
  return alive;
}

}  // namespace structgen
