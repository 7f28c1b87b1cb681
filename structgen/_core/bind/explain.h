// Where a text leaves the language of a constraint, and what stood there: the monitors'
// own account, as plain data that the Python side puts into words.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "matcher/matcher.h"

namespace structgen {

// A dict: offset (bytes of the text that can stand), complete, place ("value", "string", "key",
// "object", "array", "number", "text", "end"), pointer (instance location as key and index steps),
// schemas (pointers that apply here), rules ([pointer, keyword, detail] broken by the next byte),
// keys (declared keys that may come), missing (required keys still owed), next (bytes that may follow),
// optional_space (white space between tokens may be left out). In a grammar also terminals (names of those that may
// begin), begins (bytes that continue a running lexeme, or begin a terminal without a name), within (names of
// the running lexemes and rules) and bounded (the text must be in a regular language as well).
nanobind::dict describe_to_python(Matcher &matcher, std::string_view after);

}  // namespace structgen
