// A constraint as the automaton reads it: a regular expression, a JSON Schema, a grammar, or a sequence or union of plans.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "json/control.h"
#include "liveness/control.h"
#include "text/text_space.h"

namespace structgen {

struct Plan {
  enum Kind : uint8_t { Regex, Json, Grammar, Sequence, Union } kind;
  enum Texts : uint8_t { None, Empty, Some } texts = Some;  // no text at all; the empty text alone
  Re re = RegexSpace::EMPTY;
  std::unique_ptr<JsonControl> json;
  std::unique_ptr<GrammarControl> grammar;
  std::vector<std::unique_ptr<Plan>> parts;
  uint64_t max_tokens = 0;  // Sequence of one part: the tokens after which its text ends; 0: it is not counted
  bool cuts = false;        // it ends then, complete or not; else where it is complete for the first time
  bool at_limit = false;    // Sequence of one part in such a part: it ends only where that one has used up its tokens
};

}  // namespace structgen
