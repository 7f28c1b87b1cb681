// An open JSON array, between its items.
#include <algorithm>

#include "automaton/frame_operations.h"
#include "automaton/json_values.h"
#include "automaton/unique_items.h"
#include "text/json_space.h"

namespace structgen {
namespace {

const Frame *close(Automaton &automaton, StepContext &ctx, const ArrayFrame &array) {
  if (!array.json->arrays().can_close(array.control, array.count)) return nullptr;
  const AfterByte after(ctx);
  if (array.control->simple) return automaton.finish(ctx, array.parent);
  const std::vector<bool> verdicts = array.json->arrays().verdicts(array.control, array.count);
  return automaton.finish(ctx, array.parent, [&](uint32_t i) { return static_cast<bool>(verdicts[i]); });
}

// Where the text of the next item begins.
uint32_t begin_item_text(StepContext &ctx, const ArrayFrame &array, uint8_t byte) {
  const bool is_first = array.phase != Phase::AfterValue;
  if (is_first && array.control->unique && !array.is_traced)
    ctx.item_text = ctx.arena.make<TextLink>(nullptr, nullptr, 1u, byte);
  // The cached comparisons are about the previous item.
  if (ctx.item_text && ctx.item_text->known_distinct_depth >= array.depth)
    ctx.item_text->known_distinct_depth = static_cast<int16_t>(array.depth - 1);
  const TextLink *before = is_first ? (array.is_traced ? array.item_text : nullptr) : ctx.item_text;
  return before ? before->length : 0;
}

const Frame *step(Automaton &automaton, StepContext &ctx, const Frame *frame, uint8_t byte) {
  const auto &array = *as<ArrayFrame>(frame);
  if (is_space(byte)) return step_space(automaton, ctx, array, byte);
  if (!space_allows(array.options(), array.space, byte)) return nullptr;
  if (byte == ']') return close(automaton, ctx, array);
  const bool is_first = array.phase != Phase::AfterValue;
  if (!is_first && byte != ',') return nullptr;
  if (!array.json->arrays().item_allowed(array.control, array.count)) return nullptr;
  ItemControl *item = array.json->arrays().next_item(array.control, array.count);
  if (!item) return nullptr;
  auto *inside = ctx.arena.make<ArrayFrame>(array);
  inside->phase = Phase::InValue;
  ++inside->count;
  inside->item = item;
  inside->item_begin = begin_item_text(ctx, array, byte);
  const uint16_t space = is_first ? array.space : space_start(array.options(), SpaceAt::AfterComma);
  const Frame *value = begin_value(ctx, inside, array.json, item->child, space);
  if (!is_first || !value) return value;
  // The byte is the first one of the item.
  return VALUE_FRAME.step(automaton, ctx, value, byte);
}

const Frame *after_child(Automaton &, StepContext &ctx, const Frame *frame, const Holds &holds) {
  const auto &array = *as<ArrayFrame>(frame);
  JsonControl &json = *array.json;
  ArrayControl *after = json.arrays().after_item(array.item, holds);
  const SeenItem *items = array.seen_items;
  if (after->unique && !add_seen_item(ctx, array, &after, &items)) return nullptr;
  if (after != array.control || after->may_violate_unique) {
    // A mask that ignores the seen items must not miss that this item may repeat one of them.
    const bool is_alive = ctx.ignore_seen_items ? json.arrays().live_after_item(after, array.count, false)
                                                : json.arrays().live(after, array.count);
    if (!is_alive) return nullptr;
  }
  auto *next = ctx.arena.make<ArrayFrame>(array);
  next->phase = Phase::AfterValue;
  next->control = after;
  next->seen_items = items;
  next->item_text = array.is_traced ? ctx.item_text : nullptr;
  next->space = space_start(array.options(), SpaceAt::AfterValue);
  return next;
}

std::bitset<256> candidates(Automaton &automaton, const Frame *frame) {
  return as<ArrayFrame>(frame)->phase == Phase::AfterValue ? json_blanks().set(',').set(']')
                                                           : any_byte(automaton, frame);
}

Hash128 signature(Automaton &automaton, const Frame *frame) {
  const auto &array = *as<ArrayFrame>(frame);
  Hash128 h = begin_json_signature(automaton, array, array.control, static_cast<uint64_t>(array.phase));
  const ArrayControl &control = *array.control;
  // From some index on all items are alike.
  uint64_t count = array.count;
  if (control.simple && control.max == UNBOUNDED) count = std::min(count, std::max(control.min, control.prefix) + 1);
  h = extend(h, count);
  return array.phase == Phase::InValue ? extend(h, reinterpret_cast<uint64_t>(array.item)) : h;
}

Frame *copy_into(FrameCopier &copier, const Frame *frame) {
  const auto &array = *as<ArrayFrame>(frame);
  ArrayFrame *copy = copier.clone_json(array);
  copy->seen_items = copier.copy(array.seen_items);
  return copy;
}

bool equals(const Frame *a, const Frame *b) {
  const auto &x = *as<ArrayFrame>(a), &y = *as<ArrayFrame>(b);
  return x.space == y.space && x.phase == y.phase && x.control == y.control && x.count == y.count &&
         x.item_begin == y.item_begin && x.item == y.item;
}

}  // namespace

const FrameOperations ARRAY_FRAME{step, never_completes, after_child, candidates, signature, copy_into, equals};

}  // namespace structgen
