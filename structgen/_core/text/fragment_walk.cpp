// Makes fragments: one walk through the token trie for each text state.
//
// Five shortcuts avoid most of the trie:
// - A subtree whose characters all lead back to its own state is taken as a whole.
// - So is a subtree of characters that may come in any order, and of which enough may come: `([a-z-]{0,62}[a-z])?`.
// - From the root, where a class of characters is repeated, tokens of these characters are taken as bit sets. The walk
//   starts at the first other character of each token (vocabulary/kind_tokens.h).
// - A set of literals, as of an enum, is walked together with the trie. No states are made for its prefixes.
// - A state that has the transitions of a known state for most first bytes copies the fragment of that state for them.
//   Free text after the first characters of a marker differs from other free text only where the marker continues.
#include <algorithm>

#include "text/text_space.h"
#include "util/bits.h"
#include "util/stack.h"
#include "vocabulary/looping.h"
#include "vocabulary/root_subtrees.h"

namespace structgen {
namespace {

constexpr uint32_t SMALL_SUBTREE = 12;  // trie nodes that are walked one by one, not taken as a whole
constexpr int MANY_CHARACTERS = 20;     // of a class: with fewer, most tokens leave it at their first character
constexpr size_t MOST_KIND_TOKENS = 16;
constexpr uint32_t FREE_CHARACTERS = 16;  // most that are looked at; few tokens have more
constexpr uint32_t ENOUGH_FREE = 6;       // nearly all tokens are shorter; then more kinds are worth more
constexpr size_t FREE_STATES = 4;         // that texts of equally many characters may lead to
constexpr int FREE_ROUNDS = 4;            // with fewer kinds each

}  // namespace

class TextSpace::Walk {
 public:
  Walk(TextSpace &space, Vocabulary::Node node, TextState s, std::vector<TokensByEnd> *by_end)
      : space_(space),
        v_(*space.vocabulary_),
        plain_(space.states_[s].encoding == Encoding::Plain),
        by_end_(by_end),
        path_(v_.longest_token() + 2) {
    path_[v_.depth(node)] = {.state = s, .of_token = characters_to(node)};
  }

  std::unique_ptr<Fragment> below(Vocabulary::Node node, const FreeCharacters &free = {}) {
    Place &first = path_[v_.depth(node)];
    if (const auto literals = literals_at(first.state)) {
      along_literals(node, *literals, 0, {first.state, node});
      return finish();
    }
    read_on(first);
    first.free = free.count;
    free_kinds_ = free.kinds;
    visit(node + 1, v_.end(node));
    return finish();
  }

  // Copies `similar`, and walks the trie below the first bytes in which it differs.
  std::unique_ptr<Fragment> like(const Fragment &similar, const std::bitset<256> &differing) {
    make_dense();
    read_on(path_[0]);
    made_->bits = similar.bits;
    charge(v_.words() / 16 + similar.exits.size() / 8);
    const RootSubtrees subtrees(v_, differing);
    subtrees.remove_tokens(made_->bits.data());
    for (const Exit &exit : similar.exits)
      if (!subtrees.contains(exit.node)) made_->exits.push_back(exit);
    for (const Vocabulary::Node root : subtrees.roots()) visit(root, v_.end(root));
    std::ranges::sort(made_->exits, {}, &Exit::node);
    return finish();
  }

  std::unique_ptr<Fragment> along(const Chain &chain, const std::shared_ptr<const KindTokens> &tokens) {
    make_dense();
    std::array<const TextRow *, KindTokens::LONGEST + 1> rows{};
    for (size_t n = 0; n < chain.states.size(); ++n) {
      rows[n] = &space_.row(chain.states[n]);
      const std::vector<uint32_t> &bits = tokens->by_length[n];
      if (n == 0 || bits.empty()) continue;
      charge(v_.words() / 16);
      add_bits(made_->bits.data(), bits.data(), v_.words());
      if (by_end_) by_end_->push_back({chain.states[n], {}, tokens, static_cast<uint32_t>(n)});
    }
    charge(tokens->edges.size() / 8);
    for (const KindTokens::Edge &edge : tokens->edges) {
      const TextRow *row = rows[edge.before];
      if (!row || ((*row)[edge.byte] == DEAD && !plain_)) continue;
      enter(chain.states[edge.before], edge.before);
      visit(edge.node, v_.end(edge.node));
    }
    if (chain.states.size() > KindTokens::LONGEST)
      for (const Vocabulary::Node node : tokens->longer) {
        enter(chain.states.back(), KindTokens::LONGEST);
        visit(node, v_.end(node));
      }
    return finish();
  }

  // The literals of a state. Nothing if the fragment must record the states in which tokens end.
  std::optional<RegexSpace::LiteralPlace> literals_at(TextState s) const {
    if (by_end_ || space_.escape(s) != 0) return std::nullopt;
    return space_.regex_.literals_of(space_.re(s));
  }

 private:
  // After each byte of a path.
  struct Place {
    TextState state = DEAD;
    uint32_t characters = 0, of_token = 0;  // of the text, and of the token
    uint32_t free = 0;                      // that many characters of `free_kinds_` may follow
    bool counts = false;                    // a byte that begins a character is one more of the text
    const TextRow *row = nullptr;           // this and `counts` are set where the path goes on
  };
  void read_on(Place &place) {
    place.row = &space_.row(place.state);
    place.counts = !plain_ && space_.escape(place.state) == 0;
  }

  uint32_t characters_to(Vocabulary::Node node) const {
    const std::string path = v_.path(node);
    return static_cast<uint32_t>(std::count_if(path.begin(), path.end(), [](char c) { return (c & 0xc0) != 0x80; }));
  }

  // Sets the path after `read` ASCII characters from the root.
  void enter(TextState s, uint32_t read) {
    path_[read] = {.state = s, .characters = plain_ ? 0 : read, .of_token = read};
    read_on(path_[read]);
  }

  void make_dense() {
    made_->dense = true;
    made_->bits.assign(v_.words(), 0);
    for (const uint32_t id : made_->ids) made_->bits[id >> 5] |= 1u << (id & 31);
    made_->ids = made_->characters = {};
  }

  void add(uint32_t id, uint32_t characters, TextState end) {
    if (by_end_) (*by_end_)[group_of(end)].tokens.push_back({id, characters});
    if (made_->dense) {
      made_->bits[id >> 5] |= 1u << (id & 31);
      return;
    }
    made_->ids.push_back(id);
    made_->characters.push_back(characters);
    if (made_->ids.size() > v_.words()) make_dense();
  }

  // The group of the tokens that end in a state. Few states alternate, so nearly all are found in a small table.
  size_t group_of(TextState end) {
    Group &recent = recent_[end % recent_.size()];
    if (recent.end == end) return recent.index;
    const auto [it, fresh] = groups_.try_emplace(end, by_end_->size());
    if (fresh) by_end_->push_back({end, {}, nullptr});
    recent = {end, it->second};
    return it->second;
  }

  void visit(Vocabulary::Node n, Vocabulary::Node end) {
    while (n < end) {
      charge();
      const uint16_t d = v_.depth(n);
      const Place &before = path_[d - 1];
      const uint8_t b = v_.byte(n);
      const Vocabulary::Node next = v_.end(n);
      const TextState after = (*before.row)[b];
      if (after == LEAVE || after == DEAD) {
        if (after == LEAVE) made_->exits.push_back({n, before.characters});
        else if (plain_ && space_.states_[before.state].complete) made_->exits.push_back({n, 0});
        n = next;
        continue;
      }
      Place &here = path_[d];
      const bool begins = (b & 0xc0) != 0x80;
      here.state = after;
      // A character counts at its first byte, an escaped one at its backslash.
      here.characters = before.characters + (begins && before.counts);
      here.of_token = before.of_token + begins;
      here.free = before.free != 0 && (kind_of(b) & free_kinds_) != 0 ? before.free - 1 : 0;
      const Kinds below = v_.kinds_below(n);
      const bool is_free = here.free >= v_.characters_below(n) && (below & ~free_kinds_) == 0;
      if (is_free || (next - n > SMALL_SUBTREE && (below & ~space_.loops(after)) == 0)) {
        // Every token of the subtree stays inside, and `by_end_` is null or they stay in the same state.
        for (const uint32_t id : v_.ids_within(n))
          add(id, plain_ ? 0 : here.characters + space_.token_characters_[id] - here.of_token, after);
        n = next;
        continue;
      }
      for (const uint32_t id : v_.ids(n)) add(id, here.characters, after);
      if (next == n + 1) {
        ++n;
      } else if (const auto literals = literals_at(after)) {
        along_literals(n, *literals, here.characters, {after, n});
        n = next;
      } else {
        read_on(here);
        ++n;
      }
    }
  }

  // The state with which a walk along literals started.
  struct Origin {
    TextState state;
    Vocabulary::Node node;
  };

  // Takes the tokens of the subtree at `at`, whose bytes lead to `place` in a set of literals.
  void along_literals(Vocabulary::Node at, RegexSpace::LiteralPlace place, uint32_t characters, const Origin &origin) {
    constexpr int NO_BYTE = 256;
    check_stack("a token is too long");
    const RegexSpace::LiteralPlace whole = place;
    int byte = -1;  // the last byte found that continues a literal
    for (const Vocabulary::Child *c = v_.children(at); !c->is_end; ++c) {
      charge();
      if (!plain_ && (c->byte < 0x20 || c->byte == '"' || c->byte == '\\')) {
        if (c->byte == '"' && whole.ends()) made_->exits.push_back({c->node, characters});
        if (c->byte == '\\' && has_escapes(whole, origin)) escaped_literals(at, c->node, characters, origin);
        continue;
      }
      if (byte < c->byte) byte = place.seek(c->byte) ? place.byte() : NO_BYTE;
      if (byte != c->byte) {
        if (plain_ && whole.ends()) made_->exits.push_back({c->node, 0});
        else if (byte == NO_BYTE && c->byte > '\\') break;
        continue;
      }
      const uint32_t read = characters + (!plain_ && (c->byte & 0xc0) != 0x80);
      for (const uint32_t id : v_.ids(c->node)) add(id, read, DEAD);
      if (c->children != 0) along_literals(c->node, place.next(), read, origin);
    }
  }

  // May the next character of some literal start with a backslash?
  bool has_escapes(RegexSpace::LiteralPlace place, const Origin &origin) const {
    if (space_.states_[origin.state].encoding == Encoding::AllEscapes) return true;
    const auto has = [&](unsigned least, unsigned most) { return place.seek(least) && place.byte() <= most; };
    return has(0, 0x1f) || has('"', '"') || has('\\', '\\');
  }

  // After a backslash, states are made as usual.
  void escaped_literals(Vocabulary::Node at, Vocabulary::Node backslash, uint32_t characters, const Origin &origin) {
    Re re = space_.re(origin.state);
    for (const char c : v_.path(at).substr(v_.depth(origin.node)))
      re = space_.regex_.derivative(re, static_cast<uint8_t>(c));
    const TextState s = space_.state(re, 0, space_.states_[origin.state].encoding);
    path_[v_.depth(at)] = {.state = s, .characters = characters, .of_token = characters_to(at)};
    read_on(path_[v_.depth(at)]);
    visit(backslash, v_.end(backslash));
  }

  std::unique_ptr<Fragment> finish() {
    made_->ids.shrink_to_fit();
    made_->characters.shrink_to_fit();
    if (made_->ids.size() > v_.many()) {
      made_->bits.assign(v_.words(), 0);
      for (const uint32_t id : made_->ids) made_->bits[id >> 5] |= 1u << (id & 31);
    }
    return std::move(made_);
  }

  TextSpace &space_;
  const Vocabulary &v_;
  const bool plain_;
  std::vector<TokensByEnd> *const by_end_;
  std::vector<Place> path_;  // by depth
  std::unique_ptr<Fragment> made_ = std::make_unique<Fragment>();
  Kinds free_kinds_ = 0;
  std::unordered_map<TextState, size_t> groups_;  // in `by_end_`
  struct Group {
    TextState end = DEAD;
    size_t index = 0;
  };
  std::array<Group, 64> recent_{};  // of `groups_`, by their states
};

// The kinds of bytes and characters that lead from `s` back to `s`.
Kinds TextSpace::loops(TextState s) {
  if (states_[s].loops == NO_KINDS_YET)
    states_[s].loops =
        looping_kinds(s, vocabulary_->spellable(), [&](TextState from, uint8_t b) { return row(from)[b]; });
  return states_[s].loops;
}

TextSpace::Chain TextSpace::chain(TextState s) {
  const auto is_inside = [&](TextState to) { return to != DEAD && to != LEAVE && escape(to) == 0; };
  if (escape(s) != 0) return {};
  charge(16);
  // The state that most characters lead to.
  TextState next = DEAD;
  int most = 0;
  std::vector<std::pair<TextState, int>> targets;
  for (uint8_t b = 0; b < 128; ++b) {
    const TextState to = row(s)[b];
    if (!is_inside(to)) continue;
    auto one = std::ranges::find(targets, to, &std::pair<TextState, int>::first);
    if (one == targets.end()) one = targets.insert(one, {to, 0});
    if (++one->second > most) most = one->second, next = to;
  }
  if (most < MANY_CHARACTERS) return {};
  Kinds kinds = 0, others = 0;
  for (uint8_t b = 0; b < 128; ++b) (row(s)[b] == next ? kinds : others) |= kind_of(b);
  kinds &= ~others;
  std::vector<uint8_t> bytes;
  for (uint8_t b = 0; b < 128; ++b)
    if ((kind_of(b) & kinds) != 0) bytes.push_back(b);
  if (bytes.size() < static_cast<size_t>(MANY_CHARACTERS)) return {};
  Chain chain{kinds, {s, next}};
  while (chain.states.size() <= KindTokens::LONGEST) {
    charge(8);
    const TextState last = chain.states.back();
    const TextRow &from = row(last);
    const TextState to = from[bytes.front()];
    if (std::ranges::any_of(bytes, [&](uint8_t b) { return from[b] != to; })) return {};
    // In plain texts a character after the end is an exit, which bit sets do not show.
    if (to == DEAD && states_[s].encoding != Encoding::Plain) break;
    if (!is_inside(to)) return {};
    chain.states.push_back(to);
  }
  return chain;
}

TextSpace::FreeCharacters TextSpace::free_characters(TextState s) {
  if (escape(s) != 0) return {};
  FreeCharacters best;
  Kinds kinds = 0;  // other characters are of other kinds
  for (uint8_t b = 0; b < 128; ++b) kinds |= kind_of(b);
  for (int round = 0; round < FREE_ROUNDS; ++round) {
    std::vector<TextState> states{s};
    Kinds wrong = 0;  // kinds with a character that leads out of the text, after `count` others
    uint32_t count = 0;
    for (; count < FREE_CHARACTERS; ++count) {
      std::vector<TextState> next;
      charge(16 * states.size());
      for (const TextState from : states) {
        const TextRow &to = row(from);
        for (uint8_t b = 0; b < 128; ++b) {
          if ((kind_of(b) & kinds) == 0) continue;
          if (to[b] == DEAD || to[b] == LEAVE || escape(to[b]) != 0) wrong |= kind_of(b);
          else if (next.empty() || (next.back() != to[b] && std::ranges::find(next, to[b]) == next.end()))
            next.push_back(to[b]);
        }
      }
      if (wrong != 0 || next.size() > FREE_STATES) break;
      std::ranges::sort(next);
      if (next == states) {
        count = UINT16_MAX;
        break;
      }
      states = std::move(next);
    }
    const auto has_many = [](Kinds of) {
      int characters = 0;
      for (uint8_t b = 0; b < 128; ++b) characters += (kind_of(b) & of) != 0;
      return characters >= MANY_CHARACTERS;
    };
    if (count > best.count && has_many(kinds)) best = {kinds, count};
    kinds &= ~wrong;
    if (best.count >= ENOUGH_FREE || wrong == 0 || !has_many(kinds)) break;
  }
  return best;
}

std::shared_ptr<const KindTokens> TextSpace::kind_tokens(Kinds kinds) {
  std::shared_ptr<const KindTokens> &known = kind_tokens_[kinds];
  if (known) return known;
  auto made = std::make_shared<const KindTokens>(*vocabulary_, kinds);
  fragment_bytes_ += made->memory();
  if (kind_tokens_.size() <= MOST_KIND_TOKENS) return known = std::move(made);
  for (const auto &[_, one] : kind_tokens_)
    if (one && one.use_count() == 1) fragment_bytes_ -= one->memory();  // fragments own the others
  kind_tokens_.clear();
  return kind_tokens_[kinds] = std::move(made);
}

// Finds a state whose fragment at the root is known and equals the fragment of `s` except below the first bytes
// `differing`. Returns DEAD if no state is known to be similar.
TextState TextSpace::similar_state(TextState s, std::bitset<256> *differing) {
  const TextState usual = row(s)['a'];
  // subtle: equal states after one byte prove that both states have the same encoding.
  if (escape(s) != 0 || usual == DEAD || usual == LEAVE) return DEAD;
  const auto known = dense_at_root_.find(usual);
  if (known == dense_at_root_.end() ||
      !fragments_.contains(static_cast<uint64_t>(Vocabulary::ROOT) << 32 | known->second))
    return DEAD;
  const bool same_end = states_[s].complete == states_[known->second].complete;
  const TextRow &one = row(s), &other = row(known->second);
  Vocabulary::Node nodes = 0;
  charge(16);
  for (const Vocabulary::Child *c = vocabulary_->children(Vocabulary::ROOT); !c->is_end; ++c) {
    const TextState to = one[c->byte];
    if (to == other[c->byte] && (same_end || to != DEAD)) continue;
    differing->set(c->byte);
    if (to != DEAD && to != LEAVE) nodes += vocabulary_->end(c->node) - c->node;
  }
  return RootSubtrees::are_few(*vocabulary_, nodes) ? known->second : DEAD;
}

std::unique_ptr<Fragment> TextSpace::walk(Vocabulary::Node node, TextState s, std::vector<TokensByEnd> *by_end) {
  if (node == Vocabulary::ROOT && states_[s].encoding == Encoding::Canonical && escape(s) == 0)
    if (auto made = with_host_names(s, by_end)) return made;
  Walk walk(*this, node, s, by_end);
  if (node != Vocabulary::ROOT || walk.literals_at(s)) return walk.below(node);
  std::bitset<256> differing;
  if (!by_end)
    if (const TextState similar = similar_state(s, &differing); similar != DEAD)
      return walk.like(*fragments_.at(static_cast<uint64_t>(Vocabulary::ROOT) << 32 | similar), differing);
  const Chain found = chain(s);
  const FreeCharacters free = by_end ? FreeCharacters{} : free_characters(s);
  const bool is_long = free.count >= ENOUGH_FREE, is_wider = (free.kinds & ~found.kinds) != 0;
  // The sets of tokens of some kinds pay if they are used again, so they are made when that happens.
  const bool by_kinds = !is_long || (!is_wider && !kind_tokens_.try_emplace(found.kinds).second);
  if (found.kinds != 0 && by_kinds) return walk.along(found, kind_tokens(found.kinds));
  return walk.below(node, free);
}

}  // namespace structgen
