// JSON string escapes, decoded byte by byte before a regular language reads the text.
//
// An escape state is one integer (0: outside an escape). `decode` returns what a byte of the JSON text means: dead,
// nothing yet, the closing quote, or decoded UTF-8 bytes. Canonical escapes are those that `json.dumps(...,
// ensure_ascii=False)` writes: the short forms, and \u00XX for other control characters. Lone surrogates are rejected.
#pragma once

#include <bitset>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "regex/regex.h"

namespace structgen {

enum class Escapes : uint8_t { Canonical, All };

struct Decoded {
  enum Kind : uint8_t { Dead, Pending, Quote, Bytes } kind;
  uint8_t size = 0;
  uint8_t bytes[4] = {};
  uint32_t escape = 0;  // the escape state afterwards
};

Decoded decode(uint32_t escape, uint8_t byte, Escapes mode);

// Can the pending escape, written with the given bytes, still become a character of `re` after which `enough` holds?
bool escape_viable(RegexSpace &space, Re re, uint32_t escape, Escapes mode, const std::bitset<256> &bytes,
                   const std::function<bool(Re)> &enough);
// Can it become this character (UTF-8)?
bool escape_can_be(uint32_t escape, std::string_view character, Escapes mode, const std::bitset<256> &bytes);

// Returns `text` as the inside of a JSON string, canonically escaped.
std::string escape_json(std::string_view text);

}  // namespace structgen
