// The tokens of a vocabulary that consist of characters of some kinds, and where others leave these kinds.
//
// A class in a pattern is mostly a union of kinds of ASCII characters (vocabulary/byte_kinds.h), repeated:
// `[a-z0-9-]{1,63}`. While each character of the kinds leads to the same next state, tokens made of them differ only by
// their number of characters. This type stores them as bit sets, once for each set of kinds. A walk through the
// vocabulary starts at the *edges*, where the first other character stands.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "vocabulary/byte_kinds.h"
#include "vocabulary/vocabulary.h"

namespace structgen {

struct KindTokens {
  static constexpr size_t LONGEST = 16;  // characters; few tokens have more

  struct Edge {
    Vocabulary::Node node;  // its byte is the first that is not of the kinds
    uint8_t before;         // characters before it
    uint8_t byte;
  };

  KindTokens(const Vocabulary &vocabulary, Kinds kinds);
  size_t memory() const;

  // By number of characters: the tokens that consist of the kinds, as bits by id. Empty if there is no such token.
  std::array<std::vector<uint32_t>, LONGEST + 1> by_length;
  std::vector<Edge> edges;               // in the order of the trie
  std::vector<Vocabulary::Node> longer;  // reached by characters of the kinds alone, one more than `LONGEST`
};

}  // namespace structgen
