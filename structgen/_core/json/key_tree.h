// The undeclared keys of an object so far, as a persistent search tree.
//
// One more key makes a new tree that shares all but one path with the old one, so every state of the object has its
// own. The priorities are keyed hashes (a treap), so the depth is logarithmic for any keys.
#pragma once

#include <string_view>

#include "util/arena.h"
#include "util/work.h"

namespace structgen {

struct KeyTree {
  const KeyTree *left, *right;
  const char *text;
  uint32_t length;
  uint32_t size;      // keys in the tree
  uint64_t priority;  // no lower than those of its subtrees
  std::string_view key() const { return {text, length}; }
  // Its first `n` bytes.
  std::string_view key(size_t n) const { return key().substr(0, n); }
};

// The tree with `key`, whose bytes live as long as the arena; the same tree if it has the key.
const KeyTree *with_key(Arena &arena, const KeyTree *tree, std::string_view key);
bool has_key(const KeyTree *tree, std::string_view key);
// The smallest subtree with all keys that begin with `prefix`; its root is one of them. Null if no key does.
const KeyTree *keys_beginning_with(const KeyTree *tree, std::string_view prefix);
uint64_t count_keys(const KeyTree *tree, std::string_view prefix);

// Calls `visit` with each key that begins with `prefix`, in order.
template <class Visit>
void each_key(const KeyTree *tree, std::string_view prefix, const Visit &visit) {
  while (tree) {
    charge(2);
    const int order = tree->key(prefix.size()).compare(prefix);
    if (order >= 0) each_key(tree->left, prefix, visit);
    if (order == 0) visit(tree->key());
    tree = order <= 0 ? tree->right : nullptr;
  }
}

}  // namespace structgen
