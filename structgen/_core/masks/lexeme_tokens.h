// What tokens lead to from a parse of a grammar.
//
// Tokens that stay inside a running lexeme come from its fragment at once. Tokens that leave it continue at the parser
// position after it, and the lexemes that may begin there have fragments in turn. So the parser moves once for each
// terminal that a token can end with, not once for each token. What all lexemes of a context allow below a trie node is
// one more fragment (masks/context_fragments.h).
//
// These functions run within a walk (masks/grammar_walk.h).
#pragma once

#include "masks/grammar_walk.h"

namespace structgen {

// Adds the tokens below trie node `at`, whose own bytes led to `state`.
void add_grammar_tokens(MaskBuilder &m, Vocabulary::Node at, const GrammarFrame *state);
// Adds the tokens that begin at a parser position, none of them with a text of `forbidden`.
void add_position_tokens(MaskBuilder &m, Vocabulary::Node at, const GrammarFrame *state, const GrammarEntry &position,
                         Re forbidden);

}  // namespace structgen
