// A JSON value that has been read, as far as equality asks: `uniqueItems` compares them.
//
// Equality is that of JSON Schema: numbers by value, strings by characters, objects without
// regard to the order of keys. Values are compared by a keyed 128-bit hash.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "util/hashing.h"

namespace structgen {

struct ItemValue {
  enum Kind : uint8_t { Literal, Number, String, Container } kind = Literal;
  std::string text;  // Literal: its name; Number: one text for each value; String: its characters
  Hash128 hash;
};

// What kind of value a JSON text is, by its first byte after white space.
ItemValue::Kind kind_of_value(std::string_view json);

// Reads one JSON text that the automaton has accepted; linear in its length.
ItemValue read_value(std::string_view json);

// May a JSON text that begins so have the value of `whole`? Both are of containers that the automaton has read. Of the
// string or key that is being read, what it takes for that is added to `rests`, if not null. A number in progress may.
bool may_become(std::string_view part, std::string_view whole, std::set<std::string> *rests);

}  // namespace structgen
