#include "masks/lexeme_tokens.h"

#include <algorithm>
#include <bitset>
#include <iterator>
#include <map>

#include "masks/context_fragments.h"
#include "masks/literals.h"
#include "masks/mask_builder.h"
#include "util/stack.h"

namespace structgen {
namespace {

constexpr size_t FEW_PAIRS = 64;
// Units of work (automaton/automaton.h).
constexpr uint64_t WORDS_PER_UNIT = 128, IDS_PER_UNIT = 16, BYTES_PER_UNIT = 32, BYTE = 1;

void add_tokens_leaving(MaskBuilder &m, Vocabulary::Node at, const GrammarFrame *n, const RunningLexeme &l,
                        Lexemes::Fragment &f, bool has_many_others = false);

void add_tokens(MaskBuilder &m, bool dense, const std::vector<uint32_t> &bits, const std::vector<uint32_t> &ids) {
  const size_t words = m.vocabulary.words();
  charge(dense ? words / 16 : ids.size() / 4);
  m.count(1 + (dense ? words / WORDS_PER_UNIT : ids.size() / IDS_PER_UNIT));
  if (dense) m.add_words(bits);
  else m.set_all(ids);
}

// Does the position after this lexeme depend on the column of the line?
bool needs_column(GrammarControl &g, uint32_t terminal, const GrammarEntry &entry) {
  return g.is_newline(terminal) && entry.brackets == 0;
}

// Can the text be completed, in some parse, if the lexeme stays in `end` and another constraint in `left`?
bool can_complete(MaskBuilder &m, GrammarControl &g, const RunningLexeme &l, LexemeState end, OuterState left) {
  return std::any_of(l.parses.begin(), l.parses.end(), [&](const LexemeParse &one) {
    return g.liveness().is_lexeme_live(one.since, l.entry.brackets, one.terminal, end, left, m.ctx.mask_dependencies,
                                       m.ctx.arena);
  });
}

// The tokens of two fragments.
std::vector<uint32_t> intersect_tokens(const Lexemes::Fragment &a, const Lexemes::Fragment &b, size_t words) {
  std::vector<uint32_t> both;
  if (a.dense && b.dense) {
    both = a.bits;
    for (uint32_t i = 0; i < both.size(); ++i) both[i] &= b.bits[i];
    return both;
  }
  both.resize(words);
  const Lexemes::Fragment &listed = a.dense ? b : a, &other = a.dense ? a : b;
  if (other.dense) {
    for (uint32_t id : listed.ids)
      if (test_bit(other.bits.data(), id)) set_bit(both.data(), id);
    return both;
  }
  std::vector<uint32_t> one = a.ids, two = b.ids, common;
  std::sort(one.begin(), one.end());
  std::sort(two.begin(), two.end());
  std::set_intersection(one.begin(), one.end(), two.begin(), two.end(), std::back_inserter(common));
  for (uint32_t id : common) set_bit(both.data(), id);
  return both;
}

// Adds the tokens that stay inside a lexeme, if another constraint restricts the whole text: it has a fragment, too,
// and a token leads to a pair of states. If all pairs can be completed, their tokens are added together.
void add_tokens_inside_both(MaskBuilder &m, Vocabulary::Node at, GrammarControl &g, const RunningLexeme &l,
                            const Lexemes::Fragment &f) {
  Lexemes &lexemes = g.lexemes();
  const Lexemes::Fragment &w = lexemes.fragment(at, l.entry.outer);
  std::map<std::pair<LexemeState, OuterState>, bool> known;
  const auto is_live = [&](LexemeState end, OuterState left) {
    if (left != ANYTHING) left = lexemes.outer_state(left);
    const auto [it, fresh] = known.try_emplace({end, left});
    if (fresh) it->second = can_complete(m, g, l, end, left);
    return it->second;
  };
  const std::vector<uint32_t> both = intersect_tokens(f, w, m.vocabulary.words());
  if (std::all_of(both.begin(), both.end(), [](uint32_t word) { return word == 0; })) return;
  const auto is_reachable_and_live = [&](LexemeState end, OuterState left) {
    return g.liveness().is_reachable(end, left == ANYTHING ? left : lexemes.outer_state(left)) && is_live(end, left);
  };
  const bool few = f.ends.size() * w.ends.size() <= FEW_PAIRS;
  if (few && std::all_of(f.ends.begin(), f.ends.end(), [&](LexemeState end) {
        return std::all_of(w.ends.begin(), w.ends.end(),
                           [&](OuterState left) { return is_reachable_and_live(end, left); });
      }))
    return add_tokens(m, true, both, {});
  const size_t skip = m.vocabulary.depth(at);
  each_bit(both.data(), 0, both.size(), [&](uint32_t id) {
    LexemeState end = l.state;
    OuterState left = l.entry.outer;
    const std::string_view bytes = m.vocabulary.token(id);
    m.count(2 * BYTE * (bytes.size() - skip));
    for (unsigned char c : bytes.substr(skip)) {
      end = lexemes.step(end, c);
      left = lexemes.step(left, c);
    }
    if (is_live(end, left)) m.set(id);
  });
}

// Adds the tokens that stay inside a lexeme which can then be completed.
void add_tokens_inside(MaskBuilder &m, Vocabulary::Node at, GrammarControl &g, const RunningLexeme &l,
                       Lexemes::Fragment &f) {
  if (l.entry.outer != ANYTHING) return add_tokens_inside_both(m, at, g, l, f);
  if (g.liveness().all_free(f)) return add_tokens(m, f.dense, f.bits, f.ids);
  std::vector<LexemeState> live;
  for (LexemeState end : f.ends)
    if (can_complete(m, g, l, end, ANYTHING)) live.push_back(end);
  if (live.size() == f.ends.size()) return add_tokens(m, f.dense, f.bits, f.ids);
  if (live.empty()) return;
  const size_t skip = m.vocabulary.depth(at);
  const auto add_if_live = [&](uint32_t id) {
    const std::string_view bytes = m.vocabulary.token(id);
    m.count(BYTE * (bytes.size() - skip));
    LexemeState end = l.state;
    for (unsigned char c : bytes.substr(skip)) end = g.lexemes().step(end, c);
    if (std::find(live.begin(), live.end(), end) != live.end()) m.set(id);
  };
  for (uint32_t id : f.ids) add_if_live(id);
  each_bit(f.bits.data(), 0, f.bits.size(), add_if_live);
}

// Calls `visit` for trie nodes after a lexeme by whose byte the lexer's rule would continue the lexeme: what is not the
// grammar's own text may begin there. `read`: the bytes of the lexeme below `at`.
template <class Visit>
void visit_nodes_past_lexeme(MaskBuilder &m, Vocabulary::Node at, const GrammarFrame *n, LexemeState lexeme,
                             std::string &read, const Visit &visit) {
  check_stack("a token is too long");
  Lexemes &lexemes = n->grammar->lexemes();
  for (const Vocabulary::Child *c = m.vocabulary.children(at); !c->is_end; ++c) {
    m.count(BYTE);
    if (lexemes.complete(lexeme) && !lexemes.may_follow(lexeme, c->byte)) visit(c->node);
    const LexemeState further = lexemes.step(lexeme, c->byte);
    if (further == Lexemes::DEAD) continue;
    read += static_cast<char>(c->byte);
    visit_nodes_past_lexeme(m, c->node, n, further, read, visit);
    read.pop_back();
  }
}

// Adds the tokens that leave a lexeme for what is not the grammar's own text.
void add_tokens_past_lexeme(MaskBuilder &m, Vocabulary::Node at, const GrammarFrame *n, const RunningLexeme &l) {
  GrammarControl &g = *n->grammar;
  if (!n->parent && !g.has_constraints()) return;
  if (g.lexemes().after(l.state) == RegexSpace::EMPTY) return;  // nothing is forbidden: `add_tokens_leaving` has all
  const NextPosition &position = m.grammar.positions().after(n, l);
  if (!position.is_live || !may_leave_grammar(g, position.entry.set, n)) return;
  std::string read;
  visit_nodes_past_lexeme(m, at, n, l.state, read, [&](Vocabulary::Node next) {
    const OuterState outer = g.lexemes().read_outer(l.entry.outer, read);
    if (outer != Lexemes::DEAD) m.grammar.arrive({Arrival::EmbeddedBeforeByte, next, n, l, RegexSpace::EMPTY, outer});
  });
}

// Adds the tokens of `merged` that can be read from a position.
void add_merged_rests(MaskBuilder &m, const std::vector<Lexemes::Rests> &merged, const GrammarFrame *n,
                      const NextPosition &position) {
  for (const Lexemes::Rests &rests : merged) {
    const RestTrie &trie = rests.trie;
    const auto emit = [&](uint32_t at) {
      for (uint32_t i = trie.first_item[at]; i < trie.first_item[at + 1]; ++i) m.set(trie.items[i].id);
    };
    for (uint32_t k = 1; k < trie.ends[0]; k = trie.ends[k]) {
      if (!position.first_bytes.test(trie.bytes[k])) continue;
      const ArenaScope scope(m.ctx.arena);
      if (const Frame *next =
              begin_at(m.automaton, m.ctx, *n->grammar, position.entry, rests.after, trie.bytes[k], n->parent)) {
        emit(k);
        if (trie.ends[k] > k + 1) m.read_rests(trie, k, next, emit);
      }
    }
  }
}

// Tokens that leave a lexeme, if another constraint restricts the whole text: one trie node after the other, since the
// state of that constraint depends on all bytes.
void arrive_after_both(MaskBuilder &m, Vocabulary::Node at, const GrammarFrame *n, const RunningLexeme &l) {
  const Vocabulary &v = m.vocabulary;
  Lexemes &lexemes = n->grammar->lexemes();
  const NextPosition &position = m.grammar.positions().after(n, l);
  if (!position.is_live) return;
  // subtle: the nodes come in the order of the trie, so each is read from where its path leaves that of the one before.
  const size_t skip = v.depth(at);
  std::string read;
  std::vector<OuterState> after{l.entry.outer};  // after each beginning of `read`
  for (const Lexemes::Leave &leave : lexemes.each_leave(at, l.state)) {
    if (!position.first_bytes.test(v.byte(leave.node))) continue;
    const std::string path = v.path(leave.node).substr(skip, v.depth(leave.node) - skip - 1);
    const auto differs = std::mismatch(path.begin(), path.end(), read.begin(), read.end()).first;
    after.resize(static_cast<size_t>(differs - path.begin()) + 1);
    charge(1 + path.size() / BYTES_PER_UNIT);
    m.count(BYTE * (1 + path.size() / BYTES_PER_UNIT + path.size() + 1 - after.size()));
    for (size_t i = after.size() - 1; i < path.size(); ++i)
      after.push_back(lexemes.step_outer(after.back(), static_cast<uint8_t>(path[i])));
    read = path;
    if (after.back() != Lexemes::DEAD)
      m.grammar.arrive({Arrival::BeforeByte, leave.node, n, l, leave.after, after.back()});
  }
  if (!lexemes.complete(l.state)) return;
  m.grammar.arrive({Arrival::AfterByte, at, n, l, lexemes.after(l.state), l.entry.outer});
}

// Tokens that leave a lexeme under the lexer's rule. It cuts a token in one way, so no parses of other lexemes arrive
// at the same nodes, and what follows the lexeme is read at once.
void add_tokens_leaving_by_rule(MaskBuilder &m, Vocabulary::Node at, const GrammarFrame *n, const RunningLexeme &l,
                                Lexemes::Fragment &f) {
  Lexemes &lexemes = n->grammar->lexemes();
  const NextPosition &position = m.grammar.positions().after(n, l);
  if (!position.is_live) return;
  const auto add_all = [&](Lexemes::Leaves &some) {
    add_merged_rests(m, lexemes.merged_few(some), n, position);
    add_merged_rests(m, some.merged, n, position);
  };
  for (Lexemes::Leaves *some : {&f.leaves, &f.beyond}) {
    if ((some->bytes & position.first_bytes).none()) continue;
    lexemes.merge_open(*some);
    add_all(*some);
  }
  if (const std::bitset<256> both = f.overlaps & position.first_bytes; both.any()) {
    lexemes.make_overlapping(at, l.state, f, both);
    for (auto &[byte, overlapping] : f.overlapping)
      if (both.test(byte)) add_all(overlapping);
  }
  for (const Lexemes::Turn &turn : f.turns) add_position_tokens(m, turn.node, n, position.entry, turn.after);
  if (lexemes.complete(l.state)) add_position_tokens(m, at, n, position.entry, lexemes.after(l.state));
}

// Tokens that leave a lexeme. Under the lexer's rule they are added at once; otherwise the parser positions where they
// continue arrive at their trie nodes, where they meet those of other lexemes.
void add_tokens_leaving(MaskBuilder &m, Vocabulary::Node at, const GrammarFrame *n, const RunningLexeme &l,
                        Lexemes::Fragment &f, bool has_many_others) {
  GrammarControl &g = *n->grammar;
  Lexemes &lexemes = g.lexemes();
  const bool ends = lexemes.complete(l.state);
  if (!ends && !f.leaves_any()) return;
  if (l.entry.outer != ANYTHING) return arrive_after_both(m, at, n, l);
  if (g.grammar().lexing != Lexing::Scannerless && !g.has_constraints())
    return add_tokens_leaving_by_rule(m, at, n, l, f);
  const auto arrive = [&](Arrival::Kind kind, Vocabulary::Node node, Re forbidden) {
    m.grammar.arrive({kind, node, n, l, forbidden});
  };
  if (ends) arrive(Arrival::AfterByte, at, lexemes.after(l.state));
  if (has_many_others) {  // merged rests would be walked for each of the others
    for (const Lexemes::Leave &leave : lexemes.each_leave(at, l.state))
      arrive(Arrival::BeforeByte, leave.node, leave.after);
    return;
  }
  for (const Lexemes::Turn &turn : f.turns) arrive(Arrival::AfterByte, turn.node, turn.after);
  const auto arrive_few = [&](const Lexemes::Leaves &some) {
    for (const Lexemes::Leave &leave : some.few) arrive(Arrival::BeforeByte, leave.node, leave.after);
  };
  arrive_few(f.leaves);
  arrive_few(f.beyond);
  if (lexemes.is_narrow(at)) {
    lexemes.make_overlapping(at, l.state, f, f.overlaps);
    for (auto &[byte, overlapping] : f.overlapping) arrive_few(overlapping);
    return;
  }
  if (f.leaves.open.empty() && f.leaves.merged.empty() && f.beyond.open.empty() && f.beyond.merged.empty() &&
      f.overlaps.none())
    return;
  const NextPosition &position = m.grammar.positions().after(n, l);
  if (!position.is_live) return;
  for (Lexemes::Leaves *some : {&f.leaves, &f.beyond}) {
    if ((some->bytes & position.first_bytes).none()) continue;
    lexemes.merge_open(*some);
    add_merged_rests(m, some->merged, n, position);
  }
  if (const std::bitset<256> both = f.overlaps & position.first_bytes; both.any()) {
    lexemes.make_overlapping(at, l.state, f, both);
    for (auto &[byte, overlapping] : f.overlapping)
      if (both.test(byte)) {
        arrive_few(overlapping);
        add_merged_rests(m, overlapping.merged, n, position);
      }
  }
}

// Tokens that continue with a running lexeme.
void add_lexeme_tokens(MaskBuilder &m, Vocabulary::Node at, const GrammarFrame *n, const RunningLexeme &l,
                       bool has_many_others = false) {
  GrammarControl &g = *n->grammar;
  Lexemes::Fragment &f = g.lexemes().fragment(at, l.state);
  add_tokens_inside(m, at, g, l, f);
  add_tokens_leaving(m, at, n, l, f, has_many_others);
  add_tokens_past_lexeme(m, at, n, l);
}

// The parser positions after a newline lexeme, by the column where it ends.
class ColumnPositions {
 public:
  ColumnPositions(MaskBuilder &m, const GrammarFrame *state, const RunningLexeme &newline)
      : m_(m), state_(state), newline_(newline), ended_(newline.entry) {}

  // `read`: the bytes of the lexeme that come after its state.
  NextPosition after(std::string_view read) {
    GrammarControl &g = *state_->grammar;
    ended_.column = newline_.entry.column;
    for (char c : read) {
      if (c == '\n') ended_.column = 0;
      else if (c == ' ') ended_.column += 1;
      else if (c == '\t') ended_.column += g.grammar().indentation.tab_width;
    }
    for (auto &[column, position] : positions_)
      if (column == ended_.column) return position;
    NextPosition position;
    if (after_terminal(m_.ctx, g, ended_, newline_.terminal(), &position.entry))
      position = position_at(g, position.entry, state_);
    return positions_.emplace_back(ended_.column, position).second;
  }

 private:
  MaskBuilder &m_;
  const GrammarFrame *const state_;
  const RunningLexeme &newline_;
  GrammarEntry ended_;
  std::vector<std::pair<uint32_t, NextPosition>> positions_;  // by column
};

// Tokens that continue with a newline lexeme. Its ends are visited one by one, since the column of its last line
// decides where it leads.
void add_newline_tokens(MaskBuilder &m, Vocabulary::Node at, const GrammarFrame *n, const RunningLexeme &l) {
  const Vocabulary &v = m.vocabulary;
  GrammarControl &g = *n->grammar;
  Lexemes &lexemes = g.lexemes();
  add_tokens_inside(m, at, g, l, lexemes.fragment(at, l.state));
  const size_t skip = v.depth(at);
  ColumnPositions positions(m, n, l);
  for (const Lexemes::Leave &leave : lexemes.each_leave(at, l.state)) {
    const uint8_t byte = v.byte(leave.node);
    if (!n->parent && !g.after_newline().test(byte)) continue;
    const std::string path = v.path(leave.node);
    const NextPosition position = positions.after(std::string_view(path).substr(skip, path.size() - skip - 1));
    if (!position.is_live || !position.first_bytes.test(byte)) continue;
    Branch branch(m);
    m.grammar.go_on(leave.node, begin_at(m.automaton, m.ctx, g, position.entry, leave.after, byte, n->parent));
  }
  if (lexemes.complete(l.state)) {
    const NextPosition position = positions.after({});
    if (position.is_live) add_position_tokens(m, at, n, position.entry, lexemes.after(l.state));
  }
  if (!n->parent && !g.has_constraints()) return;
  std::string read;
  visit_nodes_past_lexeme(m, at, n, l.state, read, [&](Vocabulary::Node next) {
    const NextPosition position = positions.after(read);
    Branch branch(m);
    if (position.is_live)
      m.grammar.go_on(next, begin_others_at(m.automaton, m.ctx, g, position.entry, v.byte(next), n->parent));
  });
}

// Adds the tokens of all lexemes that may begin at a position, but for those that touch `forbidden`. Returns the first
// bytes of the latter.
std::bitset<256> add_beginning_lexemes(MaskBuilder &m, Vocabulary::Node at, const GrammarFrame *n,
                                       const GrammarEntry &position, Context context, Re forbidden) {
  GrammarControl &g = *n->grammar;
  GrammarWalk &walk = m.grammar;
  const std::bitset<256> forbidden_bytes = g.lexemes().first_of(forbidden);
  if (position.outer != ANYTHING) {
    std::bitset<256> touched;
    for (const Lexer::Running &begin : g.lexer().beginnings(context)) {
      const std::bitset<256> &first = g.lexemes().first(begin.lexeme);
      if ((first & forbidden_bytes).any()) touched |= first;
      else if (needs_column(g, begin.terminal, position)) add_newline_tokens(m, at, n, walk.lexeme(position, begin));
      else add_lexeme_tokens(m, at, n, walk.lexeme(position, begin));
    }
    return touched;
  }
  const bool touches = forbidden != RegexSpace::EMPTY && (forbidden_bytes & g.lexer().first(context)).any();
  const ContextFragment &f = m.context_fragments.get(m, at, g, context, touches ? forbidden : RegexSpace::EMPTY);
  const std::bitset<256> touched = f.touched;
  add_tokens(m, f.dense, f.bits, f.ids);
  for (auto &[begin, end] : f.ending) walk.arrive({Arrival::AfterByte, end, n, walk.lexeme(position, begin)});
  for (auto &[begin, fragment] : f.leaving) add_tokens_leaving(m, at, n, walk.lexeme(position, begin), *fragment);
  if (n->parent || g.has_constraints())
    for (const Lexer::Running &begin : f.whole) add_tokens_past_lexeme(m, at, n, walk.lexeme(position, begin));
  for (const Lexer::Running &begin : f.dependent) add_lexeme_tokens(m, at, n, walk.lexeme(position, begin));
  for (const Lexer::Running &begin : f.newlines) {
    if (position.brackets > 0) add_lexeme_tokens(m, at, n, walk.lexeme(position, begin));
    else add_newline_tokens(m, at, n, walk.lexeme(position, begin));
  }
  return touched;
}

}  // namespace

void add_grammar_tokens(MaskBuilder &m, Vocabulary::Node at, const GrammarFrame *n) {
  GrammarControl &g = *n->grammar;
  for (const GrammarEntry &entry : n->entries())
    if (entry.lex == Lexer::FRESH) add_position_tokens(m, at, n, entry, RegexSpace::EMPTY);
  std::vector<RunningLexeme> running = m.grammar.running_lexemes(n);
  add_running_literals(m, at, n, running);
  for (const RunningLexeme &l : running) {
    if (needs_column(g, l.terminal(), l.entry)) add_newline_tokens(m, at, n, l);
    else add_lexeme_tokens(m, at, n, l, running.size() > FEW_LEXEMES);
  }
}

void add_position_tokens(MaskBuilder &m, Vocabulary::Node at, const GrammarFrame *n, const GrammarEntry &position,
                         Re forbidden) {
  const Vocabulary &v = m.vocabulary;
  GrammarControl &g = *n->grammar;
  const Context context = g.context(position.set->outlook, position.brackets > 0);
  const std::bitset<256> touched = add_beginning_lexemes(m, at, n, position, context, forbidden);
  // subtle: lexemes that were added above do not begin again. Each position would cost twice what the next one does,
  // and a token may have as many positions as bytes.
  const bool others = may_leave_grammar(g, position.set, n);
  if (touched.none() && !others) return;
  const auto begin = [&](uint8_t byte) -> const Frame * {
    if (touched.test(byte))
      return begin_at(m.automaton, m.ctx, g, position, forbidden, byte, n->parent, Beginning::Touched);
    if (!others) return nullptr;
    m.automaton.count_step(m.ctx, g);
    return begin_others_at(m.automaton, m.ctx, g, position, byte, n->parent);
  };
  const auto add_child = [&](Vocabulary::Node child) {
    Branch branch(m);
    m.grammar.go_on(child, begin(v.byte(child)));
  };
  if (at == Vocabulary::ROOT) {
    for (int b = 0; b < 256; ++b)
      if (const Vocabulary::Node child = v.root_child(static_cast<uint8_t>(b)); child != Vocabulary::NONE)
        add_child(child);
    return;
  }
  for (Vocabulary::Node child = at + 1; child < v.end(at); child = v.end(child)) add_child(child);
}

}  // namespace structgen
