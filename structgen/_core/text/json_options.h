// How JSON texts are written: white space, escapes, the order of keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/json_text.h"

namespace structgen {

enum class Whitespace : uint8_t { Flexible, Written, Table };

// A state of the white space in a gap: an automaton over ' ', '\t', '\n', '\r'.
struct SpaceRow {
  static constexpr uint16_t NONE = UINT16_MAX;
  uint16_t next[4] = {NONE, NONE, NONE, NONE};
  bool goes_on = false, closes = false;  // may a token follow that closes no container, or one that does?
  // Whether white space that the vocabulary spells leads to such a state, and the first byte of a shortest such text.
  bool can_go_on = false, can_close = false;
  char to_go_on = 0, to_close = 0;
};

struct JsonOptions {
  Whitespace whitespace = Whitespace::Flexible;
  Escapes escapes = Escapes::Canonical;
  bool ordered = false;
  bool integer_digits = false;  // values that must be integers are written with digits only
  // Flexible: inline blanks in a row, blanks after the one line feed.
  uint32_t max_inline = 4, max_indent = 64;
  // Written: spaces around separators; with `lines`, each item on its own line with one `indent` per open container.
  uint8_t before_comma = 0, after_comma = 0, before_colon = 0, after_colon = 0;
  bool lines = false;
  std::string indent;
  // Table: the states, and the state in which each gap begins, by `SpaceAt`.
  std::vector<SpaceRow> rows;
  uint16_t gap_starts[6] = {};
  int32_t root_depth = 0;  // of the frame of the whole value, which is in no container
};

}  // namespace structgen
