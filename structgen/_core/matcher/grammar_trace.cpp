#include "matcher/grammar_trace.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "automaton/automaton.h"
#include "util/stack.h"

namespace structgen {
namespace {

constexpr uint32_t BYTES = 256;

// While it lives, moves of a grammar's parser are written down.
class Recording {
 public:
  Recording(GrammarControl &g, Reader &r, EarleyTrace &trace) : earley_(g.earley()), r_(r) {
    earley_.record(&trace);
    r_.keeps_all = true;
  }
  ~Recording() {
    earley_.record(nullptr);
    r_.keeps_all = false;
  }
  Recording(const Recording &) = delete;

 private:
  Earley &earley_;
  Reader &r_;
};

// Places are numbered where they are made: mostly by the unit after them. Those at which nothing has started are past the
// unit that was read last, as it ended what leads there: a special token, or the bracket of a JSON value.
void note_fresh(const Node *n, const GrammarControl *top, EarleyTrace &trace) {
  for (; n; n = n->parent) {
    charge();
    if (n->kind == Node::Alternatives) {
      note_fresh(n->control.left, top, trace);
      continue;
    }
    if (n->kind != Node::Grammar || n->control.grammar != top) continue;
    for (const GrammarEntry &entry : n->all_entries())
      if (entry.lex == Lexer::FRESH) trace.positions[trace.number(entry.set)] = trace.position;
  }
}

// What is open at the end of the text.
void note_open(const Node *n, const GrammarControl *top, GrammarTrace &out) {
  for (; n; n = n->parent) {
    charge();
    if (n->kind == Node::Alternatives) {
      note_open(n->control.left, top, out);
      continue;
    }
    if ((n->kind != Node::Grammar && n->kind != Node::Symbol) || n->control.grammar != top) continue;
    for (const GrammarEntry &entry : n->all_entries()) {
      const uint32_t place = out.places.number(entry.set);
      if (n->kind == Node::Symbol) {
        out.open.push_back({place, n->length});
        continue;
      }
      bool runs = false;
      if (entry.lex != Lexer::FRESH)
        for (const Lexer::Running &running : n->control.grammar->lexer().running(entry.lex))
          if (!n->control.grammar->lexer().ignores(running.terminal)) {
            out.open.push_back({place, running.terminal});
            runs = true;
          }
      if (!runs) out.open.push_back({place, GrammarTrace::NO_TERMINAL});
    }
  }
}

// Lets the text end in every way in which it can.
void end_everywhere(Automaton &automaton, Reader &r, const Node *n) {
  for (; n && n->kind == Node::Alternatives; n = n->parent) end_everywhere(automaton, r, n->control.left);
  if (!n) return;
  if (n->kind == Node::Grammar) automaton.places(r, n);
  automaton.accepts(r, n);
}

// The rules around what a state reads.
class Scopes {
 public:
  explicit Scopes(Automaton &automaton) : automaton_(automaton) {}

  void look(const Node *n) {
    for (; n && n->kind == Node::Alternatives; n = n->parent) look(n->control.left);
    if (!n) return;
    if (n->kind == Node::Scalar && is_over(n)) {
      const Node *after = automaton_.finish(reader_, n->parent);
      if (after) return look(after);
    }
    if (n->kind != Node::Grammar) return around(n);
    GrammarControl &g = *n->control.grammar;
    bool outside = false;
    for (const GrammarEntry &entry : n->all_entries()) {
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
    if (outside) around(n);
  }

  std::optional<double> found;

 private:
  // Has a text that is followed by something been read to its end, so that it can only end here?
  bool is_over(const Node *n) const {
    if (!n->parent || (n->parent->kind != Node::Sequence && n->parent->kind != Node::Symbol)) return false;
    TextSpace &text = automaton_.text();
    if (!text.complete(n->text)) return false;
    const auto &row = text.row(n->text);
    return std::all_of(row.begin(), row.end(), [](TextState to) { return to == TextSpace::DEAD; });
  }

  // The grammar around a constraint in it.
  void around(const Node *n) {
    do n = n->parent;
    while (n && n->kind != Node::Symbol);
    if (!n) return;
    bool outside = false;
    for (const GrammarEntry &entry : n->all_entries())
      outside |= climb(*n->control.grammar, entry.set, ~static_cast<Symbol>(n->length));
    if (outside) around(n);
  }

  // From a symbol that is expected at a place to the rules that expect it, up to the first that has a temperature. True: some
  // way ends at the start of the grammar.
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
          else if (!std::isnan(temperatures[rule])) found = std::max(found.value_or(0), temperatures[rule]);
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
  Arena arena_;  // of what follows a text that is over
  Reader reader_{arena_};
  std::set<std::pair<const EarleySet *, Symbol>> seen_;
};

}  // namespace

GrammarTrace trace_grammar(Automaton &automaton, Reader &r, std::span<const uint32_t> units) {
  GrammarTrace out;
  const Node *n = automaton.start(r);
  if (!n || n->kind != Node::Grammar) return out;  // it has no text, at least without the limits of its tokens
  GrammarControl *const top = n->control.grammar;
  const Recording recording(*top, r, out.places);
  out.places.number(n->entries[0].set);
  for (uint32_t unit : units) {
    const Node *next = unit < BYTES ? automaton.step(r, n, static_cast<uint8_t>(unit))
                                    : automaton.step_whole(r, n, unit - BYTES);
    if (!next) return out;
    n = next;
    ++out.places.position;
    ++out.read;
    note_fresh(n, top, out.places);
  }
  note_open(n, top, out);
  end_everywhere(automaton, r, n);
  return out;
}

bool sets_temperature(const Plan &plan) {
  check_stack("constraints are nested too deeply");
  if (std::any_of(plan.parts.begin(), plan.parts.end(), [](const auto &part) { return sets_temperature(*part); })) return true;
  if (!plan.grammar) return false;
  const Grammar &g = plan.grammar->grammar();
  return !g.temperatures.empty() ||
         std::any_of(g.terminals.begin(), g.terminals.end(), [](const auto &t) { return t.plan && sets_temperature(*t.plan); });
}

std::optional<double> temperature_at(Automaton &automaton, const Node *n) {
  if (!n) return std::nullopt;
  Scopes scopes(automaton);
  scopes.look(n);
  return scopes.found;
}

}  // namespace structgen
