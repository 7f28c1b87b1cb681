// What the JSON frames share: how a value begins, and the white space between the tokens of JSON.
#pragma once

#include "automaton/automaton.h"

namespace structgen {

// A value that has not started; null where no value satisfies `control`. `space`: the white space before it.
const Frame *begin_value(StepContext &ctx, const Frame *parent, JsonControl *json, ValueControl *control,
                         uint16_t space);

// A new frame of type `T` in place of a value whose first byte has been read.
template <class T, class Control>
T *replace_value(StepContext &ctx, const ValueFrame &value, Control *control) {
  T *frame = ctx.arena.make<T>(value.parent, value.json, control);
  frame->depth = value.depth;
  frame->is_traced = value.is_traced;
  return frame;
}

// The state after a byte of white space.
const Frame *step_space(Automaton &automaton, StepContext &ctx, const ValueFrame &value, uint8_t byte);
const Frame *step_space(Automaton &automaton, StepContext &ctx, const ObjectFrame &object, uint8_t byte);
const Frame *step_space(Automaton &automaton, StepContext &ctx, const ArrayFrame &array, uint8_t byte);

// Would a container in place of this value exceed the limit on nested containers, or on the indentation?
bool is_too_deep(Automaton &automaton, const ValueFrame &value);

}  // namespace structgen
