#include "masks_walk.h"

#include <algorithm>
#include <utility>

namespace structgen {
namespace {

constexpr uint64_t PLACE = 12, PLACES = 13;

// Is this a text that is read byte by byte, since another constraint may go on after each?
bool is_read_by_bytes(const Node *n) {
  return n->kind == Node::Scalar && n->parent && (n->parent->kind == Node::Sequence || n->parent->kind == Node::Symbol);
}

// Do two states allow the same, as far as that shows? Frames of grammars in grammars are made again at every place.
bool is_same_state(Automaton &automaton, const Node *a, const Node *b) {
  for (; a != b; a = a->parent, b = b->parent) {
    if (!a || !b || a->kind != b->kind || a->roots || b->roots) return false;
    if (a->kind != Node::Grammar && a->kind != Node::Symbol && a->kind != Node::Sequence && a->kind != Node::Scalar) return false;
    if (!(automaton.signature(a) == automaton.signature(b))) return false;
  }
  return true;
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
    (a->kind == Arrival::State ? visit.states : a->kind == Arrival::PlaceBefore ? visit.before : visit.after).push_back(a);
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
  for (size_t w = 0; w < own_.size(); ++w) out_[w] |= own_[w];
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
  const Arena::Mark mark = r_->arena.mark();
  begin();
  std::vector<Open> path;  // visited nodes whose subtrees are not behind yet
  while (!agenda.empty()) {
    charge();
    const Vocabulary::Node at = agenda.next();
    while (!path.empty() && path.back().end <= at) {
      r_->arena.release(path.back().mark);
      path.pop_back();
    }
    path.push_back({v_.end(at), r_->arena.mark()});
    visit(at);
  }
  r_->arena.release(mark);
}

void Masks::walk_from(Vocabulary::Node at, const Node *node) {
  if (agenda_) return arrive({Arrival::State, at, node});
  walk_readings([&] { grammar_below(at, node); });
}

void Masks::walk_from_place(const Node *node, const GrammarEntry &place, Re earlier) {
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
  for_each_place(all.after, [&](const Node *n, const GrammarEntry &place, const std::bitset<256> &first, Re earlier) {
    if (is_wide(at)) return place_below(at, n, place, earlier);
    for (const Vocabulary::Child *c = v_.children(at); !c->is_end; ++c) {
      if (!first.test(c->byte)) continue;
      Branch branch(*this);
      go_on(c->node, a_.begin_at(*r_, *n->control.grammar, place, earlier, c->byte, n->parent));
    }
  });
}

void Masks::visit_states(Vocabulary::Node at) {
  auto &[states, before, after, merged, others, open, group] = agenda_->visit;
  merged.clear(), others.clear();
  auto add_one = [&](const Node *node) {
    if (node->kind != Node::Grammar) {
      if (std::none_of(others.begin(), others.end(), [&](const Node *one) { return is_same_state(a_, one, node); }))
        others.push_back(node);
      return;
    }
    for (const Node *&one : merged)
      if (one->control.grammar == node->control.grammar && is_same_state(a_, one->parent, node->parent)) {
        one = a_.merged(*r_, one, node);
        return;
      }
    merged.push_back(node);
  };
  auto add = [&](const Node *node) {
    for (; node->kind == Node::Alternatives; node = node->parent) add_one(node->control.left);
    add_one(node);
  };
  auto step_by_bytes = [&](const Node *node) {
    const std::bitset<256> candidates = a_.candidates(node);
    for (const Vocabulary::Child *c = v_.children(at); !c->is_end; ++c) {
      if (!candidates.test(c->byte)) continue;
      Branch branch(*this);
      go_on(c->node, a_.step(*r_, node, c->byte));
    }
  };
  for (const Arrival *a : states) add(a->node);
  for_each_place(before, [&](const Node *n, const GrammarEntry &place, const std::bitset<256> &first, Re earlier) {
    if (!first.test(v_.byte(at))) return;
    if (const Node *next = a_.begin_at(*r_, *n->control.grammar, place, earlier, v_.byte(at), n->parent)) add(next);
  });
  if (merged.empty() && others.empty()) return;
  for (uint32_t id : v_.ids(at)) set(id);
  if (v_.end(at) == at + 1) return;
  for (const Node *node : merged) {
    if (is_wide(at)) grammar_below(at, node);
    else step_by_bytes(node);
  }
  for (const Node *node : others) {
    if (is_read_by_bytes(node)) step_by_bytes(node);
    else below(at, node);
  }
}

// The byte of trie node `at` leads to `next`.
void Masks::go_on(Vocabulary::Node at, const Node *next) {
  if (!next) return;
  const bool waits = next->kind == Node::Grammar || next->kind == Node::Alternatives || is_read_by_bytes(next);
  if (waits && v_.end(at) > at + 1) arrive({Arrival::State, at, next});
  else from_exit(at, next);
}

// Calls `take` for the places that arrivals lead to, those that `advance` would merge as one.
template <class Take>
void Masks::for_each_place(const std::vector<const Arrival *> &arrivals, const Take &take) {
  auto &[states, before, after, merged, others, open, group] = agenda_->visit;
  open = arrivals;
  while (!open.empty()) {
    const Arrival &first = *open.front();
    const auto joins = [&](const Arrival *b) {
      return first.node->control.grammar == b->node->control.grammar && first.after == b->after && first.within == b->within &&
             first.since.indent == b->since.indent && first.since.brackets == b->since.brackets &&
             (is_same(first, *b) || (only_moves_parser(first) && only_moves_parser(*b))) &&
             is_same_state(a_, first.node->parent, b->node->parent);
    };
    charge(open.size());
    const auto rest = open.size() == 1 ? open.end() : std::stable_partition(open.begin(), open.end(), joins);
    group.clear();
    for (auto it = open.begin(); it != rest; ++it)
      if (std::none_of(group.begin(), group.end(), [&](const Arrival *b) { return is_same(**it, *b); })) group.push_back(*it);
    open.erase(open.begin(), rest);
    const Place &place = group.size() == 1 ? place_after(first.node, first.since, first.terminal) : place_after_all(group);
    if (!place.alive) continue;
    GrammarEntry entry = place.at;
    entry.within = first.within;
    take(first.node, entry, place.first, first.after);
  }
}

bool Masks::is_same(const Arrival &a, const Arrival &b) {
  return a.terminal == b.terminal && (a.since.set == b.since.set || a.since.set->identity == b.since.set->identity);
}

// Does its terminal change nothing but the Earley set, so that `advance` merges what it leads to with others?
bool Masks::only_moves_parser(const Arrival &a) const {
  GrammarControl &g = *a.node->control.grammar;
  return !g.grammar().indentation.active() && !g.lexer().ignores(a.terminal);
}

template <class Make>
const Masks::Place &Masks::remembered(bool lasts, const Hash128 &key, GrammarControl &g, const Node *n, const Make &make) {
  if (lasts)
    if (const auto it = places_.find(key); it != places_.end()) return *it->second;
  // subtle: what lasts is kept apart, since the walk's own memory is given back branch by branch.
  Arena &arena = lasts ? place_memory_ : r_->arena;
  Reader reader{arena};
  reader.reads = r_->reads;
  Place *place = arena.make<Place>();
  place->alive = make(reader, place->at);
  if (place->alive) {
    place->first = g.lexer().first(g.context(place->at.set->outlook, place->at.brackets > 0));
    if (goes_beyond(g, place->at.set, n)) place->first.set();
  }
  if (lasts) places_[key] = place;
  return *place;
}

// Where the parser stands after terminal `t`; found out once for a mask where it is asked of a set that lasts as long.
const Masks::Place &Masks::place_after(const Node *n, const GrammarEntry &entry, uint32_t t) {
  GrammarControl &g = *n->control.grammar;
  const bool lasts = !r_->arena.contains(entry.set);
  const Hash128 key = hash_words(PLACE, reinterpret_cast<uint64_t>(entry.set), static_cast<uint64_t>(t) << 32 | entry.within,
                                 reinterpret_cast<uint64_t>(entry.indent), entry.brackets, n->parent != nullptr);
  return remembered(lasts, key, g, n, [&](Reader &reader, GrammarEntry &at) {
    a_.count_step(*r_, g);  // each byte of a token may be a lexeme
    if (!g.lexer().ignores(t)) return a_.after_terminal(reader, g, entry, t, &at);
    at = entry;
    at.lex = Lexer::FRESH;
    at.column = 0;
    return true;
  });
}

// Where it stands after all of these, which end at one trie node.
const Masks::Place &Masks::place_after_all(const std::vector<const Arrival *> &ended) {
  const Arrival &first = *ended.front();
  const Node *n = first.node;
  GrammarControl &g = *n->control.grammar;
  bool lasts = true;
  Hash128 key = hash_words(PLACES, first.within, n->parent != nullptr);
  for (const Arrival *a : ended) {
    lasts = lasts && !r_->arena.contains(a->since.set);
    key = extend(extend(key, reinterpret_cast<uint64_t>(a->since.set)), a->terminal);
  }
  return remembered(lasts, key, g, n, [&](Reader &reader, GrammarEntry &at) {
    at = first.since;
    at.lex = Lexer::FRESH;
    at.column = 0;
    Earley::Builder builder(g.earley(), reader.reads);
    for (const Arrival *a : ended) {
      a_.count_step(*r_, g);
      builder.recognised(a->since.set, ~static_cast<Symbol>(a->terminal));
    }
    at.set = builder.finish(reader.arena);
    return at.set != nullptr;
  });
}

void Masks::forget_places() {
  places_.clear();
  place_memory_.release({});
}

}  // namespace structgen
