// How far a text is from the end of a character: UTF-8 says so by a character's first byte.
#pragma once

#include <cstdint>
#include <string_view>

namespace structgen {

// How many bytes the last character lacks after `bytes`, where it lacked `before`.
inline uint8_t lacking_after(uint8_t before, std::string_view bytes) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0xc0) before = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    else before = byte >= 0x80 && before > 0 ? before - 1 : 0;
  }
  return before;
}

}  // namespace structgen
