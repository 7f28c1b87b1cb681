// A constraint in the form that the automaton reads: a regular expression, a JSON Schema, a grammar, or a sequence or
// union of plans.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "json/control/control.h"
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
  // A sequence of one part can limit the number of its tokens (automaton/token_counts.h).
  uint64_t max_tokens = 0;  // 0: no limit
  bool cuts = false;        // at the limit the text ends, complete or not; else at the first place where it is complete
  bool at_limit = false;    // inside such a part: this text may end only where the part has used up its tokens
};

}  // namespace structgen
