// White space between JSON tokens: one small counter per gap.
//
// Flexible: a few blanks in a row, or one line feed and an indentation. That is what pretty-printers write, and its
// length is bounded. No white space comes before or after the whole value.
//
// Written: exactly the bytes of a writer such as Python's `json.dumps`. There is a number of spaces on each side of ','
// and ':'. If the writer indents, every item and closing bracket is on its own line, indented once per open container;
// an empty container has nothing inside. What may follow then depends on the white space: after a line feed before the
// closing bracket nothing else may come. So the state says to which type of token the gap leads.
//
// Table: an automaton says what a gap may contain. After its first state only a closing bracket may come, after its
// second only another token.
//
// Invariant: `level`, the number of containers around the next line, is a function of the depth of the frame. So a
// frame, its depth and the counter determine what may follow, and masks are cached by these.
#pragma once

#include <cstdint>
#include <string>

#include "text/json_options.h"

namespace structgen {

enum class SpaceAt : uint8_t { Start, Open, AfterKey, AfterColon, AfterComma, AfterValue };

// Flexible: the number of blanks so far; a carriage return before its line feed; plus the blanks of the indentation.
constexpr uint16_t SPACE_RETURN = 30'000;
constexpr uint16_t SPACE_INDENT = 30'001;

// All: no more white space, then any token.
constexpr uint16_t SPACE_CLOSED = 60'000;

// Written: plus the blanks that are left of an indentation, after which a token closes the container, or does not.
constexpr uint16_t SPACE_TO_CLOSE = 0;
constexpr uint16_t SPACE_TO_GO_ON = 25'000;
constexpr uint16_t SPACE_LONGEST = 24'999;
constexpr uint16_t SPACE_EMPTY = 60'001;  // after an opening bracket: the closing one, or a line feed
constexpr uint16_t SPACE_AFTER = 60'002;  // after a value: a comma or a closing bracket, with the white space before it
constexpr uint16_t SPACE_OWED = 60'100;   // plus the spaces that are left before a token that closes nothing
constexpr uint16_t SPACE_LINE = 60'200;   // plus the spaces that are left before a line feed

inline bool is_space(uint8_t b) { return b == ' ' || b == '\n' || b == '\t' || b == '\r'; }

inline bool lines(const JsonOptions &o) { return o.whitespace == Whitespace::Written && o.lines; }

// Table: the states before tokens that close a container, and before others.
constexpr uint16_t SPACE_CLOSES = 0, SPACE_GOES_ON = 1;

inline uint16_t space_start(const JsonOptions &o, SpaceAt at) {
  if (at == SpaceAt::Start) return SPACE_CLOSED;
  if (o.whitespace == Whitespace::Flexible) return 0;
  if (o.whitespace == Whitespace::Table) return o.gap_starts[static_cast<int>(at)];
  const auto owed = [](uint8_t spaces) { return static_cast<uint16_t>(spaces ? SPACE_OWED + spaces : SPACE_CLOSED); };
  switch (at) {
    case SpaceAt::Open: return o.lines ? SPACE_EMPTY : SPACE_CLOSED;
    case SpaceAt::AfterKey: return owed(o.before_colon);
    case SpaceAt::AfterColon: return owed(o.after_colon);
    case SpaceAt::AfterComma: return o.lines ? static_cast<uint16_t>(SPACE_LINE + o.after_comma) : owed(o.after_comma);
    default: return o.lines || o.before_comma ? SPACE_AFTER : SPACE_CLOSED;
  }
}

// The state after a line feed; -1 if the indentation is too long to be counted.
inline int space_line(const JsonOptions &o, uint16_t then, uint64_t level) {
  const uint64_t blanks = level * o.indent.size();
  return blanks <= SPACE_LONGEST ? static_cast<int>(then + blanks) : -1;
}

inline int space_step(const JsonOptions &o, uint16_t s, uint8_t b, uint64_t level) {
  if (s == SPACE_CLOSED) return -1;
  if (o.whitespace == Whitespace::Flexible) {
    if (s == SPACE_RETURN) return b == '\n' ? SPACE_INDENT : -1;
    if (b == ' ' || b == '\t') {
      uint32_t most = s >= SPACE_INDENT ? SPACE_INDENT + o.max_indent : o.max_inline;
      return s < most ? s + 1 : -1;
    }
    if (s >= SPACE_INDENT) return -1;
    return b == '\n' ? SPACE_INDENT : SPACE_RETURN;
  }
  if (o.whitespace == Whitespace::Table) {
    const uint16_t next = o.rows[s].next[b == ' ' ? 0 : b == '\t' ? 1 : b == '\n' ? 2 : 3];
    return next == SpaceRow::NONE ? -1 : next;
  }
  if (s > SPACE_LINE) return b == ' ' ? s - 1 : -1;
  if (s == SPACE_LINE) return b == '\n' ? space_line(o, SPACE_TO_GO_ON, level) : -1;
  if (s > SPACE_OWED) return b != ' ' ? -1 : s == SPACE_OWED + 1 ? SPACE_TO_GO_ON : s - 1;
  if (s == SPACE_EMPTY) return b == '\n' ? space_line(o, SPACE_TO_GO_ON, level) : -1;
  if (s == SPACE_AFTER) {
    if (b == '\n' && o.lines) return space_line(o, SPACE_TO_CLOSE, level);
    if (b != ' ' || o.before_comma == 0) return -1;
    return o.before_comma == 1 ? SPACE_TO_GO_ON : SPACE_OWED + o.before_comma - 1;
  }
  const uint32_t left = s >= SPACE_TO_GO_ON ? s - SPACE_TO_GO_ON : s;
  if (left == 0) return -1;
  return b == static_cast<uint8_t>(o.indent[o.indent.size() - 1 - (left - 1) % o.indent.size()]) ? s - 1 : -1;
}

// May this byte, which is not white space, come next?
inline bool space_allows(const JsonOptions &o, uint16_t s, uint8_t b) {
  if (s == SPACE_CLOSED) return true;
  if (o.whitespace == Whitespace::Flexible) return s != SPACE_RETURN;
  const bool closes = b == ']' || b == '}';
  if (o.whitespace == Whitespace::Table) return closes ? o.rows[s].closes : o.rows[s].goes_on;
  if (s == SPACE_AFTER) return closes ? !o.lines : o.before_comma == 0;
  return closes ? s == SPACE_TO_CLOSE || s == SPACE_EMPTY : s == SPACE_TO_GO_ON;
}

// The white space that must come next; 0: none.
inline char space_owed(const JsonOptions &o, uint16_t s) {
  if (s == SPACE_CLOSED) return 0;
  if (o.whitespace == Whitespace::Flexible) return s == SPACE_RETURN ? '\n' : 0;
  if (o.whitespace == Whitespace::Table) {
    const SpaceRow &row = o.rows[s];
    return row.goes_on || row.closes ? 0 : row.can_go_on ? row.to_go_on : row.to_close;
  }
  if (s > SPACE_LINE || (s > SPACE_OWED && s < SPACE_LINE)) return ' ';
  if (s == SPACE_LINE) return '\n';
  if (s == SPACE_EMPTY || s == SPACE_AFTER || s == SPACE_TO_CLOSE || s == SPACE_TO_GO_ON) return 0;
  const uint32_t left = s >= SPACE_TO_GO_ON ? s - SPACE_TO_GO_ON : s;
  return o.indent[o.indent.size() - 1 - (left - 1) % o.indent.size()];
}

// Table: the shortest white space from a state to a token that closes a container, or to another one.
inline std::string space_before(const JsonOptions &o, uint16_t s, bool closes) {
  std::string text;
  if (s >= o.rows.size()) return text;
  while (!(closes ? o.rows[s].closes : o.rows[s].goes_on) && text.size() <= o.rows.size()) {
    const char b = closes ? o.rows[s].to_close : o.rows[s].to_go_on;
    const int next = b ? space_step(o, s, static_cast<uint8_t>(b), 0) : -1;
    if (next < 0) break;
    text.push_back(b);
    s = static_cast<uint16_t>(next);
  }
  return text;
}

}  // namespace structgen
