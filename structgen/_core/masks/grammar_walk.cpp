#include "masks/grammar_walk.h"

#include <algorithm>
#include <unordered_set>

#include "automaton/alternatives.h"
#include "masks/lexeme_tokens.h"
#include "masks/mask_builder.h"
#include "masks/text_tokens.h"

namespace structgen {
namespace {

// Is this a text that is read byte by byte, since another constraint may go on after each?
bool is_read_by_bytes(const Frame *n) { return is<ScalarFrame>(n) && is_open_ended(n); }

// Do the frames of two states show whether they differ? Those of grammars in grammars are made again at every position.
bool are_comparable(const Frame *a, const Frame *b) {
  const auto is_comparable = [](const Frame *n) {
    return is<ParserFrame>(n) || is<SequenceFrame>(n) || is<ScalarFrame>(n);
  };
  for (const Frame *n = a, *m = b; n != m; n = n->parent, m = m->parent)
    if (!n || !m || n->kind != m->kind || !is_comparable(n)) return false;
  return true;
}

// Do two states allow the same? False also where their frames do not show it.
bool allow_the_same(StepContext &ctx, const Frame *a, const Frame *b) {
  return are_comparable(a, b) && is_same_state(ctx, a, b);
}

// Adds a state to a list, as one with a state of the list that it can be joined with.
void add_joined(Automaton &automaton, StepContext &ctx, const Frame *state, std::vector<const Frame *> &states) {
  for (size_t i = 0; i < states.size(); ++i) {
    if (!are_comparable(states[i], state)) continue;
    if (const Frame *both = join(automaton, ctx, state, states[i])) {
      if (both == states[i]) return;
      states.erase(states.begin() + static_cast<std::ptrdiff_t>(i));
      return add_joined(automaton, ctx, both, states);
    }
  }
  states.push_back(state);
}

// Empties `open` in groups: the first one that is left, and all that join it. Calls `act` for each `group`.
template <class T, class Joins, class Act>
void each_group(std::vector<T> &open, std::vector<T> &group, const Joins &joins, const Act &act) {
  while (!open.empty()) {
    charge(open.size());
    const T first = open.front();
    const auto rest = open.size() == 1 ? open.end()
                                       : std::stable_partition(open.begin(), open.end(),
                                                               [&](const T &one) { return joins(first, one); });
    group.assign(open.begin(), rest);
    open.erase(open.begin(), rest);
    act();
  }
}

// Does a terminal change nothing but the Earley set, so that `advance` merges what it leads to with others?
bool only_moves_parser(GrammarControl &g, uint32_t terminal) {
  return !g.grammar().indentation.active() && !g.lexer().ignores(terminal);
}

// Are these one and the same single parse?
bool is_same_parse(const RunningLexeme &a, const RunningLexeme &b) {
  const LexemeParse &one = a.parses[0], &other = b.parses[0];
  return a.parses.size() == 1 && b.parses.size() == 1 && one.terminal == other.terminal &&
         (one.since == other.since || one.since->identity == other.since->identity);
}

// What distinguishes a parse from others: what its lexeme leads to, where enough is known of the set for that.
Hash128 outcome(const StepContext &ctx, GrammarControl &g, const LexemeParse &parse) {
  if (ctx.mask_dependencies && ctx.mask_dependencies->label(parse.since) != UINT32_MAX) return parse.since->identity;
  return g.earley().outcome(parse.since, ~static_cast<Symbol>(parse.terminal));
}

// Remembers hashes; few of them are searched one by one.
class HashSet {
 public:
  bool insert(const Hash128 &h) {
    if (few_.size() == FEW) return std::find(few_.begin(), few_.end(), h) == few_.end() && many_.insert(h).second;
    if (std::find(few_.begin(), few_.end(), h) != few_.end()) return false;
    few_.push_back(h);
    return true;
  }

 private:
  static constexpr size_t FEW = 24;
  InlineVector<Hash128, FEW> few_;
  std::unordered_set<Hash128, HashOf128> many_;
};

}  // namespace

// Parses that wait: the first trie node on top, and of one node the parse that came first.
class GrammarWalk::Agenda {
 public:
  void put(const Arrival &arrival);
  bool empty() const { return heap_.empty(); }
  Vocabulary::Node next() const { return static_cast<Vocabulary::Node>(heap_.front().key >> 32); }

  // The parses of the node that is visited. Their memory is kept, since a walk visits thousands of nodes.
  struct Visit {
    std::vector<const Arrival *> states, before, after;
    // States of grammars; states of other constraints; states of grammars, those with one frame as one.
    std::vector<const GrammarFrame *> merged;
    std::vector<const Frame *> others, frames;
    std::vector<const Arrival *> open, group;
    std::vector<const GrammarFrame *> same_frame;
  } visit;
  // Moves the parses that wait at `at` into `visit`.
  void take(Vocabulary::Node at);
  void begin_visit();  // ends the one before

 private:
  struct Waiting {
    uint64_t key;  // trie node, order of arrival
    Arrival *arrival;
  };
  static bool is_later(const Waiting &a, const Waiting &b) { return a.key > b.key; }
  std::vector<Waiting> heap_;
  std::deque<Arrival> arrivals_;
  std::vector<Arrival *> taken_, free_;
  uint32_t count_ = 0;
};

void GrammarWalk::Agenda::put(const Arrival &arrival) {
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

void GrammarWalk::Agenda::begin_visit() {
  free_.insert(free_.end(), taken_.begin(), taken_.end());
  taken_.clear();
  visit.states.clear(), visit.before.clear(), visit.after.clear();
}

void GrammarWalk::Agenda::take(Vocabulary::Node at) {
  while (!empty() && next() == at) {
    Arrival *const a = heap_.front().arrival;
    std::pop_heap(heap_.begin(), heap_.end(), is_later);
    heap_.pop_back();
    taken_.push_back(a);
    (a->kind == Arrival::State       ? visit.states
     : a->kind == Arrival::AfterByte ? visit.after
                                     : visit.before)
        .push_back(a);
  }
}

GrammarWalk::GrammarWalk(MaskBuilder &m)
    : m_(m), automaton_(m.automaton), vocabulary_(m.vocabulary), ctx_(m.ctx), positions_(m) {}

void GrammarWalk::arrive(const Arrival &arrival) {
  constexpr uint64_t ARRIVAL = 8;
  charge(ARRIVAL);
  m_.count(ARRIVAL);
  ++arrivals_;  // the memory that it points to is needed until it is visited: see `Branch`
  agenda_->put(arrival);
}

template <class Begin>
void GrammarWalk::run(const Begin &begin) {
  struct Open {
    Vocabulary::Node end;
    Arena::Mark mark;
  };
  Agenda agenda;
  struct Scope {
    GrammarWalk &walk;
    Agenda *const outer;
    const uint64_t arrivals = walk.arrivals_;
    ~Scope() {
      walk.agenda_ = outer;
      walk.arrivals_ = arrivals;
    }
  } const scope{*this, std::exchange(agenda_, &agenda)};
  const ArenaScope memory(ctx_.arena);
  begin();
  std::vector<Open> path;  // visited nodes whose subtrees have not been visited completely
  while (!agenda.empty()) {
    charge();
    const Vocabulary::Node at = agenda.next();
    while (!path.empty() && path.back().end <= at) {
      ctx_.arena.release(path.back().mark);
      path.pop_back();
    }
    path.push_back({vocabulary_.end(at), ctx_.arena.mark()});
    visit(at);
  }
}

void GrammarWalk::add_tokens(Vocabulary::Node at, const GrammarFrame *state) {
  if (agenda_) return arrive({Arrival::State, at, state});
  run([&] { add_grammar_tokens(m_, at, state); });
}

void GrammarWalk::add_tokens_at_position(const GrammarFrame *state, const GrammarEntry &position, Re forbidden) {
  run([&] { add_position_tokens(m_, Vocabulary::ROOT, state, position, forbidden); });
}

bool GrammarWalk::are_all_set(std::span<const uint32_t> ids) {
  constexpr size_t IDS_PER_UNIT = 32;
  const auto unset = std::find_if(ids.begin(), ids.end(), [&](uint32_t id) { return !m_.is_set(id); });
  const auto units = static_cast<uint64_t>(unset - ids.begin()) / IDS_PER_UNIT;
  charge(units);
  m_.count(units);
  return unset == ids.end();
}

void GrammarWalk::visit(Vocabulary::Node at) {
  Agenda &agenda = *agenda_;
  const Agenda::Visit &all = agenda.visit;
  agenda.begin_visit();
  agenda.take(at);
  const std::span<const uint32_t> ids = vocabulary_.ids_within(at);
  if (!all.states.empty() || !all.before.empty()) {
    if (are_all_set(ids)) return;
    visit_states(at);
    agenda.take(at);
  }
  if (all.after.empty() || are_all_set(ids.subspan(vocabulary_.ids(at).size()))) return;
  for_each_position(
      all.after, [&](const Arrival &a, const GrammarEntry &position, const std::bitset<256> &first_bytes) {
        const auto *state = as<GrammarFrame>(a.node);
        if (is_wide(at)) return add_position_tokens(m_, at, state, position, a.forbidden);
        for (const Vocabulary::Child *c = vocabulary_.children(at); !c->is_end; ++c) {
          if (!first_bytes.test(c->byte)) continue;
          Branch branch(m_);
          go_on(c->node, begin_at(automaton_, ctx_, *state->grammar, position, a.forbidden, c->byte, state->parent));
        }
      });
}

void GrammarWalk::step_by_bytes(Vocabulary::Node at, const Frame *state) {
  const std::bitset<256> candidates = automaton_.candidates(state);
  for (const Vocabulary::Child *c = vocabulary_.children(at); !c->is_end; ++c) {
    if (!candidates.test(c->byte)) continue;
    Branch branch(m_);
    go_on(c->node, automaton_.step(ctx_, state, c->byte));
  }
}

void GrammarWalk::visit_states(Vocabulary::Node at) {
  auto &[states, before, after, merged, others, frames, open, group, same_frame] = agenda_->visit;
  merged.clear(), others.clear(), frames.clear();
  auto add_one = [&](const Frame *node) {
    if (const auto *grammar = as_if<GrammarFrame>(node)) merged.push_back(grammar);
    else add_joined(automaton_, ctx_, node, others);
  };
  auto add = [&](const Frame *node) { each_alternative(node, add_one); };
  for (const Arrival *a : states) add(a->node);
  const uint8_t byte = vocabulary_.byte(at);
  for_each_position(before, [&](const Arrival &a, const GrammarEntry &position, const std::bitset<256> &first_bytes) {
    if (!first_bytes.test(byte)) return;
    GrammarControl &g = *as<GrammarFrame>(a.node)->grammar;
    const bool only_embedded = a.kind == Arrival::EmbeddedBeforeByte;
    if (only_embedded) automaton_.count_step(ctx_, g);
    const Frame *next = only_embedded ? begin_others_at(automaton_, ctx_, g, position, byte, a.node->parent)
                                      : begin_at(automaton_, ctx_, g, position, a.forbidden, byte, a.node->parent);
    if (next) add(next);
  });
  if (merged.empty() && others.empty()) return;
  m_.set_all(vocabulary_.ids(at));
  if (vocabulary_.end(at) == at + 1) return;
  const auto have_same_frame = [&](const GrammarFrame *a, const GrammarFrame *b) {
    return a->grammar == b->grammar && allow_the_same(ctx_, a->parent, b->parent);
  };
  each_group(merged, same_frame, have_same_frame,
             [&] { add_joined(automaton_, ctx_, merge_grammar_frames(automaton_, ctx_, same_frame), frames); });
  for (const Frame *node : frames) {
    if (is_wide(at)) add_grammar_tokens(m_, at, as<GrammarFrame>(node));
    else step_by_bytes(at, node);
  }
  for (const Frame *node : others) {
    if (!is_read_by_bytes(node)) m_.add_below(at, node);
    // Only at the root. Below it, the same tokens would be read again at each node of a token that has many parses.
    else if (at != Vocabulary::ROOT || !add_open_ended_text(m_, at, as<ScalarFrame>(node))) step_by_bytes(at, node);
  }
}

void GrammarWalk::go_on(Vocabulary::Node at, const Frame *next) {
  if (!next) return;
  const bool waits = is<GrammarFrame>(next) || is<AlternativesFrame>(next) || is_read_by_bytes(next);
  if (waits && vocabulary_.end(at) > at + 1) arrive({Arrival::State, at, next});
  else m_.add_from(at, next);
}

RunningLexeme GrammarWalk::lexeme(const GrammarEntry &entry, const Lexer::Running &running) {
  const auto *one = ctx_.arena.make<LexemeParse>(entry.set, running.terminal);
  return {running.lexeme, entry, {one, 1}};
}

std::vector<RunningLexeme> GrammarWalk::running_lexemes(const GrammarFrame *n) {
  GrammarControl &g = *n->grammar;
  std::vector<RunningLexeme> lexemes;
  std::vector<std::vector<LexemeParse>> joined;  // by lexeme
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
          index.try_emplace(static_cast<uint64_t>(running.lexeme) << 32 | entry.outer, lexemes.size());
      if (fresh) lexemes.push_back({running.lexeme, entry, {}});
      joined.resize(lexemes.size());
      joined[it->second].push_back({entry.set, running.terminal});
    }
  }
  for (size_t i = 0; i < joined.size(); ++i)
    if (!joined[i].empty()) lexemes[i].parses = store(joined[i]);
  return lexemes;
}

template <class Act>
void GrammarWalk::for_each_position(const std::vector<const Arrival *> &arrivals, const Act &act) {
  auto &[states, before, after, merged, others, frames, open, group, same_frame] = agenda_->visit;
  const auto joins = [&](const Arrival *a, const Arrival *b) {
    GrammarControl &g = *as<GrammarFrame>(a->node)->grammar;
    const GrammarEntry &one = a->ended.entry, &other = b->ended.entry;
    return a->kind == b->kind && &g == as<GrammarFrame>(b->node)->grammar && a->forbidden == b->forbidden &&
           a->outer == b->outer && one.indent == other.indent && one.brackets == other.brackets &&
           (is_same_parse(a->ended, b->ended) ||
            (only_moves_parser(g, a->ended.terminal()) && only_moves_parser(g, b->ended.terminal()))) &&
           allow_the_same(ctx_, a->node->parent, b->node->parent);
  };
  open = arrivals;
  each_group(open, group, joins, [&] {
    const Arrival &first = *group.front();
    const NextPosition &position =
        positions_.after(as<GrammarFrame>(first.node), group.size() == 1 ? first.ended : in_all_parses(group));
    if (!position.is_live) return;
    GrammarEntry entry = position.entry;
    entry.outer = first.outer;
    act(first, entry, position.first_bytes);
  });
}

RunningLexeme GrammarWalk::in_all_parses(const std::vector<const Arrival *> &arrivals) {
  parses_.clear();
  HashSet met;
  for (const Arrival *a : arrivals)
    for (const LexemeParse &one : a->ended.parses) {
      charge();
      if (met.insert(extend(outcome(ctx_, *as<GrammarFrame>(a->node)->grammar, one), one.terminal)))
        parses_.push_back(one);
    }
  RunningLexeme lexeme = arrivals.front()->ended;
  lexeme.parses = store(parses_);
  return lexeme;
}

std::span<const LexemeParse> GrammarWalk::store(const std::vector<LexemeParse> &parses) {
  auto *copy = static_cast<LexemeParse *>(ctx_.arena.allocate(parses.size() * sizeof(LexemeParse)));
  std::copy(parses.begin(), parses.end(), copy);
  return {copy, parses.size()};
}

}  // namespace structgen
