// JSON values that were read, for the comparisons of `uniqueItems`.
//
// Equality is that of JSON Schema: numbers by value, strings by characters, objects regardless of the order of keys.
// Values are compared by a keyed 128-bit hash.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "util/hashing.h"

namespace structgen {

struct ItemValue {
  enum Kind : uint8_t { Literal, Number, String, Container } kind = Literal;
  std::string text;  // Literal: its name; Number: a canonical text; String: its characters
  Hash128 hash;
};

// The kind of a JSON text, by its first byte after white space.
ItemValue::Kind kind_of_value(std::string_view json);

// Parses a JSON text that the automaton has accepted, in linear time.
ItemValue read_value(std::string_view json);

// Can a JSON text that begins with `part` have the value of `whole`? Both are containers that the automaton has read.
// If `part` ends inside a string or key, adds the rest of it that this takes to `rests`, unless null. A number that may
// continue counts as possible.
bool may_become(std::string_view part, std::string_view whole, std::set<std::string> *rests);

}  // namespace structgen
