#include "text/lexemes.h"

#include "text/lexeme_ends.h"

#include <algorithm>
#include <bit>
#include <map>
#include <string_view>

#include "vocabulary/looping.h"

namespace structgen {
namespace {

constexpr uint64_t AFTER = 91;
constexpr size_t NEAR_READ = 48, NEAR_STATES = 16;  // in which it is decided what must not follow: as met, and merged
constexpr uint32_t FORBIDDEN = UINT32_MAX - 1, NOWHERE = UINT32_MAX;
constexpr uint32_t WIDE = Vocabulary::WIDE;  // trie nodes after a lexeme that are walked in place rather than merged
constexpr uint64_t ROW = 16, REST = 4, NODES_PER_UNIT = 4;  // units of work: where a byte leads; the rest of one token
constexpr uint64_t STATE = 41;

size_t memory_of(const Lexemes::Leaves &l) {
  size_t total = (l.open.size() + l.few.size()) * sizeof(Lexemes::Leave);
  for (const auto *all : {&l.merged, &l.merged_few})
    for (const Lexemes::Rests &r : *all) total += r.trie.memory() + sizeof(r);
  return total;
}

}  // namespace

size_t Lexemes::Fragment::memory() const {
  return sizeof(*this) + turns.capacity() * sizeof(Turn) + (bits.size() + ids.size() + ends.size()) * 4 + memory_of(leaves) +
         memory_of(beyond);
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
  const bool is_complete = regex_.nullable(language);  // subtle: a limit may be met in there
  states_.push_back(std::move(made));
  rows_.emplace_back();
  complete_.push_back(is_complete);
  bytes_ += sizeof(State) + 64;
  return index_[key] = static_cast<LexemeState>(states_.size() - 1);
}

LexemeState Lexemes::first_step(LexemeState s, uint8_t byte) {
  if (s == DEAD) return DEAD;
  if (const auto text = text_step(s)) return byte == text->first ? intern(text->second, RegexSpace::EMPTY, RegexSpace::EMPTY) : DEAD;
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

// Most bytes lead where another one does, so all that do are settled with it.
LexemeState Lexemes::next(LexemeState s, uint8_t byte) {
  static const structgen::Row nowhere{};
  const State &st = states_[s];
  const auto row_of = [&](Re re) -> const structgen::Row & { return re == RegexSpace::EMPTY ? nowhere : regex_.row(re); };
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

Re Lexemes::near(Re after) {
  if (after == RegexSpace::EMPTY) return after;
  if (const auto it = near_.find(after); it != near_.end()) return it->second;
  // The automaton up to where something is forbidden: its states, first met first, and where bytes lead.
  std::vector<Re> states{after};
  std::unordered_map<Re, uint32_t> number{{after, 0}};
  std::vector<std::array<uint32_t, 256>> moves;
  for (size_t at = 0; at < states.size() && states.size() <= NEAR_READ; ++at) {
    const structgen::Row &row = regex_.row(states[at]);
    std::array<uint32_t, 256> &to = moves.emplace_back();
    for (size_t b = 0; b < 256; ++b) {
      if (row[b] == RegexSpace::EMPTY) to[b] = NOWHERE;
      else if (regex_.nullable(row[b])) to[b] = FORBIDDEN;
      else {
        const auto [it, is_new] = number.try_emplace(row[b], static_cast<uint32_t>(states.size()));
        if (is_new) states.push_back(row[b]);
        to[b] = it->second;
      }
    }
  }
  auto begun = [&] {
    const Re cut = near(after, NEAR);
    cut_.insert(cut);
    return near_[after] = cut;
  };
  if (states.size() > NEAR_READ) return begun();
  // States that forbid the same are one (Moore); the numbers of the rest are those in which they are met.
  std::vector<uint32_t> part(states.size(), 0);
  for (size_t parts = 0;;) {
    std::map<std::vector<uint32_t>, uint32_t> known;
    std::vector<uint32_t> next;
    for (size_t s = 0; s < states.size(); ++s) {
      std::vector<uint32_t> seen;
      for (uint32_t to : moves[s]) seen.push_back(to >= FORBIDDEN ? to : part[to]);
      next.push_back(known.try_emplace(std::move(seen), static_cast<uint32_t>(known.size())).first->second);
    }
    part = std::move(next);
    if (known.size() == parts) break;
    parts = known.size();
  }
  if (*std::max_element(part.begin(), part.end()) >= NEAR_STATES) return begun();
  std::vector<uint32_t> order{0}, place(states.size(), NOWHERE);
  place[part[0]] = 0;
  Hash128 identity = hash_words(AFTER);
  for (size_t at = 0; at < order.size(); ++at)
    for (uint32_t to : moves[order[at]]) {
      if (to < FORBIDDEN && place[part[to]] == NOWHERE) {
        place[part[to]] = static_cast<uint32_t>(order.size());
        order.push_back(to);
      }
      identity = extend(identity, to < FORBIDDEN ? place[part[to]] : to);
    }
  return near_[after] = alike_.try_emplace(identity, after).first->second;
}

// By characters, for what a class of ASCII letters leads to at once; behind any other character nothing is told apart.
Re Lexemes::near(Re after, uint32_t most) {
  const uint64_t key = static_cast<uint64_t>(after) << 32 | most;
  if (const auto it = near_in_.find(key); it != near_in_.end()) return it->second;
  const structgen::Row &row = regex_.row(after);
  std::map<Re, std::vector<CodeRange>> groups;
  for (uint32_t b = 0; b < 0x80; ++b) {
    if (row[b] == RegexSpace::EMPTY) continue;
    const bool decided = most == 1 || regex_.nullable(row[b]);
    std::vector<CodeRange> &ranges = groups[decided ? RegexSpace::EPSILON : near(row[b], most - 1)];
    if (!ranges.empty() && ranges.back().hi + 1 == b) ranges.back().hi = b;
    else ranges.push_back({b, b});
  }
  if (std::any_of(row.begin() + 0x80, row.end(), [](Re to) { return to != RegexSpace::EMPTY; }))
    groups[RegexSpace::EPSILON].push_back({0x80, 0x10FFFF});
  std::vector<Re> parts;
  for (const auto &[behind, ranges] : groups) parts.push_back(regex_.concat(regex_.text_class(ranges), behind));
  return near_in_[key] = regex_.alternate(parts);
}

const Lexemes::State &Lexemes::looked_at(LexemeState s) {
  if (!states_[s].looked_at) {
    const Kinds loops =
        looping_kinds(s, v_.spellable(), [&](LexemeState from, uint8_t b) { return from == DEAD ? DEAD : step(from, b); });
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
    st.looked_at = true;
  }
  return states_[s];
}

const Lexemes::Ahead *Lexemes::ahead(LexemeState s) {
  constexpr uint8_t OFTEN = 8;
  State &st = states_[s];
  if (st.ahead) return st.ahead.get();
  if (st.met < OFTEN) {
    ++st.met;
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
  bool same = to != DEAD && (WORDS & ~looked_at(to).loops) == 0;
  for (size_t b = 0; b < 128 && same; ++b)
    if (is_word(static_cast<uint8_t>(b))) same = step(s, static_cast<uint8_t>(b)) == to;
  made->words_to = same ? to : DEAD;
  states_[s].ahead = std::move(made);
  return states_[s].ahead.get();
}

// In order of the trie, with the states of the path on a stack. `inside` is told the ids of a node's own tokens, `whole`
// those of a subtree that stays in one state (its own first, if that one is another), which it may take as it is, as
// `words` may take some side by side in which names go on: the first one's top, and the node behind the last.
// `leave` is asked at nodes whose parent may be the end of the lexeme, with the parent's state and the node's own; at
// the children of `node` only where it is a part of the lexeme itself.
template <class OnInside, class OnWhole, class OnWords, class OnLeave>
void Lexemes::walk(Vocabulary::Node node, LexemeState s, bool is_part, const OnInside &inside, const OnWhole &whole,
                   const OnWords &words, const OnLeave &leave) {
  struct Level {
    const Vocabulary::Child *next;
    LexemeState state;
    bool in_word, only_words;  // of tokens: is the node in a word at their beginning; is all below it one?
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
    if (is_word(c.byte) && (level.only_words || level.in_word) && goes_on(now)) {
      const Vocabulary::Child *end = &after;
      while (!end->is_end && is_word(end->byte) && step(before, end->byte) == now) ++end;
      const auto all = [&] {
        if (level.only_words) return whole(v_.ids_between(c.first_id, end->first_id), 0, now, now);
        return (c.has_words || end != &after) && words(c.node, end->node, now);
      };
      if (all()) {
        level.next = end;
        if ((depth > 1 || is_part) && complete_[before])
          for (const Vocabulary::Child *other = &after; other != end; ++other) leave(other->node, other->byte, depth, before, now);
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

// The nodes on the way to the one that a walk looks at. Whether one turns is found out where a token leaves it only: it
// means a look at each of its children.
class Lexemes::Way {
 public:
  // `node`: where the way begins, of which a lexeme that begins there is no part.
  explicit Way(Vocabulary::Node node, bool is_part) : steps_{{node, !is_part, false}} {}
  void go(Vocabulary::Node node, uint32_t depth) {
    steps_.resize(depth);
    steps_.push_back({node, false, false});
  }
  // Does the parent, whose state is `s`, turn? `found` is called where it does, once.
  template <class Found>
  bool turns(Lexemes &lexemes, uint32_t depth, LexemeState s, const Found &found) {
    Step &step = steps_[depth - 1];
    if (!step.asked) {
      step.asked = true;
      step.turns = lexemes.turns(step.node, s);
      if (step.turns) found(step.node);
    }
    return step.turns;
  }

 private:
  struct Step {
    Vocabulary::Node node;
    bool asked, turns;
  };
  std::vector<Step> steps_;  // by depth
};

// Do many tokens below `node` go on after a lexeme that ends there?
bool Lexemes::turns(Vocabulary::Node node, LexemeState s) {
  const Vocabulary::Node end = v_.end(node);
  if (!complete_[s] || end - node <= WIDE) return false;
  uint32_t many = 0;
  for (const Vocabulary::Child *c = v_.children(node); !c->is_end && many <= WIDE; ++c)
    if (step(s, c->byte) == DEAD && may_follow(s, c->byte)) many += c[1].node - c->node;
  return many > WIDE;
}

Lexemes::Fragment &Lexemes::fragment(Vocabulary::Node node, LexemeState s) {
  const uint64_t key = static_cast<uint64_t>(node) << 32 | s;
  if (auto it = fragments_.find(key); it != fragments_.end()) return *it->second;
  auto made = std::make_unique<Fragment>();
  std::vector<Leave> found;
  std::unordered_map<LexemeState, bool> ends;
  LexemeState last = DEAD;
  std::vector<std::span<const uint32_t>> inside;
  size_t count = 0;
  auto add = [&](std::span<const uint32_t> ids, LexemeState end) {
    if (ids.empty()) return;
    count += ids.size();
    if (!inside.empty() && inside.back().data() + inside.back().size() == ids.data())
      inside.back() = {inside.back().data(), inside.back().size() + ids.size()};
    else
      inside.push_back(ids);
    if (end != last && ends.try_emplace(end, true).second) made->ends.push_back(end);
    last = end;
  };
  auto look_below = [&](const auto &again, Vocabulary::Node at, LexemeState state, bool is_part) -> void {
    Way way(at, is_part);
    Vocabulary::WordsPlace words_place;
    walk(
        at, state, is_part,
        [&](std::span<const uint32_t> ids, Vocabulary::Node n, uint32_t depth, LexemeState now) {
          way.go(n, depth);
          add(ids, now);
        },
        [&](std::span<const uint32_t> ids, size_t own, LexemeState now, LexemeState below) {
          add(ids.first(own), now);
          add(ids.subspan(own), below);
          made->overlaps |= looked_at(now).overlaps | looked_at(below).overlaps;  // or some of these
          return true;
        },
        [&](Vocabulary::Node first, Vocabulary::Node end, LexemeState now) {
          const Vocabulary::Words words = v_.words_between(first, end, words_place);
          add(words.ids, now);
          const bool ends = complete_[now];
          if (ends) {
            made->overlaps |= looked_at(now).overlaps;
            for (Vocabulary::Node turn : words.turns) made->turns.push_back({turn, states_[now].after});
            for (Vocabulary::Node leave : words.leaves) found.push_back({leave, states_[now].after});
          }
          for (Vocabulary::Node beyond : words.beyond) {
            const uint8_t byte = v_.byte(beyond);
            const LexemeState then = step(now, byte);
            if (then == DEAD) {
              if (ends && may_follow(now, byte)) found.push_back({beyond, states_[now].after});
              continue;
            }
            add(v_.ids(beyond), then);
            again(again, beyond, then, true);
          }
          return true;
        },
        [&](Vocabulary::Node n, uint8_t byte, uint32_t depth, LexemeState before, LexemeState now) {
          if (!may_follow(before, byte) || (now != DEAD && made->overlaps.test(byte))) return;
          auto turn = [&](Vocabulary::Node to) { made->turns.push_back({to, states_[before].after}); };
          if (way.turns(*this, depth, before, turn)) return;
          if (now != DEAD) made->overlaps.set(byte);
          else found.push_back({n, states_[before].after});
        });
  };
  std::bitset<256> differing;
  const Fragment *const similar = node == Vocabulary::ROOT ? similar_fragment(s, &differing) : nullptr;
  if (similar) {
    for (const Vocabulary::Child *c = v_.children(node); !c->is_end; ++c) {
      const LexemeState now = differing.test(c->byte) ? step(s, c->byte) : DEAD;
      if (now == DEAD) continue;
      add(v_.ids(c->node), now);
      look_below(look_below, c->node, now, true);
    }
    copy_outside(*similar, differing, *made, found);
    for (const LexemeState end : similar->ends)
      if (ends.try_emplace(end, true).second) made->ends.push_back(end);  // where it ends below those bytes alone, too
  } else {
    look_below(look_below, node, s, false);
  }
  const bool few = found.size() <= FEW_LEAVES || is_narrow(node);
  for (const Leave &l : found) {
    const uint8_t byte = v_.byte(l.node);
    Leaves &leaves = byte < 0x80 ? made->leaves : made->beyond;
    (few ? leaves.few : leaves.open).push_back(l);
    leaves.bytes.set(byte);
  }
  made->dense = similar || count > v_.many();
  if (made->dense) {
    if (!similar) made->bits.assign(v_.words(), 0);
    for (auto &ids : inside)
      for (uint32_t id : ids) made->bits[id >> 5] |= 1u << (id & 31);
  } else {
    made->ids.reserve(count);
    for (auto &ids : inside) made->ids.insert(made->ids.end(), ids.begin(), ids.end());
  }
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
  // Tokens that stay inside are allowed anyway, where nothing may forbid it: no other way to read them need be tried.
  const bool allowed = states_[s].beyond == RegexSpace::EMPTY;
  std::vector<bool> inside;
  if (allowed) {
    inside.resize(v_.size());
    for (uint32_t id : f.ids) inside[id] = true;
    for (uint32_t w = 0; w < f.bits.size(); ++w)
      for (uint32_t rest = f.bits[w]; rest; rest &= rest - 1) inside[w * 32 + static_cast<uint32_t>(std::countr_zero(rest))] = true;
  }
  std::array<std::vector<Leave>, 256> found;
  Way way(node, false);
  walk(
      node, s, false, [&](std::span<const uint32_t>, Vocabulary::Node n, uint32_t depth, LexemeState) { way.go(n, depth); },
      [&](std::span<const uint32_t>, size_t, LexemeState now, LexemeState below) {
        return allowed || ((looked_at(now).overlaps | looked_at(below).overlaps) & missing).none();
      },
      [](Vocabulary::Node, Vocabulary::Node, LexemeState) { return false; },
      [&](Vocabulary::Node n, uint8_t byte, uint32_t depth, LexemeState before, LexemeState now) {
        if (now != DEAD && missing.test(byte) && may_follow(before, byte) && !(allowed && stays(n, now)) &&
            !way.turns(*this, depth, before, [](Vocabulary::Node) {}))
          found[byte].push_back({n, states_[before].after});
      });
  for (size_t b = 0; b < 256; ++b) {
    if (!missing.test(b)) continue;
    Leaves made;
    if (found[b].size() > FEW_LEAVES && !is_narrow(node)) made = gather(found[b], inside);
    if (made.merged.empty() || !saves(made, found[b])) {
      made = {};
      made.few = std::move(found[b]);
    }
    fragment_bytes_ += memory_of(made);
    f.overlapping[static_cast<uint8_t>(b)] = std::move(made);  // subtle: last, since a limit may be met in `gather`
  }
}

const std::vector<Lexemes::Leave> &Lexemes::each_leave(Vocabulary::Node node, LexemeState s) {
  const uint64_t key = static_cast<uint64_t>(node) << 32 | s;
  if (auto it = each_leave_.find(key); it != each_leave_.end()) return it->second;
  std::vector<Leave> found;
  walk(
      node, s, false, [](std::span<const uint32_t>, Vocabulary::Node, uint32_t, LexemeState) {},
      [&](std::span<const uint32_t>, size_t, LexemeState now, LexemeState below) {
        return (looked_at(now).overlaps | looked_at(below).overlaps).none();
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

// Do the merged rests of tokens have fewer nodes than the trie has below the places where these are left? A token that can
// be left at many places, like a run of one character, has as many rests.
bool Lexemes::saves(const Leaves &leaves, const std::vector<Leave> &found) const {
  size_t rests = 0, nodes = 0;
  for (const Rests &some : leaves.merged) rests += some.trie.bytes.size();
  Vocabulary::Node end = 0;
  for (const Leave &l : found) {
    charge();
    if (l.node < end) continue;
    end = v_.end(l.node);
    nodes += end - l.node;
  }
  return rests < nodes;
}

// `known`: tokens that may be left out; empty: none.
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
