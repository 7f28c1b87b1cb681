// Tokens of the vocabulary that begin with white space between two tokens of a JSON text.
//
// Where the layout is flexible, a mask may begin with any of some hundred runs of spaces and line feeds, and what
// follows does not depend on the run. So the runs are walked once for a vocabulary, and the rests of tokens are merged
// in one trie.
#pragma once

#include <cstdint>
#include <vector>

#include "text/json_options.h"
#include "vocabulary/rest_trie.h"
#include "vocabulary/vocabulary.h"

namespace structgen {

struct GapTokens {
  std::vector<uint32_t> blank;  // tokens of only white space
  RestTrie rests;               // other tokens, from their first byte after the white space
  size_t memory() const { return sizeof(*this) + blank.size() * 4 + rests.memory(); }
};

// Collects the tokens that may come at the start of a flexible gap.
GapTokens gap_tokens(const Vocabulary &vocabulary, const JsonOptions &options);

}  // namespace structgen
