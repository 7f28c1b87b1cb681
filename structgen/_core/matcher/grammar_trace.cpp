#include "matcher/grammar_trace.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "automaton/automaton.h"
#include "automaton/grammar_steps.h"
#include "automaton/token_steps.h"
#include "util/stack.h"

namespace structgen {
namespace {

constexpr uint32_t BYTES = 256;

// While it lives, the moves of a grammar's parser are recorded.
class Recording {
 public:
  Recording(GrammarControl &g, StepContext &ctx, EarleyTrace &trace) : earley_(g.earley()), ctx_(ctx) {
    earley_.record(&trace);
    ctx_.keep_equal_parses = true;
  }
  ~Recording() {
    earley_.record(nullptr);
    ctx_.keep_equal_parses = false;
  }
  Recording(const Recording &) = delete;

 private:
  Earley &earley_;
  StepContext &ctx_;
};

// A place is numbered when it is made, mostly by the unit after it. A place at which nothing has started comes after
// the unit that was read last, since that unit ended what leads there: a special token, or the bracket of a JSON value.
void number_new_places(const Frame *n, const GrammarControl *top, EarleyTrace &trace) {
  for (; n; n = n->parent) {
    charge();
    if (const auto *list = as_if<AlternativesFrame>(n)) {
      number_new_places(list->first, top, trace);
      continue;
    }
    const auto *grammar = as_if<GrammarFrame>(n);
    if (!grammar || grammar->grammar != top) continue;
    for (const GrammarEntry &entry : grammar->entries())
      if (entry.lex == Lexer::FRESH) trace.positions[trace.number(entry.set)] = trace.position;
  }
}

// Records what is open at the end of the text.
void record_open(const Frame *n, const GrammarControl *top, GrammarTrace &out) {
  for (; n; n = n->parent) {
    charge();
    if (const auto *list = as_if<AlternativesFrame>(n)) {
      record_open(list->first, top, out);
      continue;
    }
    const auto *parser = as_if<ParserFrame>(n);
    if (!parser || parser->grammar != top) continue;
    for (const GrammarEntry &entry : parser->entries()) {
      const uint32_t place = out.places.number(entry.set);
      if (const auto *symbol = as_if<SymbolFrame>(n)) {
        out.open.push_back({place, symbol->terminal});
        continue;
      }
      bool runs = false;
      if (entry.lex != Lexer::FRESH)
        for (const Lexer::Running &running : parser->grammar->lexer().running(entry.lex))
          if (!parser->grammar->lexer().ignores(running.terminal)) {
            out.open.push_back({place, running.terminal});
            runs = true;
          }
      if (!runs) out.open.push_back({place, GrammarTrace::NO_TERMINAL});
    }
  }
}

// Ends the text in every possible way, so that the moves at its end are recorded.
void end_text(Automaton &automaton, StepContext &ctx, const Frame *n) {
  each_alternative(n, [&](const Frame *one) {
    if (const auto *grammar = as_if<GrammarFrame>(one)) positions_of(ctx, *grammar);
    automaton.accepts(ctx, one);
  });
}

// Finds the rules around what a state reads, and the highest of their temperatures.
class EnclosingRules {
 public:
  explicit EnclosingRules(Automaton &automaton) : automaton_(automaton) {}

  void look(const Frame *n) {
    each_alternative(n, [&](const Frame *one) { look_at(one); });
  }

  std::optional<double> highest;  // temperature

 private:
  void look_at(const Frame *n) {
    if (const auto *scalar = as_if<ScalarFrame>(n); scalar && must_end(*scalar)) {
      const Frame *after = automaton_.finish(ctx_, n->parent);
      if (after) return look(after);
    }
    const auto *grammar = as_if<GrammarFrame>(n);
    if (!grammar) return look_around(n);
    GrammarControl &g = *grammar->grammar;
    bool outside = false;
    for (const GrammarEntry &entry : grammar->entries()) {
      bool runs = false;
      if (entry.lex != Lexer::FRESH)
        for (const Lexer::Running &running : g.lexer().running(entry.lex))
          if (!g.lexer().ignores(running.terminal)) {
            runs = true;
            outside |= climb(g, entry.set, ~static_cast<Symbol>(running.terminal));
          }
      if (runs) continue;
      for (uint32_t t : g.items().expected(entry.set->outlook)) outside |= climb(g, entry.set, ~static_cast<Symbol>(t));
    }
    if (outside) look_around(n);
  }

  // Can an open-ended text only end here?
  bool must_end(const ScalarFrame &scalar) const {
    TextSpace &text = automaton_.text();
    if (!is_open_ended(&scalar) || !text.complete(scalar.text)) return false;
    const auto &row = text.row(scalar.text);
    return std::all_of(row.begin(), row.end(), [](TextState to) { return to == TextSpace::DEAD; });
  }

  // Goes on with the grammar around a constraint.
  void look_around(const Frame *n) {
    do n = n->parent;
    while (n && !is<SymbolFrame>(n));
    const auto *symbol = as_if<SymbolFrame>(n);
    if (!symbol) return;
    bool outside = false;
    for (const GrammarEntry &entry : symbol->entries())
      outside |= climb(*symbol->grammar, entry.set, ~static_cast<Symbol>(symbol->terminal));
    if (outside) look_around(symbol);
  }

  // Goes from a symbol that is expected at a place to the rules that expect it, up to the first with a temperature.
  // True: some path reaches the start of the grammar.
  bool climb(GrammarControl &g, const EarleySet *set, Symbol symbol) {
    const std::vector<double> &temperatures = g.grammar().temperatures;
    if (temperatures.empty()) return true;
    bool outside = false;
    std::vector<std::pair<const EarleySet *, Symbol>> pending{{set, symbol}};
    std::vector<Item> items;
    while (!pending.empty()) {
      const auto [at, expected] = pending.back();
      pending.pop_back();
      if (!seen_.insert({at, expected}).second) continue;
      charge(2 + at->count);
      const auto meet = [&](const EarleySet *origin) {
        for (Item item : items) {
          const uint32_t rule = g.items().head(item);
          if (!origin || rule >= temperatures.size()) outside = true;
          else if (!std::isnan(temperatures[rule])) highest = std::max(highest.value_or(0), temperatures[rule]);
          else pending.push_back({origin, static_cast<Symbol>(rule)});
        }
        items.clear();
      };
      g.items().predicted_items(at->outlook, expected, &items);
      meet(at);
      for (uint32_t i = 0; i < at->count; ++i) {
        g.items().moved_items(at->kernels[i], expected, &items);
        meet(at->origins[i]);
      }
    }
    return outside;
  }

  Automaton &automaton_;
  Arena arena_;  // holds the states after texts that must end
  StepContext ctx_{arena_};
  std::set<std::pair<const EarleySet *, Symbol>> seen_;
};

}  // namespace

GrammarTrace trace_grammar(Automaton &automaton, StepContext &ctx, std::span<const uint32_t> units) {
  GrammarTrace out;
  const Frame *n = automaton.start(ctx);
  const auto *start = as_if<GrammarFrame>(n);
  if (!start) return out;  // the grammar has no text
  GrammarControl *const top = start->grammar;
  const Recording recording(*top, ctx, out.places);
  out.places.number(start->first_entry->set);
  for (uint32_t unit : units) {
    const Frame *next = unit < BYTES ? automaton.step(ctx, n, static_cast<uint8_t>(unit))
                                     : step_token_whole(automaton, ctx, n, unit - BYTES);
    if (!next) return out;
    n = next;
    ++out.places.position;
    ++out.read;
    number_new_places(n, top, out.places);
  }
  record_open(n, top, out);
  end_text(automaton, ctx, n);
  return out;
}

bool sets_temperature(const Plan &plan) {
  check_stack("constraints are nested too deeply");
  if (std::any_of(plan.parts.begin(), plan.parts.end(), [](const auto &part) { return sets_temperature(*part); }))
    return true;
  if (!plan.grammar) return false;
  const Grammar &g = plan.grammar->grammar();
  return !g.temperatures.empty() || std::any_of(g.terminals.begin(), g.terminals.end(),
                                                [](const auto &t) { return t.plan && sets_temperature(*t.plan); });
}

std::optional<double> temperature_at(Automaton &automaton, const Frame *state) {
  if (!state) return std::nullopt;
  EnclosingRules rules(automaton);
  rules.look(state);
  return rules.highest;
}

}  // namespace structgen
