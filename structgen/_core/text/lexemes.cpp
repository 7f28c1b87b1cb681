#include "text/lexemes.h"

#include <algorithm>
#include <bit>
#include <map>
#include <string_view>

#include "text/lexeme_ends.h"
#include "vocabulary/looping.h"

namespace structgen {
namespace {

constexpr uint32_t WIDE = Vocabulary::WIDE;  // trie nodes after a lexeme that are walked in place, not merged
constexpr uint64_t ROW = 16, REST = 4, NODES_PER_UNIT = 4;  // units of work: one transition; the rest of one token
constexpr uint64_t STATE = 41;

size_t memory_of(const Lexemes::Leaves &l) {
  size_t total = (l.open.size() + l.few.size()) * sizeof(Lexemes::Leave);
  for (const auto *all : {&l.merged, &l.merged_few})
    for (const Lexemes::Rests &r : *all) total += r.trie.memory() + sizeof(r);
  return total;
}

}  // namespace

size_t Lexemes::Fragment::memory() const {
  return sizeof(*this) + turns.capacity() * sizeof(Turn) + (bits.size() + ids.size() + ends.size()) * 4 +
         memory_of(leaves) + memory_of(beyond);
}

Lexemes::Lexemes(TextSpace &space)
    : space_(space), regex_(space.regex()), v_(space.vocabulary()), ends_(std::make_unique<LexemeEnds>(*this)) {
  states_.emplace_back();
  rows_.emplace_back();
  complete_.push_back(false);
}

Lexemes::~Lexemes() = default;

size_t Lexemes::memory() const { return bytes_ + fragment_bytes_ + ends_->memory(); }

LexemeState Lexemes::begin(Re language, Re beyond, Re earlier) {
  if (earlier != RegexSpace::EMPTY) {
    const Re longer = regex_.intersect(earlier, regex_.complement(RegexSpace::EPSILON));
    if (!regex_.alive(longer)) earlier = RegexSpace::EMPTY;
    else language = regex_.intersect(language, regex_.complement(regex_.concat(longer, RegexSpace::ANY_TEXT)));
  }
  return intern(language, beyond, earlier);
}

LexemeState Lexemes::intern(Re language, Re beyond, Re earlier) {
  if (!regex_.alive(language)) return DEAD;
  charge(2);
  const Hash128 key = hash_words(STATE, language, beyond, earlier);
  if (auto it = index_.find(key); it != index_.end()) return it->second;
  const Re after = beyond == earlier ? beyond : regex_.alternate(beyond, earlier);
  State made;
  made.language = language;
  made.beyond = beyond;
  made.earlier = earlier;
  made.after = after;
  charge(6);
  const bool is_complete = regex_.nullable(language);  // subtle: before anything is stored, since a limit may end it
  states_.push_back(std::move(made));
  rows_.emplace_back();
  complete_.push_back(is_complete);
  bytes_ += sizeof(State) + 64;
  return index_[key] = static_cast<LexemeState>(states_.size() - 1);
}

LexemeState Lexemes::first_step(LexemeState s, uint8_t byte) {
  if (s == DEAD) return DEAD;
  if (const auto text = text_step(s))
    return byte == text->first ? intern(text->second, RegexSpace::EMPTY, RegexSpace::EMPTY) : DEAD;
  charge(ROW);
  auto row = std::make_unique<Row>();
  row->fill(UNKNOWN);
  const structgen::Row &language = regex_.row(states_[s].language);
  for (size_t b = 0; b < 256; ++b)
    if (language[b] == RegexSpace::EMPTY) (*row)[b] = DEAD;
  rows_[s] = std::move(row);
  bytes_ += sizeof(Row);
  const LexemeState to = (*rows_[s])[byte];
  return to != UNKNOWN ? to : next(s, byte);
}

// Most bytes lead to the same state as another one, so the entries of all of them are set together.
LexemeState Lexemes::next(LexemeState s, uint8_t byte) {
  static const structgen::Row nowhere{};
  const State &st = states_[s];
  const auto row_of = [&](Re re) -> const structgen::Row & {
    return re == RegexSpace::EMPTY ? nowhere : regex_.row(re);
  };
  const structgen::Row &language = regex_.row(st.language), &beyond = row_of(st.beyond), &earlier = row_of(st.earlier);
  const Re rest = language[byte], rest_beyond = beyond[byte], rest_earlier = earlier[byte];
  const LexemeState to = intern(rest, rest_beyond, rest_earlier);
  work_ += ROW;
  charge(ROW);
  Row &row = *rows_[s];
  for (size_t b = 0; b < 256; ++b)
    if (language[b] == rest && beyond[b] == rest_beyond && earlier[b] == rest_earlier) row[b] = to;
  return to;
}

const std::bitset<256> &Lexemes::first(LexemeState s) {
  State &st = states_[s];
  if (st.first) return *st.first;
  if (const auto text = regex_.text_step(st.language)) {
    st.first = std::make_unique<std::bitset<256>>();
    st.first->set(text->first);
  } else {
    st.first = std::make_unique<std::bitset<256>>(first_of(st.language));
  }
  return *st.first;
}

const std::bitset<256> &Lexemes::first_of(Re re) {
  if (auto it = first_bytes_.find(re); it != first_bytes_.end()) return it->second;
  std::bitset<256> bytes;
  if (const auto text = regex_.text_step(re)) {
    bytes.set(text->first);
  } else if (re != RegexSpace::EMPTY) {
    const structgen::Row &row = regex_.row(re);
    for (size_t b = 0; b < 256; ++b) bytes[b] = row[b] != RegexSpace::EMPTY;
  }
  return first_bytes_[re] = bytes;
}

const Lexemes::State &Lexemes::analyse(LexemeState s) {
  if (!states_[s].analysed) {
    const Kinds loops = looping_kinds(s, v_.spellable(),
                                      [&](LexemeState from, uint8_t b) { return from == DEAD ? DEAD : step(from, b); });
    std::bitset<256> overlaps;
    if (complete_[s])
      for (size_t b = 0; b < 256; ++b)
        overlaps[b] = step(s, static_cast<uint8_t>(b)) != DEAD && may_follow(s, static_cast<uint8_t>(b));
    bool words = (WORDS & ~loops) == 0;
    for (size_t b = 0; b < 256 && words; ++b) {
      const auto byte = static_cast<uint8_t>(b);
      if (is_word(byte)) words = step(s, byte) == s;
      else if (byte < 0x80) words = step(s, byte) == DEAD && (!complete_[s] || may_follow(s, byte));
    }
    State &st = states_[s];
    st.words = words;
    st.loops = loops;
    st.overlaps = overlaps;
    st.analysed = true;
  }
  return states_[s];
}

const Lexemes::Ahead *Lexemes::ahead(LexemeState s) {
  constexpr uint8_t OFTEN = 8;
  State &st = states_[s];
  if (st.ahead) return st.ahead.get();
  if (st.visits < OFTEN) {
    ++st.visits;
    return nullptr;
  }
  auto made = std::make_unique<Ahead>();
  const std::bitset<256> bytes = first(s);
  for (size_t b = 0; b < 256; ++b) {
    if (!bytes.test(b)) continue;
    if (b >= 0x80 && b < 0xC0) made->inside = true;
    else made->first |= kind_of(static_cast<uint8_t>(b));
  }
  const LexemeState to = step(s, 'a');
  bool same = to != DEAD && (WORDS & ~analyse(to).loops) == 0;
  for (size_t b = 0; b < 128 && same; ++b)
    if (is_word(static_cast<uint8_t>(b))) same = step(s, static_cast<uint8_t>(b)) == to;
  made->words_to = same ? to : DEAD;
  states_[s].ahead = std::move(made);
  return states_[s].ahead.get();
}

// Walks the trie in order, with the states of the path on a stack.
// - `inside` receives the ids of the tokens of one node.
// - `whole` receives the ids of a subtree that stays in one state; the first ids may end in another state. It returns
//   whether it takes the subtree as a whole.
// - `words` receives neighbouring subtrees in which words continue: the root of the first, and the node after the last.
// It
//   returns whether it takes them.
// - `leave` is called for nodes whose parent may be the end of the lexeme, with the states of the parent and of the
// node;
//   for children of `node` only if `node` itself is part of the lexeme.
// Long, because it is the innermost loop of all lexemes: calls would need the whole path.
template <class OnInside, class OnWhole, class OnWords, class OnLeave>
void Lexemes::walk(Vocabulary::Node node, LexemeState s, bool is_part, const OnInside &inside, const OnWhole &whole,
                   const OnWords &words, const OnLeave &leave) {
  struct Level {
    const Vocabulary::Child *next;
    LexemeState state;
    bool in_word, only_words;  // is the node in a word at the start of a token; are all tokens below it words?
  };
  const auto is_only_words = [](Kinds below) { return (below & ~WORDS) == 0; };
  const Vocabulary::Node space = v_.root_child(' ');
  uint64_t visited = 0;
  std::vector<Level> path{{v_.children(node), s, node == Vocabulary::ROOT || node == space || v_.has_words(node),
                           is_only_words(v_.kinds_below(node))}};
  while (!path.empty()) {
    charge();
    Level &level = path.back();
    const Vocabulary::Child &c = *level.next;
    if (c.is_end) {
      path.pop_back();
      continue;
    }
    const Vocabulary::Child &after = *++level.next;
    ++visited;
    const auto depth = static_cast<uint32_t>(path.size());
    const LexemeState before = level.state, now = step(before, c.byte);
    if ((depth > 1 || is_part) && complete_[before]) leave(c.node, c.byte, depth, before, now);
    if (now == DEAD) continue;
    if (is_word(c.byte) && (level.only_words || level.in_word) && reads_words(now)) {
      const Vocabulary::Child *end = &after;
      while (!end->is_end && is_word(end->byte) && step(before, end->byte) == now) ++end;
      const auto all = [&] {
        if (level.only_words) return whole(v_.ids_between(c.first_id, end->first_id), 0, now, now);
        return (c.has_words || end != &after) && words(c.node, end->node, now);
      };
      if (all()) {
        level.next = end;
        if ((depth > 1 || is_part) && complete_[before])
          for (const Vocabulary::Child *other = &after; other != end; ++other)
            leave(other->node, other->byte, depth, before, now);
        continue;
      }
    }
    if (c.children == 0) {
      inside(v_.ids_between(c.first_id, after.first_id), c.node, depth, now);
      continue;
    }
    const auto ids = v_.ids_between(c.first_id, after.first_id);
    if (const Ahead *ahead = this->ahead(now); ahead && c.own != Vocabulary::MANY_OWN) {
      const Kinds kinds = v_.kinds_of(c);
      if ((kinds & ahead->first) == 0 && !ahead->inside && !complete_[now]) {
        inside(ids.first(c.own), c.node, depth, now);
        continue;
      }
      if ((kinds & ~WORDS) == 0 && ahead->words_to != DEAD && whole(ids, c.own, now, ahead->words_to)) continue;
    }
    const Vocabulary::Child *below = v_.children_at(c.children);
    if (stays(c, below, now) && whole(ids, 0, now, now)) continue;
    inside(v_.ids_between(c.first_id, below->first_id), c.node, depth, now);
    const bool in_word = level.in_word && (is_word(c.byte) || c.node == space);
    path.push_back({below, now, in_word, is_only_words(v_.kinds_of(c))});
  }
  work_ += visited / NODES_PER_UNIT;
}

// The nodes on the path to the current node of a walk. Whether one is a turn is decided only when a token leaves it,
// since this takes a look at each of its children.
class Lexemes::Path {
 public:
  // `node`: the start of the path; it can be a turn only if it is part of the lexeme.
  explicit Path(Vocabulary::Node node, bool is_part) : steps_{{node, !is_part, false}} {}
  void go(Vocabulary::Node node, uint32_t depth) {
    steps_.resize(depth);
    steps_.push_back({node, false, false});
  }
  // Is the parent, whose state is `s`, a turn? Calls `found` for each turn once.
  template <class Found>
  bool turns(Lexemes &lexemes, uint32_t depth, LexemeState s, const Found &found) {
    Step &step = steps_[depth - 1];
    if (!step.is_known) {
      step.is_known = true;
      step.turns = lexemes.turns(step.node, s);
      if (step.turns) found(step.node);
    }
    return step.turns;
  }

 private:
  struct Step {
    Vocabulary::Node node;
    bool is_known, turns;
  };
  std::vector<Step> steps_;  // by depth
};

// Do many tokens below `node` continue after a lexeme that ends there?
bool Lexemes::turns(Vocabulary::Node node, LexemeState s) {
  const Vocabulary::Node end = v_.end(node);
  if (!complete_[s] || end - node <= WIDE) return false;
  uint32_t many = 0;
  for (const Vocabulary::Child *c = v_.children(node); !c->is_end && many <= WIDE; ++c)
    if (step(s, c->byte) == DEAD && may_follow(s, c->byte)) many += c[1].node - c->node;
  return many > WIDE;
}

// Collects what a walk finds, and makes a fragment of it.
class Lexemes::FragmentBuilder {
 public:
  explicit FragmentBuilder(Lexemes &lexemes) : lexemes_(lexemes), v_(lexemes.v_) {}

  void walk_below(Vocabulary::Node at, LexemeState state, bool is_part);
  // Copies `similar`, and walks the trie below the first bytes in which it differs.
  void copy(const Fragment &similar, LexemeState s, const std::bitset<256> &differing);
  std::unique_ptr<Fragment> finish(Vocabulary::Node node);

 private:
  void add(std::span<const uint32_t> ids, LexemeState end) {
    if (ids.empty()) return;
    count_ += ids.size();
    if (!inside_.empty() && inside_.back().data() + inside_.back().size() == ids.data())
      inside_.back() = {inside_.back().data(), inside_.back().size() + ids.size()};
    else inside_.push_back(ids);
    if (end != last_end_ && ends_.insert(end).second) made_->ends.push_back(end);
    last_end_ = end;
  }
  Re after(LexemeState s) const { return lexemes_.states_[s].after; }
  void take_words(const Vocabulary::Words &words, LexemeState now);

  Lexemes &lexemes_;
  const Vocabulary &v_;
  std::unique_ptr<Fragment> made_ = std::make_unique<Fragment>();
  std::vector<Leave> leaves_;
  std::unordered_set<LexemeState> ends_;
  LexemeState last_end_ = DEAD;
  std::vector<std::span<const uint32_t>> inside_;  // ids, neighbouring ones together
  size_t count_ = 0;                               // of these ids
  bool copied_ = false;
};

void Lexemes::FragmentBuilder::walk_below(Vocabulary::Node at, LexemeState state, bool is_part) {
  Path path(at, is_part);
  Vocabulary::WordsPlace words_place;
  lexemes_.walk(
      at, state, is_part,
      [&](std::span<const uint32_t> ids, Vocabulary::Node n, uint32_t depth, LexemeState now) {
        path.go(n, depth);
        add(ids, now);
      },
      [&](std::span<const uint32_t> ids, size_t own, LexemeState now, LexemeState below) {
        add(ids.first(own), now);
        add(ids.subspan(own), below);
        made_->overlaps |= lexemes_.analyse(now).overlaps | lexemes_.analyse(below).overlaps;  // or some of these
        return true;
      },
      [&](Vocabulary::Node first, Vocabulary::Node end, LexemeState now) {
        take_words(v_.words_between(first, end, words_place), now);
        return true;
      },
      [&](Vocabulary::Node n, uint8_t byte, uint32_t depth, LexemeState before, LexemeState now) {
        if (!lexemes_.may_follow(before, byte) || (now != DEAD && made_->overlaps.test(byte))) return;
        auto turn = [&](Vocabulary::Node to) { made_->turns.push_back({to, after(before)}); };
        if (path.turns(lexemes_, depth, before, turn)) return;
        if (now != DEAD) made_->overlaps.set(byte);
        else leaves_.push_back({n, after(before)});
      });
}

void Lexemes::FragmentBuilder::take_words(const Vocabulary::Words &words, LexemeState now) {
  add(words.ids, now);
  const bool ends = lexemes_.complete_[now];
  if (ends) {
    made_->overlaps |= lexemes_.analyse(now).overlaps;
    for (Vocabulary::Node turn : words.turns) made_->turns.push_back({turn, after(now)});
    for (Vocabulary::Node leave : words.leaves) leaves_.push_back({leave, after(now)});
  }
  for (Vocabulary::Node beyond : words.beyond) {
    const uint8_t byte = v_.byte(beyond);
    const LexemeState then = lexemes_.step(now, byte);
    if (then == DEAD) {
      if (ends && lexemes_.may_follow(now, byte)) leaves_.push_back({beyond, after(now)});
      continue;
    }
    add(v_.ids(beyond), then);
    walk_below(beyond, then, true);
  }
}

void Lexemes::FragmentBuilder::copy(const Fragment &similar, LexemeState s, const std::bitset<256> &differing) {
  copied_ = true;
  for (const Vocabulary::Child *c = v_.children(Vocabulary::ROOT); !c->is_end; ++c) {
    const LexemeState now = differing.test(c->byte) ? lexemes_.step(s, c->byte) : DEAD;
    if (now == DEAD) continue;
    add(v_.ids(c->node), now);
    walk_below(c->node, now, true);
  }
  lexemes_.copy_outside(similar, differing, *made_, leaves_);
  for (const LexemeState end : similar.ends)
    if (ends_.insert(end).second) made_->ends.push_back(end);  // also those that only tokens below these bytes reach
}

std::unique_ptr<Lexemes::Fragment> Lexemes::FragmentBuilder::finish(Vocabulary::Node node) {
  const bool few = leaves_.size() <= FEW_LEAVES || lexemes_.is_narrow(node);
  for (const Leave &l : leaves_) {
    const uint8_t byte = v_.byte(l.node);
    Leaves &leaves = byte < 0x80 ? made_->leaves : made_->beyond;
    (few ? leaves.few : leaves.open).push_back(l);
    leaves.bytes.set(byte);
  }
  made_->dense = copied_ || count_ > v_.many();
  if (made_->dense) {
    if (!copied_) made_->bits.assign(v_.words(), 0);
    for (auto &ids : inside_)
      for (uint32_t id : ids) made_->bits[id >> 5] |= 1u << (id & 31);
  } else {
    made_->ids.reserve(count_);
    for (auto &ids : inside_) made_->ids.insert(made_->ids.end(), ids.begin(), ids.end());
  }
  return std::move(made_);
}

Lexemes::Fragment &Lexemes::fragment(Vocabulary::Node node, LexemeState s) {
  const uint64_t key = static_cast<uint64_t>(node) << 32 | s;
  if (auto it = fragments_.find(key); it != fragments_.end()) return *it->second;
  FragmentBuilder builder(*this);
  std::bitset<256> differing;
  const Fragment *const similar = node == Vocabulary::ROOT ? similar_fragment(s, &differing) : nullptr;
  if (similar) builder.copy(*similar, s, differing);
  else builder.walk_below(node, s, false);
  std::unique_ptr<Fragment> made = builder.finish(node);
  if (node == Vocabulary::ROOT && made->dense) dense_at_root_[step(s, 'a')] = s;
  auto &place = fragments_[key];
  place = std::move(made);
  fragment_bytes_ += place->memory();
  return *place;
}

void Lexemes::make_overlapping(Vocabulary::Node node, LexemeState s, Fragment &f, const std::bitset<256> &bytes) {
  std::bitset<256> missing = bytes;
  for (auto &[byte, leaves] : f.overlapping) missing.reset(byte);
  if (missing.none()) return;
  // If nothing may forbid them, tokens that stay inside are allowed. Then no other reading of them matters.
  const bool allowed = states_[s].beyond == RegexSpace::EMPTY;
  std::vector<bool> inside;
  if (allowed) {
    inside.resize(v_.size());
    for (uint32_t id : f.ids) inside[id] = true;
    for (uint32_t w = 0; w < f.bits.size(); ++w)
      for (uint32_t rest = f.bits[w]; rest; rest &= rest - 1)
        inside[w * 32 + static_cast<uint32_t>(std::countr_zero(rest))] = true;
  }
  std::array<std::vector<Leave>, 256> found;
  Path path(node, false);
  walk(
      node, s, false,
      [&](std::span<const uint32_t>, Vocabulary::Node n, uint32_t depth, LexemeState) { path.go(n, depth); },
      [&](std::span<const uint32_t>, size_t, LexemeState now, LexemeState below) {
        return allowed || ((analyse(now).overlaps | analyse(below).overlaps) & missing).none();
      },
      [](Vocabulary::Node, Vocabulary::Node, LexemeState) { return false; },
      [&](Vocabulary::Node n, uint8_t byte, uint32_t depth, LexemeState before, LexemeState now) {
        if (now != DEAD && missing.test(byte) && may_follow(before, byte) && !(allowed && stays(n, now)) &&
            !path.turns(*this, depth, before, [](Vocabulary::Node) {}))
          found[byte].push_back({n, states_[before].after});
      });
  for (size_t b = 0; b < 256; ++b) {
    if (!missing.test(b)) continue;
    Leaves made;
    if (found[b].size() > FEW_LEAVES && !is_narrow(node)) made = gather(found[b], inside);
    if (made.merged.empty() || !is_smaller(made, found[b])) {
      made = {};
      made.few = std::move(found[b]);
    }
    fragment_bytes_ += memory_of(made);
    f.overlapping[static_cast<uint8_t>(b)] = std::move(made);  // subtle: only now, since a limit may end `gather`
  }
}

const std::vector<Lexemes::Leave> &Lexemes::each_leave(Vocabulary::Node node, LexemeState s) {
  const uint64_t key = static_cast<uint64_t>(node) << 32 | s;
  if (auto it = each_leave_.find(key); it != each_leave_.end()) return it->second;
  std::vector<Leave> found;
  walk(
      node, s, false, [](std::span<const uint32_t>, Vocabulary::Node, uint32_t, LexemeState) {},
      [&](std::span<const uint32_t>, size_t, LexemeState now, LexemeState below) {
        return (analyse(now).overlaps | analyse(below).overlaps).none();
      },
      [](Vocabulary::Node, Vocabulary::Node, LexemeState) { return false; },
      [&](Vocabulary::Node n, uint8_t byte, uint32_t, LexemeState before, LexemeState) {
        if (may_follow(before, byte)) found.push_back({n, states_[before].after});
      });
  fragment_bytes_ += found.size() * sizeof(Leave);
  return each_leave_[key] = std::move(found);
}

void Lexemes::merge(Leaves &leaves) {
  leaves.merged = gather(leaves.open, {}).merged;
  leaves.open = {};
  fragment_bytes_ += memory_of(leaves);
}

void Lexemes::merge_few(Leaves &leaves) {
  leaves.merged_few = gather(leaves.few, {}).merged;
  for (const Rests &r : leaves.merged_few) fragment_bytes_ += r.trie.memory() + sizeof(r);
}

// Do the merged rests have fewer nodes than the subtrees of the trie where tokens leave the lexeme? A token that can
// leave it at many nodes, like a run of one character, has as many rests.
bool Lexemes::is_smaller(const Leaves &merged, const std::vector<Leave> &found) const {
  size_t rests = 0, nodes = 0;
  for (const Rests &some : merged.merged) rests += some.trie.bytes.size();
  Vocabulary::Node end = 0;
  for (const Leave &l : found) {
    charge();
    if (l.node < end) continue;
    end = v_.end(l.node);
    nodes += end - l.node;
  }
  return rests < nodes;
}

// Merges the rests of tokens from all of the nodes. `known`: by id, tokens that may be omitted, unless it is empty.
Lexemes::Leaves Lexemes::gather(const std::vector<Leave> &found, const std::vector<bool> &known) {
  Leaves out;
  std::map<Re, std::vector<RestTrie::Rest>> merged;
  for (const Leave &l : found) {
    out.bytes.set(v_.byte(l.node));
    const size_t skip = v_.depth(l.node) - 1;
    auto &tokens = merged[l.after];
    const auto [first, end] = v_.places_within(l.node);
    work_ += REST * (end - first);
    for (uint32_t place = first; place < end; ++place) {
      const uint32_t id = v_.id_at(place);
      if (known.empty() || !known[id]) tokens.push_back({v_.token_at(place).substr(skip), {id, 0}});
    }
  }
  for (auto &[after, tokens] : merged) out.merged.push_back({after, RestTrie(std::move(tokens))});
  return out;
}

void Lexemes::make_room() {
  if (ends_->memory() > space_.limits().fragment_cache_bytes) ends_->clear();
  if (fragment_bytes_ <= space_.limits().fragment_cache_bytes) return;
  fragments_.clear();
  dense_at_root_.clear();
  each_leave_.clear();
  fragment_bytes_ = 0;
  ++generation_;
}

}  // namespace structgen
