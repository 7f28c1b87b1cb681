// Masks inside arrays whose items must differ.
//
// A mask is built, and cached, as if the array had no items yet. Then the tokens that end an item are read one by one
// with the earlier items in sight. Only few tokens can end one: they hold a bracket, or two quotes, or close the string
// that is being read where it equals an earlier one.
#pragma once

#include "masks/mask_builder.h"

namespace structgen {

// The mask without the tokens that would repeat an item: `mask` itself, or a changed copy.
std::shared_ptr<const Mask> remove_repeats(MaskBuilder &m, const Frame *state, std::shared_ptr<const Mask> mask);

// Clears tokens that hold a whole array with an item that is there twice, for a state outside of such arrays.
void remove_repeats_inside_tokens(MaskBuilder &m, const Frame *state, const Mask &mask);

}  // namespace structgen
