// Keys of an object, and which of them it has already. A key closes once in an object, however it is spelled.
//
// Declared keys, those in the key universe of the object, are a bit set. All others, *extra* keys, are texts of a
// language, and those that are there form a tree.
#pragma once

#include <string>

#include "automaton/automaton.h"

namespace structgen {

// The state after the opening quote of a key; null where no key may come.
const Frame *open_key(Automaton &automaton, StepContext &ctx, const ObjectFrame &object);
// The state after the closing quote of an extra key, whose text is not checked.
const Frame *close_extra_key(StepContext &ctx, const KeyFrame &key);
// The same for a key of one class: extra keys that match the same patterns (ObjectFrames::class_of).
const Frame *close_extra_key_of(StepContext &ctx, const KeyFrame &key, uint32_t key_class);
// The state after the closing quote of the declared key with an index.
const Frame *close_declared_key(StepContext &ctx, const KeyFrame &key, uint32_t index);

std::string key_text(const KeyFrame &key);
// Does the object have the text so far as an extra key?
bool is_extra_key_seen(const KeyFrame &key);
// May this byte lead along a key that the object has, or close it?
bool meets_seen_key(const KeyFrame &key, uint8_t byte);
// Is there a key that may come and that the object does not have?
bool has_key_left(Automaton &automaton, StepContext &ctx, const ObjectFrame &object);
// Are so few extra keys left that one token might hold all of them?
bool are_keys_running_out(Automaton &automaton, const ObjectFrame &object);

// The state of an extra key's text after `length` bytes, where the keys that the object has are removed from the
// language. They are removed only where hardly anything else is left, and then `seen` becomes null. Everywhere else
// the language has more texts than the object has keys, and closing a key checks whether it is there.
TextState remove_seen_keys(Automaton &automaton, StepContext &ctx, const ObjectFrame &object, TextState text,
                           size_t length, const KeyTree **seen);

}  // namespace structgen
