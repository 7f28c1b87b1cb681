// Subtrees of the token trie below some first bytes: where the fragment of one state differs from the one of another.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <vector>

#include "vocabulary/vocabulary.h"

namespace structgen {

class RootSubtrees {
 public:
  RootSubtrees(const Vocabulary &vocabulary, const std::bitset<256> &first_bytes) : v_(vocabulary) {
    for (const Vocabulary::Child *c = v_.children(Vocabulary::ROOT); !c->is_end; ++c)
      if (first_bytes.test(c->byte)) roots_.push_back(c->node);
  }

  // Is copying another fragment and walking `nodes` trie nodes cheaper than walking the whole trie?
  static bool are_few(const Vocabulary &vocabulary, Vocabulary::Node nodes) {
    return nodes <= vocabulary.node_count() / 2;
  }

  const std::vector<Vocabulary::Node> &roots() const { return roots_; }  // in the order of the trie
  bool contains(Vocabulary::Node node) const {
    const auto next = std::ranges::upper_bound(roots_, node);
    return next != roots_.begin() && node < v_.end(next[-1]);
  }
  // Removes the tokens of these subtrees from a set, one bit per id.
  void remove_tokens(uint32_t *bits) const {
    for (const Vocabulary::Node root : roots_)
      for (const uint32_t id : v_.ids_within(root)) bits[id >> 5] &= ~(1u << (id & 31));
  }

 private:
  const Vocabulary &v_;
  std::vector<Vocabulary::Node> roots_;
};

}  // namespace structgen
