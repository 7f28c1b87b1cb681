// `uniqueItems`: an item must differ from the earlier items of its array.
//
// The schema of an item excludes the scalars that the array has, so they need no more attention. Two cases are left.
// Strings of any characters are compared when they end, and so are objects and arrays. Before its end, the text of a
// container can be a prefix of an earlier item that has no other completion: a dead end. Usually the item can still
// become many other values, which is cheap to see. Otherwise the earlier items that the text can still become are
// removed from the item's schema, and the text is read again under that schema.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "automaton/automaton.h"

namespace structgen {

// The text of the item that is being read in `array`, as far as `text` goes.
std::string item_text_in(const TextLink *text, const ArrayFrame &array);

// Adds the item that ends now to those that `array` has, or to its control. False: it may not end so.
bool add_seen_item(StepContext &ctx, const ArrayFrame &array, ArrayControl **control, const SeenItem **items);

// A value directly in an array with `uniqueItems` whose control excludes the values that are there.
bool excludes_seen_values(const TextFrame &value);

// An array with `uniqueItems` that has a container as an item.
bool has_seen_containers(const Frame *frame);

// Which values the state has to avoid: values after which nothing is left, or all that are there.
enum class Avoid : uint8_t { DeadEnds, All };

// The state from which the item that is being read becomes none of the seen ones, in every array with `uniqueItems`
// around it. Null: there is no such continuation. The state itself where it need not change.
const Frame *avoid_seen_items(Automaton &automaton, StepContext &ctx, const Frame *state,
                              Avoid avoid = Avoid::DeadEnds);

// For each array around a state, from the outermost one on: the seen items that the current item can still become.
using SeenItems = std::vector<const SeenItem *>;
using PossibleRepeats = std::vector<std::pair<const ArrayFrame *, SeenItems>>;

// Arrays are left out where the item can become enough other values: now, or as long as neither a bracket nor two
// quotes are read. `Never`: no array is left out.
enum class Until : uint8_t { Now, Closed, Never };

// Looks at arrays deeper than `above`. `before`: the result for the text without its last byte, if known. Adds to
// `rests` how the string or key that is being read would go on.
PossibleRepeats find_possible_repeats(Automaton &automaton, const Frame *state, int32_t above, Until until,
                                      const PossibleRepeats *before = nullptr, std::set<std::string> *rests = nullptr);

}  // namespace structgen
