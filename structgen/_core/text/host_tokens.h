// The tokens of a vocabulary, classified by what they are in internationalised host names.
//
// A name has many states, because they count characters and labels. So each mask would walk through most of the
// vocabulary and make thousands of states. But two tokens are alike in *every* state if their characters are of the
// same kinds, apart from traits on which no other character of the token depends: most words are some number of letters
// of one script. Here the tokens form a trie over such kinds, with far fewer nodes than the trie of the vocabulary. A
// walk through it keeps positions of the machine and makes no states. Invariant: exact. A trait is dropped only if
// neither a later character of the token depends on it nor whether some text completes the name after the token. Cost:
// built once for a vocabulary, in a few passes over its tokens. A walk takes one small step for each node.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "regex/host_names.h"
#include "vocabulary/vocabulary.h"

namespace structgen {

class HostTokens {
 public:
  HostTokens(const HostNameMachine &machine, const Vocabulary &vocabulary);
  size_t memory() const;

  // Tokens that stay inside the name, the characters that they add, and a state whose completions have the same
  // lengths.
  struct Group {
    std::span<const uint32_t> ids;
    uint32_t characters;
    uint64_t state;  // 0 without `by_length`
  };
  // A quote in a token, after a complete name: its trie node, and the characters before it.
  struct Quote {
    Vocabulary::Node node;
    uint32_t characters;
  };
  struct Found {
    std::vector<Group> groups;
    std::vector<Quote> quotes;  // in the order of the token trie
  };
  Found after(const HostNameMachine &machine, uint64_t state, bool by_length) const;

 private:
  using Place = HostNameMachine::Place;
  static constexpr uint16_t BYTES = 256;  // smaller symbols are bytes of incomplete characters, all others are kinds
  struct Node {
    uint32_t end;
    uint32_t first_id, first_quote;
    uint16_t symbol, depth, characters;  // a token has at most 65,535 bytes
  };
  class Builder;
  bool step(const HostNameMachine &machine, Place &place, uint16_t symbol) const;

  std::vector<HostKind> kinds_;
  std::vector<Node> nodes_;  // in depth-first order, with a sentinel at the end
  std::vector<uint32_t> ids_;
  std::vector<Vocabulary::Node> quotes_;
  size_t longest_ = 0;  // symbols
};

}  // namespace structgen
