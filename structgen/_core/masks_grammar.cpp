// Masks of grammars.
//
// A state is a union of readings, so its mask is the union of theirs. For one reading: tokens that stay inside a
// running lexeme come from its fragment at once; tokens that leave it go on at the place where the parser then
// stands, and there lexemes that may begin have fragments in turn. So the parser moves once for each terminal that
// a token can end with, not once for each token.
//
// A mask is remembered under the state of the lexer, the kernels of the reading's Earley set, and the answers that
// older sets gave while it was made (earley.h).
#include <algorithm>
#include <bit>
#include <bitset>

#include "masks.h"

namespace structgen {

// Where the parser stands after a lexeme; found out when first asked for.
struct Masks::Place {
  enum class Life : uint8_t { Unknown, Dead, Alive } life = Life::Unknown;
  const GrammarEntry &entry;
  uint32_t terminal;
  GrammarEntry at{};
  std::bitset<256> first{};  // bytes that may come there
};

std::shared_ptr<const Mask> Masks::of_grammar(Arena &arena, const Node *node) {
  if (node->length == 1) return of_entry(arena, node, node->entries[0]);
  auto all = std::make_shared<Mask>(text_.mask_pool());
  for (uint32_t i = 0; i < node->length; ++i) all->add(*of_entry(arena, node, node->entries[i]));
  return all;
}

std::shared_ptr<const Mask> Masks::of_entry(Arena &arena, const Node *node, const GrammarEntry &entry) {
  Hash128 h = hash_words(9, entry.lex, entry.brackets > 0, reinterpret_cast<uint64_t>(node->control.grammar));
  h = extend(h, entry.set->shape);
  for (const Node *f = node->parent; f; f = f->parent) h = extend(h, a_.signature(f));
  const Hash128 first = h;
  Earley &earley = node->control.grammar->earley();
  {
    Reads reads(entry.set);
    while (true) {
      auto it = cache_.find(h);
      if (it == cache_.end()) break;
      if (it->second.mask) {
        ++hits_;
        return it->second.mask;
      }
      const Reads::Question q = it->second.question;
      if (q.set == Reads::INDENTATION) {
        h = extend(h, Reads::indentation_answer(entry.indent, entry.column));
        continue;
      }
      if (q.set == Reads::IDENTITY) {
        h = extend(h, entry.set->identity);
        continue;
      }
      const auto [target, as] = earley.resolve(reads.set(q.set), q.symbol, nullptr);
      h = extend(h, reads.answer(target, as));
    }
  }
  ++misses_;
  Reads reads(entry.set);
  Reader reader{arena};
  reader.reads = &reads;
  Arena::Mark mark = arena.mark();
  auto made = std::make_shared<Mask>(text_.mask_pool());
  r_ = &reader;
  out_ = made->data();
  const Node *one = node->length == 1 ? node : a_.grammar_node(reader, *node->control.grammar, {&entry, 1}, node->parent);
  grammar_below(Vocabulary::ROOT, one);
  specials(one);
  made->complete = a_.accepts(reader, one);
  if (made->complete)
    for (uint32_t id : v_.eos_ids()) set(id);
  arena.release(mark);
  r_ = nullptr;
  text_.make_room();
  if (bytes_ > text_.limits().mask_cache_bytes) {
    cache_.clear();
    bytes_ = 0;
  }
  h = first;
  for (auto &[question, answer] : reads.asked()) {
    cache_[h].question = question;
    bytes_ += 80;
    h = extend(h, answer);
  }
  bytes_ += v_.words() * 4 + 128;
  cache_[h].mask = made;
  return made;
}

void Masks::specials(const Node *node) {
  for (uint32_t token : a_.special_tokens()) {
    Arena::Mark mark = r_->arena.mark();
    if (a_.step_special(*r_, node, token)) set(token);
    r_->arena.release(mark);
  }
}

// Does it take the bytes one by one to know where this lexeme leads? The column of the line is then in play.
bool Masks::reads_line(GrammarControl &g, uint32_t terminal, const GrammarEntry &entry) const {
  return g.is_newline(terminal) && entry.brackets == 0;
}

void Masks::grammar_below(Vocabulary::Node at, const Node *n) {
  GrammarControl &g = *n->control.grammar;
  for (uint32_t i = 0; i < n->length; ++i) {
    const GrammarEntry &entry = n->entries[i];
    if (entry.lex == Lexer::FRESH) {
      place_below(at, n, entry, RegexSpace::EMPTY);
      continue;
    }
    bool line = false;
    for (const Lexer::Running &running : g.lexer().running(entry.lex)) {
      if (reads_line(g, running.terminal, entry)) line = true;
      else lexeme_below(at, n, entry, running.terminal, running.lexeme);
    }
    if (!line) continue;
    GrammarEntry only = entry;
    only.lex = g.lexer().only(entry.lex, [&](const Lexer::Running &r) { return g.is_newline(r.terminal); });
    Arena::Mark mark = r_->arena.mark();
    walk(at, a_.grammar_node(*r_, g, {&only, 1}, n->parent));
    r_->arena.release(mark);
  }
}

// Tokens that go on with terminal `t`, of which `s` is left to read.
void Masks::lexeme_below(Vocabulary::Node at, const Node *n, const GrammarEntry &entry, uint32_t t, LexemeState s) {
  GrammarControl &g = *n->control.grammar;
  Lexemes &lexemes = g.lexemes();
  Lexemes::Fragment &f = lexemes.fragment(at, s);
  auto lives = [&](LexemeState end) {
    return g.life().lexeme(entry.set, entry.brackets > 0, t, end, r_->reads, r_->arena);
  };
  if (g.life().always() || g.life().all_free(f.ends) || std::all_of(f.ends.begin(), f.ends.end(), lives)) {
    if (f.dense)
      for (uint32_t w = 0; w < v_.words(); ++w) out_[w] |= f.bits[w];
    else
      for (uint32_t id : f.ids) set(id);
  } else if (std::any_of(f.ends.begin(), f.ends.end(), lives)) {
    const size_t skip = v_.depth(at);
    auto each = [&](uint32_t id) {
      LexemeState end = s;
      for (unsigned char c : std::string_view(v_.token(id)).substr(skip)) end = lexemes.step(end, c);
      if (lives(end)) set(id);
    };
    for (uint32_t id : f.ids) each(id);
    for (uint32_t w = 0; w < f.bits.size(); ++w)
      for (uint32_t rest = f.bits[w]; rest; rest &= rest - 1) each(w * 32 + static_cast<uint32_t>(std::countr_zero(rest)));
  }
  const bool ends = lexemes.complete(s);
  if (!ends && f.leaves.bytes.none() && f.overlaps.none()) return;
  Arena::Mark mark = r_->arena.mark();
  Place place{Place::Life::Unknown, entry, t};
  if (g.lexer().ignores(t)) {
    place.at = entry;
    place.at.lex = Lexer::FRESH;
    place.at.column = 0;
  } else if (!a_.after_terminal(*r_, g, entry, t, &place.at)) {
    r_->arena.release(mark);
    return;
  }
  const Context context = g.context(place.at.set->outlook, place.at.brackets > 0);
  place.first = g.lexer().first(context);
  if (!g.others(place.at.set->outlook).empty() || (place.at.set->accepting && n->parent)) place.first.set();
  if ((f.leaves.bytes & place.first).any()) leaves(f.leaves, n, place);
  if ((f.overlaps & place.first).any()) leaves(lexemes.overlapping(at, s, f), n, place);
  if (ends) place_below(at, n, place.at, lexemes.after(s));
  r_->arena.release(mark);
}

void Masks::leaves(const Lexemes::Leaves &leaves, const Node *n, Place &place) {
  GrammarControl &g = *n->control.grammar;
  for (const Lexemes::Leave &l : leaves.wide) {
    const uint8_t byte = v_.byte(l.node);
    if (!place.first.test(byte)) continue;
    Arena::Mark mark = r_->arena.mark();
    if (const Node *next = a_.begin_at(*r_, g, place.at, l.after, byte, n->parent)) {
      for (uint32_t id : v_.ids(l.node)) set(id);
      below(l.node, next);
    }
    r_->arena.release(mark);
  }
  for (const Lexemes::Rests &rests : leaves.merged) {
    const RestTrie &trie = rests.trie;
    auto emit = [&](uint32_t at) {
      for (uint32_t i = trie.first_item[at]; i < trie.first_item[at + 1]; ++i) set(trie.items[i].id);
    };
    auto descend = [&](auto &self, uint32_t at, const Node *state) -> void {
      const std::bitset<256> candidates = a_.candidates(state);
      for (uint32_t m = at + 1; m < trie.ends[at]; m = trie.ends[m]) {
        if (!candidates.test(trie.bytes[m])) continue;
        Arena::Mark mark = r_->arena.mark();
        if (const Node *next = a_.step(*r_, state, trie.bytes[m])) {
          emit(m);
          if (trie.ends[m] > m + 1) self(self, m, next);
        }
        r_->arena.release(mark);
      }
    };
    for (uint32_t m = 1; m < trie.ends[0]; m = trie.ends[m]) {
      if (!place.first.test(trie.bytes[m])) continue;
      Arena::Mark mark = r_->arena.mark();
      if (const Node *next = a_.begin_at(*r_, g, place.at, rests.after, trie.bytes[m], n->parent)) {
        emit(m);
        if (trie.ends[m] > m + 1) descend(descend, m, next);
      }
      r_->arena.release(mark);
    }
  }
}

// Tokens that begin at a place, where no beginning of them may be in `earlier`.
void Masks::place_below(Vocabulary::Node at, const Node *n, const GrammarEntry &place, Re earlier) {
  GrammarControl &g = *n->control.grammar;
  Lexemes &lexemes = g.lexemes();
  const Context context = g.context(place.set->outlook, place.brackets > 0);
  std::bitset<256> one_by_one;
  const std::bitset<256> &touched = lexemes.first_of(earlier);
  for (const Lexer::Running &begin : g.lexer().beginnings(context)) {
    const std::bitset<256> &first = lexemes.first(begin.lexeme);
    if (reads_line(g, begin.terminal, place) || (first & touched).any()) one_by_one |= first;
    else lexeme_below(at, n, place, begin.terminal, begin.lexeme);
  }
  if (!g.others(place.set->outlook).empty() || (place.set->accepting && n->parent)) one_by_one.set();
  if (one_by_one.none()) return;
  auto child = [&](Vocabulary::Node m) {
    if (!one_by_one.test(v_.byte(m))) return;
    Arena::Mark mark = r_->arena.mark();
    if (const Node *next = a_.begin_at(*r_, g, place, earlier, v_.byte(m), n->parent)) {
      for (uint32_t id : v_.ids(m)) set(id);
      if (v_.end(m) > m + 1) below(m, next);
    }
    r_->arena.release(mark);
  };
  if (at == Vocabulary::ROOT) {
    for (int b = 0; b < 256; ++b)
      if (v_.root_child(static_cast<uint8_t>(b)) != Vocabulary::NONE) child(v_.root_child(static_cast<uint8_t>(b)));
    return;
  }
  for (Vocabulary::Node m = at + 1; m < v_.end(at); m = v_.end(m)) child(m);
}

}  // namespace structgen
