// A tokenizer's vocabulary as a flat trie over token bytes.
//
// Nodes are numbered in depth-first order (children by byte), so a subtree is the
// interval [node, end[node]) and a walk is one forward scan with skips: no pointers,
// no recursion. A node holds a list of ids, because vocabularies repeat byte strings.
// Tokens without bytes (special, unused, padding) are in no node.
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "vocabulary/byte_kinds.h"

namespace structgen {

class Vocabulary {
 public:
  using Node = uint32_t;
  static constexpr Node ROOT = 0;
  static constexpr Node NONE = UINT32_MAX;
  static constexpr size_t MAX_TOKEN_BYTES = 4096;  // walks recurse once per byte

  // `tokens[i]` empty: token i has no text. `size` >= tokens.size() is the model's padded size.
  // `specials`: tokens that constraints may name, by their names. To a constraint they have no text.
  Vocabulary(std::vector<std::string> tokens, std::vector<uint32_t> eos_ids, uint32_t size,
             std::unordered_map<std::string, uint32_t> specials = {});

  uint32_t size() const { return size_; }
  uint32_t words() const { return (size_ + 31) / 32; }
  // A set of more tokens than this is added to a mask faster as a bitmask than as a list.
  uint32_t many() const { return words() / 8; }
  const std::vector<uint32_t> &eos_ids() const { return eos_ids_; }
  bool is_eos(uint32_t id) const;
  std::optional<uint32_t> special(const std::string &text) const {
    const auto it = specials_.find(text);
    return it == specials_.end() ? std::nullopt : std::optional(it->second);
  }
  // May constraints name this token, which has no text?
  bool is_named(uint32_t id) const { return std::binary_search(named_.begin(), named_.end(), id); }
  std::string_view token(uint32_t id) const { return id < place_.size() ? token_at(place_[id]) : std::string_view(); }
  // Bytes that occur in some token, and bytes that are a token on their own.
  const std::bitset<256> &spellable() const { return spellable_; }
  const std::bitset<256> &single_bytes() const { return single_bytes_; }
  // Is every byte of a token a token on its own? Then tokens spell everything that their bytes spell.
  bool closed_under_bytes() const { return spellable_ == single_bytes_; }
  // Is every character of a token a token on its own? Then tokens spell all texts of these characters.
  bool closed() const { return closed_; }
  uint32_t longest_token() const { return longest_; }  // bytes

  uint32_t node_count() const { return static_cast<uint32_t>(nodes_.size() - 1); }
  uint8_t byte(Node node) const { return nodes_[node].byte; }
  Node end(Node node) const { return nodes_[node].end; }
  uint16_t depth(Node node) const { return nodes_[node].depth; }
  std::span<const uint32_t> ids(Node node) const {
    return {ids_.data() + nodes_[node].first_id, ids_.data() + nodes_[node + 1].first_id};
  }
  // The ids of all tokens in the subtree, including those that end at `node`.
  std::span<const uint32_t> ids_within(Node node) const {
    return {ids_.data() + nodes_[node].first_id, ids_.data() + nodes_[nodes_[node].end].first_id};
  }
  // The same as a range of *places*: indices in the order of the trie, in which the texts lie, too.
  std::pair<uint32_t, uint32_t> places_within(Node node) const {
    return {nodes_[node].first_id, nodes_[nodes_[node].end].first_id};
  }
  uint32_t id_at(uint32_t place) const { return ids_[place]; }
  std::string_view token_at(uint32_t place) const {
    return {texts_.data() + text_at_[place], text_at_[place + 1] - text_at_[place]};
  }
  // The children of a node lie side by side, in the order of their bytes, with all that a walk needs to know of each.
  // One more record ends them; its `node` and `first_id` are those of a next child. A walk that skips most children so
  // stays in a few cache lines.
  struct Child {
    Node node;
    uint32_t first_id;  // a place
    uint32_t children;  // where the child's own children lie, for `children_at`; 0: it has no children
    uint16_t kinds_below;
    uint8_t byte;
    bool is_end : 1;
    bool has_words : 1;
    uint8_t own : 6;  // number of tokens that end there; MANY_OWN: that number or more
  };
  static_assert(sizeof(Child) == 16);
  static constexpr uint8_t MANY_OWN = 63;
  const Child *children(Node node) const { return children_.data() + first_child_[node]; }
  const Child *children_at(uint32_t place) const { return children_.data() + place; }
  std::span<const uint32_t> ids_between(uint32_t first, uint32_t end) const {
    return {ids_.data() + first, ids_.data() + end};
  }
  Kinds kinds_of(const Child &child) const { return kind_sets_[child.kinds_below]; }
  // What follows `node` in the tokens of its subtree: the kinds of its bytes, and the most characters.
  Kinds kinds_below(Node node) const { return kind_sets_[nodes_[node].kinds_below]; }
  uint32_t characters_below(Node node) const { return nodes_[node].characters_below; }
  // Tokens that begin with a word, after at most one space: those that continue it, and the nodes where others leave
  // it. A walk inside a name need not visit any other nodes.
  struct Words {
    std::span<const uint32_t> ids;
    std::span<const Node> turns;   // nodes in the word with more than WIDE nodes below them that leave it
    std::span<const Node> leaves;  // ASCII nodes directly after the word, where they are fewer
    std::span<const Node> beyond;  // nodes directly after the word that are not ASCII
  };
  static constexpr uint32_t WIDE = 24;
  // Is `node` in the word of such a token, with many nodes below it?
  bool has_words(Node node) const { return nodes_[node].has_words; }
  // Where the last query of `words_between` ended. The next one searches from there, or from the start for earlier
  // nodes.
  struct WordsPlace {
    size_t word = 0, turn = 0, leave = 0, beyond = 0;
  };
  // The words of adjacent subtrees, from the top of the first one to before the node `end`, in order. All tops are in a
  // word, and their parent has more than words below it.
  Words words_between(Node first, Node end, WordsPlace &place) const;
  Node child(Node node, uint8_t byte) const;
  // The bytes of the children of `node`.
  std::bitset<256> next_bytes(Node node) const;
  Node root_child(uint8_t byte) const { return root_child_[byte]; }
  // The bytes that lead to `node`: a prefix of any token in its subtree.
  std::string path(Node node) const;
  // The fewest tokens that spell `text`; nullopt if it cannot be spelled.
  std::optional<std::vector<uint32_t>> fewest_tokens(std::string_view text) const;
  size_t memory() const;

 private:
  void lay_out(const std::vector<std::string> &tokens, const std::vector<uint32_t> &order,
               const std::vector<uint32_t> &others);
  void summarise_subtrees();
  void lay_out_children();
  void find_words();

  std::string texts_;  // of all tokens, in the order of the trie, then of those that are not in it
  std::vector<uint32_t> text_at_;
  std::vector<uint32_t> place_;  // by id
  std::vector<uint32_t> eos_ids_;
  std::unordered_map<std::string, uint32_t> specials_;
  std::vector<uint32_t> named_;  // their ids, sorted
  uint32_t size_;
  uint32_t longest_ = 0;
  std::bitset<256> spellable_, single_bytes_;
  bool closed_ = true;
  // All that a walk needs to know of a node, in 16 bytes: walks skip most nodes, so most accesses are cache misses.
  struct Entry {
    Node end = 0;
    uint32_t first_id = 0;
    uint16_t kinds_below = 0;  // an index of kind_sets_
    uint16_t depth = 0;
    uint16_t characters_below = 0;
    uint8_t byte = 0;
    bool has_words : 1 = false;
    bool is_wide : 1 = false;  // it has many children
  };
  static_assert(sizeof(Entry) == 16);
  std::vector<Entry> nodes_;  // and one more, whose first_id is the end of the last node's
  std::vector<uint32_t> ids_;
  std::vector<Kinds> kind_sets_;  // that occur below some node; the last one represents all others
  struct Word {
    Node node;
    uint32_t first_id;  // of it or of all below, in word_ids_
  };
  std::vector<Word> words_;  // and one more, after all nodes
  std::vector<uint32_t> word_ids_;
  std::vector<Node> word_turns_, word_leaves_, word_beyond_;
  std::vector<Child> children_;
  std::vector<uint32_t> first_child_;  // by node; 0 where it has none
  struct Wide {
    Node node;
    std::bitset<256> bytes;  // of its children
  };
  std::vector<Wide> wide_;  // by node
  std::array<Node, 256> root_child_;
};

}  // namespace structgen
