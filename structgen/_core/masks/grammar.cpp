// Masks of grammars, by state.
//
// A state is a union of readings, so its mask is the union of theirs. A mask is remembered under the state of the lexer and the
// answers that Earley sets gave while it was made (grammar/earley.h). Where the parser may stand at the reading's own set, the kernels
// of that set count as well. What tokens lead to is in masks/grammar_tokens.cpp.
#include "masks/walk.h"
#include "automaton/token_steps.h"

namespace structgen {
namespace {

constexpr uint64_t ENTRY = 9, MANY = 14;

}  // namespace

Masks::Masks(Automaton &automaton) : a_(automaton), text_(automaton.text()), v_(text_.vocabulary()) {}
Masks::~Masks() = default;

std::shared_ptr<const Mask> Masks::of_grammar(Arena &arena, const GrammarFrame *node) {
  constexpr uint32_t FEW_READINGS = 8;
  if (node->entry_count == 1) return of_entry(arena, node, *node->first_entry);
  if (node->entry_count > FEW_READINGS) return of_many(arena, node);
  // Few readings have masks of their own, which other states share. Once one of these is expensive, one walk makes the mask
  // of all others.
  const uint64_t expensive = 4 * static_cast<uint64_t>(v_.size());  // a step for each token costs several times that
  auto all = new_mask(text_.mask_pool());
  for (uint32_t i = 0; i < node->entry_count; ++i) {
    const uint64_t before = work_left_;
    all->add(*of_entry(arena, node, node->entries()[i]));
    if (before - work_left_ <= expensive || i + 2 >= node->entry_count) continue;
    const Arena::Mark mark = arena.mark();
    StepContext ctx{arena};
    const std::span others = node->entries().subspan(i + 1);
    all->add(*of_many(arena, as<GrammarFrame>(make_grammar_frame(ctx, *node->grammar, others, node->parent))));
    arena.release(mark);
    break;
  }
  return all;
}

// Of many readings in one walk, which merges them where they arrive at the same state: a text like `aaaa` of `(/a+/)+` has
// as many as characters. Remembered for the very same readings only.
std::shared_ptr<const Mask> Masks::of_many(Arena &arena, const GrammarFrame *node) {
  Hash128 h = hash_words(MANY, node->entry_count);
  for (uint32_t i = 0; i < node->entry_count; ++i) h = extend(h, entry_identity(node->entries()[i]));
  for (const Frame *f = node; f; f = f->parent) h = extend(h, a_.signature(f));
  if (const auto it = cache_.find(h); it != cache_.end()) {
    ++hits_;
    return it->second.mask;
  }
  auto made = make(arena, nullptr, [&](StepContext &ctx) {
    a_.count_step(ctx, *node->grammar);
    walk_from(Vocabulary::ROOT, node);
    token_sets(node);
    return a_.accepts(ctx, node);
  });
  cache_[h].mask = made;
  return made;
}

// The mask of what `walk` reads. It returns whether the text may end.
template <class Walk>
std::shared_ptr<const Mask> Masks::make(Arena &arena, Reads *reads, const Walk &walk) {
  ++misses_;
  forget_places();  // those of a mask that met a limit
  StepContext ctx{arena};
  a_.limit_mask_work(ctx);
  ctx.work_left = work_left_;
  ctx.mask_dependencies = reads;
  const Arena::Mark mark = arena.mark();
  auto made = new_mask(text_.mask_pool());
  ctx_ = &ctx;
  out_ = made->data();
  made->complete = walk(ctx);
  if (made->complete)
    for (uint32_t id : v_.eos_ids()) set(id);
  forget_places();
  arena.release(mark);
  work_left_ = ctx.work_left;
  ctx_ = nullptr;
  text_.make_room();
  if (bytes_ > text_.limits().mask_cache_bytes) {
    cache_.clear();
    bytes_ = 0;
  }
  bytes_ += v_.words() * 4 + 128;
  return made;
}

std::shared_ptr<const Mask> Masks::of_entry(Arena &arena, const GrammarFrame *node, const GrammarEntry &entry) {
  GrammarControl &g = *node->grammar;
  Hash128 h = hash_words(ENTRY, entry.lex, static_cast<uint64_t>(entry.column) << 2 | (entry.brackets > 0) << 1 | (entry.indent != nullptr),
                         reinterpret_cast<uint64_t>(&g));
  if (entry.within != ANYTHING) h = extend(h, entry.within);
  const bool whole = g.may_stand(entry);
  if (whole) h = extend(h, entry.set->shape);
  for (const Frame *f = node->parent; f; f = f->parent) h = extend(h, a_.signature(f));
  const Hash128 first = h;
  auto it = cache_.find(h);
  if (it != cache_.end() && !it->second.mask) {
    Reads reads(entry.set, whole, entry.indent, entry.brackets);
    while (it != cache_.end() && !it->second.mask) {
      charge();
      const Reads::Question q = it->second.question;
      if (q.set == Reads::INDENTATION) {
        h = extend(h, Reads::indentation_answer(entry.indent, static_cast<uint32_t>(q.symbol)));
      } else if (q.set == Reads::ALL_INDENTATION) {
        h = extend(h, Reads::all_indentation_answer(entry.indent));
      } else if (q.set == Reads::BRACKETS) {
        h = extend(h, Reads::brackets_answer(entry.brackets, static_cast<uint32_t>(q.symbol)));
      } else if (q.set == Reads::IDENTITY) {
        h = extend(h, entry.set->identity);
      } else {
        const auto [target, as] = g.earley().resolve(reads.set(q.set), q.symbol, nullptr);
        h = extend(h, g.earley().moves(target, as, reads));
      }
      it = cache_.find(h);
    }
  }
  if (it != cache_.end()) {
    ++hits_;
    return it->second.mask;
  }
  Reads reads(entry.set, whole, entry.indent, entry.brackets);
  auto made = make(arena, &reads, [&](StepContext &ctx) {
    const GrammarFrame *one =
        node->entry_count == 1 ? node : as<GrammarFrame>(make_grammar_frame(ctx, g, {&entry, 1}, node->parent));
    a_.count_step(ctx, g);  // what the lexer does from here on counts
    walk_from(Vocabulary::ROOT, one);
    token_sets(one);
    return may_end(ctx, one);
  });
  h = first;
  for (auto &[question, answer] : reads.asked()) {
    cache_[h].question = question;
    bytes_ += 80;
    h = extend(h, answer);
  }
  cache_[h].mask = made;
  return made;
}

std::shared_ptr<const Mask> Masks::beginning(Arena &arena, const GrammarFrame *node, size_t place, uint32_t terminal) {
  GrammarControl &g = *node->grammar;
  auto made = new_mask(text_.mask_pool()), ignored = new_mask(text_.mask_pool());
  StepContext ctx{arena};
  a_.limit_mask_work(ctx);
  const std::vector<ParserPosition> all = positions_of(ctx, *node);
  if (place >= all.size() || terminal >= g.grammar().terminals.size()) return made;
  const GrammarTerminal &wanted = g.grammar().terminals[terminal];
  forget_places();
  ctx_ = &ctx;
  for (const uint32_t t : {terminal, UINT32_MAX}) {  // what is text to ignore alone begins nothing
    EarleySet set = *all[place].at.set;
    set.outlook = g.items().only(set.outlook, t);
    set.accepting = false;
    set.link = nullptr;
    set.id = next_serial();
    set.identity = extend(set.identity, t);
    set.shape = extend(set.shape, t);
    Reads reads(&set, true, all[place].at.indent, all[place].at.brackets);  // for its limit
    ctx.mask_dependencies = &reads;
    GrammarEntry at = all[place].at;
    at.set = &set;
    Mask &out = t == terminal ? *made : *ignored;
    out_ = out.data();
    walk_from_place(as<GrammarFrame>(make_grammar_frame(ctx, g, {&at, 1}, node->parent)), at, all[place].forbidden);
    forget_places();
  }
  for (uint32_t w = 0; w < v_.words(); ++w) made->data()[w] &= ~ignored->data()[w];
  out_ = made->data();
  if (wanted.kind == GrammarTerminal::Tokens && !wanted.is_made() && g.items().expects(all[place].at.set->outlook, terminal))
    text_.token_sets()[wanted.tokens].add_to(out_);
  out_ = nullptr;
  ctx_ = nullptr;
  text_.make_room();
  return made;
}

// May the text end here? Most places where it may have been looked at by now.
bool Masks::may_end(StepContext &ctx, const GrammarFrame *one) {
  const GrammarEntry &entry = *one->first_entry;
  if (one->parent || entry.indent || entry.lex == Lexer::FRESH) return a_.accepts(ctx, one);
  GrammarControl &g = *one->grammar;
  if (!g.lexer().ignored_ends(entry.lex).empty() && entry.set->accepting && g.may_end(entry)) return true;
  for (const Lexer::End &end : g.lexer().ends(entry.lex)) {
    if (g.is_newline(end.terminal)) return a_.accepts(ctx, one);
    const Place &place = place_after(one, lexeme(entry, {end.terminal, Lexemes::DEAD}));
    if (place.alive && place.at.set->accepting && g.may_end(place.at)) return true;
  }
  return false;
}

void Masks::token_sets(const Frame *node) {
  if (a_.token_sets().empty()) return;
  const Arena::Mark mark = ctx_->arena.mark();
  for (const uint32_t set : expected_token_sets(a_, *ctx_, node)) {
    const TokenSet &tokens = *a_.token_sets().at(set);
    charge(1 + std::min<size_t>(tokens.size(), v_.words()) / 16);
    tokens.add_to(out_);
  }
  ctx_->arena.release(mark);
}

}  // namespace structgen
