// Which keys an open object offers next, by name: what a writer of whole instances chooses from.
//
// Bytes say which names can go on, not which the schema speaks of: where other keys are allowed every name
// can. Cost: that of the mask of a key.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "automaton/automaton.h"

namespace structgen {

struct KeyOffers {
  std::vector<std::string> declared;  // in the order in which the schema declares them
  std::vector<bool> owed;             // of each: whether it is known that the object must have it
  bool others = false;                // names that the schema does not declare may come
};

// Empty where the next thing in `node` is not a key.
std::optional<KeyOffers> key_offers(const Automaton &automaton, const Node *node);

}  // namespace structgen
