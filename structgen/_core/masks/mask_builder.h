// Builds one mask: walks the token trie from a state and sets the bits of the tokens that may follow it.
//
// How: a walk through the trie steps the automaton byte by byte and so tests many tokens at once. For texts (strings,
// keys, numbers, regular expressions) most tokens come from fragments, which are made once per vocabulary. What is
// particular to one kind of frame is in functions of their own: masks/text_tokens.h, masks/unique_items.h and, for
// grammars, masks/grammar_walk.h and masks/lexeme_tokens.h.
//
// A builder lives as long as one mask takes. It owns the context of its steps, the parser positions that its walk
// finds, and all scratch memory, so a limit that ends a walk in the middle leaves no partial results in the cache.
#pragma once

#include "automaton/automaton.h"
#include "masks/grammar_walk.h"
#include "util/bits.h"
#include "vocabulary/mask.h"

namespace structgen {

class ContextFragments;

class MaskBuilder {
 public:
  // A builder with the work of one mask, or with what is left of it. New frames lie in `arena`.
  MaskBuilder(Automaton &automaton, ContextFragments &fragments, Arena &arena);
  MaskBuilder(Automaton &automaton, ContextFragments &fragments, Arena &arena, uint64_t work_left);
  MaskBuilder(const MaskBuilder &) = delete;
  MaskBuilder &operator=(const MaskBuilder &) = delete;

  Automaton &automaton;
  TextSpace &text;
  const Vocabulary &vocabulary;
  ContextFragments &context_fragments;
  StepContext ctx;
  GrammarWalk grammar;

  // The output. Tokens are set in `mask` from here on, which must outlive the walk.
  void write_to(Mask &mask) { words_ = mask.data(); }
  void set(uint32_t id) { set_bit(words_, id); }
  void clear(uint32_t id) { clear_bit(words_, id); }
  bool is_set(uint32_t id) const { return test_bit(words_, id); }
  void set_all(std::span<const uint32_t> ids) {
    for (const uint32_t id : ids) set(id);
  }
  // Adds a set of tokens that has a bit for each token of the vocabulary.
  void add_words(const std::vector<uint32_t> &bits) { add_bits(words_, bits.data(), vocabulary.words()); }
  uint32_t *words() { return words_; }
  // Stores whether the text may end, in which case the tokens that end a sequence are allowed.
  void allow_end(Mask &mask, bool is_complete);

  // Adds all tokens below trie node `at`, whose own bytes led to `state`.
  void add_below(Vocabulary::Node at, const Frame *state);
  // The same, by a step for each child of the node.
  void add_by_bytes(Vocabulary::Node at, const Frame *state);
  // Adds the tokens of trie node `at` and below, if its own bytes led to `state`.
  void add_from(Vocabulary::Node at, const Frame *state);
  // Adds the tokens whose rest in `trie` can be read from `state`, and whose text has a length within bounds.
  void add_rests(const RestTrie &trie, const Frame *state, uint64_t least, uint64_t most);
  // Adds the tokens that the constraint names.
  void add_named_tokens(const Frame *state);
  // Can the bytes of a token from `skip` on be read? For tokens that a walk cannot judge together with others.
  bool can_read(const Frame *state, uint32_t id, size_t skip);
  // Sets or clears the bit of a token, whose bytes from `skip` on it reads.
  void decide(const Frame *state, uint32_t id, size_t skip) {
    if (can_read(state, id, skip)) set(id);
    else clear(id);
  }
  // Walks the rests below node `at` of `trie`, whose own bytes led to `state`. Calls `emit` with the nodes that can be
  // read.
  template <class Emit>
  void read_rests(const RestTrie &trie, uint32_t at, const Frame *state, const Emit &emit) {
    const std::bitset<256> candidates = automaton.candidates(state);
    for (uint32_t n = at + 1; n < trie.ends[at]; n = trie.ends[n]) {
      if (!candidates.test(trie.bytes[n])) continue;
      const ArenaScope scope(ctx.arena);
      if (const Frame *next = automaton.step(ctx, state, trie.bytes[n])) {
        emit(n);
        if (trie.ends[n] > n + 1) read_rests(trie, n, next, emit);
      }
    }
  }
  void count(uint64_t units) { automaton.count_work(ctx, units); }

 private:
  friend class SeparateMask;
  // Adds tokens that begin with white space. What may come after it does not depend on its length.
  void add_blanks(const JsonFrame *state);

  uint32_t *words_ = nullptr;  // of the mask that is being built
};

// Releases the memory that a branch of a walk has used, unless a parse that waits in the agenda points to it.
class Branch {
 public:
  explicit Branch(MaskBuilder &m) : m_(m), mark_(m.ctx.arena.mark()), arrivals_(m.grammar.arrivals()) {}
  ~Branch() {
    if (m_.grammar.arrivals() == arrivals_) m_.ctx.arena.release(mark_);
  }
  Branch(const Branch &) = delete;
  Branch &operator=(const Branch &) = delete;

 private:
  MaskBuilder &m_;
  const Arena::Mark mark_;
  const uint64_t arrivals_;
};

// While it lives, the walk writes to a mask of its own and has no agenda. The mask is added at the end. For walks that
// clear tokens again: they must not clear tokens that another parse has allowed.
class SeparateMask {
 public:
  explicit SeparateMask(MaskBuilder &m);
  ~SeparateMask();
  SeparateMask(const SeparateMask &) = delete;
  SeparateMask &operator=(const SeparateMask &) = delete;

 private:
  MaskBuilder &m_;
  GrammarWalk::Agenda *const agenda_;
  uint32_t *const words_;
  std::vector<uint32_t> own_;
};

}  // namespace structgen
