// Lexemes while they are read, and which tokens stay inside one.
//
// A *lexeme state* is three regular expressions: what the rest of the lexeme may be, what text must not follow
// once it has ended (a longer or an earlier match of the lexer; of whole matches, not of their beginnings), and
// what must not follow since an earlier lexeme ended. The last is taken out of the first when the lexeme begins,
// so a state that is not dead has a completion; it is carried for the next lexeme only. Without a lexer's rule both
// are empty.
//
// Lexeme states belong to the vocabulary, so grammars with the same names, numbers and strings share their
// *fragments*: which tokens below a trie node stay inside the lexeme, and where others leave it.
#pragma once

#include <array>
#include <bitset>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "util/hashing.h"
#include "text/text_space.h"

namespace structgen {

using LexemeState = uint32_t;
// What another constraint on the whole text leaves of it, as the state of a lexeme that would be the whole text.
using Within = LexemeState;
constexpr Within ANYTHING = UINT32_MAX;

class LexemeEnds;

class Lexemes {
 public:
  static constexpr LexemeState DEAD = 0;

  explicit Lexemes(TextSpace &space);
  ~Lexemes();

  // A lexeme of `language`, after which nothing of `beyond` may follow; nothing of `earlier` may begin it, where a
  // lexeme has ended just before.
  LexemeState begin(Re language, Re beyond, Re earlier);
  // The same lexeme where no text of `earlier` may be a beginning of what is left of it.
  LexemeState restricted(LexemeState s, Re earlier) {
    const uint64_t key = static_cast<uint64_t>(s) << 32 | earlier;
    if (auto it = restricted_.find(key); it != restricted_.end()) return it->second;
    const LexemeState made = begin(states_[s].language, states_[s].beyond, earlier);
    return restricted_[key] = made;
  }

  LexemeState step(LexemeState s, uint8_t byte) {
    const std::unique_ptr<Row> &row = rows_[s];
    if (!row) return first_step(s, byte);
    const LexemeState to = (*row)[byte];
    return to != UNKNOWN ? to : next(s, byte);
  }
  Within begin_within(Re language) {
    return language == RegexSpace::ANY_TEXT ? ANYTHING : begin(language, RegexSpace::EMPTY, RegexSpace::EMPTY);
  }
  Within within(LexemeState s) const { return language(s) == RegexSpace::ANY_TEXT ? ANYTHING : s; }
  Within step_within(Within w, uint8_t byte) { return w == ANYTHING ? w : within(step(w, byte)); }
  Within read_within(Within w, std::string_view bytes) {
    for (size_t i = 0; i < bytes.size() && w != DEAD; ++i) w = step_within(w, static_cast<uint8_t>(bytes[i]));
    return w;
  }
  bool may_end(Within w) const { return w == ANYTHING || complete(w); }
  bool complete(LexemeState s) const { return complete_[s]; }
  // No text in here may be the beginning of what follows the lexeme, if it ends here.
  Re after(LexemeState s) const { return states_[s].after; }
  // Bytes by which a lexeme that ends in `s` may go on to another: those of no whole match of `after`.
  bool may_follow(LexemeState s, uint8_t byte) {
    const Re after = states_[s].after;
    if (after == RegexSpace::EMPTY) return true;
    const Re rest = regex_.row(after)[byte];
    return rest == RegexSpace::EMPTY || !regex_.nullable(rest);
  }
  // One of those that forbid the same, such as what names leave that begin a keyword, and other names. Where many states
  // decide what is forbidden, as of a raw string that may follow a name `R`, all is that begins like it.
  Re near(Re after);
  bool cuts(Re near) const { return cut_.contains(near); }  // may that forbid more?
  Re rest_of(Re after, uint8_t byte) { return after == RegexSpace::EMPTY ? after : regex_.row(after)[byte]; }
  bool nullable(Re re) const { return regex_.nullable(re); }
  Re language(LexemeState s) const { return states_[s].language; }
  // The next byte of a lexeme that is a single text after which anything may follow, and the rest of the text. Such states
  // have no rows: of hundreds of texts, as the names of tools are, most are never read any further.
  std::optional<std::pair<uint8_t, Re>> text_step(LexemeState s) const {
    const State &st = states_[s];
    if (st.beyond != RegexSpace::EMPTY || st.earlier != RegexSpace::EMPTY) return std::nullopt;
    return regex_.text_step(st.language);
  }
  // The bytes that it can go on with.
  const std::bitset<256> &first(LexemeState s);
  // Bytes that some text of `re` begins with.
  const std::bitset<256> &first_of(Re re);

  // Where a lexeme ends inside tokens.
  struct Turn {  // at trie node `node`, below which many tokens go on after the lexeme
    Vocabulary::Node node;
    Re after;
  };
  struct Rests {  // at many nodes with few such tokens each, merged by what follows the lexeme
    Re after;
    RestTrie trie;
  };
  struct Leave {  // a trie node whose byte comes right after a lexeme
    Vocabulary::Node node;
    Re after;
  };
  struct Leaves {
    std::vector<Rests> merged;
    std::bitset<256> bytes;  // that the rests begin with
    std::vector<Leave> open;  // not merged yet
    std::vector<Leave> few;   // kept beside what they are merged to
    std::vector<Rests> merged_few;
  };
  // Where a lexeme is left at few nodes, or below a node with few others, readings wait for each other at each of them:
  // an ambiguous text would be read again for every place that the rests are walked from.
  static constexpr uint32_t FEW_LEAVES = 4, NARROW = 256;
  bool is_narrow(Vocabulary::Node node) const { return v_.end(node) - node <= NARROW; }
  struct Fragment {
    bool dense = false;
    std::vector<uint32_t> bits;      // of all tokens, where `dense`
    std::vector<uint32_t> ids;       // otherwise
    std::vector<LexemeState> ends;   // states in which these tokens end, each once
    std::vector<Turn> turns;
    Leaves leaves, beyond;           // elsewhere, by a byte that the lexeme cannot go on with: of ASCII, others
    std::bitset<256> overlaps;       // bytes that may be in the lexeme and may be in what follows it
    std::unordered_map<uint8_t, Leaves> overlapping;  // by that byte, made on demand
    uint64_t asked_by = 0;  // whose answer `free` is (liveness/liveness.h)
    bool free = false;
    bool leaves_any() const { return !turns.empty() || leaves.bytes.any() || beyond.bytes.any() || overlaps.any(); }
    size_t memory() const;
  };
  // Tokens below trie node `node`, whose own bytes led to `s`.
  Fragment &fragment(Vocabulary::Node node, LexemeState s);
  // Leaves by bytes that may be in the lexeme as well; makes those of `bytes` that are not there yet.
  void make_overlapping(Vocabulary::Node node, LexemeState s, Fragment &f, const std::bitset<256> &bytes);
  // Merges what is open.
  void settle(Leaves &leaves) {
    if (!leaves.open.empty()) merge(leaves);
  }
  // The rests at `leaves.few`, for a walk that does not wait for other readings.
  const std::vector<Rests> &merged_few(Leaves &leaves) {
    if (leaves.merged_few.empty() && !leaves.few.empty()) merge_few(leaves);
    return leaves.merged_few;
  }
  // Every trie node below `node` whose byte comes right after a lexeme, with what must not follow it.
  const std::vector<Leave> &each_leave(Vocabulary::Node node, LexemeState s);

  LexemeEnds &ends() { return *ends_; }

  TextSpace &space() { return space_; }
  void make_room();  // drops fragments past their budget
  uint64_t work() const { return work_; }  // done so far, in the units of automaton/automaton.h
  uint64_t generation() const { return generation_; }  // of fragments: those of earlier ones are gone
  void charge_fragments(size_t bytes) { fragment_bytes_ += bytes; }
  size_t memory() const;

 private:
  using Row = std::array<LexemeState, 256>;
  static constexpr LexemeState UNKNOWN = UINT32_MAX;
  // What a walk asks of a state that it meets often, so that it need not look at a node's children.
  struct Ahead {
    bool inside = false;          // of a character
    Kinds first = 0;              // of the characters that the lexeme can go on with, unless it is inside of one
    LexemeState words_to = DEAD;  // letters, digits and the underscore all lead there, and do not leave it
  };
  struct State {
    Re language = RegexSpace::EMPTY, beyond = RegexSpace::EMPTY, earlier = RegexSpace::EMPTY, after = RegexSpace::EMPTY;
    std::unique_ptr<std::bitset<256>> first;
    bool looked_at = false;  // what follows has been found out
    uint8_t met = 0;         // by walks, until `ahead` is made
    std::unique_ptr<Ahead> ahead;
    bool words = false;      // letters, digits and the underscore lead back to the state, all else of ASCII may follow
    Kinds loops = 0;
    std::bitset<256> overlaps;  // bytes that may be in the lexeme and may be in what follows it
  };
  LexemeState intern(Re language, Re beyond, Re earlier);
  LexemeState first_step(LexemeState s, uint8_t byte);
  LexemeState next(LexemeState s, uint8_t byte);
  template <class OnInside, class OnWhole, class OnWords, class OnLeave>
  void walk(Vocabulary::Node node, LexemeState s, bool is_part, const OnInside &inside, const OnWhole &whole, const OnWords &words,
            const OnLeave &leave);
  class Way;
  bool turns(Vocabulary::Node node, LexemeState s);
  const State &looked_at(LexemeState s);
  const Ahead *ahead(LexemeState s);  // null while it is not met often
  // Do words stay in `s`, and leave it where they end?
  bool goes_on(LexemeState s) {
    if (!states_[s].looked_at && (step(s, 'a') != s || step(s, '_') != s || step(s, '0') != s)) return false;
    return looked_at(s).words;
  }
  // Does every token below `node`, which is in state `s`, stay in it?
  bool stays(Vocabulary::Node node, LexemeState s) {
    return v_.end(node) - node > 1 && step(s, v_.byte(node + 1)) == s && (v_.kinds_below(node) & ~looked_at(s).loops) == 0;
  }
  bool stays(const Vocabulary::Child &c, const Vocabulary::Child *below, LexemeState s) {
    const State &st = states_[s];
    // subtle: what loops is found out for states in which something does.
    if (!st.looked_at && step(s, below->byte) != s) return false;
    return (v_.kinds_of(c) & ~looked_at(s).loops) == 0;
  }
  static constexpr uint32_t NEAR = 3;  // characters
  Re near(Re after, uint32_t most);
  const Fragment *similar_fragment(LexemeState s, std::bitset<256> *differing);
  void copy_outside(const Fragment &similar, const std::bitset<256> &differing, Fragment &made, std::vector<Leave> &found);
  Leaves gather(const std::vector<Leave> &found, const std::vector<bool> &known);
  void merge(Leaves &leaves);
  void merge_few(Leaves &leaves);
  bool saves(const Leaves &leaves, const std::vector<Leave> &found) const;

  TextSpace &space_;
  RegexSpace &regex_;
  const Vocabulary &v_;
  std::deque<State> states_;
  // What walks ask of a state at every node, close together.
  std::vector<std::unique_ptr<Row>> rows_;
  std::vector<uint8_t> complete_;
  std::unordered_map<Hash128, LexemeState, HashOf128> index_;
  std::unordered_map<Re, std::bitset<256>> first_bytes_;
  std::unordered_map<uint64_t, LexemeState> restricted_;
  std::unordered_map<Re, Re> near_;
  std::unordered_map<uint64_t, Re> near_in_;  // so many characters
  std::unordered_map<Hash128, Re, HashOf128> alike_;
  std::unordered_set<Re> cut_;
  std::unique_ptr<LexemeEnds> ends_;
  std::unordered_map<uint64_t, std::unique_ptr<Fragment>> fragments_;
  std::unordered_map<LexemeState, LexemeState> dense_at_root_;  // as in TextSpace
  std::unordered_map<uint64_t, std::vector<Leave>> each_leave_;
  size_t bytes_ = 0, fragment_bytes_ = 0;
  uint64_t generation_ = 0, work_ = 0;
};

}  // namespace structgen
