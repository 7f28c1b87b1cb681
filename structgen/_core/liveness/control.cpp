#include "liveness/control.h"

#include <algorithm>

namespace structgen {

GrammarControl::GrammarControl(Grammar grammar, std::vector<Grammar::Production> productions, TextSpace &space)
    : g_(std::move(grammar)) {
  const size_t most = space.limits().automaton_states;
  lexer_ = std::make_unique<Lexer>(g_, space.lexemes(), most);
  std::vector<bool> dead(g_.terminals.size());
  for (uint32_t t = 0; t < g_.terminals.size(); ++t) {
    // The parser never sees lexemes of ignored terminals, although a rule may name them.
    if (g_.terminals[t].kind == GrammarTerminal::Text) dead[t] = lexer_->dead()[t] || lexer_->ignores(t);
    has_constraints_ |= g_.terminals[t].kind == GrammarTerminal::Constraint;
    if (g_.terminals[t].kind == GrammarTerminal::Constraint) dead[t] = !g_.terminals[t].has_text;
    if (g_.terminals[t].kind == GrammarTerminal::Tokens && !g_.terminals[t].is_made()) {
      dead[t] = space.token_sets()[g_.terminals[t].tokens].empty();
      if (!dead[t]) token_terminals_.push_back(t);
    }
  }
  if (g_.indentation.active()) {
    dead[g_.indentation.indent] = dead[g_.indentation.dedent] = false;
    std::vector<int8_t> &change = g_.indentation.change;
    if (!g_.indentation.open.empty() || !g_.indentation.close.empty()) change.resize(g_.terminals.size());
    for (uint32_t t : g_.indentation.open) change[t] = 1;
    for (uint32_t t : g_.indentation.close) change[t] = -1;
  }
  empty_ = !g_.lay_out(std::move(productions), dead);
  if (empty_) return;
  items_ = std::make_unique<ItemSets>(g_, most);
  earley_ = std::make_unique<Earley>(g_, *items_, space.limits().earley_items);
  liveness_ = std::make_unique<GrammarLiveness>(g_, *items_, *lexer_, *earley_, space.limits().oracle_budget);
  empty_ = liveness_->empty();
  if (g_.indentation.active())
    after_newline_ = first_after({g_.indentation.newline, g_.indentation.indent, g_.indentation.dedent});
}

// The first bytes of lexemes that the grammar allows directly after one of these terminals, or that are ignored.
std::bitset<256> GrammarControl::first_after(std::initializer_list<uint32_t> terminals) {
  std::vector<bool> ends(g_.rules.size()),
      begins(g_.rules.size());  // rules that end with one of them; rules that may come after one
  std::bitset<256> out;
  auto is_one = [&](Symbol s) {
    if (s >= 0) return static_cast<bool>(ends[static_cast<uint32_t>(s)]);
    return std::find(terminals.begin(), terminals.end(), static_cast<uint32_t>(~s)) != terminals.end();
  };
  auto text = [&](uint32_t t) {
    if (g_.terminals[t].kind == GrammarTerminal::Text && !lexer_->dead()[t])
      out |= lexemes().first_of(g_.terminals[t].language);
    else if (g_.terminals[t].plan) out.set();
  };
  for (bool changed = true; changed;) {
    changed = false;
    auto note = [&](std::vector<bool> &of, uint32_t rule) {
      if (!of[rule]) of[rule] = changed = true;
    };
    for (uint32_t r = 0; r < g_.rules.size(); ++r)
      for (Item first : g_.productions(r)) {
        bool after = begins[r];  // may the symbol come directly after one?
        for (Item i = first;; ++i) {
          const Symbol s = g_.symbols[i];
          if (s == Grammar::END) {
            if (after && i > first) note(ends, r);
            break;
          }
          if (after) {
            if (s >= 0) note(begins, static_cast<uint32_t>(s));
            else text(static_cast<uint32_t>(~s));
          }
          after = is_one(s) || (after && g_.nullable(s));
        }
      }
  }
  for (uint32_t t : g_.ignore) text(t);
  return out;
}

GrammarEntry GrammarControl::start(Arena &arena) {
  return {earley_->start(arena), Lexer::FRESH, nullptr, 0, 0, lexemes().begin_outer(g_.outer_language)};
}

Context GrammarControl::context(Outlook outlook, bool in_brackets) {
  const uint64_t key = static_cast<uint64_t>(outlook) << 1 | in_brackets;
  if (auto it = contexts_.find(key); it != contexts_.end()) return it->second;
  Context made;
  if (in_brackets) {
    const auto expected = items_->expected(outlook);
    std::vector<uint32_t> more(expected.begin(), expected.end());
    more.push_back(g_.indentation.newline);
    made = lexer_->context(more);
  } else {
    made = lexer_->context(items_->expected(outlook), g_.indentation.close);
  }
  return contexts_[key] = made;
}

const std::vector<uint32_t> &GrammarControl::expected_nonlexical(Outlook outlook) {
  auto [it, fresh] = expected_nonlexical_.try_emplace(outlook);
  if (fresh)
    for (uint32_t t : items_->expected(outlook))
      if (g_.terminals[t].kind != GrammarTerminal::Text) it->second.push_back(t);
  return it->second;
}

bool GrammarControl::may_stand(const GrammarEntry &entry) const {
  if (entry.lex == Lexer::FRESH || entry.outer != ANYTHING || g_.indentation.active()) return true;
  const std::span<const Lexer::Running> running = lexer_->running(entry.lex);
  return std::any_of(running.begin(), running.end(),
                     [&](const Lexer::Running &r) { return lexer_->ignores(r.terminal); });
}

bool GrammarControl::runs_newline(LexState s) const {
  if (!g_.indentation.active() || s == Lexer::FRESH) return false;
  for (const Lexer::Running &r : lexer_->running(s))
    if (r.terminal == g_.indentation.newline) return true;
  return false;
}

}  // namespace structgen
