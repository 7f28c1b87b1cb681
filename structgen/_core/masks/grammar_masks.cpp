// Masks of grammars, by state.
//
// A state is a union of parses, so its mask is the union of theirs. A mask is cached under the state of the lexer and
// the answers that Earley sets gave while it was built (grammar/earley.h). If the parser may stand at the parse's own
// set, the kernels of that set are part of the key as well.
#include "automaton/token_steps.h"
#include "masks/mask_builder.h"
#include "masks/mask_cache.h"

namespace structgen {
namespace {

constexpr uint64_t PARSE = 9, PARSES = 14;
constexpr size_t QUESTION_BYTES = 80;  // of an entry without a mask

// The key of the mask of one parse, without answers of Earley sets.
Hash128 first_key(Automaton &automaton, const GrammarFrame *state, const GrammarEntry &parse, bool is_whole) {
  Hash128 key =
      hash_words(PARSE, parse.lex,
                 static_cast<uint64_t>(parse.column) << 2 | (parse.brackets > 0) << 1 | (parse.indent != nullptr),
                 reinterpret_cast<uint64_t>(state->grammar));
  if (parse.outer != ANYTHING) key = extend(key, parse.outer);
  if (is_whole) key = extend(key, parse.set->shape);
  for (const Frame *f = state->parent; f; f = f->parent) key = extend(key, automaton.signature(f));
  return key;
}

// The answer of a parse to a query that a cached mask depends on.
Hash128 answer(GrammarControl &g, const GrammarEntry &parse, MaskDependencies::Query query,
               MaskDependencies &dependencies) {
  const auto symbol = static_cast<uint32_t>(query.symbol);
  switch (query.set) {
    case MaskDependencies::INDENTATION: return MaskDependencies::indentation_answer(parse.indent, symbol);
    case MaskDependencies::ALL_INDENTATION: return MaskDependencies::all_indentation_answer(parse.indent);
    case MaskDependencies::BRACKETS: return MaskDependencies::brackets_answer(parse.brackets, symbol);
    case MaskDependencies::IDENTITY: return parse.set->identity;
    default: break;
  }
  const auto [target, as] = g.earley().resolve(dependencies.set(query.set), query.symbol, nullptr);
  return g.earley().moves(target, as, dependencies);
}

// May the text of one parse end here? The walk has found most of the positions that this takes.
bool may_end(MaskBuilder &m, const GrammarFrame *one) {
  const GrammarEntry &entry = *one->first_entry;
  if (one->parent || entry.indent || entry.lex == Lexer::FRESH) return m.automaton.accepts(m.ctx, one);
  GrammarControl &g = *one->grammar;
  if (!g.lexer().ignored_ends(entry.lex).empty() && entry.set->accepting && g.may_end(entry)) return true;
  for (const Lexer::End &end : g.lexer().ends(entry.lex)) {
    if (g.is_newline(end.terminal)) return m.automaton.accepts(m.ctx, one);
    const NextPosition &position =
        m.grammar.positions().after(one, m.grammar.lexeme(entry, {end.terminal, Lexemes::DEAD}));
    if (position.is_live && position.entry.set->accepting && g.may_end(position.entry)) return true;
  }
  return false;
}

// A copy of a set from which nothing but terminal `terminal` is expected.
EarleySet only_expecting(GrammarControl &g, const EarleySet &original, uint32_t terminal) {
  EarleySet set = original;
  set.outlook = g.items().only(set.outlook, terminal);
  set.accepting = false;
  set.link = nullptr;
  set.id = next_serial();
  set.identity = extend(set.identity, terminal);
  set.shape = extend(set.shape, terminal);
  return set;
}

}  // namespace

std::shared_ptr<const Mask> MaskCache::grammar_mask(Request &request, const GrammarFrame *state) {
  constexpr uint32_t FEW_PARSES = 8;
  if (state->entry_count == 1) return mask_of_parse(request, state, *state->first_entry);
  if (state->entry_count > FEW_PARSES) return mask_of_parses(request, state);
  // Few parses have masks of their own, which other states share. Once one of these is expensive, one walk builds the
  // mask of all others.
  const uint64_t expensive =
      4 * static_cast<uint64_t>(text_.vocabulary().size());  // a step for each token costs several times that
  auto all = empty_mask();
  for (uint32_t i = 0; i < state->entry_count; ++i) {
    const uint64_t before = request.work_left;
    all->add(*mask_of_parse(request, state, state->entries()[i]));
    if (before - request.work_left <= expensive || i + 2 >= state->entry_count) continue;
    const ArenaScope scope(request.arena);
    StepContext ctx{request.arena};
    const std::span others = state->entries().subspan(i + 1);
    all->add(
        *mask_of_parses(request, as<GrammarFrame>(make_grammar_frame(ctx, *state->grammar, others, state->parent))));
    break;
  }
  return all;
}

// The mask of many parses in one walk, which merges them where they arrive at the same state: a text like `aaaa` of
// `(/a+/)+` has as many as characters. Cached for exactly these parses.
std::shared_ptr<const Mask> MaskCache::mask_of_parses(Request &request, const GrammarFrame *state) {
  Hash128 key = hash_words(PARSES, state->entry_count);
  for (const GrammarEntry &parse : state->entries()) key = extend(key, entry_identity(parse));
  for (const Frame *f = state; f; f = f->parent) key = extend(key, automaton_.signature(f));
  if (const auto it = entries_.find(key); it != entries_.end()) {
    ++hits_;
    return it->second.mask;
  }
  auto made = build_grammar_mask(request, nullptr, [&](MaskBuilder &m) {
    automaton_.count_step(m.ctx, *state->grammar);
    m.grammar.add_tokens(Vocabulary::ROOT, state);
    m.add_named_tokens(state);
    return automaton_.accepts(m.ctx, state);
  });
  entries_[key].mask = made;
  return made;
}

// Builds the mask of what `walk` adds. It returns whether the text may end.
template <class Walk>
std::shared_ptr<const Mask> MaskCache::build_grammar_mask(Request &request, MaskDependencies *dependencies,
                                                          const Walk &walk) {
  ++misses_;
  auto made = empty_mask();
  {
    const ArenaScope scope(request.arena);
    MaskBuilder m(automaton_, context_fragments_, request.arena, request.work_left);
    m.ctx.mask_dependencies = dependencies;
    m.write_to(*made);
    m.allow_end(*made, walk(m));
    request.work_left = m.ctx.work_left;
  }
  text_.make_room();
  evict();
  bytes_ += mask_bytes();
  return made;
}

std::shared_ptr<const Mask> MaskCache::mask_of_parse(Request &request, const GrammarFrame *state,
                                                     const GrammarEntry &parse) {
  GrammarControl &g = *state->grammar;
  const bool is_whole = g.may_stand(parse);
  const Hash128 first = first_key(automaton_, state, parse, is_whole);
  Hash128 key = first;
  auto it = entries_.find(key);
  if (it != entries_.end() && !it->second.mask) {
    MaskDependencies dependencies(parse.set, is_whole, parse.indent, parse.brackets);
    while (it != entries_.end() && !it->second.mask) {
      charge();
      key = extend(key, answer(g, parse, it->second.query, dependencies));
      it = entries_.find(key);
    }
  }
  if (it != entries_.end()) {
    ++hits_;
    return it->second.mask;
  }
  MaskDependencies dependencies(parse.set, is_whole, parse.indent, parse.brackets);
  auto made = build_grammar_mask(request, &dependencies, [&](MaskBuilder &m) {
    const GrammarFrame *one =
        state->entry_count == 1 ? state : as<GrammarFrame>(make_grammar_frame(m.ctx, g, {&parse, 1}, state->parent));
    automaton_.count_step(m.ctx, g);  // what the lexer does from here on counts
    m.grammar.add_tokens(Vocabulary::ROOT, one);
    m.add_named_tokens(one);
    return may_end(m, one);
  });
  key = first;
  for (auto &[query, answered] : dependencies.queries()) {
    entries_[key].query = query;
    bytes_ += QUESTION_BYTES;
    key = extend(key, answered);
  }
  entries_[key].mask = made;
  return made;
}

std::shared_ptr<const Mask> MaskCache::beginning(Arena &arena, const GrammarFrame *state, size_t position,
                                                 uint32_t terminal) {
  GrammarControl &g = *state->grammar;
  auto made = empty_mask(), ignored = empty_mask();
  MaskBuilder m(automaton_, context_fragments_, arena);
  const std::vector<ParserPosition> positions = positions_of(m.ctx, *state);
  if (position >= positions.size() || terminal >= g.grammar().terminals.size()) return made;
  const GrammarEntry &stand = positions[position].at;
  for (const uint32_t t : {terminal, UINT32_MAX}) {  // only text to ignore: it begins no lexeme of the terminal
    const EarleySet set = only_expecting(g, *stand.set, t);
    MaskDependencies dependencies(&set, true, stand.indent, stand.brackets);  // for its limit
    m.ctx.mask_dependencies = &dependencies;
    GrammarEntry at = stand;
    at.set = &set;
    m.write_to(t == terminal ? *made : *ignored);
    const auto *one = as<GrammarFrame>(make_grammar_frame(m.ctx, g, {&at, 1}, state->parent));
    m.grammar.add_tokens_at_position(one, at, positions[position].forbidden);
    m.grammar.positions().clear();
  }
  const GrammarTerminal &wanted = g.grammar().terminals[terminal];
  for (uint32_t w = 0; w < text_.vocabulary().words(); ++w) made->data()[w] &= ~ignored->data()[w];
  if (wanted.kind == GrammarTerminal::Tokens && !wanted.is_made() && g.items().expects(stand.set->outlook, terminal))
    text_.token_sets()[wanted.tokens].add_to(made->data());
  text_.make_room();
  return made;
}

}  // namespace structgen
