// Copies the frames that the steps of one token have made out of scratch memory.
//
// Steps leave many frames that no longer count. The copier moves what the state after the token still points to, and
// nothing else, into the memory of the matcher. Frames that are there already are shared.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "automaton/frames.h"

namespace structgen {

class FrameCopier {
 public:
  FrameCopier(const Arena &from, Arena &to) : from_(from), to_(to) {}

  // The same state with all of it in `to`; the state itself where `from` does not hold it.
  const Frame *copy(const Frame *state);

  // For the operations of the kinds (automaton/frame_operations.h).
  template <class T>
  T *clone(const T &frame) {
    return to_.make<T>(frame);
  }
  template <class T>
  T *clone_json(const T &frame) {
    T *made = to_.make<T>(frame);
    if (frame.is_traced) made->item_text = copy(frame.item_text);
    return made;
  }
  template <class T>
  const T *copy_array(const T *values, size_t count) {
    if (!values || !from_.contains(values)) return values;
    auto *to = static_cast<T *>(to_.allocate(count * sizeof(T)));
    std::memcpy(to, values, count * sizeof(T));
    return to;
  }
  const SeenItem *copy(const SeenItem *last);
  const TextLink *copy(const TextLink *last);
  const KeyTree *copy(const KeyTree *tree);
  const GrammarEntry *copy(std::span<const GrammarEntry> entries);

 private:
  const EarleySet *copy(const EarleySet *set);
  const IndentLevel *copy(const IndentLevel *level);
  // The part of a list that `from` holds, oldest first.
  template <class Link>
  std::vector<const Link *> new_links(const Link *last) const;

  const Arena &from_;
  Arena &to_;
};

}  // namespace structgen
