#include "json/key_tree.h"

#include "util/hashing.h"

namespace structgen {
namespace {

constexpr uint64_t COPIED = 2;  // units of work: to copy a node and compare its key
constexpr uint64_t COMPARED_PER_UNIT = 4;

uint32_t size_of(const KeyTree *tree) { return tree ? tree->size : 0; }

const KeyTree *with_subtrees(Arena &arena, const KeyTree &node, const KeyTree *left, const KeyTree *right) {
  charge(COPIED);
  KeyTree *copy = arena.make<KeyTree>(node);
  copy->left = left;
  copy->right = right;
  copy->size = 1 + size_of(left) + size_of(right);
  return copy;
}

// The keys before `key`, and those after it.
std::pair<const KeyTree *, const KeyTree *> split(Arena &arena, const KeyTree *tree, std::string_view key) {
  if (!tree) return {nullptr, nullptr};
  if (tree->key() < key) {
    const auto [before, after] = split(arena, tree->right, key);
    return {with_subtrees(arena, *tree, tree->left, before), after};
  }
  const auto [before, after] = split(arena, tree->left, key);
  return {before, with_subtrees(arena, *tree, after, tree->right)};
}

const KeyTree *insert(Arena &arena, const KeyTree *tree, const KeyTree &one) {
  if (!tree || tree->priority < one.priority) {
    const auto [before, after] = split(arena, tree, one.key());
    return with_subtrees(arena, one, before, after);
  }
  if (one.key() < tree->key()) return with_subtrees(arena, *tree, insert(arena, tree->left, one), tree->right);
  return with_subtrees(arena, *tree, tree->left, insert(arena, tree->right, one));
}

// The number of keys before those that begin with `prefix`; with `with_them`, these included.
uint64_t count_before(const KeyTree *tree, std::string_view prefix, bool with_them) {
  uint64_t count = 0, compared = 0;
  for (; tree; ++compared) {
    const int order = tree->key(prefix.size()).compare(prefix);
    const bool counts = order < 0 || (with_them && order == 0);
    if (counts) count += 1 + size_of(tree->left);
    tree = counts ? tree->right : tree->left;
  }
  charge(1 + compared / COMPARED_PER_UNIT);
  return count;
}

}  // namespace

const KeyTree *with_key(Arena &arena, const KeyTree *tree, std::string_view key) {
  if (has_key(tree, key)) return tree;
  return insert(arena, tree, {nullptr, nullptr, key.data(), static_cast<uint32_t>(key.size()), 1, hash_text(key).a});
}

bool has_key(const KeyTree *tree, std::string_view key) {
  uint64_t compared = 0;
  bool found = false;
  for (; tree && !found; ++compared) {
    const int order = key.compare(tree->key());
    found = order == 0;
    tree = order < 0 ? tree->left : tree->right;
  }
  charge(1 + compared / COMPARED_PER_UNIT);
  return found;
}

const KeyTree *keys_beginning_with(const KeyTree *tree, std::string_view prefix) {
  uint64_t compared = 0;
  for (; tree; ++compared) {
    const int order = tree->key(prefix.size()).compare(prefix);
    if (order == 0) break;
    tree = order < 0 ? tree->right : tree->left;
  }
  charge(1 + compared / COMPARED_PER_UNIT);
  return tree;
}

uint64_t count_keys(const KeyTree *tree, std::string_view prefix) {
  return count_before(tree, prefix, true) - count_before(tree, prefix, false);
}

}  // namespace structgen
