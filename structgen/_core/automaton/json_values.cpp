// White space between the tokens of a JSON value, byte by byte (text/json_space.h has the states).
//
// Where a writer's layout is followed, a byte of white space may decide what comes after it: a line feed after a value
// that the container ends, a space before a comma that it goes on. Such a byte is alive only if that token is.
#include "automaton/json_values.h"

#include "text/json_space.h"

namespace structgen {
namespace {

// The white space after one more byte; nothing where the byte may not come. `is_inside`: the gap stands inside the
// container of `frame`, so that its lines are one level deeper.
std::optional<uint16_t> next_space(Automaton &automaton, const JsonFrame &frame, uint8_t byte, bool is_inside) {
  const JsonOptions &options = frame.options();
  const int next =
      space_step(options, frame.space, byte, static_cast<uint64_t>(frame.depth - options.root_depth + is_inside));
  if (next < 0) return std::nullopt;
  const bool waits_for_line_feed = next == SPACE_RETURN && options.whitespace == Whitespace::Flexible;
  if (waits_for_line_feed && !automaton.text().vocabulary().spellable().test('\n')) return std::nullopt;
  return static_cast<uint16_t>(next);
}

// Can the frame go on with `byte`, if its white space is `space`?
template <class T>
bool can_go_on(Automaton &automaton, StepContext &ctx, const T &frame, uint16_t space, uint8_t byte) {
  const TextLink *const item_text = ctx.item_text;
  T with_space = frame;
  with_space.item_text = item_text;
  with_space.space = space;
  const bool can = automaton.step(ctx, &with_space, byte) != nullptr;
  ctx.item_text = item_text;
  return can;
}

bool has_first_item(const ArrayFrame &array) {
  if (!array.json->arrays().item_allowed(array.control, array.count)) return false;
  const ItemControl *item = array.json->arrays().next_item(array.control, array.count);
  return item && item->child->first.any();
}

// Under a layout that is not flexible: can some token follow, once the white space is `space`?
template <class T>
bool leads_to_token(Automaton &automaton, StepContext &ctx, const T &frame, uint16_t space) {
  constexpr bool IS_VALUE = std::is_same_v<T, ValueFrame>, IS_ARRAY = std::is_same_v<T, ArrayFrame>;
  constexpr uint8_t CLOSING = IS_ARRAY ? ']' : '}';
  const JsonOptions &options = frame.options();
  if (options.whitespace == Whitespace::Table) {
    const SpaceRow &now = options.rows[frame.space], &next = options.rows[space];
    if (!next.can_go_on && !next.can_close) return false;
    if constexpr (!IS_VALUE) {
      // Only after a value do both a comma and a bracket come into question.
      if (frame.phase == Phase::AfterValue && (next.can_go_on != now.can_go_on || next.can_close != now.can_close))
        return (next.can_go_on && can_go_on(automaton, ctx, frame, SPACE_GOES_ON, ',')) ||
               (next.can_close && can_go_on(automaton, ctx, frame, SPACE_CLOSES, CLOSING));
    }
    return true;
  }
  if (frame.space != SPACE_EMPTY && frame.space != SPACE_AFTER) return true;
  if constexpr (IS_ARRAY)
    if (frame.space == SPACE_EMPTY) return has_first_item(frame);
  const uint16_t after = space < SPACE_TO_GO_ON ? SPACE_TO_CLOSE : SPACE_TO_GO_ON;
  const uint8_t token = frame.space == SPACE_EMPTY ? '"' : space >= SPACE_TO_GO_ON ? ',' : CLOSING;
  return can_go_on(automaton, ctx, frame, after, token);
}

template <class T>
const Frame *read_space(Automaton &automaton, StepContext &ctx, const T &frame, uint8_t byte, bool is_inside) {
  const std::optional<uint16_t> next = next_space(automaton, frame, byte, is_inside);
  if (!next) return nullptr;
  if (frame.options().whitespace != Whitespace::Flexible && !leads_to_token(automaton, ctx, frame, *next))
    return nullptr;
  T *made = ctx.arena.make<T>(frame);
  made->space = *next;
  return made;
}

}  // namespace

const Frame *begin_value(StepContext &ctx, const Frame *parent, JsonControl *json, ValueControl *control,
                         uint16_t space) {
  if (control->first.none()) return nullptr;
  auto *frame = ctx.arena.make<ValueFrame>(parent, json, control);
  frame->space = space;
  const auto *array = as_if<ArrayFrame>(parent);
  frame->is_traced = parent && (parent->is_traced || (array && array->control->unique));
  return frame;
}

const Frame *step_space(Automaton &automaton, StepContext &ctx, const ValueFrame &value, uint8_t byte) {
  return read_space(automaton, ctx, value, byte, false);
}

const Frame *step_space(Automaton &automaton, StepContext &ctx, const ObjectFrame &object, uint8_t byte) {
  return read_space(automaton, ctx, object, byte, object.phase != Phase::AfterValue);
}

const Frame *step_space(Automaton &automaton, StepContext &ctx, const ArrayFrame &array, uint8_t byte) {
  return read_space(automaton, ctx, array, byte, array.phase != Phase::AfterValue);
}

bool is_too_deep(Automaton &automaton, const ValueFrame &value) {
  if (static_cast<uint32_t>(value.depth) >= automaton.text().limits().max_depth) return true;
  const JsonOptions &options = value.options();
  return lines(options) && space_line(options, 0, static_cast<uint64_t>(value.depth - options.root_depth + 1)) < 0;
}

}  // namespace structgen
