#include "automaton/token_steps.h"

#include <algorithm>
#include <optional>

#include "automaton/alternatives.h"
#include "automaton/grammar_steps.h"

namespace structgen {
namespace {

// Calls `visit` with every position where a token may come that is read whole. What the lexer's rule forbids after a
// lexeme does not apply to such a token, so all lexemes that end here lead to one position, as in a step. Where lines
// are indented, or another constraint tells the parses apart, each lexeme leads to its own position.
template <class Visit>
void visit_token_positions(StepContext &ctx, const GrammarFrame &frame, const Visit &visit) {
  GrammarControl &grammar = *frame.grammar;
  const std::span entries = frame.entries();
  if (grammar.grammar().indentation.active() ||
      std::any_of(entries.begin(), entries.end(), [](const GrammarEntry &entry) { return entry.outer != ANYTHING; })) {
    for (const ParserPosition &position : positions_of(ctx, frame)) visit(position.at);
    return;
  }
  Earley::Builder builder(grammar.earley(), ctx.mask_dependencies);
  bool has_ended = false;
  for (const GrammarEntry &entry : entries) {
    charge();
    if (entry.lex == Lexer::FRESH || !grammar.lexer().ignored_ends(entry.lex).empty()) {
      GrammarEntry position = entry;
      position.lex = Lexer::FRESH;
      visit(position);
    }
    if (entry.lex == Lexer::FRESH) continue;
    for (const Lexer::End &end : grammar.lexer().ends(entry.lex)) {
      builder.recognised(entry.set, ~static_cast<Symbol>(end.terminal));
      has_ended = true;
    }
  }
  if (!has_ended) return;
  GrammarEntry position = entries[0];
  position.lex = Lexer::FRESH;
  position.set = builder.finish(ctx.arena);
  if (position.set) visit(position);
}

bool may_end_at(GrammarControl &grammar, const GrammarEntry &position) {
  return position.set->accepting && grammar.may_end(position);
}

const Frame *step_set_in_grammar(Automaton &automaton, StepContext &ctx, const GrammarFrame &frame, uint32_t set) {
  GrammarControl &grammar = *frame.grammar;
  const bool is_indented = grammar.grammar().indentation.active();
  GrammarEntries entries;
  const Frame *others = nullptr;
  // Nothing is forbidden after the token, so all positions lead to one.
  Earley::Builder builder(grammar.earley(), ctx.mask_dependencies);
  std::optional<GrammarEntry> after_token;
  const auto read_terminal = [&](const GrammarEntry &position, uint32_t t) {
    const GrammarTerminal &terminal = grammar.grammar().terminals[t];
    if (terminal.kind == GrammarTerminal::Tokens && terminal.tokens != set) return;
    if (!grammar.liveness().is_nonlexical_live(position.set, position.brackets, t, ctx.mask_dependencies, ctx.arena))
      return;
    if (terminal.kind == GrammarTerminal::Tokens && is_indented) {
      GrammarEntry next;
      if (after_terminal(ctx, grammar, position, t, &next)) entries.push_back(next);
    } else if (terminal.kind == GrammarTerminal::Tokens) {
      builder.recognised(position.set, ~static_cast<Symbol>(t));
      after_token = position;
    } else if (terminal.kind == GrammarTerminal::Constraint) {
      const Frame *started = begin_constraint(automaton, ctx, grammar, position, t, frame.parent);
      if (!started) return;
      const Frame *next =
          read_first(ctx, started, [&](const Frame *state) { return step_token_set(automaton, ctx, state, set); });
      others = either(automaton, ctx, next, others);
    }
  };
  visit_token_positions(ctx, frame, [&](const GrammarEntry &position) {
    for (uint32_t t : grammar.expected_nonlexical(position.set->outlook)) {
      charge();
      read_terminal(position, t);
    }
    if (!may_end_at(grammar, position) || !frame.parent) return;
    if (const Frame *after = automaton.finish(ctx, frame.parent))
      others = either(automaton, ctx, step_token_set(automaton, ctx, after, set), others);
  });
  if (after_token) {
    after_token->set = builder.finish(ctx.arena);
    if (after_token->set) entries.push_back(*after_token);
  }
  return either(automaton, ctx, make_grammar_frame(ctx, grammar, entries, frame.parent), others);
}

// What follows a scalar, if it may end here; null where it may not. No verdicts depend on such a scalar.
const Frame *after_open_ended(Automaton &automaton, StepContext &ctx, const Frame *state) {
  const auto *scalar = as_if<ScalarFrame>(state);
  if (!scalar || !is_open_ended(scalar) || !automaton.text().complete(scalar->text)) return nullptr;
  return automaton.finish(ctx, scalar->parent);
}

// Follows the same paths as `step_token_set`.
void add_expected_sets(Automaton &automaton, StepContext &ctx, const Frame *state, std::vector<uint32_t> &out) {
  charge();
  ctx.item_text = nullptr;
  if (const auto *list = as_if<AlternativesFrame>(state)) {
    add_expected_sets(automaton, ctx, list->first, out);
    return add_expected_sets(automaton, ctx, list->rest(), out);
  }
  if (const Frame *after = after_open_ended(automaton, ctx, state))
    return add_expected_sets(automaton, ctx, after, out);
  const auto *frame = as_if<GrammarFrame>(state);
  if (!frame) return;
  GrammarControl &grammar = *frame->grammar;
  const bool is_indented = grammar.grammar().indentation.active();
  visit_token_positions(ctx, *frame, [&](const GrammarEntry &position) {
    for (uint32_t t : grammar.expected_nonlexical(position.set->outlook)) {
      charge();
      const GrammarTerminal &terminal = grammar.grammar().terminals[t];
      if (!grammar.liveness().is_nonlexical_live(position.set, position.brackets, t, ctx.mask_dependencies, ctx.arena))
        continue;
      GrammarEntry next;
      if (terminal.kind == GrammarTerminal::Tokens) {
        // A terminal that is expected leads on, except where the indentation forbids it.
        if (!terminal.is_made() && (!is_indented || after_terminal(ctx, grammar, position, t, &next)))
          out.push_back(terminal.tokens);
      } else if (const Frame *started = begin_constraint(automaton, ctx, grammar, position, t, frame->parent)) {
        read_first(ctx, started, [&](const Frame *inner) {
          add_expected_sets(automaton, ctx, inner, out);
          return nullptr;
        });
      }
    }
    if (!may_end_at(grammar, position) || !frame->parent) return;
    if (const Frame *after = automaton.finish(ctx, frame->parent)) add_expected_sets(automaton, ctx, after, out);
  });
}

}  // namespace

const Frame *step_token_set(Automaton &automaton, StepContext &ctx, const Frame *state, uint32_t set) {
  charge();
  ctx.item_text = nullptr;
  if (const auto *frame = as_if<GrammarFrame>(state)) return step_set_in_grammar(automaton, ctx, *frame, set);
  if (const auto *list = as_if<AlternativesFrame>(state)) {
    const Frame *first = step_token_set(automaton, ctx, list->first, set);
    return either(automaton, ctx, first, step_token_set(automaton, ctx, list->rest(), set));
  }
  const Frame *after = after_open_ended(automaton, ctx, state);
  return after ? step_token_set(automaton, ctx, after, set) : nullptr;
}

std::vector<uint32_t> expected_token_sets(Automaton &automaton, StepContext &ctx, const Frame *state) {
  std::vector<uint32_t> out;
  if (!automaton.token_sets().empty()) add_expected_sets(automaton, ctx, state, out);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

const Frame *step_token_whole(Automaton &automaton, StepContext &ctx, const Frame *state, uint32_t token) {
  ctx.is_last_byte = false;
  const Frame *next = nullptr;
  for (const auto &[set, tokens] : automaton.token_sets())
    if (state && tokens->has(token)) next = either(automaton, ctx, step_token_set(automaton, ctx, state, set), next);
  return next;
}

const Frame *step_token(Automaton &automaton, StepContext &ctx, const Frame *state, uint32_t token) {
  TextSpace &text = automaton.text();
  const Vocabulary &vocabulary = text.vocabulary();
  const std::string_view bytes = vocabulary.is_eos(token) ? std::string_view() : vocabulary.token(token);
  const Frame *next = bytes.empty() ? nullptr : state;
  automaton.limit_token_work(ctx);
  for (size_t i = 0; i < bytes.size() && next; ++i) {
    ctx.is_last_byte = i + 1 == bytes.size();
    next = automaton.step(ctx, next, static_cast<uint8_t>(bytes[i]));
  }
  const auto *scalar = as_if<ScalarFrame>(next);
  if (scalar && !scalar->parent && !text.spellable(scalar->text)) next = nullptr;
  if (next) next = skip_ended_lexemes(automaton, ctx, next);
  if (automaton.token_sets().empty()) return next;
  return either(automaton, ctx, step_token_whole(automaton, ctx, state, token), next);
}

}  // namespace structgen
