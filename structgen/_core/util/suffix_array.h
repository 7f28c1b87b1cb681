// The suffixes of a text in order: where each begins, the smallest first.
//
// Linear time and memory, by induced sorting (G. Nong, S. Zhang, W. H. Chan, "Two Efficient Algorithms for Linear Time
// Suffix Array Construction", 2011). A suffix that is the beginning of another one comes before it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace structgen {

// Of texts below 2 GiB.
std::vector<int32_t> suffix_array(std::string_view text);

}  // namespace structgen
