#include "automaton/grammar_steps.h"

#include <algorithm>
#include <optional>

#include "automaton/alternatives.h"

namespace structgen {
namespace {

// May a newline lexeme that began here be followed by a line, of any column?
bool can_line_follow(StepContext &ctx, GrammarControl &grammar, const GrammarEntry &entry) {
  if (entry.brackets > 0) return true;
  Earley::Builder builder(grammar.earley(), ctx.mask_dependencies);
  builder.recognised(entry.set, ~static_cast<Symbol>(grammar.grammar().indentation.newline));
  return builder.finish(ctx.arena) != nullptr;
}

std::span<const GrammarEntry> keep_entries(StepContext &ctx, std::span<const GrammarEntry> entries) {
  auto *kept = static_cast<GrammarEntry *>(ctx.arena.allocate(entries.size_bytes()));
  std::copy(entries.begin(), entries.end(), kept);
  return {kept, entries.size()};
}

// Opens or closes blocks, as the column of a new line requires. `out` stands after the newline.
template <class Move>
bool read_indentation(StepContext &ctx, const IndentationRule &rule, const GrammarEntry &entry, GrammarEntry *out,
                      const Move &move) {
  constexpr uint64_t INDENT = 71;
  const auto column_of = [](const IndentLevel *level) { return level ? level->column : 0; };
  if (ctx.mask_dependencies) ctx.mask_dependencies->record_indentation(entry.indent, entry.column);
  if (entry.column > column_of(out->indent)) {
    const Hash128 below = out->indent ? out->indent->identity : hash_words(INDENT);
    out->indent = ctx.arena.make<IndentLevel>(IndentLevel{out->indent, entry.column, extend(below, entry.column)});
    return move(rule.indent);
  }
  while (entry.column < column_of(out->indent)) {
    charge();
    out->indent = out->indent->below;
    if (!move(rule.dedent)) return false;
  }
  return entry.column == column_of(out->indent);
}

}  // namespace

const Frame *make_grammar_frame(StepContext &ctx, GrammarControl &grammar, std::span<const GrammarEntry> entries,
                                const Frame *parent) {
  if (entries.empty()) return nullptr;
  return ctx.arena.make<GrammarFrame>(parent, &grammar, keep_entries(ctx, entries));
}

const SymbolFrame *make_symbol_frame(StepContext &ctx, GrammarControl &grammar, std::span<const GrammarEntry> positions,
                                     uint32_t terminal, const Frame *parent) {
  return ctx.arena.make<SymbolFrame>(parent, &grammar, keep_entries(ctx, positions), terminal);
}

bool after_terminal(StepContext &ctx, GrammarControl &grammar, const GrammarEntry &entry, uint32_t terminal,
                    GrammarEntry *out) {
  *out = entry;
  out->lex = Lexer::FRESH;
  out->column = 0;
  if (grammar.is_newline(terminal) && entry.brackets > 0) return true;
  Earley::Builder builder(grammar.earley(), ctx.mask_dependencies);
  const auto move = [&](uint32_t by) {
    builder.clear();
    builder.recognised(out->set, ~static_cast<Symbol>(by));
    out->set = builder.finish(ctx.arena);
    return out->set != nullptr;
  };
  if (!move(terminal)) return false;
  if (const int change = grammar.bracket(terminal)) {
    if (change < 0 && out->brackets == 0) return false;
    if (change < 0 && ctx.mask_dependencies) ctx.mask_dependencies->record_brackets(out->brackets);
    out->brackets += static_cast<uint32_t>(change);
  }
  return !grammar.is_newline(terminal) || read_indentation(ctx, grammar.grammar().indentation, entry, out, move);
}

bool after_constraint(Automaton &automaton, StepContext &ctx, const SymbolFrame &frame, GrammarEntry *out) {
  GrammarControl &grammar = *frame.grammar;
  if (frame.entry_count == 1) return after_terminal(ctx, grammar, *frame.first_entry, frame.terminal, out);
  automaton.count_step(ctx, grammar);
  Earley::Builder builder(grammar.earley(), ctx.mask_dependencies);
  for (const GrammarEntry &position : frame.entries())
    builder.recognised(position.set, ~static_cast<Symbol>(frame.terminal));
  *out = *frame.first_entry;
  out->set = builder.finish(ctx.arena);
  return out->set != nullptr;
}

const Frame *skip_ended_lexemes(Automaton &automaton, StepContext &ctx, const Frame *state) {
  if (const auto *list = as_if<AlternativesFrame>(state)) {
    const Frame *first = skip_ended_lexemes(automaton, ctx, list->first);
    const Frame *rest = skip_ended_lexemes(automaton, ctx, list->rest());
    return first == list->first && rest == list->rest() ? state : either(automaton, ctx, first, rest);
  }
  const auto *frame = as_if<GrammarFrame>(state);
  // subtle: several lexemes that end at one place lead to one set, which the next step makes of all of them.
  if (!frame || frame->entry_count != 1) return state;
  GrammarControl &grammar = *frame->grammar;
  const GrammarEntry &entry = *frame->first_entry;
  const auto ended = entry.lex == Lexer::FRESH ? std::nullopt : grammar.lexer().over(entry.lex);
  if (!ended || grammar.is_newline(*ended)) return state;
  GrammarEntry after = entry;
  after.lex = Lexer::FRESH;
  if (!grammar.lexer().ignores(*ended) && !after_terminal(ctx, grammar, entry, *ended, &after)) return state;
  return make_grammar_frame(ctx, grammar, {&after, 1}, frame->parent);
}

const Frame *begin_constraint(Automaton &automaton, StepContext &ctx, GrammarControl &grammar,
                              const GrammarEntry &position, uint32_t terminal, const Frame *parent) {
  const Frame *frame = make_symbol_frame(ctx, grammar, {&position, 1}, terminal, parent);
  return automaton.start_of(ctx, *grammar.grammar().terminals[terminal].plan, frame);
}

// Updates an entry after `byte` has been read into its lexeme; false where it leads nowhere.
static bool update_entry(StepContext &ctx, GrammarControl &grammar, GrammarEntry &entry, uint8_t byte) {
  entry.outer = grammar.lexemes().step_outer(entry.outer, byte);
  if (entry.outer == Lexemes::DEAD) return false;
  if (grammar.runs_newline(entry.lex)) {
    if (byte == '\n') entry.column = 0;
    else if (byte == ' ') entry.column += 1;
    else if (byte == '\t') entry.column += grammar.grammar().indentation.tab_width;
    if (!can_line_follow(ctx, grammar, entry)) {
      entry.lex =
          grammar.lexer().only(entry.lex, [&](const Lexer::Running &l) { return !grammar.is_newline(l.terminal); });
      entry.column = 0;
    }
  } else {
    entry.column = 0;
  }
  if (!grammar.liveness().always() || entry.outer != ANYTHING)
    entry.lex = grammar.lexer().only(entry.lex, [&](const Lexer::Running &l) {
      return grammar.liveness().is_lexeme_live(entry.set, entry.brackets, l.terminal, l.lexeme, entry.outer,
                                               ctx.mask_dependencies, ctx.arena);
    });
  return entry.lex != Lexer::DEAD;
}

bool step_lexeme(StepContext &ctx, GrammarControl &grammar, GrammarEntry &entry, uint8_t byte) {
  entry.lex = grammar.lexer().step(entry.lex, byte);
  return entry.lex != Lexer::DEAD && update_entry(ctx, grammar, entry, byte);
}

const Frame *begin_at(Automaton &automaton, StepContext &ctx, GrammarControl &grammar, const GrammarEntry &position,
                      Re forbidden, uint8_t byte, const Frame *parent, Beginning which) {
  automaton.count_step(ctx, grammar);
  const Frame *others = begin_others_at(automaton, ctx, grammar, position, byte, parent);
  Lexemes &lexemes = grammar.lexemes();
  if (const Re rest = lexemes.rest_of(forbidden, byte); rest != RegexSpace::EMPTY && lexemes.nullable(rest))
    return others;
  const Context context = grammar.context(position.set->outlook, position.brackets > 0);
  GrammarEntry entry = position;
  entry.lex = which == Beginning::All ? grammar.lexer().begin(context, forbidden, byte)
                                      : grammar.lexer().begin_touched(context, forbidden, byte);
  if (entry.lex == Lexer::DEAD || !update_entry(ctx, grammar, entry, byte)) return others;
  return either(automaton, ctx, make_grammar_frame(ctx, grammar, {&entry, 1}, parent), others);
}

// The lexer's rule does not apply here: a sequence of constraints has the texts of one followed by texts of the next,
// wherever either would have gone on.
const Frame *begin_others_at(Automaton &automaton, StepContext &ctx, GrammarControl &grammar,
                             const GrammarEntry &position, uint8_t byte, const Frame *parent) {
  const Frame *out = nullptr;
  for (uint32_t t : grammar.expected_nonlexical(position.set->outlook)) {
    if (grammar.grammar().terminals[t].kind != GrammarTerminal::Constraint) continue;
    if (!grammar.liveness().is_nonlexical_live(position.set, position.brackets, t, ctx.mask_dependencies, ctx.arena))
      continue;
    const Frame *started = begin_constraint(automaton, ctx, grammar, position, t, parent);
    if (!started) continue;
    const Frame *next = read_first(ctx, started, [&](const Frame *state) { return automaton.step(ctx, state, byte); });
    out = either(automaton, ctx, next, out);
  }
  if (position.set->accepting && parent && grammar.may_end(position))
    if (const Frame *after = automaton.finish(ctx, parent))
      out = either(automaton, ctx, automaton.step(ctx, after, byte), out);
  return out;
}

// Calls `visit` with every position that the text may stand at if nothing more is read, until it returns true.
template <class Visit>
static void visit_positions(StepContext &ctx, const GrammarFrame &frame, const Visit &visit) {
  GrammarControl &grammar = *frame.grammar;
  for (const GrammarEntry &entry : frame.entries()) {
    GrammarEntry position = entry;
    position.lex = Lexer::FRESH;
    position.column = 0;
    if (entry.lex == Lexer::FRESH) {
      if (visit(position, RegexSpace::EMPTY)) return;
      continue;
    }
    if (const auto ignored = grammar.lexer().ignored_ends(entry.lex); !ignored.empty())
      if (visit(position, ignored[0])) return;
    for (const Lexer::End &end : grammar.lexer().ends(entry.lex))
      if (after_terminal(ctx, grammar, entry, end.terminal, &position) && visit(position, end.after)) return;
  }
}

std::vector<ParserPosition> positions_of(StepContext &ctx, const GrammarFrame &frame) {
  std::vector<ParserPosition> out;
  visit_positions(ctx, frame, [&](const GrammarEntry &position, Re forbidden) {
    out.push_back({position, forbidden});
    return false;
  });
  return out;
}

// Closes the blocks that are open: they end with the text. False where the grammar does not allow that.
static bool close_blocks(StepContext &ctx, GrammarControl &grammar, GrammarEntry &position) {
  const uint32_t dedent = grammar.grammar().indentation.dedent;
  Earley::Builder builder(grammar.earley(), ctx.mask_dependencies);
  while (position.indent) {
    charge();
    if (!grammar.items().expects(position.set->outlook, dedent)) return false;
    if (ctx.mask_dependencies) ctx.mask_dependencies->record_indentation(position.indent, 0);
    position.indent = position.indent->below;
    builder.clear();
    builder.recognised(position.set, ~static_cast<Symbol>(dedent));
    position.set = builder.finish(ctx.arena);
    if (!position.set) return false;
  }
  return true;
}

bool is_grammar_complete(StepContext &ctx, const Frame *state) {
  if (const auto *list = as_if<AlternativesFrame>(state))
    return is_grammar_complete(ctx, list->first) || is_grammar_complete(ctx, list->rest());
  const auto *frame = as_if<GrammarFrame>(state);
  if (!frame) return false;
  GrammarControl &grammar = *frame->grammar;
  bool is_complete = false;
  visit_positions(ctx, *frame, [&](GrammarEntry position, Re) {
    return is_complete = close_blocks(ctx, grammar, position) && position.set->accepting && grammar.may_end(position);
  });
  return is_complete;
}

}  // namespace structgen
