// Steps of tokens that constraints name: a token of a set is read whole, whatever its bytes are.
//
// A token may be text as well. Then it leads wherever its bytes lead, and wherever each set leads that has it. Such a set is
// a terminal of a grammar, which may come at any place that the text may stand at if nothing more is read into its lexeme.
#include <algorithm>
#include <optional>

#include "automaton/read_first.h"

namespace structgen {
namespace {

// Every place where a token may come that is read whole. What the lexer's rule forbids after a lexeme does not apply to such
// a token, so all lexemes that end here lead to one place, as in a step. Not so where lines are indented, or where
// another constraint tells readings apart.
template <class Visit>
void each_token_place(Automaton &a, Reader &r, const Node *n, const Visit &visit) {
  GrammarControl &g = *n->control.grammar;
  const std::span entries(n->entries, n->length);
  if (g.grammar().indentation.active() ||
      std::any_of(entries.begin(), entries.end(), [](const GrammarEntry &entry) { return entry.within != ANYTHING; })) {
    for (const Automaton::Place &place : a.places(r, n)) visit(place.at);
    return;
  }
  Earley::Builder builder(g.earley(), r.reads);
  bool any = false;
  for (const GrammarEntry &entry : entries) {
    charge();
    if (entry.lex == Lexer::FRESH || !g.lexer().ignored_ends(entry.lex).empty()) {
      GrammarEntry place = entry;
      place.lex = Lexer::FRESH;
      visit(place);
    }
    if (entry.lex == Lexer::FRESH) continue;
    for (const Lexer::End &end : g.lexer().ends(entry.lex)) {
      builder.recognised(entry.set, ~static_cast<Symbol>(end.terminal));
      any = true;
    }
  }
  if (!any) return;
  GrammarEntry place = entries[0];
  place.lex = Lexer::FRESH;
  place.set = builder.finish(r.arena);
  if (place.set) visit(place);
}

}  // namespace

const Node *Automaton::tokens_in_grammar(Reader &r, const Node *n, uint32_t set) {
  GrammarControl &g = *n->control.grammar;
  const bool indented = g.grammar().indentation.active();
  GrammarEntries entries;
  const Node *others = nullptr;
  // Nothing is forbidden after the token, so all places lead to one, as lexemes do that end at one place.
  Earley::Builder builder(g.earley(), r.reads);
  std::optional<GrammarEntry> after_token;
  each_token_place(*this, r, n, [&](const GrammarEntry &place) {
    for (uint32_t t : g.others(place.set->outlook)) {
      charge();
      const GrammarTerminal &terminal = g.grammar().terminals[t];
      if (terminal.kind == GrammarTerminal::Tokens && terminal.tokens != set) continue;
      if (!g.life().other(place.set, place.brackets, t, r.reads, r.arena)) continue;
      if (terminal.kind == GrammarTerminal::Tokens && indented) {
        GrammarEntry next;
        if (after_terminal(r, g, place, t, &next)) entries.push_back(next);
      } else if (terminal.kind == GrammarTerminal::Tokens) {
        builder.recognised(place.set, ~static_cast<Symbol>(t));
        after_token = place;
      } else if (terminal.kind == GrammarTerminal::Constraint) {
        if (const Node *child = begin_constraint(r, g, place, t, n->parent)) {
          const Node *next = read_first(r, child, [&](const Node *started) { return step_tokens(r, started, set); });
          others = alternatives(r, next, others);
        }
      }
    }
    if (place.set->accepting && n->parent && g.may_end(place))
      if (const Node *after = finish(r, n->parent)) others = alternatives(r, step_tokens(r, after, set), others);
  });
  if (after_token) {
    after_token->set = builder.finish(r.arena);
    if (after_token->set) entries.push_back(*after_token);
  }
  return alternatives(r, grammar_node(r, g, entries, n->parent), others);
}

const Node *Automaton::step_tokens(Reader &r, const Node *n, uint32_t set) {
  charge();
  r.trace = nullptr;
  switch (n->kind) {
    case Node::Grammar: return tokens_in_grammar(r, n, set);
    case Node::Alternatives: {
      const Node *left = step_tokens(r, n->control.left, set);
      return alternatives(r, left, step_tokens(r, n->parent, set));
    }
    case Node::Scalar: {
      if (!n->parent || !text_.complete(n->text)) return nullptr;
      if (n->parent->kind != Node::Sequence && n->parent->kind != Node::Symbol) return nullptr;
      const Node *after = finish(r, n->parent);  // those have no verdicts in question
      return after ? step_tokens(r, after, set) : nullptr;
    }
    default: return nullptr;
  }
}

std::vector<uint32_t> Automaton::expected_sets(Reader &r, const Node *node) {
  std::vector<uint32_t> out;
  if (!token_sets_.empty()) add_expected_sets(r, node, out);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// As `step_tokens` reads a token of each.
void Automaton::add_expected_sets(Reader &r, const Node *n, std::vector<uint32_t> &out) {
  charge();
  r.trace = nullptr;
  if (n->kind == Node::Alternatives) {
    add_expected_sets(r, n->control.left, out);
    return add_expected_sets(r, n->parent, out);
  }
  if (n->kind == Node::Scalar) {
    if (!n->parent || !text_.complete(n->text)) return;
    if (n->parent->kind != Node::Sequence && n->parent->kind != Node::Symbol) return;
    if (const Node *after = finish(r, n->parent)) add_expected_sets(r, after, out);
    return;
  }
  if (n->kind != Node::Grammar) return;
  GrammarControl &g = *n->control.grammar;
  const bool indented = g.grammar().indentation.active();
  each_token_place(*this, r, n, [&](const GrammarEntry &place) {
    for (uint32_t t : g.others(place.set->outlook)) {
      charge();
      const GrammarTerminal &terminal = g.grammar().terminals[t];
      if (!g.life().other(place.set, place.brackets, t, r.reads, r.arena)) continue;
      GrammarEntry next;
      if (terminal.kind == GrammarTerminal::Tokens) {
        // What is expected leads on, where no indentation has a say.
        if (!terminal.is_made() && (!indented || after_terminal(r, g, place, t, &next))) out.push_back(terminal.tokens);
      } else if (const Node *child = begin_constraint(r, g, place, t, n->parent)) {
        read_first(r, child, [&](const Node *started) {
          add_expected_sets(r, started, out);
          return nullptr;
        });
      }
    }
    if (place.set->accepting && n->parent && g.may_end(place))
      if (const Node *after = finish(r, n->parent)) add_expected_sets(r, after, out);
  });
}

const Node *Automaton::step_whole(Reader &r, const Node *node, uint32_t token) {
  r.is_last_byte = false;
  const Node *read = nullptr;
  for (const auto &[set, tokens] : token_sets_)
    if (node && tokens->has(token)) read = alternatives(r, step_tokens(r, node, set), read);
  return read;
}

const Node *Automaton::step_token(Reader &r, const Node *node, uint32_t token) {
  const Vocabulary &vocabulary = text_.vocabulary();
  const std::string_view bytes = vocabulary.is_eos(token) ? std::string_view() : vocabulary.token(token);
  const Node *read = bytes.empty() ? nullptr : node;
  bound_token(r);
  for (size_t i = 0; i < bytes.size() && read; ++i) {
    r.is_last_byte = i + 1 == bytes.size();
    read = step(r, read, static_cast<uint8_t>(bytes[i]));
  }
  if (read && read->kind == Node::Scalar && !read->parent && !text_.spellable(read->text)) read = nullptr;
  if (read) read = past_lexemes(r, read);
  return token_sets_.empty() ? read : alternatives(r, step_whole(r, node, token), read);
}

}  // namespace structgen
