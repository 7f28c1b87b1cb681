#include "masks/context_fragments.h"

#include <algorithm>

#include "masks/literals.h"
#include "masks/mask_builder.h"

namespace structgen {
namespace {

constexpr uint64_t CONTEXT = 11;

// Joins the tokens of fragments and of literals into one fragment, as bits if they are many.
void join_tokens(ContextFragment &made, const std::vector<const Lexemes::Fragment *> &parts,
                 std::vector<uint32_t> literal_ids, const Vocabulary &v) {
  size_t most = literal_ids.size();  // tokens, some of which may be counted twice
  for (const Lexemes::Fragment *f : parts) most += f->dense ? v.many() + 1 : f->ids.size();
  made.dense = most > v.many();
  if (!made.dense) {
    made.ids = std::move(literal_ids);
    made.ids.reserve(most);
    for (const Lexemes::Fragment *f : parts) made.ids.insert(made.ids.end(), f->ids.begin(), f->ids.end());
    return;
  }
  made.bits.resize(v.words());
  for (const Lexemes::Fragment *f : parts) {
    charge(f->dense ? v.words() / 16 : f->ids.size() / 4);
    if (f->dense) add_bits(made.bits.data(), f->bits.data(), v.words());
    else
      for (uint32_t id : f->ids) set_bit(made.bits.data(), id);
  }
  for (const uint32_t id : literal_ids) set_bit(made.bits.data(), id);
}

}  // namespace

const ContextFragment &ContextFragments::get(MaskBuilder &m, Vocabulary::Node at, GrammarControl &g, Context context,
                                             Re forbidden) {
  if (const uint64_t generation = g.lexemes().generation(); generation != generation_) {
    fragments_.clear();
    generation_ = generation;
  }
  const Hash128 key = hash_words(CONTEXT, at, context, reinterpret_cast<uint64_t>(&g), forbidden);
  if (auto it = fragments_.find(key); it != fragments_.end()) return *it->second;
  auto made = std::make_unique<ContextFragment>();
  std::vector<const Lexemes::Fragment *> parts;
  std::vector<Lexer::Running> literals;
  const std::bitset<256> next = m.vocabulary.next_bytes(at), forbidden_bytes = g.lexemes().first_of(forbidden);
  const auto add_fragment = [&](const Lexer::Running &begin) {
    Lexemes::Fragment &f = g.lexemes().fragment(at, begin.lexeme);
    if (!g.liveness().all_free(f)) return made->dependent.push_back(begin);
    made->whole.push_back(begin);
    if (f.leaves_any()) made->leaving.push_back({begin, &f});
    parts.push_back(&f);
  };
  for (const Lexer::Running &begin : g.lexer().beginnings(context)) {
    const std::bitset<256> &first = g.lexemes().first(begin.lexeme);
    if ((first & next).none()) continue;
    if ((first & forbidden_bytes).any()) made->touched |= first;
    else if (g.is_newline(begin.terminal)) made->newlines.push_back(begin);
    else if (is_literal(g, begin.lexeme, ANYTHING)) literals.push_back(begin);
    else add_fragment(begin);
  }
  std::vector<uint32_t> literal_ids;
  if (literals.size() > FEW_LEXEMES) find_literal_tokens(m, at, literals, *made, literal_ids);
  else std::for_each(literals.begin(), literals.end(), add_fragment);
  join_tokens(*made, parts, std::move(literal_ids), m.vocabulary);
  g.lexemes().charge_fragments(sizeof(ContextFragment) + (made->bits.size() + made->ids.size()) * 4 +
                               made->leaving.size() * 24 + made->ending.size() * 12 +
                               made->whole.size() * sizeof(Lexer::Running));
  auto &kept = fragments_[key];
  kept = std::move(made);
  return *kept;
}

}  // namespace structgen
