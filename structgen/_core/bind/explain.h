// Explains where a text leaves the language of a constraint and what is allowed there, as plain data from which the
// Python side makes a message.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "matcher/matcher.h"

namespace structgen {

// Returns a dict:
//   offset          the length of the longest prefix that some completion has, in bytes
//   tokens_before   the tokens before the text, up to the last one that was read whole
//   expects_tokens  may a token come that is read whole?
//   complete        may the text end after `offset`?
//   place           "value", "string", "key", "object", "array", "number", "literal", "text" or "end"
//   path            the instance location, as keys and indices
//   schemas         the pointers of the schemas that apply there
//   rules           (pointer, keyword, detail) of each rule that the next byte breaks
//   keys, missing   the declared keys that may come, and the required keys that have not come
//   next            the bytes that may follow
//   optional_space  may white space between tokens be left out?
// In a grammar also:
//   terminals       the names of the terminals that may begin
//   begins          the bytes that continue a running lexeme, or begin a terminal without a name
//   within          the names of the running lexemes and rules
//   bounded         must the text be in a regular language as well?
nanobind::dict describe_to_python(Matcher &matcher, std::string_view after);

}  // namespace structgen
