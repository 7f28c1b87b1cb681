// Lexemes while they are read, and the tokens that stay inside one.
//
// A *lexeme state* is three regular expressions: `language`, what the rest of the lexeme may be; `beyond`, what text
// must not follow after its end, because the lexer would prefer a longer or an earlier match (whole matches, not their
// beginnings); and `earlier`, what must not follow because of the lexeme before it. The third is subtracted from the
// first when the lexeme starts, so a state that is not dead has a completion. It is kept only for the next lexeme.
// Without such rules of the lexer both are empty.
//
// Lexeme states belong to the vocabulary. So grammars with the same names, numbers and strings share their *fragments*:
// which tokens below a trie node stay inside the lexeme, and where others leave it.
#pragma once

#include <array>
#include <bitset>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "text/text_space.h"
#include "util/hashing.h"

namespace structgen {

using LexemeState = uint32_t;
// The state of the regular language that the whole text must be in, too. It is stored like the state of a lexeme that
// covers the whole text. ANYTHING: there is no such language, or it allows every continuation.
using OuterState = LexemeState;
constexpr OuterState ANYTHING = UINT32_MAX;

class LexemeEnds;

class Lexemes {
 public:
  static constexpr LexemeState DEAD = 0;

  explicit Lexemes(TextSpace &space);
  ~Lexemes();

  // Starts a lexeme of `language` that no text of `beyond` may follow and that no text of `earlier` may begin, because
  // of the lexeme before it.
  LexemeState begin(Re language, Re beyond, Re earlier);
  // The same lexeme, where no text of `earlier` may begin the rest of it.
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
  OuterState begin_outer(Re language) {
    return language == RegexSpace::ANY_TEXT ? ANYTHING : begin(language, RegexSpace::EMPTY, RegexSpace::EMPTY);
  }
  OuterState outer_state(LexemeState s) const { return language(s) == RegexSpace::ANY_TEXT ? ANYTHING : s; }
  OuterState step_outer(OuterState w, uint8_t byte) { return w == ANYTHING ? w : outer_state(step(w, byte)); }
  OuterState read_outer(OuterState w, std::string_view bytes) {
    for (size_t i = 0; i < bytes.size() && w != DEAD; ++i) w = step_outer(w, static_cast<uint8_t>(bytes[i]));
    return w;
  }
  bool may_end(OuterState w) const { return w == ANYTHING || complete(w); }
  bool complete(LexemeState s) const { return complete_[s]; }
  // The texts that must not begin what follows the lexeme, if it ends here.
  Re after(LexemeState s) const { return states_[s].after; }
  // May the next lexeme start with this byte, after a lexeme that ends in `s`? Not if the byte is a whole match of
  // `after`.
  bool may_follow(LexemeState s, uint8_t byte) {
    const Re after = states_[s].after;
    if (after == RegexSpace::EMPTY) return true;
    const Re rest = regex_.row(after)[byte];
    return rest == RegexSpace::EMPTY || !regex_.nullable(rest);
  }
  // A representative of the expressions that forbid the same as `after`: names that begin a keyword mostly forbid the
  // same as other names. Where many states decide what is forbidden, as for a raw string that may follow a name `R`,
  // the representative forbids everything that begins in the same way.
  Re coarsen(Re after);
  bool forbids_more(Re coarse) const { return cut_.contains(coarse); }  // may it forbid more than `after`?
  Re rest_of(Re after, uint8_t byte) { return after == RegexSpace::EMPTY ? after : regex_.row(after)[byte]; }
  bool nullable(Re re) const { return regex_.nullable(re); }
  Re language(LexemeState s) const { return states_[s].language; }
  // The next byte of a lexeme that is a single text which anything may follow, and the rest of the text. Such states
  // have no rows: of hundreds of texts, such as the names of tools, most are never read further.
  std::optional<std::pair<uint8_t, Re>> text_step(LexemeState s) const {
    const State &st = states_[s];
    if (st.beyond != RegexSpace::EMPTY || st.earlier != RegexSpace::EMPTY) return std::nullopt;
    return regex_.text_step(st.language);
  }
  // The bytes that can come next in the lexeme.
  const std::bitset<256> &first(LexemeState s);
  // The first bytes of the texts of `re`.
  const std::bitset<256> &first_of(Re re);

  // Where a lexeme ends inside tokens.
  struct Turn {  // a trie node below which many tokens continue after the lexeme
    Vocabulary::Node node;
    Re after;
  };
  struct Rests {  // the rests of tokens from many nodes with few such tokens each, merged by what must not follow
    Re after;
    RestTrie trie;
  };
  struct Leave {  // a trie node whose byte is the first one after the lexeme
    Vocabulary::Node node;
    Re after;
  };
  struct Leaves {
    std::vector<Rests> merged;
    std::bitset<256> bytes;   // the first bytes of the rests
    std::vector<Leave> open;  // not merged yet
    std::vector<Leave> few;   // kept, also when they are merged
    std::vector<Rests> merged_few;
  };
  // If tokens leave a lexeme at few nodes, or below a node with few others, parallel readings wait for one another at
  // each node. Otherwise an ambiguous text would be read again for every position from which the rests are walked.
  static constexpr uint32_t FEW_LEAVES = 4, NARROW = 256;
  bool is_narrow(Vocabulary::Node node) const { return v_.end(node) - node <= NARROW; }
  struct Fragment {
    bool dense = false;
    std::vector<uint32_t> bits;     // of all tokens, where `dense`
    std::vector<uint32_t> ids;      // otherwise
    std::vector<LexemeState> ends;  // states in which these tokens end, each once
    std::vector<Turn> turns;
    Leaves leaves, beyond;      // where others leave by a byte that cannot be in the lexeme: ASCII, other bytes
    std::bitset<256> overlaps;  // bytes that may be in the lexeme or start what follows it
    std::unordered_map<uint8_t, Leaves> overlapping;  // by that byte, made on demand
    uint64_t asked_by = 0;                            // the user that set `free` (liveness/liveness.h)
    bool free = false;
    bool leaves_any() const { return !turns.empty() || leaves.bytes.any() || beyond.bytes.any() || overlaps.any(); }
    size_t memory() const;
  };
  // Tokens below trie node `node`, whose bytes lead to `s`.
  Fragment &fragment(Vocabulary::Node node, LexemeState s);
  // Makes the leaves by those of `bytes` that may also be in the lexeme.
  void make_overlapping(Vocabulary::Node node, LexemeState s, Fragment &f, const std::bitset<256> &bytes);
  void merge_open(Leaves &leaves) {
    if (!leaves.open.empty()) merge(leaves);
  }
  // The rests at `leaves.few`, for a walk that does not wait for other readings.
  const std::vector<Rests> &merged_few(Leaves &leaves) {
    if (leaves.merged_few.empty() && !leaves.few.empty()) merge_few(leaves);
    return leaves.merged_few;
  }
  // Every trie node below `node` whose byte is the first one after the lexeme, with what must not follow.
  const std::vector<Leave> &each_leave(Vocabulary::Node node, LexemeState s);

  LexemeEnds &ends() { return *ends_; }

  TextSpace &space() { return space_; }
  void make_room();                                    // evicts fragments past their budget
  uint64_t work() const { return work_; }              // so far, in the units of automaton/automaton.h
  uint64_t generation() const { return generation_; }  // of fragments; those of earlier generations were evicted
  void charge_fragments(size_t bytes) { fragment_bytes_ += bytes; }
  size_t memory() const;

 private:
  using Row = std::array<LexemeState, 256>;
  static constexpr LexemeState UNKNOWN = UINT32_MAX;
  // What walks need to know of a state that they visit often, so that they need not look at the children of a node.
  struct Ahead {
    bool inside = false;          // the state is inside a character
    Kinds first = 0;              // the kinds of the next characters, unless it is inside one
    LexemeState words_to = DEAD;  // letters, digits and the underscore all lead to this state and stay in it
  };
  struct State {
    Re language = RegexSpace::EMPTY, beyond = RegexSpace::EMPTY, earlier = RegexSpace::EMPTY, after = RegexSpace::EMPTY;
    std::unique_ptr<std::bitset<256>> first;
    bool analysed = false;  // the fields below are known
    uint8_t visits = 0;     // by walks, until `ahead` is made
    std::unique_ptr<Ahead> ahead;
    bool words = false;  // letters, digits and the underscore lead back to the state, other ASCII may follow it
    Kinds loops = 0;
    std::bitset<256> overlaps;  // bytes that may be in the lexeme or start what follows it
  };
  LexemeState intern(Re language, Re beyond, Re earlier);
  LexemeState first_step(LexemeState s, uint8_t byte);
  LexemeState next(LexemeState s, uint8_t byte);
  template <class OnInside, class OnWhole, class OnWords, class OnLeave>
  void walk(Vocabulary::Node node, LexemeState s, bool is_part, const OnInside &inside, const OnWhole &whole,
            const OnWords &words, const OnLeave &leave);
  class Path;
  class FragmentBuilder;
  bool turns(Vocabulary::Node node, LexemeState s);
  const State &analyse(LexemeState s);
  const Ahead *ahead(LexemeState s);  // null unless the state is visited often
  // Do words stay in `s`, and leave it where they end?
  bool reads_words(LexemeState s) {
    if (!states_[s].analysed && (step(s, 'a') != s || step(s, '_') != s || step(s, '0') != s)) return false;
    return analyse(s).words;
  }
  // Does every token below `node`, which is in state `s`, stay in it?
  bool stays(Vocabulary::Node node, LexemeState s) {
    return v_.end(node) - node > 1 && step(s, v_.byte(node + 1)) == s &&
           (v_.kinds_below(node) & ~analyse(s).loops) == 0;
  }
  bool stays(const Vocabulary::Child &c, const Vocabulary::Child *below, LexemeState s) {
    const State &st = states_[s];
    // subtle: only states to which some byte leads back are analysed.
    if (!st.analysed && step(s, below->byte) != s) return false;
    return (v_.kinds_of(c) & ~analyse(s).loops) == 0;
  }
  static constexpr uint32_t COARSE_CHARACTERS = 3;
  Re cut(Re after, uint32_t characters);
  const Fragment *similar_fragment(LexemeState s, std::bitset<256> *differing);
  void copy_outside(const Fragment &similar, const std::bitset<256> &differing, Fragment &made,
                    std::vector<Leave> &found);
  Leaves gather(const std::vector<Leave> &found, const std::vector<bool> &known);
  void merge(Leaves &leaves);
  void merge_few(Leaves &leaves);
  bool is_smaller(const Leaves &merged, const std::vector<Leave> &found) const;

  TextSpace &space_;
  RegexSpace &regex_;
  const Vocabulary &v_;
  std::deque<State> states_;
  // What walks need at every node, stored close together.
  std::vector<std::unique_ptr<Row>> rows_;
  std::vector<uint8_t> complete_;
  std::unordered_map<Hash128, LexemeState, HashOf128> index_;
  std::unordered_map<Re, std::bitset<256>> first_bytes_;
  std::unordered_map<uint64_t, LexemeState> restricted_;
  std::unordered_map<Re, Re> coarse_;
  std::unordered_map<uint64_t, Re> cut_after_;  // by expression and number of characters
  std::unordered_map<Hash128, Re, HashOf128> representatives_;
  std::unordered_set<Re> cut_;
  std::unique_ptr<LexemeEnds> ends_;
  std::unordered_map<uint64_t, std::unique_ptr<Fragment>> fragments_;
  std::unordered_map<LexemeState, LexemeState> dense_at_root_;  // as in TextSpace
  std::unordered_map<uint64_t, std::vector<Leave>> each_leave_;
  size_t bytes_ = 0, fragment_bytes_ = 0;
  uint64_t generation_ = 0, work_ = 0;
};

}  // namespace structgen
