#include "grammar/lexer.h"

#include <algorithm>

#include "util/sorting.h"

namespace structgen {
namespace {

constexpr size_t PAIRS_PER_UNIT = 8;  // of terminals, of which at least one is a literal

constexpr uint64_t CONTEXT = 51, STATE = 52, BEGIN = 53, TOUCHED = 54;

}  // namespace

Lexer::Lexer(const Grammar &grammar, Lexemes &lexemes, size_t most)
    : g_(grammar), lexemes_(lexemes), regex_(lexemes.space().regex()), most_(most) {
  const size_t n = g_.terminals.size();
  ignores_.resize(n);
  dead_.resize(n);
  literal_.resize(n);
  words_.resize(n);
  for (uint32_t t : g_.ignore) ignores_[t] = true;
  contexts_.emplace_back();
  states_.emplace_back();
  std::vector<uint32_t> texts;
  for (uint32_t t = 0; t < n; ++t) {
    if (g_.terminals[t].kind != GrammarTerminal::Text) continue;
    texts.push_back(t);
    if (g_.lexing == Lexing::Scannerless) continue;
    std::vector<std::string> one;
    regex_.few_texts(g_.terminals[t].language, 1, &one);
    if (one.size() == 1) literal_[t] = std::move(one[0]);
  }
  for (Re scanner : g_.scanners) {
    std::vector<std::string> one;
    regex_.few_texts(scanner, 1, &one);
    scanner_literal_.push_back(one.size() == 1 ? std::optional(std::move(one[0])) : std::nullopt);
  }
  for (uint32_t t : texts) has_lazy_ |= g_.terminals[t].lazy;
  const std::vector<uint32_t> rivals = competing(texts);
  const std::vector<Words> words = compete(rivals, g_.contextual);
  for (size_t i = 0; i < rivals.size(); ++i) words_[rivals[i]] = words[i];
  for (uint32_t t : texts) {
    // If only some terminals compete, a terminal may win that never wins among all.
    dead_[t] = !regex_.alive(g_.contextual ? g_.terminals[t].language : words_[t].language);
  }
  for (const GrammarKeyword &keyword : g_.keywords)
    keyword_wins_.push_back(std::any_of(
        keyword.finders.begin(), keyword.finders.end(),
        [&](const GrammarKeyword::Finder &f) { return !f.ignores() && regex_.alive(words_[f.found].language); }));
}

void Lexer::charge(size_t bytes) {
  bytes_ += bytes;
  if (states_.size() + contexts_.size() > most_)
    throw LimitError("the lexer of the grammar has more than " + std::to_string(most_) +
                     " states (limit automaton_states)");
}

// ---------------------------------------------------------------- the rule

std::vector<uint32_t> Lexer::competing(const std::vector<uint32_t> &terminals) const {
  if (g_.keywords.empty()) return terminals;
  std::vector<bool> may_come(g_.terminals.size());
  for (uint32_t t : terminals) may_come[t] = true;
  std::vector<uint32_t> out;
  for (uint32_t t : terminals) {
    bool competes = true;
    if (const uint32_t k = g_.terminals[t].keyword; k != GrammarTerminal::NONE)
      for (const GrammarKeyword::Finder &f : g_.keywords[k].finders) {
        if (t == f.found) competes = may_come[f.pattern];
        else if (t == g_.keywords[k].own) competes &= !(f.replaces && may_come[f.pattern]);
      }
    if (competes) out.push_back(t);
  }
  return out;
}

uint32_t Lexer::last_scanner(const GrammarTerminal &t) const {
  if (t.keyword == GrammarTerminal::NONE) return t.scanner;
  uint32_t last = g_.terminals[g_.keywords[t.keyword].own].scanner;
  for (const GrammarKeyword::Finder &f : g_.keywords[t.keyword].finders)
    last = std::max(last, g_.terminals[f.found].scanner);
  return last;
}

bool Lexer::finds_keyword(const GrammarTerminal &t, uint32_t scanner) const {
  if (t.keyword == GrammarTerminal::NONE || scanner <= t.scanner) return false;
  const GrammarKeyword &keyword = g_.keywords[t.keyword];
  return scanner == g_.terminals[keyword.own].scanner ||
         std::any_of(keyword.finders.begin(), keyword.finders.end(), [&](const GrammarKeyword::Finder &f) {
           return !f.ignores() && g_.terminals[f.found].scanner == scanner;
         });
}

std::vector<Lexer::Words> Lexer::compete(const std::vector<uint32_t> &terminals, bool everywhere) {
  std::vector<Words> out;
  switch (g_.lexing) {
    case Lexing::Longest: out = longest(terminals); break;
    case Lexing::Ordered: out = ordered(terminals, everywhere); break;
    case Lexing::Scannerless:
      for (uint32_t t : terminals) out.push_back({g_.terminals[t].language, RegexSpace::EMPTY});
      return out;
  }
  if (has_lazy_) end_lazily(terminals, out);
  return out;
}

void Lexer::end_lazily(const std::vector<uint32_t> &terminals, std::vector<Words> &words) {
  std::vector<Re> lazy;
  for (uint32_t t : terminals)
    if (g_.terminals[t].lazy) lazy.push_back(g_.terminals[t].language);
  if (lazy.empty()) return;
  const Re any = regex_.alternate(lazy);
  const Re begins = regex_.complement(regex_.concat(any, RegexSpace::ANY_TEXT));
  const Re goes_on = regex_.complement(
      regex_.concat(any, regex_.intersect(RegexSpace::ANY_TEXT, regex_.complement(RegexSpace::EPSILON))));
  for (size_t i = 0; i < terminals.size(); ++i) {
    const GrammarTerminal &t = g_.terminals[terminals[i]];
    if (t.lazy) words[i] = {regex_.intersect(t.language, goes_on), RegexSpace::EMPTY};
    else words[i] = {regex_.intersect(words[i].language, begins), regex_.alternate(words[i].beyond, any)};
  }
}

bool Lexer::overlap(uint32_t a, uint32_t b) {
  if (a > b) std::swap(a, b);
  const Re x = g_.terminals[a].language, y = g_.terminals[b].language;
  if (literal_[a] && literal_[b]) return x == y;
  if (literal_[a]) return regex_.matches(y, *literal_[a]);
  if (literal_[b]) return regex_.matches(x, *literal_[b]);
  const uint64_t key = static_cast<uint64_t>(a) << 32 | b;
  if (const auto it = overlaps_.find(key); it != overlaps_.end()) return it->second;
  // subtle: stored only once it is known, since the computation may reach a limit.
  const bool found = (lexemes_.first_of(x) & lexemes_.first_of(y)).any() && regex_.alive(regex_.intersect(x, y));
  return overlaps_[key] = found;
}

// Equivalent to a walk through `beyond` with both, which would make every state of every keyword.
std::optional<bool> Lexer::ends_before(uint32_t t, std::string_view separator) const {
  if (g_.lexing != Lexing::Longest || g_.contextual || has_lazy_ || !literal_[t]) return std::nullopt;
  std::string read = *literal_[t] + std::string(separator);
  std::vector<Re> running = patterns_;
  for (size_t i = 0; i < read.size(); ++i) {
    bool whole = false;
    structgen::charge(1 + 2 * running.size());
    for (Re &p : running) {
      p = regex_.row(p)[static_cast<uint8_t>(read[i])];
      whole |= regex_.nullable(p);
    }
    std::erase(running, RegexSpace::EMPTY);
    if (i < literal_[t]->size()) continue;
    const std::string_view prefix = std::string_view(read).substr(0, i + 1);
    const auto text = std::lower_bound(texts_.begin(), texts_.end(), prefix);
    const bool more = text != texts_.end() && text->starts_with(prefix);
    if (running.empty() && !more) return true;
    if (whole || (more && *text == prefix)) return false;
  }
  return false;  // it might continue into what follows
}

std::vector<Lexer::Words> Lexer::longest(const std::vector<uint32_t> &terminals) {
  std::vector<Re> all;
  for (uint32_t t : terminals) {
    structgen::charge(1 + terminals.size() / PAIRS_PER_UNIT);
    // A terminal whose texts another one matches adds nothing.
    const bool covered = literal_[t] && std::any_of(terminals.begin(), terminals.end(),
                                                    [&](uint32_t u) { return !literal_[u] && overlap(t, u); });
    if (!covered) all.push_back(g_.terminals[t].language);
    if (g_.contextual || covered) continue;  // otherwise this is called once, with all terminals
    if (literal_[t]) texts_.push_back(*literal_[t]);
    else patterns_.push_back(g_.terminals[t].language);
  }
  sort_texts(texts_.begin(), texts_.end());
  const Re any = regex_.alternate(all);
  std::vector<Words> out;
  for (size_t i = 0; i < terminals.size(); ++i) {
    const uint32_t t = terminals[i];
    structgen::charge(1 + i / PAIRS_PER_UNIT);
    std::vector<std::string> literals;
    std::vector<Re> better;
    for (size_t j = 0; j < i; ++j) {
      const uint32_t u = terminals[j];
      if (!overlap(t, u)) continue;
      if (literal_[u]) literals.push_back(*literal_[u]);
      else better.push_back(g_.terminals[u].language);
    }
    if (!literals.empty()) better.push_back(regex_.literals(literals));
    Re language = g_.terminals[t].language;
    if (!better.empty()) language = regex_.intersect(language, regex_.complement(regex_.alternate(better)));
    out.push_back({language, any});
  }
  return out;
}

std::vector<Lexer::Words> Lexer::ordered(const std::vector<uint32_t> &terminals, bool everywhere) {
  std::vector<Words> out;
  std::vector<bool> tried(g_.scanners.size());  // in a context, only scanners that find one of its terminals
  for (uint32_t t : terminals)
    if (!g_.terminals[t].lazy) tried[g_.terminals[t].scanner] = true;
  if (everywhere)
    for (const GrammarKeyword &keyword : g_.keywords) tried[g_.terminals[keyword.own].scanner] = true;
  for (size_t i = 0; i < terminals.size(); ++i) {
    const GrammarTerminal &t = g_.terminals[terminals[i]];
    if (t.lazy) {  // no scanner comes before it
      out.push_back({t.language, RegexSpace::EMPTY});
      continue;
    }
    structgen::charge(1 + (i + t.scanner) / 4);
    std::vector<Re> better, scanners;
    for (size_t j = 0; j < i; ++j)
      if (g_.terminals[terminals[j]].scanner == t.scanner && !g_.terminals[terminals[j]].lazy &&
          overlap(terminals[i], terminals[j]))
        better.push_back(g_.terminals[terminals[j]].language);
    const std::optional<std::string> &text = literal_[terminals[i]];
    const uint32_t last = everywhere ? last_scanner(t) : t.scanner;
    for (uint32_t s = 0; s <= last; ++s) {
      if (!tried[s]) continue;
      const Re scanner = g_.scanners[s];
      const bool is_found = s == t.scanner || finds_keyword(t, s);  // or does another terminal match there?
      if (text && scanner_literal_[s]) {                            // two keywords; there may be thousands
        if (scanner_literal_[s]->starts_with(*text)) scanners.push_back(scanner);
        if (!is_found && text->starts_with(*scanner_literal_[s]))
          better.push_back(regex_.concat(scanner, RegexSpace::ANY_TEXT));
        continue;
      }
      if ((lexemes_.first_of(scanner) & lexemes_.first_of(t.language)).none()) continue;
      scanners.push_back(scanner);
      if (is_found) continue;
      const Re begins = regex_.concat(scanner, RegexSpace::ANY_TEXT);
      if (regex_.alive(regex_.intersect(t.language, begins))) better.push_back(begins);
    }
    Re language = t.language;
    if (!better.empty()) language = regex_.intersect(language, regex_.complement(regex_.alternate(better)));
    out.push_back({language, regex_.alternate(scanners)});
  }
  return out;
}

// ---------------------------------------------------------------- contexts and states

Context Lexer::context(std::span<const uint32_t> expected, std::span<const uint32_t> barred) {
  std::vector<uint32_t> terminals;
  for (uint32_t t : expected)
    if (g_.terminals[t].kind == GrammarTerminal::Text && !dead_[t]) terminals.push_back(t);
  terminals.insert(terminals.end(), g_.ignore.begin(), g_.ignore.end());
  if (terminals.empty()) return 0;
  sort_numbers(terminals.begin(), terminals.end());
  terminals.erase(std::unique(terminals.begin(), terminals.end()), terminals.end());
  Hash128 key = hash_words(CONTEXT);
  auto is_barred = [&](uint32_t t) { return std::find(barred.begin(), barred.end(), t) != barred.end(); };
  for (uint32_t t : terminals) key = extend(key, static_cast<uint64_t>(t) << 1 | is_barred(t));
  if (auto it = context_index_.find(key); it != context_index_.end()) return it->second;
  std::vector<Words> words;
  if (g_.contextual) {
    terminals = competing(terminals);
    words = compete(terminals, false);
  }
  ContextData c;
  for (size_t i = 0; i < terminals.size(); ++i) {
    const Words &w = g_.contextual ? words[i] : words_[terminals[i]];
    const LexemeState begin = lexemes_.begin(w.language, w.beyond, RegexSpace::EMPTY);
    if (begin == Lexemes::DEAD || is_barred(terminals[i])) continue;
    c.beginnings.push_back({terminals[i], begin});
    c.first |= lexemes_.first(begin);
  }
  charge(c.beginnings.size() * sizeof(Running) + sizeof(ContextData) + 64);
  contexts_.push_back(std::move(c));
  return context_index_[key] = static_cast<Context>(contexts_.size() - 1);
}

void Lexer::add_beginnings(Context c, Re earlier, uint8_t byte, std::vector<Running> &out) {
  const Re rest = lexemes_.rest_of(earlier, byte);
  if (rest != RegexSpace::EMPTY && regex_.nullable(rest)) return;
  for (const Running &r : contexts_[c].beginnings) {
    if (!lexemes_.first(r.lexeme).test(byte)) continue;
    // subtle: restricted before the byte is read, since it may be the first byte of a character.
    const LexemeState begin = rest == RegexSpace::EMPTY ? r.lexeme : lexemes_.restricted(r.lexeme, earlier);
    const LexemeState to = lexemes_.step(begin, byte);
    if (to != Lexemes::DEAD) out.push_back({r.terminal, to});
  }
}

LexState Lexer::begin(Context c, Re earlier, uint8_t byte) {
  if (!contexts_[c].first.test(byte)) return DEAD;
  const Re rest = lexemes_.rest_of(earlier, byte);
  if (rest != RegexSpace::EMPTY) {
    if (regex_.nullable(rest)) return DEAD;
    const Hash128 key = hash_words(BEGIN, c, earlier, byte);
    if (auto it = begin_states_.find(key); it != begin_states_.end()) return it->second;
    std::vector<Running> running;
    add_beginnings(c, earlier, byte, running);
    charge(64);
    return begin_states_[key] = intern(std::move(running), c);
  }
  ContextData &data = contexts_[c];
  if (!data.row) {
    data.row = std::make_unique<Row>();
    data.row->fill(UNKNOWN);
    bytes_ += sizeof(Row);
  }
  LexState &to = (*data.row)[byte];
  if (to == UNKNOWN) {
    std::vector<Running> running;
    add_beginnings(c, RegexSpace::EMPTY, byte, running);
    to = intern(std::move(running), c);
  }
  return to;
}

LexState Lexer::begin_touched(Context c, Re earlier, uint8_t byte) {
  const std::bitset<256> touching = lexemes_.first_of(earlier);
  if (touching.test(byte)) return begin(c, earlier, byte);  // no other lexeme begins so
  const Hash128 key = hash_words(TOUCHED, c, earlier, byte);
  if (auto it = begin_states_.find(key); it != begin_states_.end()) return it->second;
  std::vector<Running> running;
  for (const Running &r : contexts_[c].beginnings) {
    const std::bitset<256> &first = lexemes_.first(r.lexeme);
    if (first.test(byte) && (first & touching).any()) running.push_back({r.terminal, lexemes_.step(r.lexeme, byte)});
  }
  charge(64);
  return begin_states_[key] = intern(std::move(running), c);
}

LexState Lexer::intern(std::vector<Running> running, Context context) {
  if (running.empty()) return DEAD;
  structgen::charge(3 + running.size());
  std::sort(running.begin(), running.end(), [](const Running &a, const Running &b) {
    return a.terminal != b.terminal ? a.terminal < b.terminal : a.lexeme < b.lexeme;
  });
  running.erase(std::unique(running.begin(), running.end()), running.end());
  // The context matters only after text to ignore.
  if (std::none_of(running.begin(), running.end(), [&](const Running &r) { return ignores_[r.terminal]; })) context = 0;
  Hash128 key = hash_words(STATE, context);
  for (const Running &r : running) key = extend(key, static_cast<uint64_t>(r.terminal) << 32 | r.lexeme);
  if (auto it = state_index_.find(key); it != state_index_.end()) return it->second;
  structgen::charge(6);
  State s;
  s.context = context;
  for (const Running &r : running)
    if (lexemes_.complete(r.lexeme)) {
      if (ignores_[r.terminal]) s.ignored.push_back(lexemes_.after(r.lexeme));
      else s.ends.push_back({r.terminal, lexemes_.after(r.lexeme)});
    }
  s.running = std::move(running);
  charge(s.running.size() * sizeof(Running) + s.ends.size() * sizeof(End) + sizeof(State) + 64);
  states_.push_back(std::move(s));
  return state_index_[key] = static_cast<LexState>(states_.size() - 1);
}

LexState Lexer::next(LexState s, uint8_t byte) {
  if (s == DEAD) return DEAD;
  std::vector<Running> running;
  for (const Running &r : states_[s].running)
    if (const LexemeState to = lexemes_.step(r.lexeme, byte); to != Lexemes::DEAD) running.push_back({r.terminal, to});
  for (Re after : states_[s].ignored) add_beginnings(states_[s].context, after, byte, running);
  const LexState to = intern(std::move(running), states_[s].context);
  State &st = states_[s];
  if (!st.row) {
    st.row = std::make_unique<Row>();
    st.row->fill(UNKNOWN);
    bytes_ += sizeof(Row);
  }
  return (*st.row)[byte] = to;
}

bool Lexer::has_ended(const State &s) {
  if (s.running.size() != 1) return false;
  const Running only = s.running[0];
  const std::bitset<256> goes_on = lexemes_.first(only.lexeme);
  if (!lexemes_.complete(only.lexeme) || (lexemes_.first_of(lexemes_.after(only.lexeme)) & ~goes_on).any())
    return false;
  if (goes_on.none()) return true;
  if (!ignores_[only.terminal]) return false;
  for (const Running &begin : contexts_[s.context].beginnings) {
    if (begin.terminal != only.terminal) {
      if ((lexemes_.first(begin.lexeme) & goes_on).any()) return false;
      continue;
    }
    if (lexemes_.first(begin.lexeme) != goes_on) return false;
    for (size_t b = 0; b < 256; ++b)
      if (goes_on.test(b) &&
          lexemes_.step(begin.lexeme, static_cast<uint8_t>(b)) != lexemes_.step(only.lexeme, static_cast<uint8_t>(b)))
        return false;
  }
  return true;
}

}  // namespace structgen
