// The tokens of a vocabulary by how far they are made of characters of some kinds.
//
// A class in a pattern is mostly a union of kinds of ASCII characters (vocabulary/byte_kinds.h), repeated: `[a-z0-9-]{1,63}`. While each
// character of the kinds leads to the same next state, tokens made of them differ only by their number of characters.
// They are bit sets here, made once for each set of kinds, and a walk through the vocabulary begins at the *edges*, where
// the first other character stands.
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
  std::vector<Vocabulary::Node> longer;  // of the kinds up to there, and longer by one than `LONGEST`
};

}  // namespace structgen
