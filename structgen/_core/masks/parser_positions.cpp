#include "masks/parser_positions.h"

#include "masks/mask_builder.h"

namespace structgen {
namespace {

constexpr uint64_t POSITION = 12, POSITIONS = 13;

GrammarEntry without_lexeme(GrammarEntry entry) {
  entry.lex = Lexer::FRESH;
  entry.column = 0;
  return entry;
}

}  // namespace

bool may_leave_grammar(GrammarControl &g, const EarleySet *set, const GrammarFrame *state) {
  return !g.expected_nonlexical(set->outlook).empty() || (set->accepting && state->parent);
}

NextPosition position_at(GrammarControl &g, const GrammarEntry &entry, const GrammarFrame *state) {
  NextPosition position{true, entry, g.lexer().first(g.context(entry.set->outlook, entry.brackets > 0))};
  if (may_leave_grammar(g, entry.set, state)) position.first_bytes.set();
  return position;
}

template <class Find>
const NextPosition &ParserPositions::find_once(bool lasts, const Hash128 &key, const GrammarFrame *state,
                                               const Find &find) {
  if (lasts)
    if (const auto it = positions_.find(key); it != positions_.end()) return *it->second;
  // subtle: what lasts has memory of its own, since the walk's memory is released branch by branch.
  Arena &arena = lasts ? memory_ : m_.ctx.arena;
  StepContext ctx{arena};
  ctx.mask_dependencies = m_.ctx.mask_dependencies;
  auto *position = arena.make<NextPosition>();
  if (find(ctx, position->entry)) *position = position_at(*state->grammar, position->entry, state);
  if (lasts) positions_[key] = position;
  return *position;
}

const NextPosition &ParserPositions::after(const GrammarFrame *state, const RunningLexeme &ended) {
  return ended.parses.size() > 1 ? after_several(state, ended) : after_one(state, ended);
}

const NextPosition &ParserPositions::after_one(const GrammarFrame *state, const RunningLexeme &ended) {
  GrammarControl &g = *state->grammar;
  const GrammarEntry &entry = ended.entry;
  const auto [since, terminal] = ended.parses[0];
  const bool lasts = !m_.ctx.arena.contains(since);
  const Hash128 key =
      hash_words(POSITION, reinterpret_cast<uint64_t>(since), static_cast<uint64_t>(terminal) << 32 | entry.outer,
                 reinterpret_cast<uint64_t>(entry.indent), entry.brackets, state->parent != nullptr);
  return find_once(lasts, key, state, [&](StepContext &ctx, GrammarEntry &at) {
    m_.automaton.count_step(m_.ctx, g);  // each byte of a token may be a lexeme
    if (!g.lexer().ignores(terminal)) return after_terminal(ctx, g, entry, terminal, &at);
    at = without_lexeme(entry);
    return true;
  });
}

const EarleySet *ParserPositions::first_equal(GrammarControl &g, const EarleySet *set) {
  return sets_.try_emplace(g.earley().rest(set, m_.ctx.mask_dependencies), set).first->second;
}

const NextPosition &ParserPositions::after_several(const GrammarFrame *state, const RunningLexeme &ended) {
  GrammarControl &g = *state->grammar;
  bool lasts = true;
  Hash128 key = hash_words(POSITIONS, ended.entry.outer, state->parent != nullptr);
  for (const auto [since, terminal] : ended.parses) {
    charge();
    lasts = lasts && !m_.ctx.arena.contains(since);
    key = extend(extend(key, reinterpret_cast<uint64_t>(since)), terminal);
  }
  return find_once(lasts, key, state, [&](StepContext &ctx, GrammarEntry &at) {
    m_.automaton.count_step(m_.ctx, g);
    at = without_lexeme(ended.entry);
    Earley::Builder builder(g.earley(), ctx.mask_dependencies);
    for (const auto [since, terminal] : ended.parses) builder.recognised(since, ~static_cast<Symbol>(terminal));
    at.set = builder.finish(ctx.arena);
    if (lasts && at.set) at.set = first_equal(g, at.set);
    return at.set != nullptr;
  });
}

void ParserPositions::clear() {
  positions_.clear();
  sets_.clear();
  memory_.release({});
}

}  // namespace structgen
