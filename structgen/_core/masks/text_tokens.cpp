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

// Judges tokens that stay inside a text, one by one, by the room that they leave for a completion.
class RoomAfter {
 public:
  RoomAfter(MaskBuilder &m, Vocabulary::Node at, TextState start, uint64_t least, uint64_t most)
      : m_(m), text_(m.text), start_(start), least_(least), most_(most), skip_(m.vocabulary.depth(at)) {}

  void decide(uint32_t id) {
    const std::string_view token = m_.vocabulary.token(id).substr(skip_);
    charge(1 + token.size() / 8);
    TextState s = start_;
    uint32_t characters = 0;
    for (const char c : token) {
      characters += (static_cast<uint8_t>(c) & 0xc0) != 0x80 && text_.escape(s) == 0;
      s = text_.row(s)[static_cast<uint8_t>(c)];
    }
    if (fits(s, characters)) m_.set(id);
  }

 private:
  bool fits(TextState end, uint32_t characters) {
    const uint64_t key = uint64_t{end} << 32 | characters;
    Known &known = known_[(end * 31 + characters) % known_.size()];
    if (known.key != key) known = {key, fits_after(text_, end, characters, least_, most_)};
    return known.fits;
  }

  MaskBuilder &m_;
  TextSpace &text_;
  const TextState start_;
  const uint64_t least_, most_;
  const size_t skip_;
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
  const size_t words = m.vocabulary.words();
  charge(words / 16);
  const auto each_id = [&](size_t w, uint32_t bits) {
    for (; bits != 0; bits &= bits - 1) room.decide(static_cast<uint32_t>(32 * w + std::countr_zero(bits)));
  };
  // After the start of an escape or of tokens, a token adds fewer characters than it has.
  if (at != Vocabulary::ROOT || m.text.escape(state->text) != 0) {
    for (size_t w = 0; w < words; ++w) each_id(w, f.bits[w]);
    return;
  }
  const auto at_most = [&](uint64_t characters) -> const std::vector<uint32_t> & {
    return m.text.at_most_characters(
        static_cast<uint32_t>(std::min<uint64_t>(characters, m.text.longest_characters())));
  };
  // Those that leave enough room in any case, those that leave any room, and those whose characters must be read.
  uint32_t *const out = m.words();
  const std::vector<uint32_t> &allowed = at_most(most);
  const std::vector<uint32_t> *sure = most >= missing ? &at_most(most - missing) : nullptr;
  for (size_t w = 0; w < words; ++w) {
    const uint32_t enough = sure ? f.bits[w] & (*sure)[w] : 0;
    out[w] |= enough;
    if (missing > 0) each_id(w, f.bits[w] & allowed[w] & ~enough);
  }
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
