#include "automaton/frame_copier.h"

#include <algorithm>

#include "automaton/frame_operations.h"
#include "util/serial.h"
#include "util/stack.h"

namespace structgen {
namespace {

constexpr char LONG_TOKEN[] = "a token is too long";

}  // namespace

const Frame *FrameCopier::copy(const Frame *state) {
  if (!state || !from_.contains(state)) return state;
  check_stack(LONG_TOKEN);
  Frame *made = operations_of(state->kind).copy_into(*this, state);
  made->parent = copy(state->parent);
  return made;
}

template <class Link>
std::vector<const Link *> FrameCopier::new_links(const Link *last) const {
  std::vector<const Link *> links;
  for (const Link *l = last; l && from_.contains(l); l = l->previous) links.push_back(l);
  std::reverse(links.begin(), links.end());
  return links;
}

const SeenItem *FrameCopier::copy(const SeenItem *last) {
  for (const SeenItem *item : new_links(last)) {
    SeenItem *made = to_.make<SeenItem>(*item);
    if (item->previous && from_.contains(item->previous)) made->previous = last;
    made->text = copy_array(item->text, item->length);
    last = made;
  }
  return last;
}

const TextLink *FrameCopier::copy(const TextLink *last) {
  for (const TextLink *link : new_links(last)) {
    TextLink *made = to_.make<TextLink>(*link);
    if (link->previous && from_.contains(link->previous)) made->previous = last;
    last = made;
  }
  return last;
}

const KeyTree *FrameCopier::copy(const KeyTree *tree) {
  if (!tree || !from_.contains(tree)) return tree;
  KeyTree *made = to_.make<KeyTree>(*tree);
  made->text = copy_array(tree->text, tree->length);
  made->left = copy(tree->left);
  made->right = copy(tree->right);
  return made;
}

const EarleySet *FrameCopier::copy(const EarleySet *set) {
  if (!set || !from_.contains(set)) return set;
  if (set->kept) return set->kept;
  check_stack(LONG_TOKEN);
  auto *kernels = static_cast<Kernel *>(to_.allocate(set->count * sizeof(Kernel)));
  auto *origins = static_cast<const EarleySet **>(to_.allocate(set->count * sizeof(EarleySet *)));
  std::copy(set->kernels, set->kernels + set->count, kernels);
  for (uint32_t i = 0; i < set->count; ++i) origins[i] = copy(set->origins[i]);
  EarleySet *made = to_.make<EarleySet>(*set);
  made->before = copy(set->before);
  made->kernels = kernels;
  made->origins = origins;
  made->link = nullptr;  // it may lead to a set that is not copied
  made->id = next_serial();
  set->kept = made;
  return made;
}

const IndentLevel *FrameCopier::copy(const IndentLevel *level) {
  if (!level || !from_.contains(level)) return level;
  check_stack(LONG_TOKEN);
  IndentLevel *made = to_.make<IndentLevel>(*level);
  made->below = copy(level->below);
  return made;
}

const GrammarEntry *FrameCopier::copy(std::span<const GrammarEntry> entries) {
  if (!from_.contains(entries.data())) return entries.data();
  auto *made = static_cast<GrammarEntry *>(to_.allocate(entries.size_bytes()));
  std::copy(entries.begin(), entries.end(), made);
  for (size_t i = 0; i < entries.size(); ++i) {
    made[i].set = copy(entries[i].set);
    made[i].indent = copy(entries[i].indent);
  }
  return made;
}

}  // namespace structgen
