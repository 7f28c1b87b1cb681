// What all lexemes that may begin in a context allow below a trie node, as one fragment.
//
// Why: a parser position may begin hundreds of lexemes, each with a fragment of its own (text/lexemes.h). Many
// positions share a context, so these fragments are joined once.
// Invariant: a context fragment points to fragments of lexemes. When those are evicted, all context fragments are.
#pragma once

#include <bitset>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "automaton/automaton.h"

namespace structgen {

class MaskBuilder;

struct ContextFragment {
  // Tokens that stay inside a lexeme and can be completed in every parser state: one bit per token, or a list.
  bool dense = false;
  std::vector<uint32_t> bits, ids;
  std::vector<Lexer::Running> whole;  // lexemes with fragments that are included above
  // Lexemes that tokens may leave for others, with their fragments. They are in `whole`, too.
  std::vector<std::pair<Lexer::Running, Lexemes::Fragment *>> leaving;
  // Lexemes that are single texts, and where they end before tokens do.
  std::vector<std::pair<Lexer::Running, Vocabulary::Node>> ending;
  // Not included: lexemes whose tokens may be dead in some parser states, and newline lexemes.
  std::vector<Lexer::Running> dependent, newlines;
  std::bitset<256> touched;  // the first bytes of lexemes that may begin with what the lexeme before them forbids
};

class ContextFragments {
 public:
  // Lexemes that may begin with a text of `forbidden` are left out.
  const ContextFragment &get(MaskBuilder &m, Vocabulary::Node at, GrammarControl &grammar, Context context,
                             Re forbidden);

 private:
  std::unordered_map<Hash128, std::unique_ptr<ContextFragment>, HashOf128> fragments_;
  uint64_t generation_ = 0;  // of the lexemes' fragments
};

}  // namespace structgen
