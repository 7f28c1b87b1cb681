// Tokens that begin with white space between the tokens of a JSON text.
//
// Why: where the layout is flexible, any of some hundred runs of spaces and line feeds may begin a mask, and what follows
// does not depend on the run. The runs are walked once for a vocabulary, and what comes after them is merged in one trie.
#pragma once

#include <cstdint>
#include <vector>

#include "vocabulary/rest_trie.h"
#include "text/json_options.h"
#include "vocabulary/vocabulary.h"

namespace structgen {

struct GapTokens {
  std::vector<uint32_t> blank;  // tokens of white space alone
  RestTrie rests;               // other tokens, from their first byte that is no white space
  size_t memory() const { return sizeof(*this) + blank.size() * 4 + rests.memory(); }
};

// The tokens that may come where a flexible gap begins.
GapTokens gap_tokens(const Vocabulary &vocabulary, const JsonOptions &options);

}  // namespace structgen
