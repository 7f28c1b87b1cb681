#include "completion/grammar_witness.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "automaton/token_steps.h"

namespace structgen {
namespace {

constexpr size_t MOST_TERMINALS = 200'000;
constexpr size_t MOST_STEPS = 200'000;
constexpr size_t MOST_SEARCHED = 1'500;
constexpr size_t WORK_SEARCHED = 5'000'000;  // of the parser and the search for life, on the way
constexpr size_t WORK_READ = 4'000'000;      // the same, when a completion is read
constexpr size_t MOST_READ_WITHIN = 20'000;  // characters of a completion

// What reading has cost so far: a million takes a third of a second.
size_t read_work(GrammarControl &g) { return g.earley().work() + g.life().work(); }

// The rest of a lexeme, its shortest.
bool rest_of(GrammarControl &g, TextSpace &text, LexemeState s, std::string *out) {
  return g.lexemes().complete(s) || text.regex().witness(g.lexemes().language(s), out);
}

// Do these symbols complete the grammar's text on top of `node`?
bool completes(Automaton &a, StepContext &ctx, const GrammarFrame *node, const WitnessSymbols &symbols) {
  GrammarControl &g = *node->grammar;
  const Frame *n = node;
  const size_t most = read_work(g) + WORK_READ;
  for (size_t i = 0; n && i < symbols.size(); ++i) {
    n = step_symbol(a, ctx, n, symbols[i]);
    if (read_work(g) >= most) return false;
  }
  return n && a.completes(ctx, n, node->parent);
}

class Completion {
 public:
  Completion(Automaton &a, StepContext &ctx, const GrammarFrame *node)
      : a_(a), ctx_(ctx), node_(node), g_(*node->grammar), shortest_(shortest_texts(g_, a)) {}

  bool run(WitnessSymbols *out) {
    std::vector<Try> tries;
    for (const GrammarEntry &entry : node_->entries()) add_tries(entry, tries);
    std::sort(tries.begin(), tries.end(), [](const Try &a, const Try &b) { return a.cost < b.cost; });
    for (const Try &t : tries) {
      out->clear();
      if (write(t, out) && read(*out)) return true;
    }
    out->clear();
    return false;
  }

 private:
  struct Try {
    uint64_t cost;
    const GrammarEntry *entry;
    std::string rest;            // of the running lexeme
    std::optional<Re> boundary;  // what must not follow it
    bool newline = false;        // it is a newline lexeme, whose column is still open
    std::vector<uint32_t> terminals;
  };

  void add_tries(const GrammarEntry &entry, std::vector<Try> &tries) {
    auto add = [&](const EarleySet *set, std::string rest, std::optional<Re> boundary, bool newline) {
      Try t{rest.size(), &entry, std::move(rest), boundary, newline, {}};
      if (!way_out(set, &t.cost, &t.terminals)) return;
      tries.push_back(std::move(t));
    };
    if (entry.lex == Lexer::FRESH) return add(entry.set, {}, std::nullopt, false);
    for (const Lexer::Running &running : g_.lexer().running(entry.lex)) {
      std::string rest;
      if (!rest_of(g_, a_.text(), running.lexeme, &rest)) continue;
      LexemeState end = running.lexeme;
      for (unsigned char c : rest) end = g_.lexemes().step(end, c);
      const EarleySet *set = entry.set;
      const bool newline = g_.is_newline(running.terminal);
      if (!g_.lexer().ignores(running.terminal) && !(newline && entry.brackets > 0)) {
        Earley::Builder builder(g_.earley(), nullptr);
        builder.recognised(set, ~static_cast<Symbol>(running.terminal));
        set = builder.finish(ctx_.arena);
      }
      if (set) add(set, std::move(rest), g_.lexemes().after(end), newline && entry.brackets == 0);
    }
  }

  // The cheapest terminals that complete the text from `set` on.
  bool way_out(const EarleySet *set, uint64_t *cost, std::vector<uint32_t> *out) {
    if (set->accepting) return true;
    struct Point {
      Item item;
      const EarleySet *back;
      uint64_t cost;
      int64_t from;
    };
    std::vector<Point> points;
    std::map<std::pair<Item, const EarleySet *>, uint64_t> best;
    using Entry = std::pair<uint64_t, size_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    auto reach = [&](Item item, const EarleySet *back, uint64_t so_far, int64_t from) {
      uint64_t total = so_far;
      charge();
      for (Item i = item; g_.items().symbol_before(i) != Grammar::END; ++i) {
        const uint64_t more = shortest_.cost(g_.items().symbol_before(i));
        if (more >= GrammarShortest::FAR) return;
        total += more;
      }
      charge(2);
      auto [it, fresh] = best.try_emplace({item, back}, total);
      if (!fresh && it->second <= total) return;
      it->second = total;
      points.push_back({item, back, total, from});
      queue.push({total, points.size() - 1});
    };
    for (uint32_t i = 0; i < set->count; ++i)
      for (Item item : g_.items().items(set->kernels[i])) reach(item, set->origins[i], 0, -1);
    std::vector<Item> items;
    while (!queue.empty() && points.size() < MOST_STEPS) {
      charge();
      const auto [total, at] = queue.top();
      queue.pop();
      const Point point = points[at];
      if (best[{point.item, point.back}] < total) continue;
      const uint32_t head = g_.items().head(point.item);
      if (head == g_.items().accepting_rule()) {
        *cost += total;
        std::vector<Item> path;
        for (auto i = static_cast<int64_t>(at); i >= 0; i = points[static_cast<size_t>(i)].from)
          path.push_back(points[static_cast<size_t>(i)].item);
        for (auto it = path.rbegin(); it != path.rend(); ++it)
          for (Item i = *it; g_.items().symbol_before(i) != Grammar::END; ++i)
            if (!shortest_.terminals(g_.items().symbol_before(i), out)) return false;
        return true;
      }
      const EarleySet *back = point.back;
      for (uint32_t i = 0; i < back->count; ++i) {
        charge();
        items.clear();
        g_.items().moved_items(back->kernels[i], static_cast<Symbol>(head), &items);
        for (Item item : items) reach(item, back->origins[i], total, static_cast<int64_t>(at));
      }
      items.clear();
      g_.items().predicted_items(back->outlook, static_cast<Symbol>(head), &items);
      for (Item item : items) reach(item, back, total, static_cast<int64_t>(at));
    }
    return false;
  }

  bool write(const Try &t, WitnessSymbols *out) {
    const IndentationRule &rule = g_.grammar().indentation;
    append_text(*out, t.rest);
    std::vector<uint32_t> columns;
    for (const IndentLevel *l = t.entry->indent; l; l = l->below) columns.insert(columns.begin(), l->column);
    std::optional<Re> boundary = t.boundary;
    size_t i = 0;
    // Writes the line break that leads to the column which the terminals from `i` on suppose.
    auto line = [&](bool is_first) {
      if (i < t.terminals.size() && t.terminals[i] == rule.indent) {
        columns.push_back((columns.empty() ? 0 : columns.back()) + 4);
        ++i;
      } else {
        while (i < t.terminals.size() && t.terminals[i] == rule.dedent) {
          charge();
          if (columns.empty()) return false;
          columns.pop_back();
          ++i;
        }
      }
      const bool last = i == t.terminals.size();
      if (!is_first || t.entry->column != (columns.empty() ? 0 : columns.back())) out->push_back('\n');
      if (!out->empty() && out->back() == '\n') out->insert(out->end(), columns.empty() || last ? 0 : columns.back(), ' ');
      boundary.reset();
      return true;
    };
    if (t.newline && !line(true)) return false;
    while (i < t.terminals.size()) {
      charge();
      const uint32_t terminal = t.terminals[i++];
      const GrammarTerminal &what = g_.grammar().terminals[terminal];
      if (rule.active() && terminal == rule.newline) {
        if (!line(false)) return false;
        continue;
      }
      if (rule.active() && (terminal == rule.indent || terminal == rule.dedent)) continue;  // at the end of the text
      if (what.kind == GrammarTerminal::Tokens) {
        out->push_back(FIRST_TOKEN_SET + what.tokens);
        boundary.reset();
        continue;
      }
      const WitnessSymbols &word = shortest_.text(terminal);
      if (word.empty()) continue;
      if (boundary && what.kind == GrammarTerminal::Text && g_.lexemes().rest_of(*boundary, static_cast<uint8_t>(word[0])) != RegexSpace::EMPTY)
        append_text(*out, g_.life().separator(*boundary));
      out->insert(out->end(), word.begin(), word.end());
      boundary.reset();
      if (what.kind == GrammarTerminal::Text && g_.grammar().lexing != Lexing::Scannerless) {
        LexemeState s = g_.lexer().plain(terminal);
        for (uint32_t c : word) s = g_.lexemes().step(s, static_cast<uint8_t>(c));
        if (s != Lexemes::DEAD) boundary = g_.lexemes().after(s);
      }
    }
    return true;
  }

  bool read(const WitnessSymbols &symbols) {
    // Within another constraint each byte asks for life.
    if (node_->first_entry->within != ANYTHING && symbols.size() > MOST_READ_WITHIN) return false;
    return completes(a_, ctx_, node_, symbols);
  }

  Automaton &a_;
  StepContext &ctx_;
  const GrammarFrame *node_;
  GrammarControl &g_;
  const GrammarShortest &shortest_;
};

}  // namespace

const GrammarShortest &shortest_texts(GrammarControl &control, Automaton &automaton) {
  if (!control.shortest()) control.shortest() = std::make_shared<const GrammarShortest>(control, automaton);
  return *control.shortest();
}

GrammarShortest::GrammarShortest(GrammarControl &control, Automaton &automaton) : g_(control.grammar()) {
  TextSpace &space = automaton.text();
  terminals_.assign(g_.terminals.size(), FAR);
  texts_.resize(g_.terminals.size());
  for (uint32_t t = 0; t < g_.terminals.size(); ++t) {
    const GrammarTerminal &terminal = g_.terminals[t];
    if (terminal.nullable) {
      terminals_[t] = 0;
    } else if (terminal.kind == GrammarTerminal::Text) {
      const LexemeState s = control.lexer().dead()[t] ? Lexemes::DEAD : control.lexer().plain(t);
      const Re re = s == Lexemes::DEAD ? terminal.language : control.lexemes().language(s);
      std::string text;
      if (!space.regex().witness(re, &text)) continue;
      append_text(texts_[t], text);
      terminals_[t] = text.size() + 1;
    } else if (terminal.kind == GrammarTerminal::Tokens) {
      terminals_[t] = 1;
    } else {
      Arena arena;
      StepContext ctx{arena};
      const Frame *start = automaton.start_of(ctx, *terminal.plan, nullptr);
      if (start && complete_state(automaton, ctx, start, &texts_[t], false)) terminals_[t] = texts_[t].size() + 1;
    }
  }
  rules_ = rule_costs(g_, terminals_);
}

bool GrammarShortest::terminals(Symbol s, std::vector<uint32_t> *out) const {
  std::vector<Symbol> pending{s};
  while (!pending.empty()) {
    charge();
    const Symbol now = pending.back();
    pending.pop_back();
    if (now < 0) {
      if (out->size() > MOST_TERMINALS) return false;
      out->push_back(static_cast<uint32_t>(~now));
      continue;
    }
    if (cost(now) >= FAR) return false;
    const Item first = rules_.best[static_cast<uint32_t>(now)];
    Item end = first;
    while (g_.symbols[end] != Grammar::END) ++end;
    for (Item i = end; i > first; --i) pending.push_back(g_.symbols[i - 1]);
  }
  return true;
}

// Breadth first over bytes: what stands side by side only in other words than the shortest.
static bool search_symbols(Automaton &a, StepContext &ctx, const GrammarFrame *node, WitnessSymbols *out) {
  struct Met {
    const Frame *node;
    size_t from;
    uint32_t symbol;  // that led here
  };
  std::vector<Met> met{{node, 0, 0}};
  std::set<std::pair<uint64_t, uint64_t>> known;
  // An ambiguous text has sets that grow with it, and each step goes through them.
  GrammarControl &g = *node->grammar;
  const size_t most = read_work(g) + WORK_SEARCHED;
  auto goes_on = [&] { return met.size() < MOST_SEARCHED && read_work(g) < most; };
  for (size_t at = 0; at < met.size() && goes_on(); ++at) {
    const Frame *n = met[at].node;
    if (a.completes(ctx, n, node->parent)) {
      for (size_t i = at; i != 0; i = met[i].from) out->insert(out->begin(), met[i].symbol);
      return true;
    }
    auto reach = [&](uint32_t symbol) {
      const Frame *next = step_symbol(a, ctx, n, symbol);
      if (!next) return;
      const Hash128 h = a.signature(next);
      if (known.insert({h.a, h.b}).second) met.push_back({next, at, symbol});
    };
    const std::bitset<256> candidates = a.candidates(n);
    for (uint32_t b = 0; b < 256; ++b)
      if (candidates.test(b)) reach(b);
    for (uint32_t set : expected_token_sets(a, ctx, n)) reach(FIRST_TOKEN_SET + set);
  }
  return false;
}

// A text that the search for life itself has written.
static bool complete_by_search(Automaton &a, StepContext &ctx, const GrammarFrame *node, WitnessSymbols *out) {
  GrammarControl &g = *node->grammar;
  auto found = [&](std::optional<std::string> text) {
    if (!text) return false;
    out->clear();
    append_text(*out, *text);
    return completes(a, ctx, node, *out);
  };
  for (const GrammarEntry &entry : node->entries()) {
    // Where anything can be written after anything, only size can have kept a completion from being found.
    if (g.life().always() && entry.within == ANYTHING) continue;
    if (entry.lex == Lexer::FRESH) {
      if (found(g.life().completion(entry.set, entry.brackets, entry.within, ctx.arena))) return true;
      continue;
    }
    // What may end here is followed first: a letter is a name before it is the beginning of a keyword.
    for (const bool ends : {true, false})
      for (const Lexer::Running &running : g.lexer().running(entry.lex))
        if (g.lexemes().complete(running.lexeme) == ends &&
            found(g.life().completion(entry.set, entry.brackets, running.terminal, running.lexeme, entry.within, ctx.arena)))
          return true;
  }
  return false;
}

bool complete_grammar(Automaton &automaton, StepContext &ctx, const GrammarFrame *node, WitnessSymbols *out) {
  if (Completion(automaton, ctx, node).run(out) || complete_by_search(automaton, ctx, node, out)) return true;
  out->clear();
  return node->first_entry->within == ANYTHING && search_symbols(automaton, ctx, node, out);
}

}  // namespace structgen
