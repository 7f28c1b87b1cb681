#include "masks/mask_cache.h"

#include "masks/mask_builder.h"
#include "masks/unique_items.h"

namespace structgen {
namespace {

constexpr uint64_t END_OF_STACK = 10;
constexpr size_t LINK_BYTES = 64;  // of an entry without a mask

// The key of a state together with its frame `next`, from the key without it.
Hash128 extend_key(Automaton &automaton, const Hash128 &key, const Frame *next) {
  return extend(key, next ? automaton.signature(next) : hash_words(END_OF_STACK));
}

// Is the state inside an array whose items must differ?
bool may_repeat(const Frame *state) {
  const auto *array = as_if<ArrayFrame>(state);
  return state->is_traced || (array && array->control->unique);
}

}  // namespace

std::shared_ptr<const Mask> MaskCache::mask(Arena &arena, const Frame *state) {
  StepContext bound{arena};
  automaton_.limit_mask_work(bound);
  Request request{arena, bound.work_left};
  return mask_of(request, state);
}

std::shared_ptr<const Mask> MaskCache::mask_of(Request &request, const Frame *state) {
  if (is<AlternativesFrame>(state)) {
    // A token is allowed if one of the parses allows it. Each parse has a mask of its own, which is cached.
    auto all = empty_mask();
    each_alternative(state, [&](const Frame *one) { all->add(*mask_of(request, one)); });
    return all;
  }
  if (const auto *grammar = as_if<GrammarFrame>(state)) return grammar_mask(request, grammar);
  std::shared_ptr<const Mask> made = json_mask(request, state);
  return may_repeat(state) ? without_repeats(request, state, std::move(made)) : made;
}

std::shared_ptr<const Mask> MaskCache::cached_json_mask(const Frame *state) {
  Hash128 key = automaton_.signature(state);
  for (const Frame *frame = state;;) {
    const auto it = entries_.find(key);
    if (it == entries_.end() || it->second.mask) return it == entries_.end() ? nullptr : it->second.mask;
    frame = frame->parent;
    key = extend_key(automaton_, key, frame);
  }
}

std::shared_ptr<const Mask> MaskCache::json_mask(Request &request, const Frame *state) {
  if (auto cached = cached_json_mask(state)) {
    ++hits_;
    return cached;
  }
  ++misses_;
  MaskBuilder m(automaton_, context_fragments_, request.arena, request.work_left);
  std::shared_ptr<const Mask> made;
  {
    const ArenaScope scope(request.arena);
    request.arena.prepare();
    auto mask = empty_mask();
    m.write_to(*mask);
    m.ctx.ignore_seen_items = true;
    m.add_below(Vocabulary::ROOT, state);
    if (m.ctx.may_repeat_items && !may_repeat(state)) remove_repeats_inside_tokens(m, state, *mask);
    m.add_named_tokens(state);
    m.allow_end(*mask, automaton_.accepts(m.ctx, state));
    made = std::move(mask);
  }
  request.work_left = m.ctx.work_left;
  text_.make_room();
  if (m.ctx.used_item_text) return made;  // it holds for this text alone
  evict();
  Hash128 key = automaton_.signature(state);
  for (const Frame *frame = state; frame && frame->depth > m.ctx.lowest_depth;) {
    charge();
    entries_.try_emplace(key);
    bytes_ += LINK_BYTES;
    frame = frame->parent;
    key = extend_key(automaton_, key, frame);
  }
  bytes_ += mask_bytes();
  entries_[key].mask = made;
  return made;
}

std::shared_ptr<const Mask> MaskCache::without_repeats(Request &request, const Frame *state,
                                                       std::shared_ptr<const Mask> mask) {
  MaskBuilder m(automaton_, context_fragments_, request.arena);
  return remove_repeats(m, state, std::move(mask));
}

void MaskCache::evict() {
  if (bytes_ <= text_.limits().mask_cache_bytes) return;
  entries_.clear();
  bytes_ = 0;
}

}  // namespace structgen
