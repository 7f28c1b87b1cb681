// What identifies a whole state, unlike `Automaton::signature`, which identifies the top frame for masks.
#pragma once

#include "automaton/automaton.h"

namespace structgen {

// States with equal hashes have the same completions, after `tokens` tokens.
Hash128 stack_signature(Automaton &automaton, const Frame *state, uint64_t tokens);

}  // namespace structgen
