// The cache of token masks: which tokens of the vocabulary may follow a state.
//
// A mask is the set of tokens whose bytes can be stepped from the state. Its key holds only what it depends on, so the
// keys have different lengths. An entry without a mask says that the key must be extended, and by what:
//
// - JSON: a key starts with the signature of the state's top frame, and is extended by that of the parent frame.
// - Grammars: a key starts with the state of the lexer and the signatures of all outer frames. It is extended by the
//   result of a query to the parse: to one of its Earley sets, its indentation or its brackets.
//
// Invariant: masks are immutable and shared; evicting one never invalidates what a caller holds.
#pragma once

#include <memory>
#include <unordered_map>

#include "automaton/automaton.h"
#include "masks/context_fragments.h"
#include "vocabulary/mask.h"

namespace structgen {

class MaskBuilder;

class MaskCache {
 public:
  explicit MaskCache(Automaton &automaton) : automaton_(automaton), text_(automaton.text()) {}

  // The mask of a state: from the cache, or built.
  std::shared_ptr<const Mask> mask(Arena &arena, const Frame *state);
  // Of a grammar's state: tokens that end the running lexeme, or text to ignore, and begin a lexeme of `terminal`, at
  // one of the state's parser positions (`positions_of`). Not cached.
  std::shared_ptr<const Mask> beginning(Arena &arena, const GrammarFrame *state, size_t position, uint32_t terminal);
  uint64_t hits() const { return hits_; }
  uint64_t misses() const { return misses_; }
  size_t memory() const { return bytes_; }

 private:
  struct Entry {
    std::shared_ptr<const Mask> mask;  // null: extend the key, as the head of this file says
    MaskDependencies::Query query{};
  };
  // The work that is left for one call of `mask`, which may build several masks.
  struct Request {
    Arena &arena;
    uint64_t work_left;
  };

  std::shared_ptr<const Mask> mask_of(Request &request, const Frame *state);
  // JSON and other texts. The mask ignores earlier items of an array, unless the array's control excludes them.
  std::shared_ptr<const Mask> json_mask(Request &request, const Frame *state);
  std::shared_ptr<const Mask> cached_json_mask(const Frame *state);
  std::shared_ptr<const Mask> without_repeats(Request &request, const Frame *state, std::shared_ptr<const Mask> mask);
  // Grammars (masks/grammar_masks.cpp).
  std::shared_ptr<const Mask> grammar_mask(Request &request, const GrammarFrame *state);
  std::shared_ptr<const Mask> mask_of_parses(Request &request, const GrammarFrame *state);
  std::shared_ptr<const Mask> mask_of_parse(Request &request, const GrammarFrame *state, const GrammarEntry &parse);
  template <class Walk>
  std::shared_ptr<const Mask> build_grammar_mask(Request &request, MaskDependencies *dependencies, const Walk &walk);

  std::shared_ptr<Mask> empty_mask() const { return new_mask(text_.mask_pool()); }
  size_t mask_bytes() const { return text_.vocabulary().words() * 4 + 128; }
  // Empties the cache if it has grown past its limit.
  void evict();

  Automaton &automaton_;
  TextSpace &text_;
  ContextFragments context_fragments_;
  std::unordered_map<Hash128, Entry, HashOf128> entries_;
  size_t bytes_ = 0;
  uint64_t hits_ = 0, misses_ = 0;
};

}  // namespace structgen
