#include "chart/binary_grammar.h"

#include <algorithm>
#include <map>

namespace structgen {
namespace {}  // namespace

// Lowers the productions of a grammar; `canvas.terminals` are numbered in the order in which they are met.
class BinaryGrammar::Builder {
 public:
  Builder(BinaryGrammar &canvas, const Grammar &grammar, Lexer &lexer) : canvas_(canvas), lexer_(lexer), g_(grammar) {}

  void build() {
    number_terminals();
    const auto rules = static_cast<uint32_t>(g_.rules.size());
    canvas_.first_rule = canvas_.terminal_count();
    for (uint32_t i = 0; i < canvas_.first_rule + rules; ++i) new_symbol();
    if (!ignored_.empty()) {
      canvas_.blank = new_symbol();
      for (uint32_t t : ignored_) {
        unit(canvas_.blank, t);
        pair(canvas_.blank, canvas_.blank, t);
      }
    }
    for (uint32_t r = 0; r < rules; ++r)
      for (Item i : g_.productions(r)) {
        std::vector<Symbol> body;
        for (; g_.symbols[i] != Grammar::END; ++i) body.push_back(g_.symbols[i]);
        if (!body.empty()) produce(canvas_.first_rule + r, body);
      }
    canvas_.start = canvas_.first_rule + g_.start;
    if (canvas_.blank != NONE) {
      const uint32_t start = new_symbol();
      unit(start, canvas_.start);
      pair(start, canvas_.blank, canvas_.start);
      if (canvas_.accepts_empty) unit(start, canvas_.blank);
      canvas_.start = start;
    }
  }

 private:
  uint32_t new_symbol() {
    canvas_.units_of.emplace_back();
    canvas_.pairs_of.emplace_back();
    canvas_.units_into.emplace_back();
    canvas_.pairs_into.emplace_back();
    return canvas_.size() - 1;
  }
  void unit(uint32_t head, uint32_t body) {
    if (head == body) return;
    std::vector<uint32_t> &known = canvas_.units_of[head];
    if (std::find(known.begin(), known.end(), body) != known.end()) return;
    known.push_back(body);
    canvas_.units_into[body].push_back(head);
  }
  void pair(uint32_t head, uint32_t left, uint32_t right) {
    std::vector<Pair> &known = canvas_.pairs_of[head];
    if (std::any_of(known.begin(), known.end(), [&](const Pair &p) { return p.left == left && p.right == right; }))
      return;
    known.push_back({left, right});
    canvas_.pairs_into[left].push_back({head, right});
  }

  void number_terminals() {
    number_.assign(g_.terminals.size(), NONE);
    canvas_.terminal_then_blank.assign(g_.terminals.size(), NONE);
    auto take = [&](uint32_t t) {
      if (number_[t] != NONE) return;
      number_[t] = canvas_.terminal_count();
      Terminal made;
      made.number = t;
      if (g_.terminals[t].kind == GrammarTerminal::Tokens)
        made.tokens = lexer_.lexemes().space().token_sets()[g_.terminals[t].tokens].ids();
      else made.begin = lexer_.plain(t);
      canvas_.terminals.push_back(made);
    };
    for (uint32_t r = 0; r < g_.rules.size(); ++r)
      for (Item i : g_.productions(r))
        for (; g_.symbols[i] != Grammar::END; ++i)
          if (g_.symbols[i] < 0) take(static_cast<uint32_t>(~g_.symbols[i]));
    for (uint32_t t : g_.ignore)
      if (!lexer_.dead()[t]) {
        take(t);
        ignored_.push_back(number_[t]);
      }
  }

  // A symbol of the grammar, together with the text to ignore that may follow it.
  uint32_t symbol(Symbol s) {
    if (s >= 0) return canvas_.first_rule + static_cast<uint32_t>(s);
    uint32_t &made = canvas_.terminal_then_blank[static_cast<uint32_t>(~s)];
    if (made == NONE) {
      const uint32_t t = number_[static_cast<uint32_t>(~s)];
      if (canvas_.blank == NONE) return made = t;
      made = new_symbol();
      unit(made, t);
      pair(made, t, canvas_.blank);
    }
    return made;
  }

  // From the end: productions with equal ends share them.
  void produce(uint32_t head, std::span<const Symbol> body) {
    if (body.size() == 1) return unit(head, symbol(body[0]));
    uint32_t rest = symbol(body.back());
    bool is_nullable = g_.nullable(body.back());  // the rest
    for (size_t i = body.size() - 1; i-- > 1;) {
      rest = end(body[i], rest, is_nullable);
      is_nullable = is_nullable && g_.nullable(body[i]);
    }
    produce(head, body[0], rest, is_nullable);
  }

  void produce(uint32_t head, Symbol first, uint32_t rest, bool rest_is_nullable) {
    const uint32_t one = symbol(first);
    pair(head, one, rest);
    if (g_.nullable(first)) unit(head, rest);
    if (rest_is_nullable) unit(head, one);
  }

  // The end of a production: `first`, and then the rest of it.
  uint32_t end(Symbol first, uint32_t rest, bool rest_is_nullable) {
    const auto [it, fresh] = ends_.try_emplace({first, rest}, 0);
    if (fresh) {
      it->second = new_symbol();
      produce(it->second, first, rest, rest_is_nullable);
    }
    return it->second;
  }

  BinaryGrammar &canvas_;
  Lexer &lexer_;
  const Grammar &g_;
  std::vector<uint32_t> number_, ignored_;
  std::map<std::pair<Symbol, uint32_t>, uint32_t> ends_;
};

BinaryGrammar::BinaryGrammar() : units_of(1), pairs_of(1), units_into(1), pairs_into(1) {
  terminals.emplace_back();  // no text begins with it
  find_neighbours();
}

BinaryGrammar::BinaryGrammar(Re language, TextSpace &space) : units_of(1), pairs_of(1), units_into(1), pairs_into(1) {
  RegexSpace &regex = space.regex();
  accepts_empty = regex.nullable(language);
  Terminal whole;
  const Re some = accepts_empty ? regex.intersect(language, regex.complement(RegexSpace::EPSILON)) : language;
  whole.begin = space.lexemes().begin(some, RegexSpace::EMPTY, RegexSpace::EMPTY);
  terminals.push_back(whole);
  find_neighbours();
}

BinaryGrammar::BinaryGrammar(const Grammar &grammar, Lexer &lexer)
    : accepts_empty(grammar.nullable(static_cast<Symbol>(grammar.start))) {
  Builder(*this, grammar, lexer).build();
  find_neighbours();
}

void BinaryGrammar::find_neighbours() {
  const size_t words = (terminal_count() + 63) / 64;
  std::vector<std::vector<uint64_t>> firsts(size(), std::vector<uint64_t>(words)), lasts = firsts;
  auto add = [](std::vector<uint64_t> &to, const std::vector<uint64_t> &from) {
    bool grew = false;
    for (size_t w = 0; w < to.size(); ++w) {
      grew |= (from[w] & ~to[w]) != 0;
      to[w] |= from[w];
    }
    return grew;
  };
  for (uint32_t t = 0; t < terminal_count(); ++t) firsts[t][t / 64] = lasts[t][t / 64] |= uint64_t{1} << t % 64;
  for (bool grew = true; grew;) {
    grew = false;
    for (uint32_t a = 0; a < size(); ++a) {
      for (uint32_t b : units_of[a]) {
        grew |= add(firsts[a], firsts[b]);
        grew |= add(lasts[a], lasts[b]);
      }
      for (const Pair &p : pairs_of[a]) {
        grew |= add(firsts[a], firsts[p.left]);
        grew |= add(lasts[a], lasts[p.right]);
      }
    }
  }
  first = firsts[start];
  follow.assign(terminal_count(), std::vector<uint64_t>(words));
  for (uint32_t a = 0; a < size(); ++a)
    for (const Pair &p : pairs_of[a])
      for (uint32_t t = 0; t < terminal_count(); ++t)
        if (lasts[p.left][t / 64] >> t % 64 & 1) add(follow[t], firsts[p.right]);
}

}  // namespace structgen
