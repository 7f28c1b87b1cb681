#include "text/text_space.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <string>
#include <unordered_set>

#include "text/lexemes.h"

namespace structgen {
namespace {

constexpr size_t MOST_ESCAPES = 1024;
constexpr int64_t UNKNOWN_NEEDS = std::numeric_limits<int64_t>::max();

// Control characters can be escaped, so only bytes from 0x20 on depend on the vocabulary.
std::bitset<256> text_alphabet(const Vocabulary &vocabulary) {
  std::bitset<256> bytes = vocabulary.spellable();
  for (int b = 0; b < 0x20; ++b) bytes.set(b);
  return bytes;
}

constexpr Kinds ITEM_MARKS = kind_of('"') | kind_of(',') | kind_of(']') | kind_of('}') | kind_of('\n');
constexpr Kinds ITEM_ENDS = ITEM_MARKS | kind_of(' ') | kind_of('\t') | kind_of('\r');

// Classifies a token with one of the marks.
void add_ending(EndingTokens &out, uint32_t id, std::string_view t, bool lines) {
  const size_t quote = t.find('"'), bracket = t.find_last_of(lines ? "]}\n" : "]}");
  if (quote != t.npos) out.with_quote[id >> 5] |= 1u << (id & 31);
  if (t.find(']') != t.npos) out.brackets.push_back(id);
  const bool two = quote != t.npos && t.find('"', quote + 1) != t.npos;
  if (bracket != t.npos || two) out.all.push_back(id);
  else if (t.find(',') != t.npos) out.commas.push_back(id);
  if ((quote != t.npos && bracket != t.npos && quote < bracket) || two) out.after_quote.push_back(id);
  size_t at = 0;
  for (const char c : std::string_view("\":,\"\""))
    at = at == t.npos || t.find(c, at) == t.npos ? t.npos : t.find(c, at) + 1;
  out.second_key |= at != t.npos;
}

Escapes escapes_of(Encoding encoding) { return encoding == Encoding::AllEscapes ? Escapes::All : Escapes::Canonical; }

}  // namespace

size_t Fragment::memory() const {
  size_t total = sizeof(*this) + (bits.size() + ids.size() + characters.size()) * 4 + exits.size() * sizeof(Exit);
  if (rests) total += rests->memory();
  if (by_end)
    for (const TokensByEnd &one : *by_end) total += sizeof(one) + one.tokens.size() * sizeof(one.tokens[0]);
  return total;
}

TextSpace::TextSpace(std::shared_ptr<const Vocabulary> vocabulary, const Limits &limits,
                     std::shared_ptr<HeapAccount> heap)
    : heap_(std::move(heap)),
      vocabulary_(std::move(vocabulary)),
      limits_(limits),
      mask_pool_(std::make_shared<MaskPool>(vocabulary_->words(), limits.mask_cache_bytes / 4)),
      regex_(text_alphabet(*vocabulary_), limits.regex),
      lexemes_(std::make_unique<Lexemes>(*this)) {
  states_.resize(2);
  for (const TextState s : {DEAD, LEAVE}) states_[s] = {RegexSpace::EMPTY, 0, Encoding::Plain, false, 0, nullptr};
  for (uint32_t c = 0; c <= '\\'; ++c) {
    if (c < 0x20 || c == '"' || c == '\\') {
      const char one = static_cast<char>(c);
      if (!spells({&one, 1})) unspellable_.push_back(c);
    }
  }
  token_characters_.resize(vocabulary_->size());
  for (uint32_t id = 0; id < vocabulary_->size(); ++id) {
    const std::string_view t = vocabulary_->token(id);
    uint32_t n = 0;
    bool escaped = false;
    for (unsigned char c : t) {
      n += (c & 0xc0) != 0x80;
      escaped |= c == '\\' || c < 0x20 || c == '"';
    }
    token_characters_[id] = t.empty() ? UINT32_MAX : n;
    if (escaped) escaped_tokens_.push_back(id);
    longest_characters_ = std::max(longest_characters_, n);
  }
}

TextSpace::~TextSpace() = default;

TextState TextSpace::state(Re re, uint32_t escape, Encoding encoding) {
  if (re == RegexSpace::EMPTY) return DEAD;
  // The escape state has 28 bits, but few of its values occur, so all is folded into one key.
  uint64_t key = (static_cast<uint64_t>(re) << 32 | escape << 2) ^ static_cast<uint64_t>(encoding);
  if (const auto it = index_.find(key); it != index_.end()) return it->second;
  charge(4);
  const bool is_complete =
      escape == 0 && regex_.nullable(re);  // subtle: before anything is stored, since a limit may end it
  const auto id = static_cast<TextState>(states_.size());
  states_.push_back({re, escape, encoding, is_complete, NO_KINDS_YET, nullptr});
  return index_[key] = id;
}

void TextSpace::fill(TextState s) {
  charge(32);
  auto made = std::make_unique<TextRow>();
  made->fill(DEAD);
  const Re re = states_[s].re;
  const uint32_t escape = states_[s].escape;
  const Encoding encoding = states_[s].encoding;
  if (re != RegexSpace::EMPTY) {
    const Row &next = regex_.row(re);
    if (encoding == Encoding::Plain) {
      Re last = RegexSpace::EMPTY;
      TextState last_state = DEAD;
      for (int b = 0; b < 256; ++b) {
        if (next[b] != last) last_state = state(last = next[b], 0, encoding);
        (*made)[b] = last_state;
      }
    } else if (escape == 0) {
      Re last = RegexSpace::EMPTY;
      TextState last_state = DEAD;
      for (int b = 0x20; b < 256; ++b) {
        if (b == '"' || b == '\\') continue;
        if (next[b] != last) last_state = state(last = next[b], 0, encoding);
        (*made)[b] = last_state;
      }
      if (states_[s].complete) (*made)['"'] = LEAVE;
    }
    if (encoding != Encoding::Plain) {
      const Escapes mode = escapes_of(encoding);
      for (int b = 0x20; b < 128; ++b) {
        if ((escape == 0 && b != '\\') || !vocabulary_->spellable().test(static_cast<size_t>(b))) continue;
        Decoded d = decode(escape, static_cast<uint8_t>(b), mode);
        Re to = re;
        if (d.kind == Decoded::Bytes)
          for (int i = 0; i < d.size && to != RegexSpace::EMPTY; ++i) to = regex_.row(to)[d.bytes[i]];
        else if (d.kind != Decoded::Pending || !escape_viable(re, d.escape, encoding, [](Re) { return true; }))
          to = RegexSpace::EMPTY;
        (*made)[b] = state(to, d.escape, encoding);
      }
    }
  }
  if (encoding != Encoding::Plain) regex_.release_row(re);
  table_bytes_ += sizeof(TextRow) + sizeof(State) + 48;
  states_[s].row = std::move(made);
}

bool TextSpace::escape_viable(Re re, uint32_t escape, Encoding encoding, const std::function<bool(Re)> &enough) {
  return structgen::escape_viable(regex_, re, escape, escapes_of(encoding), vocabulary_->spellable(), enough);
}

bool TextSpace::spells(std::string_view text) const {
  // Nearly all keys need no escape.
  if (std::all_of(text.begin(), text.end(), [&](char c) {
        const auto b = static_cast<unsigned char>(c);
        return b >= 0x20 && b != '"' && b != '\\' && vocabulary_->spellable().test(b);
      }))
    return true;
  const std::string written = escape_json(text);
  return std::all_of(written.begin(), written.end(),
                     [&](char c) { return vocabulary_->spellable().test(static_cast<unsigned char>(c)); });
}

Re TextSpace::writable(Re re) {
  if (unspellable_.empty()) return re;
  std::vector<CodeRange> spelled;
  uint32_t from = 0;
  for (uint32_t c : unspellable_) {
    if (c > from) spelled.push_back({from, c - 1});
    from = c + 1;
  }
  spelled.push_back({from, 0x10ffff});
  return regex_.intersect(re, regex_.repeat(regex_.text_class(spelled), 0, -1));
}

Fragment &TextSpace::fragment(Vocabulary::Node node, TextState s, bool by_end) {
  uint64_t key = static_cast<uint64_t>(node) << 32 | s;
  std::unique_ptr<std::vector<TokensByEnd>> ends;
  if (by_end) ends = std::make_unique<std::vector<TokensByEnd>>();
  if (auto it = fragments_.find(key); it != fragments_.end()) {
    Fragment &known = *it->second;
    if (!by_end || known.by_end) return known;
    walk(node, s, ends.get());
    fragment_bytes_ -= known.memory();
    known.by_end = std::move(ends);
    fragment_bytes_ += known.memory();
    return known;
  }
  // `row` may make states but no fragment of the same key, and references to entries remain valid.
  const bool inside_json = states_[s].encoding != Encoding::Plain;
  std::unique_ptr<Fragment> made;
  if (!by_end && inside_json && states_[s].escape == 0 && states_[s].re != RegexSpace::ANY_TEXT &&
      regex_.open(states_[s].re)) {
    const Fragment &any = fragment(node, state(RegexSpace::ANY_TEXT, 0, states_[s].encoding));
    made = narrow(any, node, s);
  } else {
    made = walk(node, s, ends.get());
    made->by_end = std::move(ends);
  }
  made->exits.shrink_to_fit();
  if (node == Vocabulary::ROOT && made->dense && states_[s].escape == 0) dense_at_root_[row(s)['a']] = s;
  auto &place = fragments_[key];
  place = std::move(made);
  fragment_bytes_ += place->memory();
  return *place;
}

// For a state that any text may follow: the same tokens stay inside as for all texts, and fewer may leave.
std::unique_ptr<Fragment> TextSpace::narrow(const Fragment &any, Vocabulary::Node node, TextState s) {
  auto made = std::make_unique<Fragment>();
  made->dense = any.dense;
  made->bits = any.bits;
  made->ids = any.ids;
  made->characters = any.characters;
  const size_t base = vocabulary_->depth(node);
  std::vector<TextState> states{s};  // after each byte of the path so far
  std::string previous;
  for (const Exit &e : any.exits) {
    const std::string path = vocabulary_->path(e.node);
    size_t common = 0;
    const size_t length = path.size() - base;
    while (common < length && common < previous.size() && path[base + common] == previous[common]) ++common;
    states.resize(std::min(states.size(), common + 1));
    while (states.size() <= length)
      states.push_back(row(states.back())[static_cast<uint8_t>(path[base + states.size() - 1])]);
    if (states.back() == LEAVE) made->exits.push_back(e);
    previous = path.substr(base);
  }
  return made;
}

int64_t TextSpace::needs(Fragment &f) {
  if (f.needs >= 0) return f.needs;
  int64_t most = 0;
  for (const TokensByEnd &group : *f.by_end) {
    uint32_t longest = group.characters;
    for (const TokensByEnd::Token &one : group.tokens) longest = std::max(longest, one.characters);
    const auto &end = states_[group.end];
    // subtle: inside an escape, the expression is still before the escaped character, which has been counted already.
    const int64_t missing = end.escape == 0 ? regex_.min_length(end.re) : regex_.most_missing(end.re);
    if (missing < 0) return f.needs = UNKNOWN_NEEDS;
    most = std::max(most, longest + missing);
  }
  return f.needs = most;
}

const RestTrie &TextSpace::rests(Fragment &fragment) {
  if (fragment.rests) return *fragment.rests;
  std::vector<uint32_t> singles;
  std::vector<RestTrie::Rest> rests;
  const Vocabulary &v = *vocabulary_;
  for (const Exit &exit : fragment.exits) {
    uint16_t skip = v.depth(exit.node);
    for (Vocabulary::Node n = exit.node; n < v.end(exit.node); ++n)
      for (uint32_t id : v.ids(n)) {
        std::string_view rest = v.token(id).substr(skip);
        std::string_view before = v.token(id).substr(0, skip);
        if (std::count(rest.begin(), rest.end(), '"') >= 2 || before.find('\\') != before.npos) singles.push_back(id);
        else rests.push_back({rest, {id, exit.characters}});
      }
  }
  fragment.rests = std::make_unique<RestTrie>(std::move(rests));
  fragment.rests->singles = std::move(singles);
  fragment_bytes_ += fragment.rests->memory();
  return *fragment.rests;
}

const GapTokens &TextSpace::gap_tokens(const JsonOptions &options) {
  auto &known = gap_tokens_[uint64_t{options.max_inline} << 32 | options.max_indent];
  if (!known) {
    known = std::make_unique<GapTokens>(structgen::gap_tokens(*vocabulary_, options));
    fragment_bytes_ += known->memory();
  }
  return *known;
}

bool TextSpace::escape_can_be(uint32_t escape, std::string_view character, Escapes mode) {
  auto &known = escapes_[mode == Escapes::All];
  uint32_t code = 0;
  for (char c : character) code = code << 8 | static_cast<uint8_t>(c);
  const uint64_t asked = uint64_t{escape} << 32 | code;
  if (const auto it = known.find(asked); it != known.end()) return it->second;
  if (known.size() >= MOST_ESCAPES) known.clear();
  const bool can = structgen::escape_can_be(escape, character, mode, vocabulary_->spellable());
  known.emplace(asked, can);
  return can;
}

const std::vector<uint32_t> &TextSpace::at_most_characters(uint32_t n) {
  n = std::min(n, longest_characters_);
  if (at_most_.size() <= n) at_most_.resize(longest_characters_ + 1);
  if (!at_most_[n]) {
    auto bits = std::make_unique<std::vector<uint32_t>>(vocabulary_->words(), 0);
    for (uint32_t id = 0, size = vocabulary_->size(); id < size;) {
      uint32_t word = 0;
      const uint32_t first = id;
      for (const uint32_t end = std::min(size, first + 32); id < end; ++id)
        word |= uint32_t{token_characters_[id] <= n} << (id - first);
      (*bits)[first >> 5] = word;
    }
    for (uint32_t id : escaped_tokens_) (*bits)[id >> 5] &= ~(1u << (id & 31));
    fragment_bytes_ += bits->size() * 4;
    at_most_[n] = std::move(bits);
  }
  return *at_most_[n];
}

const EndingTokens &TextSpace::ending_tokens(bool lines) {
  auto &slot = ending_tokens_[lines];
  if (slot) return *slot;
  const Vocabulary &v = *vocabulary_;
  auto made = std::make_unique<EndingTokens>();
  made->with_quote.resize(v.words());
  made->with_end.resize(v.words());
  std::vector<Kinds> path(v.longest_token() + 1);  // by depth: the kinds of the bytes so far
  // Most subtrees have no such byte, or only a space before a word.
  for (Vocabulary::Node n = 1; n < v.node_count();) {
    charge();
    const Kinds read = path[v.depth(n)] = path[v.depth(n) - 1] | kind_of(v.byte(n)), all = read | v.kinds_below(n);
    if ((all & ITEM_MARKS) == 0 && ((all & ITEM_ENDS) == 0 || (read & ITEM_ENDS) != 0)) {
      if ((read & ITEM_ENDS) != 0)
        for (const uint32_t id : v.ids_within(n)) made->with_end[id >> 5] |= 1u << (id & 31);
      n = v.end(n);
      continue;
    }
    for (const uint32_t id : v.ids(n)) {
      if ((read & ITEM_ENDS) != 0) made->with_end[id >> 5] |= 1u << (id & 31);
      if ((read & ITEM_MARKS) != 0) add_ending(*made, id, v.token(id), lines);
    }
    ++n;
  }
  return *(slot = std::move(made));
}

// Calls `met(state, token)` for each state that a token leads to from `s`, until it returns true.
template <class Met>
bool TextSpace::any_token(TextState s, const Met &met) {
  const Vocabulary &v = *vocabulary_;
  std::vector<TextState> path(v.longest_token() + 1);
  path[0] = s;
  for (Vocabulary::Node n = 1; n < v.node_count();) {
    charge();
    const TextState to = row(path[v.depth(n) - 1])[v.byte(n)];
    if (to == DEAD) {
      n = v.end(n);
      continue;
    }
    path[v.depth(n)] = to;
    if (!v.ids(n).empty() && met(to, v.ids(n)[0])) return true;
    ++n;
  }
  return false;
}

bool TextSpace::spellable(TextState s) {
  if (vocabulary_->closed_under_bytes()) return s != DEAD;
  if (s == DEAD || complete(s)) return s != DEAD;
  if (auto it = spellable_.find(s); it != spellable_.end()) return it->second;
  std::unordered_map<TextState, TextState> from{{s, s}};
  std::vector<TextState> queue{s};
  for (size_t i = 0; i < queue.size(); ++i) {
    const TextState at = queue[i];
    if (i >= limits_.regex.emptiness_budget) return spellable_[s] = true;
    const bool found = any_token(at, [&](TextState to, uint32_t) {
      auto known = spellable_.find(to);
      if (complete(to) || (known != spellable_.end() && known->second)) return true;
      if (known == spellable_.end() && from.emplace(to, at).second) queue.push_back(to);
      return false;
    });
    if (!found) continue;
    for (TextState back = at;; back = from[back]) {
      spellable_[back] = true;
      if (back == s) return true;
    }
  }
  for (TextState dead : queue) spellable_[dead] = false;
  return false;
}

std::unique_lock<ForkMutex> TextSpace::hold() {
  if (Unfolding::is_on(regex_))
    throw std::runtime_error(
        "what unfolds a constraint (the environment of a plan, a monitor) used a constraint on the same vocabulary; "
        "give it a vocabulary of its own");
  constexpr std::chrono::milliseconds BETWEEN_CHECKS{10};
  std::unique_lock lock(mutex_, std::try_to_lock);
  while (!lock.owns_lock() && !lock.try_lock_for(BETWEEN_CHECKS)) work::check();
  return lock;
}

bool TextSpace::fewest_tokens(TextState s, std::vector<uint32_t> *out, bool *cut) {
  if (cut) *cut = false;
  if (std::string text; states_[s].encoding == Encoding::Plain && regex_.unfolds(re(s))) {
    std::optional<std::vector<uint32_t>> tokens;
    if (regex_.shortest_by_structure(re(s), &text)) tokens = vocabulary_->fewest_tokens(text);
    if (tokens) *out = std::move(*tokens);
    return tokens.has_value();
  }
  struct Step {
    TextState from;
    uint32_t token;
  };
  constexpr size_t TOKENS_A_STEP = 4;
  size_t left = SIZE_MAX;
  if (cut && limits_.mask_steps < SIZE_MAX / TOKENS_A_STEP) left = TOKENS_A_STEP * limits_.mask_steps;
  std::unordered_map<TextState, Step> seen{{s, {s, 0}}};
  std::vector<TextState> queue{s};
  if (cut) *cut = true;  // in case a limit ends the search
  for (size_t i = 0; i < queue.size(); ++i) {
    if (i >= limits_.oracle_budget || left == 0) return false;
    const TextState at = queue[i];
    if (complete(at)) {
      if (cut) *cut = false;
      out->clear();
      for (TextState back = at; back != s; back = seen.at(back).from) out->push_back(seen.at(back).token);
      std::reverse(out->begin(), out->end());
      return true;
    }
    any_token(at, [&](TextState to, uint32_t token) {
      if (seen.emplace(to, Step{at, token}).second) queue.push_back(to);
      return --left == 0;
    });
  }
  if (cut) *cut = left == 0;  // the budget may have ended at the last state, before its successors were visited
  return false;
}

int64_t TextSpace::reach(Re re) {
  if (re == RegexSpace::ANY_TEXT) return 0;
  if (const auto it = reach_.find(re); it != reach_.end()) return it->second;
  if (const int64_t missing = regex_.most_missing(re); missing >= 0)
    return reach_[re] = std::max(missing, regex_.min_length(re));
  constexpr size_t STATES = 128;
  std::unordered_set<Re> seen{re};
  std::vector<Re> todo{re};
  int64_t most = 0;
  while (!todo.empty()) {
    Re r = todo.back();
    todo.pop_back();
    int64_t n = regex_.min_length(r);
    if (n < 0 || seen.size() > STATES) return reach_[re] = -1;
    most = std::max(most, n);
    const Row &next = regex_.row(r);
    Re last = RegexSpace::EMPTY;
    for (Re to : next)
      if (to != last && (last = to) != RegexSpace::EMPTY && seen.insert(to).second) todo.push_back(to);
  }
  return reach_[re] = most;
}

void TextSpace::make_room() {
  lexemes_->make_room();
  if (fragment_bytes_ <= limits_.fragment_cache_bytes) return;
  fragments_.clear();
  dense_at_root_.clear();
  kind_tokens_.clear();
  gap_tokens_.clear();
  at_most_.clear();
  fragment_bytes_ = 0;
}

}  // namespace structgen
