// Steps of grammars: lexemes go on, end, and let the parser move.
//
// A grammar's node holds readings of the text so far, as entries: an Earley set and what has been read since. That a
// lexeme ends is decided by the byte after it, so between bytes nothing is decided early, and what the lexer's rule
// forbids to follow is tested on that byte. All lexemes that end at one place lead to one set, so a place
// has at most one reading more than those that run on.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "automaton/read_first.h"

namespace structgen {
namespace {

struct Ending {  // of a terminal
  Re after;  // what must not follow it
  const GrammarEntry *entry;
  uint32_t terminal;
};

constexpr uint64_t INDENT = 71, ALIKE = 72;

}  // namespace

const Node *Automaton::grammar_node(Reader &r, GrammarControl &g, std::span<const GrammarEntry> entries,
                                    const Node *parent) {
  if (entries.empty()) return nullptr;
  auto *kept = static_cast<GrammarEntry *>(r.arena.allocate(entries.size() * sizeof(GrammarEntry)));
  std::copy(entries.begin(), entries.end(), kept);
  Node *n = r.arena.make<Node>();
  n->kind = Node::Grammar;
  n->depth = parent ? parent->depth + 1 : 0;
  n->parent = parent;
  n->control.grammar = &g;
  n->entries = kept;
  n->length = static_cast<uint32_t>(entries.size());
  return n;
}

const Node *Automaton::symbol_node(Reader &r, GrammarControl &g, std::span<const GrammarEntry> places, uint32_t t,
                                   const Node *parent) {
  auto *kept = static_cast<GrammarEntry *>(r.arena.allocate(places.size() * sizeof(GrammarEntry)));
  std::copy(places.begin(), places.end(), kept);
  Node *frame = r.arena.make<Node>();
  frame->kind = Node::Symbol;
  frame->depth = parent ? parent->depth + 1 : 0;
  frame->parent = parent;
  frame->control.grammar = &g;
  frame->entries = kept;
  frame->count = places.size();
  frame->length = t;
  return frame;
}

const Node *Automaton::begin_constraint(Reader &r, GrammarControl &g, const GrammarEntry &place, uint32_t t,
                                        const Node *parent) {
  return begin(r, *g.grammar().terminals[t].plan, symbol_node(r, g, {&place, 1}, t, parent));
}

bool Automaton::after_constraint(Reader &r, const Node *frame, GrammarEntry *out) {
  GrammarControl &g = *frame->control.grammar;
  if (frame->count == 1) return after_terminal(r, g, frame->entries[0], frame->length, out);
  count_step(r, g);
  Earley::Builder builder(g.earley(), r.reads);
  for (const GrammarEntry &place : std::span(frame->entries, frame->count))
    builder.recognised(place.set, ~static_cast<Symbol>(frame->length));
  *out = frame->entries[0];
  out->set = builder.finish(r.arena);
  return out->set != nullptr;
}

bool Automaton::after_terminal(Reader &r, GrammarControl &g, const GrammarEntry &entry, uint32_t t, GrammarEntry *out) {
  *out = entry;
  out->lex = Lexer::FRESH;
  out->column = 0;
  if (g.is_newline(t) && entry.brackets > 0) return true;
  Earley::Builder builder(g.earley(), r.reads);
  auto move = [&](uint32_t terminal) {
    builder.clear();
    builder.recognised(out->set, ~static_cast<Symbol>(terminal));
    out->set = builder.finish(r.arena);
    return out->set != nullptr;
  };
  if (!move(t)) return false;
  if (const int change = g.bracket(t)) {
    if (change < 0 && out->brackets == 0) return false;
    if (change < 0 && r.reads) r.reads->ask_brackets(out->brackets);
    out->brackets += static_cast<uint32_t>(change);
  }
  if (!g.is_newline(t)) return true;
  const IndentationRule &rule = g.grammar().indentation;
  auto level = [](const IndentLevel *l) { return l ? l->column : 0; };
  if (r.reads) r.reads->ask_indentation(entry.indent, entry.column);
  if (entry.column > level(out->indent)) {
    const Hash128 below = out->indent ? out->indent->identity : hash_words(INDENT);
    out->indent = r.arena.make<IndentLevel>(IndentLevel{out->indent, entry.column, extend(below, entry.column)});
    return move(rule.indent);
  }
  while (entry.column < level(out->indent)) {
    charge();
    out->indent = out->indent->below;
    if (!move(rule.dedent)) return false;
  }
  return entry.column == level(out->indent);
}

const Node *Automaton::past_lexemes(Reader &r, const Node *n) {
  if (n->kind == Node::Alternatives) {
    const Node *left = past_lexemes(r, n->control.left), *rest = past_lexemes(r, n->parent);
    return left == n->control.left && rest == n->parent ? n : alternatives(r, left, rest);
  }
  // subtle: lexemes that end at one place lead to one set, which the next step makes of all of them.
  if (n->kind != Node::Grammar || n->length != 1) return n;
  GrammarControl &g = *n->control.grammar;
  const GrammarEntry &entry = n->entries[0];
  const auto over = entry.lex == Lexer::FRESH ? std::nullopt : g.lexer().over(entry.lex);
  if (!over || g.is_newline(*over)) return n;
  GrammarEntry past = entry;
  past.lex = Lexer::FRESH;
  if (!g.lexer().ignores(*over) && !after_terminal(r, g, entry, *over, &past)) return n;
  return grammar_node(r, g, {&past, 1}, n->parent);
}

// May a newline lexeme that began here be followed by a line, of whatever column?
bool Automaton::newline_leads_on(Reader &r, GrammarControl &g, const GrammarEntry &entry) {
  if (entry.brackets > 0) return true;
  Earley::Builder builder(g.earley(), r.reads);
  builder.recognised(entry.set, ~static_cast<Symbol>(g.grammar().indentation.newline));
  return builder.finish(r.arena) != nullptr;
}

void Automaton::bound_mask(Reader &r) const {
  r.is_mask = true;
  r.worked_for = nullptr;
  r.work_left = static_cast<uint64_t>(std::min(text_.limits().mask_steps, size_t{1} << 56)) * UNITS;
}

// Twice what a mask may take, which reads all tokens: so one that a mask allows can be read.
void Automaton::bound_token(Reader &r) const {
  bound_mask(r);
  r.is_mask = false;
  r.work_left *= 2;
}

// A step costs what the parser moves in it: the sets of an ambiguous text grow with the text.
void Automaton::count_step(Reader &r, GrammarControl &g) {
  constexpr uint64_t STEP = 20;
  constexpr uint64_t SEARCHED = 25;  // units of what `GrammarLife` looks at
  const auto done = [](GrammarControl &of) { return of.earley().work() + of.lexemes().work() + SEARCHED * of.life().work(); };
  const uint64_t moves = r.worked_for ? done(*r.worked_for) - r.worked : 0;
  r.worked_for = &g;
  r.worked = done(g);
  // subtle: a token has so many bytes, and no more steps; a mask may allow it by fragments, without one step.
  if (!r.is_mask) work_ += STEP;
  count_work(r, moves + (r.is_mask ? STEP : 0));
}

void Automaton::count_work(Reader &r, uint64_t units) {
  work_ += units;
  if (units > r.work_left)
    throw LimitError((r.is_mask ? "one mask of the grammar takes more than " : "one token of the grammar takes more than ") +
                     std::to_string(text_.limits().mask_steps) +
                     " steps, since tokens can be read in very many ways (limit mask_steps)");
  r.work_left -= units;
}

const Node *Automaton::begin_at(Reader &r, GrammarControl &g, const GrammarEntry &place, Re earlier, uint8_t byte,
                                const Node *parent, Beginning which) {
  count_step(r, g);
  const Node *out = begin_others_at(r, g, place, byte, parent);
  if (const Re rest = g.lexemes().rest_of(earlier, byte); rest != RegexSpace::EMPTY && g.lexemes().nullable(rest))
    return out;
  const Context context = g.context(place.set->outlook, place.brackets > 0);
  const LexState lex = which == Beginning::All ? g.lexer().begin(context, earlier, byte)
                                               : g.lexer().begin_touched(context, earlier, byte);
  if (lex != Lexer::DEAD) {
    GrammarEntry entry = place;
    entry.lex = lex;
    if (settle(r, g, entry, byte)) out = alternatives(r, grammar_node(r, g, {&entry, 1}, parent), out);
  }
  return out;
}

// Other constraints, and what follows the grammar's text. The lexer's rule has no say in these: a sequence of constraints
// has the texts of one followed by texts of the next, wherever either would have gone on.
const Node *Automaton::begin_others_at(Reader &r, GrammarControl &g, const GrammarEntry &place, uint8_t byte,
                                       const Node *parent) {
  const Node *out = nullptr;
  for (uint32_t t : g.others(place.set->outlook))
    if (g.grammar().terminals[t].kind == GrammarTerminal::Constraint && g.life().other(place.set, place.brackets, t, r.reads, r.arena))
      if (const Node *child = begin_constraint(r, g, place, t, parent)) {
        const Node *next = read_first(r, child, [&](const Node *n) { return step(r, n, byte); });
        out = alternatives(r, next, out);
      }
  if (place.set->accepting && parent && g.may_end(place))
    if (const Node *after = finish(r, parent)) out = alternatives(r, step(r, after, byte), out);
  return out;
}

// Puts an entry right after `byte` has been read into its lexeme; false where it leads nowhere.
bool Automaton::settle(Reader &r, GrammarControl &g, GrammarEntry &entry, uint8_t byte) {
  entry.within = g.lexemes().step_within(entry.within, byte);
  if (entry.within == Lexemes::DEAD) return false;
  if (g.runs_newline(entry.lex)) {
    if (byte == '\n') entry.column = 0;
    else if (byte == ' ') entry.column += 1;
    else if (byte == '\t') entry.column += g.grammar().indentation.tab_width;
    if (!newline_leads_on(r, g, entry)) {
      entry.lex = g.lexer().only(entry.lex, [&](const Lexer::Running &l) { return !g.is_newline(l.terminal); });
      entry.column = 0;
    }
  } else {
    entry.column = 0;
  }
  if (!g.life().always() || entry.within != ANYTHING)
    entry.lex = g.lexer().only(entry.lex, [&](const Lexer::Running &l) {
      return g.life().lexeme(entry.set, entry.brackets, l.terminal, l.lexeme, entry.within, r.reads, r.arena);
    });
  return entry.lex != Lexer::DEAD;
}

const Node *Automaton::step_grammar(Reader &r, const Node *n, uint8_t b) {
  GrammarControl &g = *n->control.grammar;
  count_step(r, g);
  Lexer &lexer = g.lexer();
  const bool indented = g.grammar().indentation.active();
  GrammarEntries entries;
  InlineVector<Ending, 8> endings;
  const Node *others = nullptr;
  auto take = [&](const Node *next) {
    if (!next) return;
    if (next->kind == Node::Grammar && next->control.grammar == &g && next->parent == n->parent)
      entries.append(next->entries, next->entries + next->length);
    else others = alternatives(r, next, others);
  };
  auto take_all = [&](const Node *next) {  // what begins at a place is a union of at most a few
    while (next && next->kind == Node::Alternatives) {
      charge();
      take(next->control.left);
      next = next->parent;
    }
    take(next);
  };
  for (uint32_t i = 0; i < n->length; ++i) {
    const GrammarEntry &entry = n->entries[i];
    if (entry.lex == Lexer::FRESH) {
      take_all(begin_at(r, g, entry, RegexSpace::EMPTY, b, n->parent));
      continue;
    }
    if (const LexState lex = lexer.step(entry.lex, b); lex != Lexer::DEAD) {
      GrammarEntry next = entry;
      next.lex = lex;
      if (settle(r, g, next, b)) entries.push_back(next);
    }
    // Text to ignore has ended: text of the grammar goes on in the lexer itself; what else may come, here.
    if (!lexer.ignored_ends(entry.lex).empty()) {
      GrammarEntry place = entry;
      place.lex = Lexer::FRESH;
      place.column = 0;
      take_all(begin_others_at(r, g, place, b, n->parent));
    }
    for (const Lexer::End &end : lexer.ends(entry.lex)) {
      if (Re rest = g.lexemes().rest_of(end.after, b);
          rest != RegexSpace::EMPTY && text_.regex().nullable(rest) && !n->parent && !g.has_constraints())
        continue;
      if (indented) {
        GrammarEntry place;
        if (after_terminal(r, g, entry, end.terminal, &place)) take_all(begin_at(r, g, place, end.after, b, n->parent));
        continue;
      }
      endings.push_back({end.after, &entry, end.terminal});
    }
  }
  // Those with the same text forbidden to follow lead to one set.
  for (size_t i = 0; i < endings.size(); ++i) {
    const Ending &e = endings[i];
    charge(1 + i / 8);
    if (std::any_of(endings.begin(), endings.begin() + i, [&](const Ending &before) { return before.after == e.after; })) continue;
    Earley::Builder builder(g.earley(), r.reads);
    for (size_t j = i; j < endings.size(); ++j)
      if (endings[j].after == e.after) builder.recognised(endings[j].entry->set, ~static_cast<Symbol>(endings[j].terminal));
    GrammarEntry place = *e.entry;
    place.lex = Lexer::FRESH;
    place.set = builder.finish(r.arena);
    if (place.set) take_all(begin_at(r, g, place, e.after, b, n->parent));
  }
  drop_equal(r, g, entries);
  const Node *inside = grammar_node(r, g, entries, n->parent);
  return alternatives(r, inside, others);
}

const Node *Automaton::merged(Reader &r, std::span<const Node *const> states) {
  if (states.size() == 1) return states[0];
  GrammarEntries entries;
  for (const Node *one : states) entries.append(one->entries, one->entries + one->length);
  drop_equal(r, *states[0]->control.grammar, entries);
  return grammar_node(r, *states[0]->control.grammar, entries, states[0]->parent);
}

void Automaton::drop_equal(Reader &r, GrammarControl &g, GrammarEntries &entries) {
  if (entries.size() > text_.limits().earley_items)
    throw LimitError("a text of the grammar has more than " + std::to_string(text_.limits().earley_items) +
                     " parallel readings (limit earley_items)");
  if (entries.size() < 2 || r.keeps_all) return;
  if (entries.size() == 2) {
    if (same_entry(r, g, entries[0], entries[1])) entries.pop_back();
    return;
  }
  count_work(r, entries.size());
  // As `same_entry` compares them, by hashes: first sets that are equal, then what their lexemes can lead to, then what they
  // still need. That is found out only of entries that differ in their sets alone.
  std::unordered_set<Hash128, HashOf128> met;
  std::unordered_map<Hash128, uint32_t, HashOf128> many;
  const auto in_all_but_set = [&](const GrammarEntry &e) {
    const Hash128 h = hash_words(ALIKE, e.lex, static_cast<uint64_t>(e.brackets) << 32 | e.column, e.within);
    return e.indent ? extend(h, e.indent->identity) : h;
  };
  const auto in_all_but_rest = [&](const GrammarEntry &e) {
    const Hash128 h = extend(in_all_but_set(e), static_cast<uint64_t>(e.set->outlook) << 1 | (e.set->accepting ? 1 : 0));
    return r.reads && r.reads->is_open(e.set) ? extend(h, e.set->id) : h;
  };
  const auto keep_first = [&](const auto &all_but, const auto &last) {
    many.clear();
    met.clear();
    for (const GrammarEntry &e : entries) ++many[all_but(e)];
    if (many.size() == entries.size()) return;
    entries.erase_if([&](const GrammarEntry &e) {
      charge();
      const Hash128 h = all_but(e);
      return many[h] > 1 && !met.insert(extend(h, last(e))).second;
    });
  };
  keep_first(in_all_but_set, [&](const GrammarEntry &e) { return e.set->identity; });
  keep_first(in_all_but_set, [&](const GrammarEntry &e) { return lexeme_outcome(r, g, e); });
  keep_first(in_all_but_rest, [&](const GrammarEntry &e) { return g.earley().rest(e.set, r.reads); });
}

// Of what the lexemes of a reading can lead to; of the set itself, where it may stand there, or where too little is known of it.
Hash128 Automaton::lexeme_outcome(Reader &r, GrammarControl &g, const GrammarEntry &e) {
  if (g.may_stand(e) || (r.reads && r.reads->label(e.set) != UINT32_MAX)) return hash_words(ALIKE, e.set->id);
  Hash128 h = hash_words(ALIKE);
  for (const Lexer::Running &one : g.lexer().running(e.lex)) h = extend(h, g.earley().outcome(e.set, ~static_cast<Symbol>(one.terminal)));
  return h;
}

bool Automaton::same_entry(Reader &r, GrammarControl &g, const GrammarEntry &a, const GrammarEntry &b) {
  if (a.lex != b.lex || a.brackets != b.brackets || a.column != b.column || a.within != b.within) return false;
  if (a.indent != b.indent && !(a.indent && b.indent && a.indent->identity == b.indent->identity)) return false;
  if (a.set == b.set) return true;
  // subtle: of an open set too little is known to say that another one is like it.
  if (r.reads && (r.reads->is_open(a.set) || r.reads->is_open(b.set))) return false;
  return a.set->identity == b.set->identity || lexeme_outcome(r, g, a) == lexeme_outcome(r, g, b) ||
         g.earley().same_rest(a.set, b.set, r.reads);
}

// Every place that the text may stand at if nothing more is read.
template <class Visit>
void Automaton::each_place(Reader &r, const Node *n, const Visit &visit) {
  GrammarControl &g = *n->control.grammar;
  for (uint32_t i = 0; i < n->length; ++i) {
    const GrammarEntry &entry = n->entries[i];
    GrammarEntry place = entry;
    place.lex = Lexer::FRESH;
    place.column = 0;
    if (entry.lex == Lexer::FRESH) {
      if (visit(place, RegexSpace::EMPTY)) return;
      continue;
    }
    if (const auto ignored = g.lexer().ignored_ends(entry.lex); !ignored.empty())
      if (visit(place, ignored[0])) return;
    for (const Lexer::End &end : g.lexer().ends(entry.lex))
      if (after_terminal(r, g, entry, end.terminal, &place) && visit(place, end.after)) return;
  }
}

std::vector<Automaton::Place> Automaton::places(Reader &r, const Node *n) {
  std::vector<Place> out;
  each_place(r, n, [&](const GrammarEntry &place, Re after) {
    out.push_back({place, after});
    return false;
  });
  return out;
}

bool Automaton::grammar_ends(Reader &r, const Node *n) {
  if (n->kind == Node::Alternatives) return grammar_ends(r, n->control.left) || grammar_ends(r, n->parent);
  if (n->kind != Node::Grammar) return false;
  GrammarControl &g = *n->control.grammar;
  bool accepting = false;
  each_place(r, n, [&](GrammarEntry place, Re) {
    // Blocks that are open end with the text.
    Earley::Builder builder(g.earley(), r.reads);
    while (place.set && place.indent) {
      charge();
      if (g.items().expects(place.set->outlook, g.grammar().indentation.dedent)) {
        if (r.reads) r.reads->ask_indentation(place.indent, 0);
      } else {
        place.set = nullptr;
        break;
      }
      place.indent = place.indent->below;
      builder.clear();
      builder.recognised(place.set, ~static_cast<Symbol>(g.grammar().indentation.dedent));
      place.set = builder.finish(r.arena);
    }
    return accepting = accepting || (place.set && place.set->accepting && g.may_end(place));
  });
  return accepting;
}

}  // namespace structgen
