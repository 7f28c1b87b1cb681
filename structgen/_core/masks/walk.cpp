#include "masks/walk.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "automaton/alternatives.h"
#include "util/bits.h"

namespace structgen {
namespace {

constexpr uint64_t PLACE = 12, PLACES = 13;

// Is this a text that is read byte by byte, since another constraint may go on after each?
bool is_read_by_bytes(const Frame *n) {
  return is<ScalarFrame>(n) && is_open_ended(n);
}

// Can two states be told apart by looking at their frames? Those of grammars in grammars are made again at every place.
bool are_comparable(const Frame *a, const Frame *b) {
  const auto is_comparable = [](const Frame *n) {
    return is<ParserFrame>(n) || is<SequenceFrame>(n) || is<ScalarFrame>(n);
  };
  for (const Frame *n = a, *m = b; n != m; n = n->parent, m = m->parent)
    if (!n || !m || n->kind != m->kind || !is_comparable(n)) return false;
  return true;
}

// Do two states allow the same, as far as that shows?
bool allow_the_same(StepContext &r, const Frame *a, const Frame *b) {
  return are_comparable(a, b) && is_same_state(r, a, b);
}

// Adds a state to some, as one with a state that goes on like it.
void add_joined(Automaton &automaton, StepContext &r, const Frame *state, std::vector<const Frame *> &states) {
  for (size_t i = 0; i < states.size(); ++i) {
    if (!are_comparable(states[i], state)) continue;
    if (const Frame *both = join(automaton, r, state, states[i])) {
      if (both == states[i]) return;
      states.erase(states.begin() + static_cast<std::ptrdiff_t>(i));
      return add_joined(automaton, r, both, states);
    }
  }
  states.push_back(state);
}

// Empties `open` in groups of what joins the first one that is left.
template <class T, class Joins, class Act>
void each_group(std::vector<T> &open, std::vector<T> &group, const Joins &joins, const Act &act) {
  while (!open.empty()) {
    charge(open.size());
    const T first = open.front();
    const auto rest = open.size() == 1 ? open.end()
                                       : std::stable_partition(open.begin(), open.end(), [&](const T &one) { return joins(first, one); });
    group.assign(open.begin(), rest);
    open.erase(open.begin(), rest);
    act();
  }
}

}  // namespace

void Masks::Agenda::put(const Arrival &arrival) {
  Arrival *kept;
  if (free_.empty()) {
    kept = &arrivals_.emplace_back(arrival);
  } else {
    kept = free_.back();
    free_.pop_back();
    *kept = arrival;
  }
  heap_.push_back({static_cast<uint64_t>(arrival.at) << 32 | count_++, kept});
  std::push_heap(heap_.begin(), heap_.end(), is_later);
}

void Masks::Agenda::begin_visit() {
  free_.insert(free_.end(), taken_.begin(), taken_.end());
  taken_.clear();
  visit.states.clear(), visit.before.clear(), visit.after.clear();
}

void Masks::Agenda::take(Vocabulary::Node at) {
  while (!empty() && next() == at) {
    Arrival *const a = heap_.front().arrival;
    std::pop_heap(heap_.begin(), heap_.end(), is_later);
    heap_.pop_back();
    taken_.push_back(a);
    (a->kind == Arrival::State ? visit.states : a->kind == Arrival::PlaceAfter ? visit.after : visit.before).push_back(a);
  }
}

void Masks::arrive(const Arrival &arrival) {
  constexpr uint64_t ARRIVAL = 8;
  charge(ARRIVAL);
  count(ARRIVAL);
  ++arrivals_;  // the memory that it points to is needed until it is visited: see `Branch`
  agenda_->put(arrival);
}

Masks::Apart::Apart(Masks &masks) : m_(masks), agenda_(std::exchange(masks.agenda_, nullptr)), out_(masks.out_), own_(masks.v_.words()) {
  masks.out_ = own_.data();
}

Masks::Apart::~Apart() {
  add_bits(out_, own_.data(), own_.size());
  m_.out_ = out_;
  m_.agenda_ = agenda_;
}

// Runs `begin`, which lets readings arrive, and visits all of them.
template <class Begin>
void Masks::walk_readings(const Begin &begin) {
  struct Open {
    Vocabulary::Node end;
    Arena::Mark mark;
  };
  Agenda agenda;
  struct Scope {
    Masks &m;
    Agenda *const outer;
    const uint64_t arrivals = m.arrivals_;
    ~Scope() {
      m.agenda_ = outer;
      m.arrivals_ = arrivals;
    }
  } const scope{*this, std::exchange(agenda_, &agenda)};
  const Arena::Mark mark = ctx_->arena.mark();
  begin();
  std::vector<Open> path;  // visited nodes whose subtrees are not behind yet
  while (!agenda.empty()) {
    charge();
    const Vocabulary::Node at = agenda.next();
    while (!path.empty() && path.back().end <= at) {
      ctx_->arena.release(path.back().mark);
      path.pop_back();
    }
    path.push_back({v_.end(at), ctx_->arena.mark()});
    visit(at);
  }
  ctx_->arena.release(mark);
}

void Masks::walk_from(Vocabulary::Node at, const Frame *node) {
  if (agenda_) return arrive({Arrival::State, at, node});
  walk_readings([&] { grammar_below(at, as<GrammarFrame>(node)); });
}

void Masks::walk_from_place(const GrammarFrame *node, const GrammarEntry &place, Re earlier) {
  walk_readings([&] { place_below(Vocabulary::ROOT, node, place, earlier); });
}

// Are all tokens of these allowed already?
bool Masks::all_set(std::span<const uint32_t> ids) {
  constexpr size_t IDS_PER_UNIT = 32;
  const auto unset = std::find_if(ids.begin(), ids.end(), [&](uint32_t id) { return !(out_[id >> 5] >> (id & 31) & 1); });
  const auto units = static_cast<uint64_t>(unset - ids.begin()) / IDS_PER_UNIT;
  charge(units);
  count(units);
  return unset == ids.end();
}

// Takes up all readings of one trie node. States first: lexemes that end there lead to places after it.
void Masks::visit(Vocabulary::Node at) {
  Agenda &agenda = *agenda_;
  const Agenda::Visit &all = agenda.visit;
  agenda.begin_visit();
  agenda.take(at);
  const std::span<const uint32_t> ids = v_.ids_within(at);
  if (!all.states.empty() || !all.before.empty()) {
    if (all_set(ids)) return;
    visit_states(at);
    agenda.take(at);
  }
  if (all.after.empty() || all_set(ids.subspan(v_.ids(at).size()))) return;
  for_each_place(all.after, [&](const Arrival &a, const GrammarEntry &place, const std::bitset<256> &first) {
    if (is_wide(at)) return place_below(at, as<GrammarFrame>(a.node), place, a.after);
    for (const Vocabulary::Child *c = v_.children(at); !c->is_end; ++c) {
      if (!first.test(c->byte)) continue;
      Branch branch(*this);
      go_on(c->node, begin_at(a_, *ctx_, *as<GrammarFrame>(a.node)->grammar, place, a.after, c->byte, a.node->parent));
    }
  });
}

void Masks::visit_states(Vocabulary::Node at) {
  auto &[states, before, after, merged, others, frames, open, group, same_frame] = agenda_->visit;
  merged.clear(), others.clear(), frames.clear();
  auto add_one = [&](const Frame *node) {
    if (const auto *grammar = as_if<GrammarFrame>(node)) merged.push_back(grammar);
    else add_joined(a_, *ctx_, node, others);
  };
  auto add = [&](const Frame *node) {
    each_alternative(node, add_one);
  };
  auto step_by_bytes = [&](const Frame *node) {
    const std::bitset<256> candidates = a_.candidates(node);
    for (const Vocabulary::Child *c = v_.children(at); !c->is_end; ++c) {
      if (!candidates.test(c->byte)) continue;
      Branch branch(*this);
      go_on(c->node, a_.step(*ctx_, node, c->byte));
    }
  };
  for (const Arrival *a : states) add(a->node);
  for_each_place(before, [&](const Arrival &a, const GrammarEntry &place, const std::bitset<256> &first) {
    if (!first.test(v_.byte(at))) return;
    GrammarControl &g = *as<GrammarFrame>(a.node)->grammar;
    const bool others_alone = a.kind == Arrival::OthersBefore;
    if (others_alone) a_.count_step(*ctx_, g);
    const Frame *next = others_alone ? begin_others_at(a_, *ctx_, g, place, v_.byte(at), a.node->parent)
                                    : begin_at(a_, *ctx_, g, place, a.after, v_.byte(at), a.node->parent);
    if (next) add(next);
  });
  if (merged.empty() && others.empty()) return;
  for (uint32_t id : v_.ids(at)) set(id);
  if (v_.end(at) == at + 1) return;
  const auto have_same_frame = [&](const GrammarFrame *a, const GrammarFrame *b) {
    return a->grammar == b->grammar && allow_the_same(*ctx_, a->parent, b->parent);
  };
  each_group(merged, same_frame, have_same_frame, [&] { add_joined(a_, *ctx_, merge_grammar_frames(a_, *ctx_, same_frame), frames); });
  for (const Frame *node : frames) {
    if (is_wide(at)) grammar_below(at, as<GrammarFrame>(node));
    else step_by_bytes(node);
  }
  for (const Frame *node : others) {
    if (!is_read_by_bytes(node)) below(at, node);
    // Below the root the same tokens would be tried again at each node of a token that is read in many ways.
    else if (at != Vocabulary::ROOT || !text_below(at, as<ScalarFrame>(node))) step_by_bytes(node);
  }
}

// The byte of trie node `at` leads to `next`.
void Masks::go_on(Vocabulary::Node at, const Frame *next) {
  if (!next) return;
  const bool waits = is<GrammarFrame>(next) || is<AlternativesFrame>(next) || is_read_by_bytes(next);
  if (waits && v_.end(at) > at + 1) arrive({Arrival::State, at, next});
  else from_exit(at, next);
}

// A lexeme in one reading.
Masks::Lexeme Masks::lexeme(const GrammarEntry &entry, const Lexer::Running &running) {
  const auto *one = ctx_->arena.make<Reading>(entry.set, running.terminal);
  return {running.lexeme, entry, {one, 1}};
}

// The lexemes that run in a state, each in all of its readings.
std::vector<Masks::Lexeme> Masks::running_lexemes(const GrammarFrame *n) {
  GrammarControl &g = *n->grammar;
  std::vector<Lexeme> lexemes;
  std::vector<std::vector<Reading>> joined;  // by lexeme
  std::unordered_map<uint64_t, size_t> index;
  for (const GrammarEntry &entry : n->entries()) {
    if (entry.lex == Lexer::FRESH) continue;
    for (const Lexer::Running &running : g.lexer().running(entry.lex)) {
      charge();
      if (n->entry_count == 1 || !only_moves_parser(g, running.terminal)) {
        lexemes.push_back(lexeme(entry, running));
        continue;
      }
      const auto [it, fresh] =
          index.try_emplace(static_cast<uint64_t>(running.lexeme) << 32 | entry.within, lexemes.size());
      if (fresh) lexemes.push_back({running.lexeme, entry, {}});
      joined.resize(lexemes.size());
      joined[it->second].push_back({entry.set, running.terminal});
    }
  }
  for (size_t i = 0; i < joined.size(); ++i)
    if (!joined[i].empty()) lexemes[i].readings = kept(joined[i]);
  return lexemes;
}

// Calls `take` for the places that arrivals lead to, those that `advance` would merge as one.
template <class Take>
void Masks::for_each_place(const std::vector<const Arrival *> &arrivals, const Take &take) {
  auto &[states, before, after, merged, others, frames, open, group, same_frame] = agenda_->visit;
  const auto joins = [&](const Arrival *a, const Arrival *b) {
    GrammarControl &g = *as<GrammarFrame>(a->node)->grammar;
    const GrammarEntry &one = a->ended.entry, &other = b->ended.entry;
    return a->kind == b->kind && &g == as<GrammarFrame>(b->node)->grammar && a->after == b->after && a->within == b->within &&
           one.indent == other.indent && one.brackets == other.brackets &&
           (is_same(a->ended, b->ended) || (only_moves_parser(g, a->ended.terminal()) && only_moves_parser(g, b->ended.terminal()))) &&
           allow_the_same(*ctx_, a->node->parent, b->node->parent);
  };
  open = arrivals;
  each_group(open, group, joins, [&] {
    const Arrival &first = *group.front();
    const Place &place = place_after(as<GrammarFrame>(first.node), group.size() == 1 ? first.ended : in_all_readings(group));
    if (!place.alive) return;
    GrammarEntry entry = place.at;
    entry.within = first.within;
    take(first, entry, place.first);
  });
}

// The lexeme of the first arrival, with the readings of all of them, each once.
Masks::Lexeme Masks::in_all_readings(const std::vector<const Arrival *> &arrivals) {
  constexpr size_t FEW = 24;  // as many are looked through one by one
  std::vector<Reading> &all = readings_;
  all.clear();
  InlineVector<Hash128, FEW> met;
  std::unordered_set<Hash128, HashOf128> many;
  const auto is_new = [&](const Hash128 &h) {
    if (met.size() == FEW) return std::find(met.begin(), met.end(), h) == met.end() && many.insert(h).second;
    if (std::find(met.begin(), met.end(), h) != met.end()) return false;
    met.push_back(h);
    return true;
  };
  for (const Arrival *a : arrivals)
    for (const Reading &one : a->ended.readings) {
      charge();
      if (is_new(extend(outcome(*as<GrammarFrame>(a->node)->grammar, one), one.terminal))) all.push_back(one);
    }
  Lexeme lexeme = arrivals.front()->ended;
  lexeme.readings = kept(all);
  return lexeme;
}

// What tells a reading apart from others: what its lexeme leads to, where enough is known of the set for that.
Hash128 Masks::outcome(GrammarControl &g, const Reading &reading) {
  if (ctx_->mask_dependencies && ctx_->mask_dependencies->label(reading.since) != UINT32_MAX) return reading.since->identity;
  return g.earley().outcome(reading.since, ~static_cast<Symbol>(reading.terminal));
}

// Readings, in the memory of the walk.
std::span<const Masks::Reading> Masks::kept(const std::vector<Reading> &readings) {
  auto *copy = static_cast<Reading *>(ctx_->arena.allocate(readings.size() * sizeof(Reading)));
  std::copy(readings.begin(), readings.end(), copy);
  return {copy, readings.size()};
}

bool Masks::is_same(const Lexeme &a, const Lexeme &b) {
  const Reading &one = a.readings[0], &other = b.readings[0];
  return a.readings.size() == 1 && b.readings.size() == 1 && one.terminal == other.terminal &&
         (one.since == other.since || one.since->identity == other.since->identity);
}

// Does a terminal change nothing but the Earley set, so that `advance` merges what it leads to with others?
bool Masks::only_moves_parser(GrammarControl &g, uint32_t terminal) {
  return !g.grammar().indentation.active() && !g.lexer().ignores(terminal);
}

template <class Make>
const Masks::Place &Masks::remembered(bool lasts, const Hash128 &key, GrammarControl &g, const GrammarFrame *n, const Make &make) {
  if (lasts)
    if (const auto it = places_.find(key); it != places_.end()) return *it->second;
  // subtle: what lasts is kept apart, since the walk's own memory is given back branch by branch.
  Arena &arena = lasts ? place_memory_ : ctx_->arena;
  StepContext ctx{arena};
  ctx.mask_dependencies = ctx_->mask_dependencies;
  Place *place = arena.make<Place>();
  place->alive = make(ctx, place->at);
  if (place->alive) {
    place->first = g.lexer().first(g.context(place->at.set->outlook, place->at.brackets > 0));
    if (goes_beyond(g, place->at.set, n)) place->first.set();
  }
  if (lasts) places_[key] = place;
  return *place;
}

// Where the parser stands after a lexeme; found out once for a mask where it is asked of sets that last as long.
const Masks::Place &Masks::place_after(const GrammarFrame *n, const Lexeme &ended) {
  if (ended.readings.size() > 1) return place_after_all(n, ended);
  GrammarControl &g = *n->grammar;
  const GrammarEntry &entry = ended.entry;
  const auto [since, t] = ended.readings[0];
  const bool lasts = !ctx_->arena.contains(since);
  const Hash128 key = hash_words(PLACE, reinterpret_cast<uint64_t>(since), static_cast<uint64_t>(t) << 32 | entry.within,
                                 reinterpret_cast<uint64_t>(entry.indent), entry.brackets, n->parent != nullptr);
  return remembered(lasts, key, g, n, [&](StepContext &ctx, GrammarEntry &at) {
    a_.count_step(*ctx_, g);  // each byte of a token may be a lexeme
    if (!g.lexer().ignores(t)) return after_terminal(ctx, g, entry, t, &at);
    at = entry;
    at.lex = Lexer::FRESH;
    at.column = 0;
    return true;
  });
}

// The first set of this mask in which the same is still needed. A run of one character may be a row of operators, each of which
// may be the last: where the parser stands again, what follows is found as it was before.
const EarleySet *Masks::first_like_it(GrammarControl &g, const EarleySet *set) {
  return like_.try_emplace(g.earley().rest(set, ctx_->mask_dependencies), set).first->second;
}

// Where it stands after a lexeme in several readings, or several that end at one trie node.
const Masks::Place &Masks::place_after_all(const GrammarFrame *n, const Lexeme &ended) {
  GrammarControl &g = *n->grammar;
  bool lasts = true;
  Hash128 key = hash_words(PLACES, ended.entry.within, n->parent != nullptr);
  for (const auto [since, t] : ended.readings) {
    charge();
    lasts = lasts && !ctx_->arena.contains(since);
    key = extend(extend(key, reinterpret_cast<uint64_t>(since)), t);
  }
  return remembered(lasts, key, g, n, [&](StepContext &ctx, GrammarEntry &at) {
    a_.count_step(*ctx_, g);
    at = ended.entry;
    at.lex = Lexer::FRESH;
    at.column = 0;
    Earley::Builder builder(g.earley(), ctx.mask_dependencies);
    for (const auto [since, t] : ended.readings) builder.recognised(since, ~static_cast<Symbol>(t));
    at.set = builder.finish(ctx.arena);
    if (lasts && at.set) at.set = first_like_it(g, at.set);
    return at.set != nullptr;
  });
}

void Masks::forget_places() {
  places_.clear();
  like_.clear();
  place_memory_.release({});
}

}  // namespace structgen
