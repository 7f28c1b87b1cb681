// Tokens that may follow a state inside a text: a JSON string, a key of an object, a number, a regular expression.
//
// Tokens that stay inside the text come from its fragment (text/text_space.h), as far as bounds on its length leave
// that open. Tokens that leave it are walked on from the state after the text, all exits of the fragment together.
#pragma once

#include "masks/mask_builder.h"

namespace structgen {

// Add the tokens below trie node `at`, whose own bytes led to `state`.
void add_string_tokens(MaskBuilder &m, Vocabulary::Node at, const StringFrame *state);
void add_scalar_tokens(MaskBuilder &m, Vocabulary::Node at, const ScalarFrame *state);
void add_key_tokens(MaskBuilder &m, Vocabulary::Node at, const KeyFrame *state);  // masks/key_tokens.cpp

// Adds the tokens of an open-ended text, after which another constraint may go on at any byte. Tokens that stay inside
// the text are added together, the others one by one. False: the others are too many, and not all tokens have been
// added.
bool add_open_ended_text(MaskBuilder &m, Vocabulary::Node at, const ScalarFrame *state);

// Adds the tokens of a fragment that stay inside the text.
void add_inside(MaskBuilder &m, const Fragment &fragment);

// Adds the tokens that leave a text at an exit of its fragment, for the text at the root of the trie. `after`: the
// state after the text. Bounds are on the characters that a token has before its exit.
void add_exits_at_root(MaskBuilder &m, Fragment &fragment, const Frame *text, const Frame *after, uint64_t least,
                       uint64_t most);

}  // namespace structgen
