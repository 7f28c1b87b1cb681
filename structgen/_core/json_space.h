// White space between JSON tokens: one small counter per gap.
//
// Flexible: a few blanks in line, or one line feed and an indentation; that is what
// pretty-printers write, and it cannot be drawn out for ever. None before or after the value. JsonDumps: exactly one space
// after ',' and ':'. Compact: none.
#pragma once

#include <cstdint>

#include "schema.h"

namespace structgen {

enum class SpaceAt : uint8_t { Start, Open, AfterKey, AfterColon, AfterComma, AfterValue };

constexpr uint16_t SPACE_CLOSED = 60'000;  // no (more) white space
constexpr uint16_t SPACE_OWED = 60'001;    // exactly one space
constexpr uint16_t SPACE_RETURN = 30'000;  // a carriage return waits for its line feed
constexpr uint16_t SPACE_INDENT = 30'001;  // plus the blanks of the indentation

inline bool is_space(uint8_t b) { return b == ' ' || b == '\n' || b == '\t' || b == '\r'; }

inline uint16_t space_start(const JsonOptions &o, SpaceAt at) {
  if (at == SpaceAt::Start) return SPACE_CLOSED;
  if (o.whitespace == Whitespace::Flexible) return 0;
  if (o.whitespace == Whitespace::JsonDumps && (at == SpaceAt::AfterColon || at == SpaceAt::AfterComma)) return SPACE_OWED;
  return SPACE_CLOSED;
}

inline int space_step(const JsonOptions &o, uint16_t s, uint8_t b) {
  if (s == SPACE_OWED) return b == ' ' ? SPACE_CLOSED : -1;
  if (s == SPACE_CLOSED) return -1;
  if (s == SPACE_RETURN) return b == '\n' ? SPACE_INDENT : -1;
  if (b == ' ' || b == '\t') {
    uint32_t most = s >= SPACE_INDENT ? SPACE_INDENT + o.max_indent : o.max_inline;
    return s < most ? s + 1 : -1;
  }
  if (s >= SPACE_INDENT) return -1;
  return b == '\n' ? SPACE_INDENT : SPACE_RETURN;
}

// May something other than white space come now?
inline bool space_done(uint16_t s) { return s != SPACE_OWED && s != SPACE_RETURN; }

}  // namespace structgen
