// A tokenizer's vocabulary as a flat trie over token bytes.
//
// Nodes are numbered in depth-first order (children by byte), so a subtree is the
// interval [node, end[node]) and a walk is one forward scan with skips: no pointers,
// no recursion. A node holds a list of ids, because vocabularies repeat byte strings.
// Tokens without bytes (special, unused, padding) are in no node.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "byte_kinds.h"

namespace structgen {

class Vocabulary {
 public:
  using Node = uint32_t;
  static constexpr Node ROOT = 0;
  static constexpr Node NONE = UINT32_MAX;
  static constexpr size_t MAX_TOKEN_BYTES = 4096;  // walks recurse once per byte

  // `tokens[i]` empty: token i is not text. `size` >= tokens.size() is the model's padded size.
  // `specials`: tokens that constraints may name, by their text; they are not text to a constraint.
  Vocabulary(std::vector<std::string> tokens, std::vector<uint32_t> eos_ids, uint32_t size,
             std::unordered_map<std::string, uint32_t> specials = {});

  uint32_t size() const { return size_; }
  uint32_t words() const { return (size_ + 31) / 32; }
  const std::vector<uint32_t> &eos_ids() const { return eos_ids_; }
  bool is_eos(uint32_t id) const;
  std::optional<uint32_t> special(const std::string &text) const {
    const auto it = specials_.find(text);
    return it == specials_.end() ? std::nullopt : std::optional(it->second);
  }
  const std::string &token(uint32_t id) const {
    static const std::string none;
    return id < tokens_.size() ? tokens_[id] : none;
  }
  // Bytes that occur in some token, and bytes that are a token on their own.
  const std::bitset<256> &spellable() const { return spellable_; }
  const std::bitset<256> &single_bytes() const { return single_bytes_; }
  // Every byte of a token is a token on its own: then tokens spell all that their bytes spell.
  bool closed_under_bytes() const { return spellable_ == single_bytes_; }
  uint32_t longest_token() const { return longest_; }  // bytes

  uint32_t node_count() const { return static_cast<uint32_t>(nodes_.size() - 1); }
  uint8_t byte(Node node) const { return nodes_[node].byte; }
  Node end(Node node) const { return nodes_[node].end; }
  uint16_t depth(Node node) const { return nodes_[node].depth; }
  std::span<const uint32_t> ids(Node node) const {
    return {ids_.data() + nodes_[node].first_id, ids_.data() + nodes_[node + 1].first_id};
  }
  // Of all tokens in the subtree, the one that ends at `node` included.
  std::span<const uint32_t> ids_within(Node node) const {
    return {ids_.data() + nodes_[node].first_id, ids_.data() + nodes_[nodes_[node].end].first_id};
  }
  // What follows `node` in the tokens of its subtree: the kinds of its bytes, and the most characters.
  Kinds kinds_below(Node node) const { return kind_sets_[nodes_[node].kinds_below]; }
  uint32_t characters_below(Node node) const { return nodes_[node].characters_below; }
  // Where the tokens that begin with a word, after one space at most, go on with it or leave it, in order of nodes. A
  // walk that is inside a name need not look at other nodes.
  struct WordEvent {
    enum Kind : uint8_t { WHOLE, ON, LEAVES };  // all below is words; the node is; it is not, but its parent
    Node node, parent;
    uint32_t first_id, end_id;  // of the tokens that stay: all below, or the node's own; as places in ids_within(ROOT)
    Kind kind;
    uint8_t byte;
  };
  // Is `node` in such a token's word, and much below it?
  bool has_words(Node node) const { return nodes_[node].has_words; }
  // Those below `node`, itself left out.
  std::span<const WordEvent> words_below(Node node) const;
  Node child(Node node, uint8_t byte) const;
  Node root_child(uint8_t byte) const { return root_child_[byte]; }
  // The bytes that lead to `node`: a prefix of any token in its subtree.
  std::string path(Node node) const;
  // Fewest tokens that spell `text`; nullopt when it cannot be spelled.
  std::optional<std::vector<uint32_t>> fewest_tokens(std::string_view text) const;
  size_t memory() const;

 private:
  void sum_up();
  void find_words();

  std::vector<std::string> tokens_;
  std::vector<uint32_t> eos_ids_;
  std::unordered_map<std::string, uint32_t> specials_;
  uint32_t size_;
  uint32_t longest_ = 0;
  std::bitset<256> spellable_, single_bytes_;
  // What a walk asks of a node, in 16 bytes: walks skip most nodes, so that most they meet are a cache miss.
  struct Entry {
    Node end = 0;
    uint32_t first_id = 0;
    uint16_t kinds_below = 0;  // an index of kind_sets_
    uint16_t depth = 0;
    uint16_t characters_below = 0;
    uint8_t byte = 0;
    bool has_words = false;
  };
  static_assert(sizeof(Entry) == 16);
  std::vector<Entry> nodes_;  // and one more, whose first_id is the end of the last node's
  std::vector<uint32_t> ids_;
  std::vector<Kinds> kind_sets_;  // that occur below some node; the last stands for all others
  std::vector<WordEvent> words_;
  std::array<Node, 256> root_child_;
};

}  // namespace structgen
