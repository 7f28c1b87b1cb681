// The keys that an open object accepts next, by name: what a writer of whole instances chooses from.
//
// Steps over bytes do not show the names of the schema: where other keys are allowed, every name can go on.
// Cost: that of the mask of a key.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "automaton/automaton.h"

namespace structgen {

struct KeyOffers {
  std::vector<std::string> declared;  // in the order in which the schema declares them
  std::vector<bool> required;         // for each: it is known that the object must have it
  bool others = false;                // names that the schema does not declare are allowed
};

// Nothing where the next thing in `state` is not a key.
std::optional<KeyOffers> key_offers(const Frame *state);

}  // namespace structgen
