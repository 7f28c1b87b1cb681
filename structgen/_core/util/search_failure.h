// Why a search for a completion ended without one.
#pragma once

#include <algorithm>
#include <cstdint>

namespace structgen {

// The bounds of the search, the most informative one first.
enum class SearchFailure : uint8_t { Length, Different, Keys, Grammar, Nesting, Stack, Attempts, Choices, Nothing };

// What the caller reads; null for `Nothing`.
constexpr const char *text_of(SearchFailure why) {
  switch (why) {
    case SearchFailure::Length: return "the shortest one may be longer than a search writes (16 MiB)";
    case SearchFailure::Different: return "there are too many items that must differ, or they are too long to compare";
    case SearchFailure::Keys: return "an object may need more keys than the search writes (20,000 of no given name)";
    case SearchFailure::Grammar: return "the text of a grammar was not completed within the bounds of its search";
    case SearchFailure::Nesting: return "the shortest one may be nested 200 levels deeper than the text so far";
    case SearchFailure::Stack: return "the choices to make are nested more deeply than the stack allows";
    case SearchFailure::Attempts: return "the search has tried as many ways as it may";
    case SearchFailure::Choices: return "none of the ways to complete a text that the search knows led to one";
    case SearchFailure::Nothing: break;
  }
  return nullptr;
}

constexpr SearchFailure first_of(SearchFailure a, SearchFailure b) { return std::min(a, b); }

}  // namespace structgen
