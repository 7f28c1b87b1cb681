// The lexer of one grammar: which terminals are being read, from which context on.
//
// A *context* is what the parser expects at a position: the terminals that may come next, including those to ignore. A
// state is the set of lexemes that are possible since that position, as (terminal, lexeme state) pairs. The lexer
// itself skips text to ignore: after it the context starts again, and the parser never sees that text.
//
// The rule of a lexer is compiled once into two regular languages for each terminal: its texts that win against all
// other terminals, and what must not follow, since the lexer would then have matched more, or another terminal
//   longest:  texts that no better terminal has; no beginning of the rest may make a longer match of any
//   ordered:  texts that do not begin with a match of an earlier scanner; nor may the rest let one of those, or
//             the terminal's own scanner, match (more)
// Without a rule (scannerless) a terminal's texts are its language, and anything may follow.
//
// A *lazy* terminal ends where it first matches. So no text of another terminal begins with a match of a lazy one, and
// anything may follow a lazy lexeme. Lazy terminals that first match at the same place are all read there.
#pragma once

#include <bitset>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/grammar.h"
#include "text/lexemes.h"

namespace structgen {

using Context = uint32_t;   // 0: nothing may come
using LexState = uint32_t;  // 0: dead

class Lexer {
 public:
  static constexpr LexState DEAD = 0;
  static constexpr LexState FRESH = UINT32_MAX;  // nothing of a lexeme has been read

  struct Running {
    uint32_t terminal;
    LexemeState lexeme;
    bool operator==(const Running &) const = default;
  };
  struct End {  // a terminal that may end here, if what follows has no beginning in `after`
    uint32_t terminal;
    Re after;
  };

  Lexer(const Grammar &grammar, Lexemes &lexemes, size_t most);

  // Terminals that no lexeme can be, by the lexer's rule and the bytes there are.
  const std::vector<bool> &dead() const { return dead_; }

  // A lexeme of `t` where all terminals compete; where none does.
  LexemeState plain(uint32_t t) { return lexemes_.begin(words_[t].language, words_[t].beyond, RegexSpace::EMPTY); }
  LexemeState alone(uint32_t t) {
    return lexemes_.begin(g_.terminals[t].language, g_.terminals[t].language, RegexSpace::EMPTY);
  }

  // May `t`, whose lexemes begin in state `s`, begin with one of these bytes? A text needs no row of its state for
  // that.
  bool may_begin(uint32_t t, LexemeState s, const std::bitset<256> &bytes) {
    if (literal_[t] && !literal_[t]->empty()) return bytes.test(static_cast<uint8_t>(literal_[t]->front()));
    return (lexemes_.first(s) & bytes).any();
  }
  // Does a lexeme of `t` end before `separator`, independent of the text after it? No longer lexeme may begin so. Only
  // for terminals with one text, under rule "longest" with all terminals competing; nullopt for others.
  std::optional<bool> ends_before(uint32_t t, std::string_view separator) const;

  // `barred`: expected terminals that compete and must not come, even if the parser expects them.
  Context context(std::span<const uint32_t> expected, std::span<const uint32_t> barred = {});
  // The lexemes that a context can begin with; not a state to step from where text to ignore was read.
  std::span<const Running> beginnings(Context c) const { return contexts_[c].beginnings; }
  const std::bitset<256> &first(Context c) const { return contexts_[c].first; }
  // The state after the first byte in context `c`. `earlier`: texts that must not match there.
  LexState begin(Context c, Re earlier, uint8_t byte);
  // The same for the lexemes that may begin with a first byte of `earlier`, not necessarily with `byte`.
  LexState begin_touched(Context c, Re earlier, uint8_t byte);
  LexState step(LexState s, uint8_t byte) {
    State &st = states_[s];
    if (st.row) {
      const LexState to = (*st.row)[byte];
      if (to != UNKNOWN) return to;
    }
    return next(s, byte);
  }
  std::span<const Running> running(LexState s) const { return states_[s].running; }
  Context context_of(LexState s) const { return states_[s].context; }
  std::span<const End> ends(LexState s) const { return states_[s].ends; }
  // Text to ignore may end here; what must not follow.
  std::span<const Re> ignored_ends(LexState s) const { return states_[s].ignored; }
  bool ignores(uint32_t terminal) const { return ignores_[terminal]; }
  // Is it one of the terminals of a keyword, of which another one wins wherever it must?
  bool is_replaced(uint32_t terminal) const {
    const uint32_t keyword = g_.terminals[terminal].keyword;
    return keyword != GrammarTerminal::NONE && keyword_wins_[keyword];
  }
  // The terminal that has been read to its end in `s`, as its only reading: all that may come is what follows it. For
  // text to ignore also where it may go on, if it might as well begin there.
  std::optional<uint32_t> over(LexState s) {
    State &st = states_[s];
    if (!st.has_ended) st.has_ended = has_ended(st);
    return *st.has_ended ? std::optional(st.running[0].terminal) : std::nullopt;
  }
  // The state with only those running lexemes for which `keep` holds.
  template <class Keep>
  LexState only(LexState s, const Keep &keep) {
    std::vector<Running> kept;
    bool all = true;
    const std::vector<Running> &running = states_[s].running;
    for (size_t i = 0; i < running.size(); ++i) {
      const bool keeps = keep(running[i]);
      if (all && !keeps) kept.assign(running.begin(), running.begin() + static_cast<ptrdiff_t>(i));
      all = all && keeps;
      if (!all && keeps) kept.push_back(running[i]);
    }
    if (all) return s;
    return intern(std::move(kept), states_[s].context);
  }

  Lexemes &lexemes() { return lexemes_; }
  size_t memory() const { return bytes_; }

 private:
  using Row = std::array<LexState, 256>;
  static constexpr LexState UNKNOWN = UINT32_MAX;
  struct Words {
    Re language = RegexSpace::EMPTY, beyond = RegexSpace::EMPTY;
  };
  struct ContextData {
    std::vector<Running> beginnings;
    std::bitset<256> first;
    std::unique_ptr<Row> row;
  };
  struct State {
    std::vector<Running> running;
    Context context = 0;
    std::vector<End> ends;
    std::vector<Re> ignored;
    std::unique_ptr<Row> row;
    std::optional<bool> has_ended;  // nullopt: not known yet
  };

  LexState intern(std::vector<Running> running, Context context);
  LexState next(LexState s, uint8_t byte);
  bool has_ended(const State &s);
  void add_beginnings(Context c, Re earlier, uint8_t byte, std::vector<Running> &out);
  // Of these terminals, those that compete where just these may come.
  std::vector<uint32_t> competing(const std::vector<uint32_t> &terminals) const;
  // What the lexer's rule makes of terminals that compete; `everywhere`: of those that win, only what also wins where
  // some of the others may not come.
  std::vector<Words> compete(const std::vector<uint32_t> &terminals, bool everywhere);
  std::vector<Words> longest(const std::vector<uint32_t> &terminals);
  std::vector<Words> ordered(const std::vector<uint32_t> &terminals, bool everywhere);
  // Lets lazy terminals end where they first match.
  void end_lazily(const std::vector<uint32_t> &terminals, std::vector<Words> &words);
  // The last scanner that may find it where only some terminals compete.
  uint32_t last_scanner(const GrammarTerminal &t) const;
  // Does the scanner, after its own, find the terminal's keyword, too?
  bool finds_keyword(const GrammarTerminal &t, uint32_t scanner) const;
  bool overlap(uint32_t a, uint32_t b);
  void charge(size_t bytes);

  const Grammar &g_;
  Lexemes &lexemes_;
  RegexSpace &regex_;
  size_t most_;
  std::vector<bool> ignores_, dead_;
  bool has_lazy_ = false;
  std::vector<bool> keyword_wins_;
  std::vector<std::optional<std::string>> literal_;          // terminals with a single text
  std::vector<std::optional<std::string>> scanner_literal_;  // scanners with one
  std::vector<Words> words_;                                 // by terminal, unless contextual
  std::vector<std::string> texts_;                           // longest: what competes, in order: single texts
  std::vector<Re> patterns_;                                 // and all else
  std::unordered_map<uint64_t, bool> overlaps_;
  std::deque<ContextData> contexts_;
  std::unordered_map<Hash128, Context, HashOf128> context_index_;
  std::deque<State> states_;
  std::unordered_map<Hash128, LexState, HashOf128> state_index_;
  std::unordered_map<Hash128, LexState, HashOf128> begin_states_;  // with something that must not match
  size_t bytes_ = 0;
};

}  // namespace structgen
