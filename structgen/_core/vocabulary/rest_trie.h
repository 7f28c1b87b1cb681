// The rests of tokens in which a text ends, merged into one trie in depth-first arrays, as in Vocabulary. A walk tests
// each beginning of a rest once, not once for each token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace structgen {

struct RestTrie {
  struct Item {
    uint32_t id;
    uint32_t characters;  // of the text before the rest, where its length matters
  };
  struct Rest {
    std::string_view text;
    Item item;
  };

  RestTrie() = default;
  explicit RestTrie(std::vector<Rest> rests);
  size_t memory() const { return bytes.size() * 11 + items.size() * sizeof(Item); }

  std::vector<uint8_t> bytes;  // node 0 is the empty rest
  std::vector<uint32_t> ends;
  std::vector<uint32_t> first_item;
  std::vector<Item> items;
  // Tokens that depend on more than the rest: tested one by one.
  std::vector<uint32_t> singles;
};

}  // namespace structgen
