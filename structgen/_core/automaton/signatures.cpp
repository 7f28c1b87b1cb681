#include "automaton/signatures.h"

#include <algorithm>

namespace structgen {

Hash128 stack_signature(Automaton &automaton, const Frame *state, uint64_t tokens) {
  constexpr uint64_t STACK = 89;
  Hash128 h = hash_words(STACK);
  for (const Frame *frame = state; frame; frame = frame->parent) {
    const auto *list = as_if<AlternativesFrame>(frame);
    const Hash128 own = list ? stack_signature(automaton, list->first, tokens) : automaton.signature(frame);
    h = extend(extend(h, own), static_cast<uint64_t>(frame->depth));
    // Masks depend neither on the number of tokens left nor on the seen items.
    if (const auto *sequence = as_if<SequenceFrame>(frame); sequence && sequence->plan->max_tokens > 0) {
      const uint64_t used = tokens - std::min(tokens, sequence->first_token);
      h = extend(h, std::min(used + 1, sequence->plan->max_tokens + 1));
    }
    if (const auto *array = as_if<ArrayFrame>(frame))
      for (const SeenItem *item = array->seen_items; item; item = item->previous) h = extend(h, item->hash);
    if (frame->is_traced) h = extend(h, reinterpret_cast<uint64_t>(frame));
  }
  return h;
}

}  // namespace structgen
