#include "masks/text_tokens.h"

#include <algorithm>
#include <array>
#include <bit>

#include "automaton/unique_items.h"

namespace structgen {
namespace {

// Where a text that is not open lacks at most this number of characters, its tokens are judged by the room that they
// leave, for each mask again. Where it may lack more, too many tokens would be left to be judged one by one.
constexpr int64_t FEW_MISSING = 4;
// The number of nodes of a walk, which shares the beginnings of tokens, that take as long as one token.
constexpr uint32_t NODES_OF_A_TOKEN = 8;

// Can a text that has bounds on its length go on from a state, after so many characters more?
bool fits_after(TextSpace &text, TextState end, uint32_t characters, uint64_t least, uint64_t most) {
  if (characters > most) return false;
  const auto lo = static_cast<int64_t>(least > characters ? least - characters : 0);
  const int64_t hi = most == UNBOUNDED ? -1 : static_cast<int64_t>(most - characters);
  const auto has_length = [&](Re rest) { return text.regex().has_length(rest, lo, hi); };
  return text.escape(end) == 0 ? has_length(text.re(end)) : text.escape_viable(end, has_length);
}

// Adds tokens that stay inside the text, by the states where they end. Tokens that end in one state after equally many
// characters are alike: they are allowed if the text can go on from there to a length within bounds.
void add_inside_by_end(MaskBuilder &m, const Fragment &f, uint64_t least, uint64_t most) {
  enum : uint8_t { Unknown, No, Yes };
  std::vector<uint8_t> verdicts;
  for (const TokensByEnd &group : *f.by_end) {
    verdicts.clear();
    const auto fits = [&](uint32_t characters) { return fits_after(m.text, group.end, characters, least, most); };
    if (group.kinds && fits(group.characters)) {
      charge(m.vocabulary.words() / 16);
      m.add_words(group.kinds->by_length[group.characters]);
    }
    charge(1 + group.tokens.size() / 16);
    for (const auto [id, characters] : group.tokens) {
      if (verdicts.size() <= characters) verdicts.resize(characters + 1, Unknown);
      uint8_t &verdict = verdicts[characters];
      if (verdict == Unknown) verdict = fits(characters) ? Yes : No;
      if (verdict == Yes) m.set(id);
    }
  }
}

// Judges tokens that stay inside a text by the room that they leave for a completion.
class RoomAfter {
 public:
  RoomAfter(MaskBuilder &m, Vocabulary::Node at, TextState start, uint64_t least, uint64_t most)
      : m_(m), text_(m.text), at_(at), start_(start), least_(least), most_(most) {}

  void decide(uint32_t id) {
    const std::string_view token = m_.vocabulary.token(id).substr(m_.vocabulary.depth(at_));
    charge(1 + token.size() / 8);
    TextState s = start_;
    uint32_t characters = 0;
    for (const char c : token) {
      const auto b = static_cast<uint8_t>(c);
      characters += starts_character(b) && text_.escape(s) == 0;
      s = text_.row(s)[b];
    }
    if (fits(s, characters)) m_.set(id);
  }

  // Decides all tokens in one walk. `sure`: the number of characters up to which tokens without an escape are in the
  // mask already; -1: none are.
  void decide_all(int64_t sure) {
    const Vocabulary &v = m_.vocabulary;
    std::vector<Place> path(v.longest_token() + 2);  // by depth
    path[v.depth(at_)] = place(start_, 0, true);
    for (Vocabulary::Node n = at_ + 1; n < v.end(at_);) {
      charge();
      const Place &before = path[v.depth(n) - 1];
      const uint8_t b = v.byte(n);
      const TextState s = (*before.row)[b];
      const uint32_t characters = before.characters + (starts_character(b) && !before.in_escape);
      const Vocabulary::Node next = v.end(n);
      const bool without_escape = before.without_escape && b != '\\';
      const bool is_known = without_escape && int64_t{characters} + v.characters_below(n) <= sure &&
                            (v.kinds_below(n) & kind_of('\\')) == 0;
      // A text that leaves too little room leaves too little with more characters, too.
      if (is_known || s == TextSpace::DEAD || s == TextSpace::LEAVE || !fits(s, characters)) {
        n = next;
        continue;
      }
      for (const uint32_t id : v.ids(n)) m_.set(id);
      if (next > n + 1) path[v.depth(n)] = place(s, characters, without_escape);
      ++n;
    }
  }

 private:
  struct Place {
    const TextSpace::TextRow *row;
    uint32_t characters;
    bool in_escape, without_escape;  // the last character, and the whole path
  };
  Place place(TextState s, uint32_t characters, bool without_escape) {
    return {&text_.row(s), characters, text_.escape(s) != 0, without_escape};
  }
  static bool starts_character(uint8_t byte) { return (byte & 0xc0) != 0x80; }

  bool fits(TextState end, uint32_t characters) {
    const uint64_t key = uint64_t{end} << 32 | characters;
    Known &known = known_[(end * 31 + characters) % known_.size()];
    if (known.key != key) known = {key, fits_after(text_, end, characters, least_, most_)};
    return known.fits;
  }

  MaskBuilder &m_;
  TextSpace &text_;
  const Vocabulary::Node at_;
  const TextState start_;
  const uint64_t least_, most_;
  struct Known {
    uint64_t key = 0;  // no token that stays inside ends in state 0
    bool fits = false;
  };
  std::array<Known, 256> known_{};
};

// Adds tokens that stay inside a text: all that leave room for `missing` characters, which complete it after any of
// them, and others if their own end allows them.
void add_inside_by_room(MaskBuilder &m, Vocabulary::Node at, const StringFrame *state, const Fragment &f,
                        uint64_t least, uint64_t most, uint64_t missing) {
  RoomAfter room(m, at, state->text, least, most);
  if (!f.dense) {
    for (size_t i = 0; i < f.ids.size(); ++i)
      if (f.characters[i] + missing <= most) m.set(f.ids[i]);
      else if (f.characters[i] <= most && missing > 0) room.decide(f.ids[i]);
    return;
  }
  // After the start of an escape or of tokens, a token adds fewer characters than it has.
  if (at != Vocabulary::ROOT || m.text.escape(state->text) != 0 || most < missing) return room.decide_all(-1);
  const auto at_most = [&](uint64_t n) -> const std::vector<uint32_t> & {
    return m.text.at_most_characters(static_cast<uint32_t>(std::min<uint64_t>(n, m.text.longest_characters())));
  };
  const std::vector<uint32_t> &enough = at_most(most - missing), &any = at_most(most);
  const size_t words = m.vocabulary.words();
  charge(words / 8);
  uint32_t *const out = m.words();
  std::vector<uint32_t> open(words);  // tokens that leave some room, but perhaps too little
  size_t count = 0;
  for (size_t w = 0; w < words; ++w) {
    out[w] |= f.bits[w] & enough[w];
    open[w] = f.bits[w] & any[w] & ~enough[w];
    count += static_cast<size_t>(std::popcount(open[w]));
  }
  if (count > m.vocabulary.node_count() / NODES_OF_A_TOKEN)
    return room.decide_all(static_cast<int64_t>(std::min<uint64_t>(most - missing, m.text.longest_characters())));
  each_bit(open.data(), 0, words, [&](uint32_t id) { room.decide(id); });
  for (const uint32_t id : m.text.escaped_tokens())
    if (test_bit(f.bits.data(), id)) room.decide(id);
}

// The most characters that complete the text after a token inside it; -1: unknown.
int64_t most_missing(TextSpace &text, TextState state) {
  return text.escape(state) == 0 ? text.regex().most_missing(text.re(state)) : -1;
}

// Adds tokens that close a string at one of the exits, each from a state of its own: what follows depends on the text.
void add_exits_one_by_one(MaskBuilder &m, Vocabulary::Node at, const StringFrame *state, const Fragment &f) {
  const size_t skip = m.vocabulary.depth(at);
  for (const Exit &e : f.exits) {
    Branch branch(m);
    const Frame *next = state;
    const Vocabulary::Node exit = e.node;
    const std::string path = m.vocabulary.path(exit);
    for (size_t i = skip; i < path.size() && next; ++i)
      next = m.automaton.step(m.ctx, next, static_cast<uint8_t>(path[i]));
    if (next) m.add_from(exit, next);
  }
}

// Clears the tokens of a text without a parent that leave it in a state that no tokens can complete. Some bytes occur
// only inside longer tokens.
void clear_unspellable(MaskBuilder &m, Vocabulary::Node at, TextState start) {
  charge(m.vocabulary.words() / 16);
  each_bit(m.words(), 0, m.vocabulary.words(), [&](uint32_t id) {
    TextState s = start;
    for (unsigned char c : m.vocabulary.token(id).substr(m.vocabulary.depth(at))) s = m.text.row(s)[c];
    if (!m.text.spellable(s)) m.clear(id);
  });
}

}  // namespace

void add_inside(MaskBuilder &m, const Fragment &f) {
  charge(f.bits.empty() ? f.ids.size() / 4 : m.vocabulary.words() / 16);
  if (f.bits.empty()) m.set_all(f.ids);
  else m.add_words(f.bits);
}

void add_exits_at_root(MaskBuilder &m, Fragment &f, const Frame *text, const Frame *after, uint64_t least,
                       uint64_t most) {
  const RestTrie &trie = m.text.rests(f);
  m.add_rests(trie, after, least, most);
  for (uint32_t id : trie.singles)
    if (m.can_read(text, id, 0)) m.set(id);
}

void add_string_tokens(MaskBuilder &m, Vocabulary::Node at, const StringFrame *n) {
  TextSpace &text = m.text;
  const StringLanguage &language = n->control->string;
  const uint64_t least = language.min > n->length ? language.min - n->length : 0;
  const uint64_t most = language.max == UNBOUNDED ? UNBOUNDED : language.max - n->length;
  const int64_t padded = text.regex().padded_length(text.re(n->text));  // -1: not every text is a beginning
  const bool started = least == 0 || (least == 1 && n->length == 0);    // any character is enough for minLength
  const bool free = most == UNBOUNDED && (least == 0 || padded >= 0);
  // So many characters complete the text after any token; -1: unknown.
  const int64_t missing = padded >= 0 ? padded : started && !free ? most_missing(text, n->text) : -1;
  const bool has_room = missing >= 0 && text.longest_characters() + static_cast<uint64_t>(missing) <= most;
  const auto name_fits = [&] {
    if (!started || at != Vocabulary::ROOT || !text.reads_host_names(n->text)) return false;
    return static_cast<uint64_t>(text.fragment(at, n->text).needs) <= most;
  };
  // Tokens inside the text: all of the fragment if the length cannot matter, otherwise chosen by their characters.
  const bool fits = free || has_room || name_fits();
  const bool by_room = padded >= 0 || (missing >= 0 && missing <= FEW_MISSING && !text.reads_host_names(n->text));
  Fragment &f = text.fragment(at, n->text, !fits && !by_room);
  if (fits) add_inside(m, f);
  else if (by_room) add_inside_by_room(m, at, n, f, least, most, static_cast<uint64_t>(missing));
  else if (text.escape(n->text) == 0 && started && most != UNBOUNDED && static_cast<uint64_t>(text.needs(f)) <= most)
    add_inside(m, f);
  else add_inside_by_end(m, f, least, most);
  if (f.exits.empty()) return;
  if (n->root_states || excludes_seen_values(*n)) return add_exits_one_by_one(m, at, n, f);
  Branch branch(m);
  m.ctx.item_text = n->item_text;
  const Frame *const after = m.automaton.finish(m.ctx, n->parent);
  if (!after) return;
  if (at == Vocabulary::ROOT) return add_exits_at_root(m, f, n, after, least, most);
  // The byte of an exit closes the string, so `after` holds after it.
  for (const Exit &e : f.exits)
    if (e.characters >= least && e.characters <= most) m.add_from(e.node, after);
}

bool add_open_ended_text(MaskBuilder &m, Vocabulary::Node at, const ScalarFrame *n) {
  constexpr size_t FEW = 16;  // tokens that leave the text: at most this number plus one of this many
  if (n->root_states || excludes_seen_values(*n)) return false;
  const Vocabulary &v = m.vocabulary;
  add_inside(m, m.text.fragment(at, n->text));
  m.ctx.depends_on(n->parent);
  const std::span<const uint32_t> ids = v.ids_within(at).subspan(v.ids(at).size());
  std::vector<uint32_t> others;
  charge(ids.size() / 32);
  for (const uint32_t id : ids) {
    if (m.is_set(id)) continue;
    others.push_back(id);
    if (others.size() > FEW + ids.size() / FEW) return false;
  }
  for (const uint32_t id : others)
    if (m.can_read(n, id, v.depth(at))) m.set(id);
  return true;
}

void add_scalar_tokens(MaskBuilder &m, Vocabulary::Node at, const ScalarFrame *n) {
  if (n->root_states || excludes_seen_values(*n)) return m.add_by_bytes(at, n);
  if (is_open_ended(n)) {
    if (!add_open_ended_text(m, at, n)) m.add_by_bytes(at, n);
    return;
  }
  const Fragment &f = m.text.fragment(at, n->text);
  add_inside(m, f);
  if (!n->parent && !m.vocabulary.closed_under_bytes()) clear_unspellable(m, at, n->text);
  m.ctx.depends_on(n->parent);
  if (f.exits.empty() || !n->parent) return;
  Branch branch(m);
  m.ctx.item_text = n->item_text;
  const Frame *const after = m.automaton.finish(m.ctx, n->parent);
  if (!after) return;
  const std::bitset<256> candidates = m.automaton.candidates(after);
  for (const Exit &e : f.exits) {
    if (!candidates.test(m.vocabulary.byte(e.node))) continue;
    Branch inner(m);
    if (const Frame *next = m.automaton.step(m.ctx, after, m.vocabulary.byte(e.node))) m.add_from(e.node, next);
  }
}

}  // namespace structgen
