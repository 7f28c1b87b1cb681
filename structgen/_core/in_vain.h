// Why a search for a completion ended without one.
#pragma once

#include <algorithm>
#include <cstdint>

namespace structgen {

// The bounds of the search, the one that tells the user most first.
enum class InVain : uint8_t { Length, Different, Keys, Grammar, Nesting, Stack, Attempts, Choices, Nothing };

// What the caller reads; null for `Nothing`.
constexpr const char *text_of(InVain why) {
  switch (why) {
    case InVain::Length: return "the shortest one may be longer than a search writes (16 MiB)";
    case InVain::Different: return "items that must differ are too many, or too long, to be told apart";
    case InVain::Keys: return "an object may need more keys than the search writes (20,000 of no given name)";
    case InVain::Grammar: return "the text of a grammar was not completed within the bounds of its search";
    case InVain::Nesting: return "the shortest one may be nested 200 levels deeper than the text so far";
    case InVain::Stack: return "the choices to make are nested more deeply than the stack allows";
    case InVain::Attempts: return "the search has tried as many ways as it may";
    case InVain::Choices: return "none of the ways to complete a text that the search knows led to one";
    case InVain::Nothing: break;
  }
  return nullptr;
}

constexpr InVain first_of(InVain a, InVain b) { return std::min(a, b); }

}  // namespace structgen
