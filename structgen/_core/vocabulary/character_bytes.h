// How many bytes a text lacks to the end of a character. In UTF-8 the first byte of a character determines its length.
#pragma once

#include <cstdint>
#include <string_view>

namespace structgen {

// The number of bytes that the last character lacks after `bytes`, if it lacked `before` bytes before them.
inline uint8_t lacking_after(uint8_t before, std::string_view bytes) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0xc0) before = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    else before = byte >= 0x80 && before > 0 ? before - 1 : 0;
  }
  return before;
}

}  // namespace structgen
