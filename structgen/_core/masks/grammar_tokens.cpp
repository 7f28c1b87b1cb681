// What tokens lead to from a reading of a grammar.
//
// Tokens that stay inside a running lexeme come from its fragment at once. Tokens that leave it go on at the place
// where the parser then stands, and there lexemes that may begin have fragments in turn. So the parser moves once for
// each terminal that a token can end with, not once for each token. What all lexemes of a context allow below a trie
// node is one more fragment, made when it is first needed.
#include <algorithm>
#include <bit>
#include <bitset>
#include <iterator>
#include <map>

#include "masks/walk.h"
#include "util/bits.h"
#include "util/stack.h"

namespace structgen {
namespace {

constexpr uint64_t CONTEXT = 11;
constexpr size_t FEW_PAIRS = 64;
// Units of work (automaton/automaton.h).
constexpr uint64_t WORDS_PER_UNIT = 128, IDS_PER_UNIT = 16, BYTES_PER_UNIT = 32, BYTE = 1;

}  // namespace

// May the text go on with what is not the grammar's own, behind the lexemes that `set` has read?
bool Masks::goes_beyond(GrammarControl &g, const EarleySet *set, const GrammarFrame *n) {
  return !g.others(set->outlook).empty() || (set->accepting && n->parent);
}

void Masks::add(bool dense, const std::vector<uint32_t> &bits, const std::vector<uint32_t> &ids) {
  charge(dense ? v_.words() / 16 : ids.size() / 4);
  count(1 + (dense ? v_.words() / WORDS_PER_UNIT : ids.size() / IDS_PER_UNIT));
  if (dense)
    add_bits(out_, bits.data(), v_.words());
  else
    for (uint32_t id : ids) set(id);
}

// Does it take the column of the line to know where this lexeme leads?
bool Masks::reads_line(GrammarControl &g, uint32_t terminal, const GrammarEntry &entry) const {
  return g.is_newline(terminal) && entry.brackets == 0;
}

void Masks::grammar_below(Vocabulary::Node at, const GrammarFrame *n) {
  GrammarControl &g = *n->grammar;
  for (const GrammarEntry &entry : n->entries())
    if (entry.lex == Lexer::FRESH) place_below(at, n, entry, RegexSpace::EMPTY);
  std::vector<Lexeme> running = running_lexemes(n);
  running_texts_below(at, n, running);
  for (const Lexeme &l : running) {
    if (reads_line(g, l.terminal(), l.entry)) line_below(at, n, l);
    else lexeme_below(at, n, l, running.size() > FEW_LEXEMES);
  }
}

// Can the text be completed, in some reading, where the lexeme stays in `end` and another constraint in `left`?
bool Masks::lives(GrammarControl &g, const Lexeme &l, LexemeState end, Within left) {
  return std::any_of(l.readings.begin(), l.readings.end(), [&](const Reading &one) {
    return g.life().lexeme(one.since, l.entry.brackets, one.terminal, end, left, ctx_->mask_dependencies, ctx_->arena);
  });
}

// Tokens that stay inside a lexeme, which in turn can be completed.
void Masks::inside_below(Vocabulary::Node at, GrammarControl &g, const Lexeme &l, Lexemes::Fragment &f) {
  if (l.entry.within != ANYTHING) return inside_within(at, g, l, f);
  if (g.life().all_free(f)) return add(f.dense, f.bits, f.ids);
  std::vector<LexemeState> alive;
  for (LexemeState end : f.ends)
    if (lives(g, l, end, ANYTHING)) alive.push_back(end);
  if (alive.size() == f.ends.size()) return add(f.dense, f.bits, f.ids);
  if (alive.empty()) return;
  const size_t skip = v_.depth(at);
  auto each = [&](uint32_t id) {
    count(BYTE * (v_.token(id).size() - skip));
    LexemeState end = l.state;
    for (unsigned char c : v_.token(id).substr(skip)) end = g.lexemes().step(end, c);
    if (std::find(alive.begin(), alive.end(), end) != alive.end()) set(id);
  };
  for (uint32_t id : f.ids) each(id);
  for (uint32_t w = 0; w < f.bits.size(); ++w)
    for (uint32_t rest = f.bits[w]; rest; rest &= rest - 1) each(w * 32 + static_cast<uint32_t>(std::countr_zero(rest)));
}

// The same where another constraint on the whole text has a say: it has a fragment, too, and a token leads to a pair of
// states. Those that cannot tell tokens apart are asked for at once.
void Masks::inside_within(Vocabulary::Node at, GrammarControl &g, const Lexeme &l, const Lexemes::Fragment &f) {
  Lexemes &lexemes = g.lexemes();
  const Lexemes::Fragment &w = lexemes.fragment(at, l.entry.within);
  std::map<std::pair<LexemeState, Within>, bool> known;
  auto lives_on = [&](LexemeState end, Within left) {
    if (left != ANYTHING) left = lexemes.within(left);
    const auto [it, fresh] = known.try_emplace({end, left});
    if (fresh) it->second = lives(g, l, end, left);
    return it->second;
  };
  std::vector<uint32_t> both;
  if (f.dense && w.dense) {
    both = f.bits;
    for (uint32_t i = 0; i < both.size(); ++i) both[i] &= w.bits[i];
  } else {
    both.resize(v_.words());
    const Lexemes::Fragment &listed = f.dense ? w : f, &other = f.dense ? f : w;
    auto put = [&](uint32_t id) { both[id >> 5] |= 1u << (id & 31); };
    if (other.dense) {
      for (uint32_t id : listed.ids)
        if (other.bits[id >> 5] >> (id & 31) & 1) put(id);
    } else {
      std::vector<uint32_t> a = f.ids, b = w.ids, common;
      std::sort(a.begin(), a.end());
      std::sort(b.begin(), b.end());
      std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
      for (uint32_t id : common) put(id);
    }
  }
  if (std::all_of(both.begin(), both.end(), [](uint32_t word) { return word == 0; })) return;
  const bool few = f.ends.size() * w.ends.size() <= FEW_PAIRS;
  auto lives_if_met = [&](LexemeState end, Within left) {
    return g.life().foreseen(end, left == ANYTHING ? left : lexemes.within(left)) && lives_on(end, left);
  };
  if (few && std::all_of(f.ends.begin(), f.ends.end(), [&](LexemeState end) {
        return std::all_of(w.ends.begin(), w.ends.end(), [&](Within left) { return lives_if_met(end, left); });
      }))
    return add(true, both, {});
  const size_t skip = v_.depth(at);
  for (uint32_t word = 0; word < both.size(); ++word)
    for (uint32_t rest = both[word]; rest; rest &= rest - 1) {
      const uint32_t id = word * 32 + static_cast<uint32_t>(std::countr_zero(rest));
      LexemeState end = l.state;
      Within left = l.entry.within;
      count(2 * BYTE * (v_.token(id).size() - skip));
      for (unsigned char c : v_.token(id).substr(skip)) {
        end = lexemes.step(end, c);
        left = lexemes.step(left, c);
      }
      if (lives_on(end, left)) set(id);
    }
}

// Tokens that leave a lexeme, one place after the other: what else the text must be depends on all that was read.
void Masks::leaves_within(Vocabulary::Node at, const GrammarFrame *n, const Lexeme &l) {
  Lexemes &lexemes = n->grammar->lexemes();
  const Place &place = place_after(n, l);
  if (!place.alive) return;
  // subtle: leaves come in the order of the trie, so each is read from where its path leaves that of the one before.
  const size_t skip = v_.depth(at);
  std::string read;
  std::vector<Within> after{l.entry.within};  // after each beginning of `read`
  for (const Lexemes::Leave &leave : lexemes.each_leave(at, l.state)) {
    if (!place.first.test(v_.byte(leave.node))) continue;
    const std::string path = v_.path(leave.node).substr(skip, v_.depth(leave.node) - skip - 1);
    const auto differs = std::mismatch(path.begin(), path.end(), read.begin(), read.end()).first;
    after.resize(static_cast<size_t>(differs - path.begin()) + 1);
    charge(1 + path.size() / BYTES_PER_UNIT);
    count(BYTE * (1 + path.size() / BYTES_PER_UNIT + path.size() + 1 - after.size()));
    for (size_t i = after.size() - 1; i < path.size(); ++i)
      after.push_back(lexemes.step_within(after.back(), static_cast<uint8_t>(path[i])));
    read = path;
    if (after.back() != Lexemes::DEAD) arrive({Arrival::PlaceBefore, leave.node, n, l, leave.after, after.back()});
  }
  if (!lexemes.complete(l.state)) return;
  arrive({Arrival::PlaceAfter, at, n, l, lexemes.after(l.state), l.entry.within});
}

// Tokens that go on with a running lexeme; `beside_many` others.
void Masks::lexeme_below(Vocabulary::Node at, const GrammarFrame *n, const Lexeme &l, bool beside_many) {
  GrammarControl &g = *n->grammar;
  Lexemes::Fragment &f = g.lexemes().fragment(at, l.state);
  inside_below(at, g, l, f);
  leaves_below(at, n, l, f, beside_many);
  past_below(at, n, l);
}

// Tokens that leave a lexeme for what is not the grammar's own text.
void Masks::past_below(Vocabulary::Node at, const GrammarFrame *n, const Lexeme &l) {
  GrammarControl &g = *n->grammar;
  if (!n->parent && !g.has_constraints()) return;
  if (g.lexemes().after(l.state) == RegexSpace::EMPTY) return;  // nothing is forbidden: `leaves_below` has all
  if (const Place &place = place_after(n, l); !place.alive || !goes_beyond(g, place.at.set, n)) return;
  std::string read;
  past_lexeme(at, n, l.state, read, [&](Vocabulary::Node next) {
    const Within within = g.lexemes().read_within(l.entry.within, read);
    if (within != Lexemes::DEAD) arrive({Arrival::OthersBefore, next, n, l, RegexSpace::EMPTY, within});
  });
}

// Calls `visit` for trie nodes after a lexeme by whose byte the lexer's rule would have read on: what is not the
// grammar's own text may begin there.
template <class Visit>
void Masks::past_lexeme(Vocabulary::Node at, const GrammarFrame *n, LexemeState lexeme, std::string &read, const Visit &visit) {
  check_stack("a token is too long");
  GrammarControl &g = *n->grammar;
  Lexemes &lexemes = g.lexemes();
  for (const Vocabulary::Child *c = v_.children(at); !c->is_end; ++c) {
    count(BYTE);
    if (lexemes.complete(lexeme) && !lexemes.may_follow(lexeme, c->byte)) visit(c->node);
    const LexemeState further = lexemes.step(lexeme, c->byte);
    if (further == Lexemes::DEAD) continue;
    read += static_cast<char>(c->byte);
    past_lexeme(c->node, n, further, read, visit);
    read.pop_back();
  }
}

void Masks::leaves_below(Vocabulary::Node at, const GrammarFrame *n, const Lexeme &l, Lexemes::Fragment &f, bool beside_many) {
  GrammarControl &g = *n->grammar;
  Lexemes &lexemes = g.lexemes();
  const bool ends = lexemes.complete(l.state);
  if (!ends && !f.leaves_any()) return;
  if (l.entry.within != ANYTHING) return leaves_within(at, n, l);
  if (g.grammar().lexing != Lexing::Scannerless && !g.has_constraints()) return leaves_by_rule(at, n, l, f);
  // subtle: where the parser stands is found out at the trie node, for all lexemes that end there.
  const auto arrives = [&](Arrival::Kind kind, Vocabulary::Node node, Re after) {
    arrive({kind, node, n, l, after});
  };
  if (ends) arrives(Arrival::PlaceAfter, at, lexemes.after(l.state));
  if (beside_many) {  // rests that are merged would be walked for each of them
    for (const Lexemes::Leave &leave : lexemes.each_leave(at, l.state)) arrives(Arrival::PlaceBefore, leave.node, leave.after);
    return;
  }
  for (const Lexemes::Turn &turn : f.turns) arrives(Arrival::PlaceAfter, turn.node, turn.after);
  const bool narrow = lexemes.is_narrow(at);
  const auto few = [&](const Lexemes::Leaves &some) {
    for (const Lexemes::Leave &leave : some.few) arrives(Arrival::PlaceBefore, leave.node, leave.after);
  };
  few(f.leaves);
  few(f.beyond);
  if (narrow) {
    lexemes.make_overlapping(at, l.state, f, f.overlaps);
    for (auto &[byte, overlapping] : f.overlapping) few(overlapping);
    return;
  }
  if ((f.leaves.open.empty() && f.leaves.merged.empty() && f.beyond.open.empty() && f.beyond.merged.empty() && f.overlaps.none()))
    return;
  const Place &place = place_after(n, l);
  if (!place.alive) return;
  for (Lexemes::Leaves *some : {&f.leaves, &f.beyond}) {
    if ((some->bytes & place.first).none()) continue;
    lexemes.merge_open(*some);
    leaves(some->merged, n, place);
  }
  if (const std::bitset<256> both = f.overlaps & place.first; both.any()) {
    lexemes.make_overlapping(at, l.state, f, both);
    for (auto &[byte, overlapping] : f.overlapping)
      if (both.test(byte)) {
        few(overlapping);
        leaves(overlapping.merged, n, place);
      }
  }
}

// The lexer's rule cuts a token in one way, so no readings of other lexemes arrive at the same nodes, and what follows
// a lexeme is read at once.
void Masks::leaves_by_rule(Vocabulary::Node at, const GrammarFrame *n, const Lexeme &l, Lexemes::Fragment &f) {
  GrammarControl &g = *n->grammar;
  Lexemes &lexemes = g.lexemes();
  const Place &place = place_after(n, l);
  if (!place.alive) return;
  const auto go = [&](Lexemes::Leaves &some) {
    leaves(lexemes.merged_few(some), n, place);
    leaves(some.merged, n, place);
  };
  for (Lexemes::Leaves *some : {&f.leaves, &f.beyond}) {
    if ((some->bytes & place.first).none()) continue;
    lexemes.merge_open(*some);
    go(*some);
  }
  if (const std::bitset<256> both = f.overlaps & place.first; both.any()) {
    lexemes.make_overlapping(at, l.state, f, both);
    for (auto &[byte, overlapping] : f.overlapping)
      if (both.test(byte)) go(overlapping);
  }
  for (const Lexemes::Turn &turn : f.turns) place_below(turn.node, n, place.at, turn.after);
  if (lexemes.complete(l.state)) place_below(at, n, place.at, lexemes.after(l.state));
}

void Masks::leaves(const std::vector<Lexemes::Rests> &merged, const GrammarFrame *n, const Place &place) {
  GrammarControl &g = *n->grammar;
  for (const Lexemes::Rests &rests : merged) {
    const RestTrie &trie = rests.trie;
    auto emit = [&](uint32_t at) {
      for (uint32_t i = trie.first_item[at]; i < trie.first_item[at + 1]; ++i) set(trie.items[i].id);
    };
    for (uint32_t m = 1; m < trie.ends[0]; m = trie.ends[m]) {
      if (!place.first.test(trie.bytes[m])) continue;
      Arena::Mark mark = ctx_->arena.mark();
      if (const Frame *next = begin_at(a_, *ctx_, g, place.at, rests.after, trie.bytes[m], n->parent)) {
        emit(m);
        if (trie.ends[m] > m + 1) read_rests(trie, m, next, emit);
      }
      ctx_->arena.release(mark);
    }
  }
}

// A newline lexeme leads where the column of its last line says, so its ends are looked at one by one.
void Masks::line_below(Vocabulary::Node at, const GrammarFrame *n, const Lexeme &l) {
  GrammarControl &g = *n->grammar;
  Lexemes &lexemes = g.lexemes();
  Lexemes::Fragment &f = lexemes.fragment(at, l.state);
  inside_below(at, g, l, f);
  const size_t skip = v_.depth(at);
  GrammarEntry ended = l.entry;
  std::vector<std::pair<uint32_t, Place>> places;  // by column
  auto place_at = [&](std::string_view read) -> const Place & {
    ended.column = l.entry.column;
    for (char c : read) {
      if (c == '\n') ended.column = 0;
      else if (c == ' ') ended.column += 1;
      else if (c == '\t') ended.column += g.grammar().indentation.tab_width;
    }
    for (auto &[column, place] : places)
      if (column == ended.column) return place;
    Place place;
    place.alive = after_terminal(*ctx_, g, ended, l.terminal(), &place.at);
    if (place.alive) {
      place.first = g.lexer().first(g.context(place.at.set->outlook, false));
      if (goes_beyond(g, place.at.set, n)) place.first.set();
    }
    return places.emplace_back(ended.column, place).second;
  };
  for (const Lexemes::Leave &leave : lexemes.each_leave(at, l.state)) {
    const uint8_t byte = v_.byte(leave.node);
    if (!n->parent && !g.after_newline().test(byte)) continue;
    const std::string path = v_.path(leave.node);
    const Place place = place_at(std::string_view(path).substr(skip, path.size() - skip - 1));
    if (!place.alive || !place.first.test(byte)) continue;
    Branch branch(*this);
    go_on(leave.node, begin_at(a_, *ctx_, g, place.at, leave.after, byte, n->parent));
  }
  if (lexemes.complete(l.state)) {
    const Place place = place_at({});
    if (place.alive) place_below(at, n, place.at, lexemes.after(l.state));
  }
  if (!n->parent && !g.has_constraints()) return;
  std::string read;
  past_lexeme(at, n, l.state, read, [&](Vocabulary::Node next) {
    const Place place = place_at(read);
    Branch branch(*this);
    if (place.alive) go_on(next, begin_others_at(a_, *ctx_, g, place.at, v_.byte(next), n->parent));
  });
}

// Lexemes that may begin with what `earlier` begins with are left out.
const Masks::ContextFragment &Masks::context_fragment(Vocabulary::Node at, GrammarControl &g, Context context, Re earlier) {
  if (const uint64_t generation = g.lexemes().generation(); generation != fragments_of_) {
    context_fragments_.clear();  // they point to fragments that are gone
    fragments_of_ = generation;
  }
  const Hash128 key = hash_words(CONTEXT, at, context, reinterpret_cast<uint64_t>(&g), earlier);
  if (auto it = context_fragments_.find(key); it != context_fragments_.end()) return *it->second;
  auto made = std::make_unique<ContextFragment>();
  std::vector<const Lexemes::Fragment *> parts;
  std::vector<Lexer::Running> texts;
  size_t most = 0;  // tokens, some of them perhaps twice
  const std::bitset<256> next = v_.next_bytes(at), touching = g.lexemes().first_of(earlier);
  const auto add_fragment = [&](const Lexer::Running &begin) {
    Lexemes::Fragment &f = g.lexemes().fragment(at, begin.lexeme);
    if (!g.life().all_free(f)) return made->dependent.push_back(begin);
    made->whole.push_back(begin);
    if (f.leaves_any()) made->leaving.push_back({begin, &f});
    most += f.dense ? v_.many() + 1 : f.ids.size();
    parts.push_back(&f);
  };
  for (const Lexer::Running &begin : g.lexer().beginnings(context)) {
    const std::bitset<256> &first = g.lexemes().first(begin.lexeme);
    if ((first & next).none()) continue;
    if ((first & touching).any()) {
      made->touched |= first;
      continue;
    }
    if (g.is_newline(begin.terminal)) {
      made->lines.push_back(begin);
      continue;
    }
    if (is_text(g, begin.lexeme, ANYTHING)) texts.push_back(begin);
    else add_fragment(begin);
  }
  std::vector<uint32_t> ids_of_texts;
  if (texts.size() > FEW_LEXEMES) context_texts(at, texts, *made, ids_of_texts);
  else std::for_each(texts.begin(), texts.end(), add_fragment);
  most += ids_of_texts.size();
  made->dense = most > v_.many();
  if (made->dense) {
    made->bits.resize(v_.words());
    for (const Lexemes::Fragment *f : parts) {
      charge(f->dense ? v_.words() / 16 : f->ids.size() / 4);
      if (f->dense)
        add_bits(made->bits.data(), f->bits.data(), v_.words());
      else
        for (uint32_t id : f->ids) made->bits[id >> 5] |= 1u << (id & 31);
    }
    for (const uint32_t id : ids_of_texts) made->bits[id >> 5] |= 1u << (id & 31);
  } else {
    made->ids = std::move(ids_of_texts);
    made->ids.reserve(most);
    for (const Lexemes::Fragment *f : parts) made->ids.insert(made->ids.end(), f->ids.begin(), f->ids.end());
  }
  g.lexemes().charge_fragments(sizeof(ContextFragment) + (made->bits.size() + made->ids.size()) * 4 +
                               made->leaving.size() * 24 + made->ending.size() * 12 + made->whole.size() * sizeof(Lexer::Running));
  auto &place = context_fragments_[key];
  place = std::move(made);
  return *place;
}

// Tokens that begin at a place, where no beginning of them may be in `earlier`.
void Masks::place_below(Vocabulary::Node at, const GrammarFrame *n, const GrammarEntry &place, Re earlier) {
  GrammarControl &g = *n->grammar;
  Lexemes &lexemes = g.lexemes();
  const Context context = g.context(place.set->outlook, place.brackets > 0);
  std::bitset<256> touched;  // bytes of lexemes that are left out at first
  if (place.within == ANYTHING) {
    const bool touches = earlier != RegexSpace::EMPTY && (lexemes.first_of(earlier) & g.lexer().first(context)).any();
    const ContextFragment &f = context_fragment(at, g, context, touches ? earlier : RegexSpace::EMPTY);
    touched = f.touched;
    add(f.dense, f.bits, f.ids);
    for (auto &[begin, end] : f.ending) arrive({Arrival::PlaceAfter, end, n, lexeme(place, begin)});
    for (auto &[begin, fragment] : f.leaving) leaves_below(at, n, lexeme(place, begin), *fragment);
    if (n->parent || g.has_constraints())
      for (const Lexer::Running &begin : f.whole) past_below(at, n, lexeme(place, begin));
    for (const Lexer::Running &begin : f.dependent) lexeme_below(at, n, lexeme(place, begin));
    for (const Lexer::Running &begin : f.lines) {
      if (place.brackets > 0) lexeme_below(at, n, lexeme(place, begin));
      else line_below(at, n, lexeme(place, begin));
    }
  } else {
    const std::bitset<256> touching = lexemes.first_of(earlier);
    for (const Lexer::Running &begin : g.lexer().beginnings(context)) {
      const std::bitset<256> &first = lexemes.first(begin.lexeme);
      if ((first & touching).any()) touched |= first;
      else if (reads_line(g, begin.terminal, place)) line_below(at, n, lexeme(place, begin));
      else lexeme_below(at, n, lexeme(place, begin));
    }
  }
  // subtle: what was not left out is not begun again. A place would cost twice what the next one does, and a token may
  // have as many places as bytes.
  const bool others = goes_beyond(g, place.set, n);
  if (touched.none() && !others) return;
  auto begun = [&](uint8_t byte) -> const Frame * {
    if (touched.test(byte)) return begin_at(a_, *ctx_, g, place, earlier, byte, n->parent, Beginning::Touched);
    if (!others) return nullptr;
    a_.count_step(*ctx_, g);
    return begin_others_at(a_, *ctx_, g, place, byte, n->parent);
  };
  auto child = [&](Vocabulary::Node m) {
    Branch branch(*this);
    go_on(m, begun(v_.byte(m)));
  };
  if (at == Vocabulary::ROOT) {
    for (int b = 0; b < 256; ++b)
      if (v_.root_child(static_cast<uint8_t>(b)) != Vocabulary::NONE) child(v_.root_child(static_cast<uint8_t>(b)));
    return;
  }
  for (Vocabulary::Node m = at + 1; m < v_.end(at); m = v_.end(m)) child(m);
}

}  // namespace structgen
