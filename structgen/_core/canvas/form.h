// A text with holes: cells that hold a token, any token, or any number of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace structgen {

struct CanvasCell {
  enum Kind : uint8_t { Fixed, Open, Gap } kind = Open;  // a gap: any number of tokens
  uint32_t token = 0;                                    // Fixed
  std::vector<uint32_t> allowed = {};                    // Open, Gap: one bit for each id; empty: all tokens
  bool allows(uint32_t id) const {
    if (kind == Fixed) return token == id;
    return allowed.empty() || (allowed[id >> 5] >> (id & 31) & 1);
  }
};

struct CanvasForm {
  std::vector<CanvasCell> cells;
  std::vector<std::pair<uint32_t, uint32_t>> skips;  // (p, q): the cells p to q - 1 may hold no token
  std::vector<uint32_t> closing;                     // tokens that may fill all cells after the text
  bool closes_with(uint32_t token) const { return std::find(closing.begin(), closing.end(), token) != closing.end(); }
};

struct CanvasLimits {
  size_t nodes = 20'000;           // positions where a terminal may begin
  size_t bytes = size_t{1} << 30;  // of the chart
  size_t words = 1'000'000'000;    // of 64 spans each, visited while one chart is filled: a few seconds
};

}  // namespace structgen
