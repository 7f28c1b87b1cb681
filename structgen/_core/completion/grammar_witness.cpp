#include "completion/grammar_witness.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "automaton/token_steps.h"

namespace structgen {
namespace {

constexpr size_t MAX_TERMINALS = 200'000;      // of the cheapest text of one symbol
constexpr size_t MAX_POINTS = 200'000;         // of the shortest-path search over dotted rules
constexpr size_t MAX_STATES = 1'500;           // of the breadth-first search
constexpr size_t MAX_SEARCH_WORK = 5'000'000;  // of the parser and the liveness search, in that search
constexpr size_t MAX_READ_WORK = 4'000'000;    // the same, when a completion is read
constexpr size_t MAX_BOUNDED_SIZE = 20'000;    // characters of a completion, where each byte needs a liveness search

// Work of the parser and the liveness search so far: a million takes a third of a second.
size_t work_of(GrammarControl &g) { return g.earley().work() + g.liveness().work(); }

// The shortest rest of a lexeme.
bool shortest_rest(GrammarControl &g, TextSpace &text, LexemeState s, std::string *out) {
  return g.lexemes().complete(s) || text.regex().witness(g.lexemes().language(s), out);
}

// Do these symbols complete the text of the grammar?
bool is_completion(Automaton &automaton, StepContext &ctx, const GrammarFrame *frame, const WitnessSymbols &symbols) {
  GrammarControl &g = *frame->grammar;
  const Frame *n = frame;
  const size_t most = work_of(g) + MAX_READ_WORK;
  for (size_t i = 0; n && i < symbols.size(); ++i) {
    n = step_symbol(automaton, ctx, n, symbols[i]);
    if (work_of(g) >= most) return false;
  }
  return n && automaton.completes(ctx, n, frame->parent);
}

// The cheapest completion by the grammar, which ignores that lexemes must be separable.
class CheapestCompletion {
 public:
  CheapestCompletion(Automaton &automaton, StepContext &ctx, const GrammarFrame *frame)
      : automaton_(automaton),
        ctx_(ctx),
        frame_(frame),
        g_(*frame->grammar),
        shortest_(shortest_texts(g_, automaton)) {}

  bool run(WitnessSymbols *out) {
    std::vector<Candidate> candidates;
    for (const GrammarEntry &entry : frame_->entries()) add_candidates(entry, candidates);
    std::sort(candidates.begin(), candidates.end(),
              [](const Candidate &a, const Candidate &b) { return a.cost < b.cost; });
    for (const Candidate &candidate : candidates) {
      out->clear();
      if (write(candidate, out) && read(*out)) return true;
    }
    out->clear();
    return false;
  }

 private:
  struct Candidate {
    uint64_t cost;
    const GrammarEntry *entry;
    std::string rest;            // of the running lexeme
    std::optional<Re> boundary;  // what must not follow it
    bool newline = false;        // the running lexeme is a newline, whose column is still open
    std::vector<uint32_t> terminals;
  };

  void add_candidates(const GrammarEntry &entry, std::vector<Candidate> &candidates) {
    auto add = [&](const EarleySet *set, std::string rest, std::optional<Re> boundary, bool newline) {
      Candidate candidate{rest.size(), &entry, std::move(rest), boundary, newline, {}};
      if (!complete_set(set, &candidate.cost, &candidate.terminals)) return;
      candidates.push_back(std::move(candidate));
    };
    if (entry.lex == Lexer::FRESH) return add(entry.set, {}, std::nullopt, false);
    for (const Lexer::Running &running : g_.lexer().running(entry.lex)) {
      std::string rest;
      if (!shortest_rest(g_, automaton_.text(), running.lexeme, &rest)) continue;
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
  bool complete_set(const EarleySet *set, uint64_t *cost, std::vector<uint32_t> *out) {
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
      for (Item i = item; g_.items().symbol_after_dot(i) != Grammar::END; ++i) {
        const uint64_t more = shortest_.cost(g_.items().symbol_after_dot(i));
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
    while (!queue.empty() && points.size() < MAX_POINTS) {
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
          for (Item i = *it; g_.items().symbol_after_dot(i) != Grammar::END; ++i)
            if (!shortest_.terminals(g_.items().symbol_after_dot(i), out)) return false;
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

  bool write(const Candidate &t, WitnessSymbols *out) {
    const IndentationRule &rule = g_.grammar().indentation;
    append_text(*out, t.rest);
    std::vector<uint32_t> columns;
    for (const IndentLevel *l = t.entry->indent; l; l = l->below) columns.insert(columns.begin(), l->column);
    std::optional<Re> boundary = t.boundary;
    size_t i = 0;
    // Writes a line break and the indentation that the terminals from `i` on describe.
    const auto write_line = [&](bool is_first) {
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
      if (!out->empty() && out->back() == '\n')
        out->insert(out->end(), columns.empty() || last ? 0 : columns.back(), ' ');
      boundary.reset();
      return true;
    };
    if (t.newline && !write_line(true)) return false;
    while (i < t.terminals.size()) {
      charge();
      const uint32_t terminal = t.terminals[i++];
      const GrammarTerminal &what = g_.grammar().terminals[terminal];
      if (rule.active() && terminal == rule.newline) {
        if (!write_line(false)) return false;
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
      if (boundary && what.kind == GrammarTerminal::Text &&
          g_.lexemes().rest_of(*boundary, static_cast<uint8_t>(word[0])) != RegexSpace::EMPTY)
        append_text(*out, g_.liveness().separator(*boundary));
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
    // Under a second constraint, each byte needs a liveness search.
    if (frame_->first_entry->outer != ANYTHING && symbols.size() > MAX_BOUNDED_SIZE) return false;
    return is_completion(automaton_, ctx_, frame_, symbols);
  }

  Automaton &automaton_;
  StepContext &ctx_;
  const GrammarFrame *frame_;
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
      if (out->size() > MAX_TERMINALS) return false;
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

// Breadth-first search over bytes. It finds completions whose lexemes are separable only in other words than the
// shortest.
static bool search_breadth_first(Automaton &automaton, StepContext &ctx, const GrammarFrame *frame,
                                 WitnessSymbols *out) {
  struct Met {
    const Frame *state;
    size_t from;      // the state before, by index
    uint32_t symbol;  // that leads from there to here
  };
  std::vector<Met> met{{frame, 0, 0}};
  std::set<std::pair<uint64_t, uint64_t>> known;
  // The sets of an ambiguous text grow with the text, and each step goes through them.
  GrammarControl &g = *frame->grammar;
  const size_t most = work_of(g) + MAX_SEARCH_WORK;
  auto goes_on = [&] { return met.size() < MAX_STATES && work_of(g) < most; };
  for (size_t at = 0; at < met.size() && goes_on(); ++at) {
    const Frame *n = met[at].state;
    if (automaton.completes(ctx, n, frame->parent)) {
      for (size_t i = at; i != 0; i = met[i].from) out->insert(out->begin(), met[i].symbol);
      return true;
    }
    auto reach = [&](uint32_t symbol) {
      const Frame *next = step_symbol(automaton, ctx, n, symbol);
      if (!next) return;
      const Hash128 h = automaton.signature(next);
      if (known.insert({h.a, h.b}).second) met.push_back({next, at, symbol});
    };
    const std::bitset<256> candidates = automaton.candidates(n);
    for (uint32_t b = 0; b < 256; ++b)
      if (candidates.test(b)) reach(b);
    for (uint32_t set : expected_token_sets(automaton, ctx, n)) reach(FIRST_TOKEN_SET + set);
  }
  return false;
}

// The completion that the liveness search itself writes.
static bool complete_by_liveness(Automaton &automaton, StepContext &ctx, const GrammarFrame *frame,
                                 WitnessSymbols *out) {
  GrammarControl &g = *frame->grammar;
  auto found = [&](std::optional<std::string> text) {
    if (!text) return false;
    out->clear();
    append_text(*out, *text);
    return is_completion(automaton, ctx, frame, *out);
  };
  for (const GrammarEntry &entry : frame->entries()) {
    // Where any lexeme can be written after any other, only its size can have kept a completion from being found.
    if (g.liveness().always() && entry.outer == ANYTHING) continue;
    if (entry.lex == Lexer::FRESH) {
      if (found(g.liveness().completion(entry.set, entry.brackets, entry.outer, ctx.arena))) return true;
      continue;
    }
    // Lexemes that may end here come first: a letter is a name before it is the beginning of a keyword.
    for (const bool ends : {true, false})
      for (const Lexer::Running &running : g.lexer().running(entry.lex))
        if (g.lexemes().complete(running.lexeme) == ends &&
            found(g.liveness().completion(entry.set, entry.brackets, running.terminal, running.lexeme, entry.outer,
                                          ctx.arena)))
          return true;
  }
  return false;
}

bool complete_grammar(Automaton &automaton, StepContext &ctx, const GrammarFrame *frame, WitnessSymbols *out) {
  if (CheapestCompletion(automaton, ctx, frame).run(out) || complete_by_liveness(automaton, ctx, frame, out))
    return true;
  out->clear();
  return frame->first_entry->outer == ANYTHING && search_breadth_first(automaton, ctx, frame, out);
}

}  // namespace structgen
