// Equal entries of a grammar frame: two ways to parse the text so far after which the same can follow.
#include <unordered_map>
#include <unordered_set>

#include "automaton/grammar_steps.h"
#include "util/limit_error.h"

namespace structgen {
namespace {

constexpr uint64_t ALIKE = 72;

// What the lexemes of an entry can lead to. The set itself where the parser may stand there, or where too little is
// known of it.
Hash128 lexeme_outcome(StepContext &ctx, GrammarControl &grammar, const GrammarEntry &entry) {
  const bool is_numbered = ctx.mask_dependencies && ctx.mask_dependencies->label(entry.set) != UINT32_MAX;
  if (grammar.may_stand(entry) || is_numbered) return hash_words(ALIKE, entry.set->id);
  Hash128 h = hash_words(ALIKE);
  for (const Lexer::Running &running : grammar.lexer().running(entry.lex))
    h = extend(h, grammar.earley().outcome(entry.set, ~static_cast<Symbol>(running.terminal)));
  return h;
}

// Keeps the first of the entries that are alike in all but one respect, `all_but`, and in that one, `last`, too.
template <class AllBut, class Last>
void keep_first(GrammarEntries &entries, const AllBut &all_but, const Last &last) {
  std::unordered_map<Hash128, uint32_t, HashOf128> many;
  for (const GrammarEntry &entry : entries) ++many[all_but(entry)];
  if (many.size() == entries.size()) return;
  std::unordered_set<Hash128, HashOf128> met;
  entries.erase_if([&](const GrammarEntry &entry) {
    charge();
    const Hash128 h = all_but(entry);
    return many[h] > 1 && !met.insert(extend(h, last(entry))).second;
  });
}

}  // namespace

Hash128 entry_identity(const GrammarEntry &entry) {
  constexpr uint64_t ENTRY = 8;
  const uint64_t line = static_cast<uint64_t>(entry.brackets) << 32 | entry.column;
  const Hash128 h = extend(hash_words(ENTRY, entry.lex, line, entry.outer), entry.set->identity);
  return entry.indent ? extend(h, entry.indent->identity) : h;
}

bool is_same_entry(StepContext &ctx, GrammarControl &grammar, const GrammarEntry &a, const GrammarEntry &b) {
  if (a.lex != b.lex || a.brackets != b.brackets || a.column != b.column || a.outer != b.outer) return false;
  if (a.indent != b.indent && !(a.indent && b.indent && a.indent->identity == b.indent->identity)) return false;
  if (a.set == b.set) return true;
  const MaskDependencies *dependencies = ctx.mask_dependencies;
  // subtle: of an open set too little is known to say that another one is like it.
  if (dependencies && (dependencies->is_partly_known(a.set) || dependencies->is_partly_known(b.set))) return false;
  return a.set->identity == b.set->identity || lexeme_outcome(ctx, grammar, a) == lexeme_outcome(ctx, grammar, b) ||
         grammar.earley().same_rest(a.set, b.set, ctx.mask_dependencies);
}

void drop_equal_entries(Automaton &automaton, StepContext &ctx, GrammarControl &grammar, GrammarEntries &entries) {
  const size_t most = automaton.text().limits().earley_items;
  if (entries.size() > most)
    throw LimitError("a text of the grammar has more than " + std::to_string(most) +
                     " parallel parses (limit earley_items)");
  if (entries.size() < 2 || ctx.keep_equal_parses) return;
  if (entries.size() == 2) {
    if (is_same_entry(ctx, grammar, entries[0], entries[1])) entries.pop_back();
    return;
  }
  automaton.count_work(ctx, entries.size());
  // The comparisons of `is_same_entry`, by hashes: equal sets first, then what their lexemes can lead to, then what the
  // sets still need. The later ones cost more, and are made only for entries that differ in their sets alone.
  const auto all_but_set = [&](const GrammarEntry &e) {
    const Hash128 h = hash_words(ALIKE, e.lex, static_cast<uint64_t>(e.brackets) << 32 | e.column, e.outer);
    return e.indent ? extend(h, e.indent->identity) : h;
  };
  const auto all_but_rest = [&](const GrammarEntry &e) {
    const Hash128 h = extend(all_but_set(e), static_cast<uint64_t>(e.set->outlook) << 1 | (e.set->accepting ? 1 : 0));
    return ctx.mask_dependencies && ctx.mask_dependencies->is_partly_known(e.set) ? extend(h, e.set->id) : h;
  };
  keep_first(entries, all_but_set, [&](const GrammarEntry &e) { return e.set->identity; });
  keep_first(entries, all_but_set, [&](const GrammarEntry &e) { return lexeme_outcome(ctx, grammar, e); });
  keep_first(entries, all_but_rest,
             [&](const GrammarEntry &e) { return grammar.earley().rest(e.set, ctx.mask_dependencies); });
}

const GrammarFrame *merge_grammar_frames(Automaton &automaton, StepContext &ctx,
                                         std::span<const GrammarFrame *const> frames) {
  if (frames.size() == 1) return frames[0];
  GrammarControl &grammar = *frames[0]->grammar;
  GrammarEntries entries;
  for (const GrammarFrame *frame : frames)
    entries.append(frame->entries().data(), frame->entries().data() + frame->entry_count);
  drop_equal_entries(automaton, ctx, grammar, entries);
  return as<GrammarFrame>(make_grammar_frame(ctx, grammar, entries, frames[0]->parent));
}

}  // namespace structgen
