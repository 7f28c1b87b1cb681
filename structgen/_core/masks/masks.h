// Token masks: which tokens of the vocabulary may follow a state.
//
// A mask is the set of tokens whose bytes can be stepped from the state. Three things keep
// that cheap. Texts (strings, keys, numbers, regular expressions) are answered by fragments,
// made once per vocabulary. Structure is walked, but few tokens survive it. And a finished
// mask is remembered under just the frames that were read to make it: the memory is a trie
// over frames, whose entries are a mask or "look one frame deeper".
//
// Masks are immutable and shared; evicting one never invalidates what a caller holds.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "automaton/automaton.h"
#include "automaton/grammar_steps.h"
#include "automaton/unique_items.h"
#include "vocabulary/mask.h"

namespace structgen {

class Masks {
 public:
  explicit Masks(Automaton &automaton);
  ~Masks();

  std::shared_ptr<const Mask> mask(Arena &arena, const Frame *node);
  // Of a grammar's state: tokens that end what is being read, or text to ignore, and begin a lexeme of `terminal`, at one
  // of the automaton's `places`.
  std::shared_ptr<const Mask> beginning(Arena &arena, const GrammarFrame *node, size_t place, uint32_t terminal);
  uint64_t hits() const { return hits_; }
  uint64_t misses() const { return misses_; }
  size_t memory() const { return bytes_; }

 private:
  struct Entry {
    std::shared_ptr<const Mask> mask;  // null: look one frame deeper, or where `question` leads
    Reads::Question question{};
  };

  struct Reading;
  struct Lexeme;
  struct Place;
  struct Arrival;
  class Agenda;
  // Gives back the memory that a branch of a walk has used, unless a reading that waits points to it.
  class Branch {
   public:
    explicit Branch(Masks &masks) : m_(masks), mark_(masks.ctx_->arena.mark()), arrivals_(masks.arrivals_) {}
    ~Branch() {
      if (m_.arrivals_ == arrivals_) m_.ctx_->arena.release(mark_);
    }
    Branch(const Branch &) = delete;
    Branch &operator=(const Branch &) = delete;

   private:
    Masks &m_;
    Arena::Mark mark_;
    uint64_t arrivals_;
  };
  // What is walked meanwhile has a mask of its own, which is added at the end: it may take back what it has allowed.
  class Apart {
   public:
    explicit Apart(Masks &masks);
    ~Apart();
    Apart(const Apart &) = delete;
    Apart &operator=(const Apart &) = delete;

   private:
    Masks &m_;
    Agenda *const agenda_;
    uint32_t *const out_;
    std::vector<uint32_t> own_;
  };

  static constexpr int32_t LEANED = INT32_MIN;  // the mask holds for this text alone

  std::shared_ptr<const Mask> of_reading(Arena &arena, const Frame *node);
  // Is the state inside an array whose items must differ?
  static bool may_repeat(const Frame *node) {
    const auto *array = as_if<ArrayFrame>(node);
    return node->is_traced || (array && array->control->unique);
  }
  // The mask as if no item of an array were there already, as far as the array's control leaves that open.
  std::shared_ptr<const Mask> blind(Arena &arena, const Frame *node);
  // The same without the tokens that would repeat an item (masks/unique_items.cpp).
  std::shared_ptr<const Mask> without_repeats(Arena &arena, const Frame *node, std::shared_ptr<const Mask> mask);
  struct Ahead {
    PossibleRepeats items;
    std::set<std::string> rests;  // of the string or key that is being read
    bool between = false;         // an item may begin
    bool none() const { return items.empty() && !between; }
  };
  Ahead items_ahead(const Frame *node, const Ahead *before);
  void without_alike(Vocabulary::Node at, const Frame *node, const Ahead &ahead);
  std::shared_ptr<const Mask> compute(Arena &arena, const Frame *node, int32_t *lowest);
  // All set bits for tokens below trie node `at`, whose own bytes led to `node`.
  void below(Vocabulary::Node at, const Frame *node);
  void blanks_before(const JsonFrame *node);
  void walk(Vocabulary::Node at, const Frame *node);
  void inside(const Fragment &fragment);
  void inside_any(Vocabulary::Node at, const StringFrame *node, const Fragment &fragment, uint64_t most);
  void inside_by_end(const Fragment &fragment, uint64_t least, uint64_t most);
  bool fits_surely(TextState s, uint64_t most);
  void string_below(Vocabulary::Node at, const StringFrame *node);
  void extra_kinds(Vocabulary::Node at, const KeyFrame *node, Fragment &fragment);
  void seen_keys_below(Vocabulary::Node at, const KeyFrame *node);
  void key_below(Vocabulary::Node at, const KeyFrame *node);
  void scalar_below(Vocabulary::Node at, const ScalarFrame *node);
  bool text_below(Vocabulary::Node at, const ScalarFrame *node);
  void from_exit(Vocabulary::Node exit, const Frame *after);
  // Grammars (masks/grammar.cpp, masks/grammar_tokens.cpp).
  std::shared_ptr<const Mask> of_grammar(Arena &arena, const GrammarFrame *node);
  template <class Walk>
  std::shared_ptr<const Mask> make(Arena &arena, Reads *reads, const Walk &walk);
  std::shared_ptr<const Mask> of_many(Arena &arena, const GrammarFrame *node);
  std::shared_ptr<const Mask> of_entry(Arena &arena, const GrammarFrame *node, const GrammarEntry &entry);
  struct ContextFragment;
  void grammar_below(Vocabulary::Node at, const GrammarFrame *node);
  bool lives(GrammarControl &g, const Lexeme &lexeme, LexemeState end, Within left);
  void inside_below(Vocabulary::Node at, GrammarControl &g, const Lexeme &lexeme, Lexemes::Fragment &f);
  void inside_within(Vocabulary::Node at, GrammarControl &g, const Lexeme &lexeme, const Lexemes::Fragment &f);
  void leaves_within(Vocabulary::Node at, const GrammarFrame *node, const Lexeme &lexeme);
  void lexeme_below(Vocabulary::Node at, const GrammarFrame *node, const Lexeme &lexeme, bool beside_many = false);
  template <class Visit>
  void past_lexeme(Vocabulary::Node at, const GrammarFrame *node, LexemeState lexeme, std::string &read, const Visit &visit);
  void past_below(Vocabulary::Node at, const GrammarFrame *node, const Lexeme &lexeme);
  void leaves_by_rule(Vocabulary::Node at, const GrammarFrame *node, const Lexeme &lexeme, Lexemes::Fragment &f);
  void leaves_below(Vocabulary::Node at, const GrammarFrame *node, const Lexeme &lexeme, Lexemes::Fragment &f,
                    bool beside_many = false);
  void line_below(Vocabulary::Node at, const GrammarFrame *node, const Lexeme &lexeme);
  void place_below(Vocabulary::Node at, const GrammarFrame *node, const GrammarEntry &place, Re earlier);
  void leaves(const std::vector<Lexemes::Rests> &merged, const GrammarFrame *n, const Place &place);
  static bool goes_beyond(GrammarControl &g, const EarleySet *set, const GrammarFrame *n);
  bool may_end(StepContext &ctx, const GrammarFrame *one);
  const ContextFragment &context_fragment(Vocabulary::Node at, GrammarControl &g, Context context, Re earlier);
  // Lexemes that are single texts, as many at once (masks/texts.cpp).
  struct TextRest {
    TextRest(uint8_t byte, Re rest, uint32_t number) : byte(byte), rest(rest), number(number) {}
    uint8_t byte;     // that comes next
    Re rest;          // after it
    uint32_t number;  // of the lexeme
  };
  static constexpr size_t FEW_LEXEMES = 8;  // so many have fragments of their own
  static bool is_text(GrammarControl &g, LexemeState s, Within within);
  template <class OnIds, class OnEnd>
  void walk_texts(Vocabulary::Node at, std::span<TextRest> texts, const OnIds &on_ids, const OnEnd &on_end);
  void running_texts_below(Vocabulary::Node at, const GrammarFrame *node, std::vector<Lexeme> &running);
  void context_texts(Vocabulary::Node at, const std::vector<Lexer::Running> &texts, ContextFragment &made,
                     std::vector<uint32_t> &ids);
  bool reads_line(GrammarControl &g, uint32_t terminal, const GrammarEntry &entry) const;
  void add(bool dense, const std::vector<uint32_t> &bits, const std::vector<uint32_t> &ids);
  void token_sets(const Frame *node);
  // The order in which readings are taken up (masks/walk.cpp).
  template <class Begin>
  void walk_readings(const Begin &begin);
  void walk_from(Vocabulary::Node at, const Frame *node);
  void walk_from_place(const GrammarFrame *node, const GrammarEntry &place, Re earlier);
  void arrive(const Arrival &arrival);
  void visit(Vocabulary::Node at);
  void visit_states(Vocabulary::Node at);
  template <class Take>
  void for_each_place(const std::vector<const Arrival *> &arrivals, const Take &take);
  static bool is_same(const Lexeme &a, const Lexeme &b);
  static bool only_moves_parser(GrammarControl &g, uint32_t terminal);
  Hash128 outcome(GrammarControl &g, const Reading &reading);
  Lexeme in_all_readings(const std::vector<const Arrival *> &arrivals);
  std::span<const Reading> kept(const std::vector<Reading> &readings);
  void go_on(Vocabulary::Node at, const Frame *next);
  bool is_wide(Vocabulary::Node at) const { return v_.end(at) - at > Vocabulary::WIDE; }
  bool all_set(std::span<const uint32_t> ids);
  Lexeme lexeme(const GrammarEntry &entry, const Lexer::Running &running);
  std::vector<Lexeme> running_lexemes(const GrammarFrame *node);
  const Place &place_after(const GrammarFrame *node, const Lexeme &ended);
  const Place &place_after_all(const GrammarFrame *node, const Lexeme &ended);
  template <class Make>
  const Place &remembered(bool lasts, const Hash128 &key, GrammarControl &g, const GrammarFrame *n, const Make &make);
  const EarleySet *first_like_it(GrammarControl &g, const EarleySet *set);
  void forget_places();
  void rests(const RestTrie &trie, const Frame *after, uint64_t least, uint64_t most);
  // Walks the rests below node `at`, whose own bytes led to `state`, as far as they can be read.
  template <class Emit>
  void read_rests(const RestTrie &trie, uint32_t at, const Frame *state, const Emit &emit) {
    const std::bitset<256> candidates = a_.candidates(state);
    for (uint32_t n = at + 1; n < trie.ends[at]; n = trie.ends[n]) {
      if (!candidates.test(trie.bytes[n])) continue;
      Arena::Mark mark = ctx_->arena.mark();
      if (const Frame *next = a_.step(*ctx_, state, trie.bytes[n])) {
        emit(n);
        if (trie.ends[n] > n + 1) read_rests(trie, n, next, emit);
      }
      ctx_->arena.release(mark);
    }
  }
  bool token_allowed(const Frame *node, uint32_t id, size_t skip);
  void count(uint64_t units) { a_.count_work(*ctx_, units); }
  void set(uint32_t id) { out_[id >> 5] |= 1u << (id & 31); }
  void clear(uint32_t id) { out_[id >> 5] &= ~(1u << (id & 31)); }

  Automaton &a_;
  TextSpace &text_;
  const Vocabulary &v_;
  std::unordered_map<Hash128, Entry, HashOf128> cache_;
  size_t bytes_ = 0;
  uint64_t hits_ = 0, misses_ = 0;
  uint32_t *out_ = nullptr;  // the mask that is being made
  StepContext *ctx_ = nullptr;
  std::unordered_map<Hash128, std::unique_ptr<ContextFragment>, HashOf128> context_fragments_;
  uint64_t fragments_of_ = 0;  // the generation that those are of
  // Of the mask that is made: where the parser stands after terminals, and the memory of that.
  std::unordered_map<Hash128, const Place *, HashOf128> places_;
  std::unordered_map<Hash128, const EarleySet *, HashOf128> like_;  // their sets, by what is still needed
  Arena place_memory_;
  std::vector<Reading> readings_;  // scratch: of lexemes that end at one trie node
  Agenda *agenda_ = nullptr;  // of the walk that goes on; null: none, or what takes back what it has allowed
  uint64_t arrivals_ = 0;     // that may still wait
  uint64_t work_left_ = 0;    // for all readings of the state whose mask is asked for
};

}  // namespace structgen
