// Parts of a text that hold at most a number of tokens.
//
// Such a part is a sequence of one plan, and its frame knows the token in which its text began. Bytes know nothing of
// tokens, so steps and masks are those of the same constraint without a limit. Only where a token ends, the parts that
// have used up their tokens end: all parses inside such a part are replaced by what follows it, if one of them is
// complete there, or if the part may be cut. A part that is not complete and may not be cut goes on to the end of the
// first token after which it is complete.
//
// Invariant: a state that has a completion still has one afterwards, since what follows a part is live by itself.
#pragma once

#include "automaton/automaton.h"

namespace structgen {

// The state where a token ends, after `tokens` tokens. `is_in_character`: the text ends inside a character, where no
// part is cut.
const Frame *end_token(Automaton &automaton, StepContext &ctx, const Frame *state, uint64_t tokens,
                       bool is_in_character);

// Announces the next byte of a text whose tokens are not known: it counts as a token, after `bytes_before` others.
inline void count_byte_as_token(StepContext &ctx, uint64_t bytes_before) {
  ctx.token = bytes_before;
  ctx.is_last_byte = true;
}

// All states that tokens of any lengths may lead to here, after a text of `bytes` bytes.
const Frame *with_cuts(Automaton &automaton, StepContext &ctx, const Frame *state, uint64_t bytes);
// May a part be cut here, after `tokens` tokens?
bool may_be_cut(const Automaton &automaton, const Frame *state, uint64_t tokens);

}  // namespace structgen
