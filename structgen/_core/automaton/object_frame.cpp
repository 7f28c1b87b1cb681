// An open JSON object, between its keys and values.
#include "automaton/frame_operations.h"
#include "automaton/json_values.h"
#include "automaton/seen_keys.h"
#include "text/json_space.h"

namespace structgen {
namespace {

const Frame *begin_member(StepContext &ctx, const ObjectFrame &object) {
  auto *inside = ctx.arena.make<ObjectFrame>(object);
  inside->phase = Phase::InValue;
  return begin_value(ctx, inside, object.json, object.member->child,
                     space_start(object.options(), SpaceAt::AfterColon));
}

const Frame *read_comma(Automaton &automaton, StepContext &ctx, const ObjectFrame &object) {
  if (!object.json->objects().any_key_allowed(object.control, object.view()) || !has_key_left(automaton, ctx, object))
    return nullptr;
  auto *next = ctx.arena.make<ObjectFrame>(object);
  next->phase = Phase::AfterComma;
  next->space = space_start(object.options(), SpaceAt::AfterComma);
  return next;
}

const Frame *close(Automaton &automaton, StepContext &ctx, const ObjectFrame &object) {
  if (!object.json->objects().can_close(object.control, object.view())) return nullptr;
  const AfterByte after(ctx);
  if (object.control->simple) return automaton.finish(ctx, object.parent);
  const std::vector<bool> verdicts = object.json->objects().verdicts(object.control, object.view());
  return automaton.finish(ctx, object.parent, [&](uint32_t i) { return static_cast<bool>(verdicts[i]); });
}

const Frame *step(Automaton &automaton, StepContext &ctx, const Frame *frame, uint8_t byte) {
  const auto &object = *as<ObjectFrame>(frame);
  if (is_space(byte)) return step_space(automaton, ctx, object, byte);
  if (!space_allows(object.options(), object.space, byte)) return nullptr;
  switch (object.phase) {
    case Phase::Open:
      if (byte == '"') return open_key(automaton, ctx, object);
      return byte == '}' ? close(automaton, ctx, object) : nullptr;
    case Phase::AfterComma: return byte == '"' ? open_key(automaton, ctx, object) : nullptr;
    case Phase::AfterKey: return byte == ':' ? begin_member(ctx, object) : nullptr;
    case Phase::AfterValue:
      if (byte == ',') return read_comma(automaton, ctx, object);
      return byte == '}' ? close(automaton, ctx, object) : nullptr;
    default: return nullptr;
  }
}

const Frame *after_child(Automaton &, StepContext &ctx, const Frame *frame, const Holds &holds) {
  const auto &object = *as<ObjectFrame>(frame);
  ObjectControl *after = object.json->objects().after(object.member->frame, object.member->group_roots, holds);
  const bool is_unchanged = after == object.control && after->simple;
  if (!is_unchanged && !object.json->objects().live(after, object.view())) return nullptr;
  auto *next = ctx.arena.make<ObjectFrame>(object);
  next->phase = Phase::AfterValue;
  next->control = after;
  next->item_text = ctx.item_text;
  next->space = space_start(object.options(), SpaceAt::AfterValue);
  return next;
}

std::bitset<256> candidates(Automaton &, const Frame *frame) {
  std::bitset<256> bytes = json_blanks();
  switch (as<ObjectFrame>(frame)->phase) {
    case Phase::Open: return bytes.set('"').set('}');
    case Phase::AfterComma: return bytes.set('"');
    case Phase::AfterKey: return bytes.set(':');
    default: return bytes.set(',').set('}');
  }
}

Hash128 signature(Automaton &automaton, const Frame *frame) {
  const auto &object = *as<ObjectFrame>(frame);
  Hash128 h = begin_json_signature(automaton, object, object.control, static_cast<uint64_t>(object.phase));
  h = extend(h, object.key_count);
  h = extend(h, static_cast<uint64_t>(object.last_rank));
  h = extend(extend(h, object.keys_hash.a), object.keys_hash.b);
  const bool has_member = object.phase == Phase::AfterKey || object.phase == Phase::InValue;
  return has_member ? extend(h, reinterpret_cast<uint64_t>(object.member)) : h;
}

Frame *copy_into(FrameCopier &copier, const Frame *frame) {
  const auto &object = *as<ObjectFrame>(frame);
  ObjectFrame *copy = copier.clone_json(object);
  copy->seen_declared = copier.copy_array(object.seen_declared, object.control->universe->words());
  copy->seen_extra = copier.copy(object.seen_extra);
  return copy;
}

bool equals(const Frame *a, const Frame *b) {
  const auto &x = *as<ObjectFrame>(a), &y = *as<ObjectFrame>(b);
  return x.space == y.space && x.phase == y.phase && x.control == y.control && x.key_count == y.key_count &&
         x.keys_hash == y.keys_hash && x.member == y.member;
}

}  // namespace

const FrameOperations OBJECT_FRAME{step, never_completes, after_child, candidates, signature, copy_into, equals};

}  // namespace structgen
