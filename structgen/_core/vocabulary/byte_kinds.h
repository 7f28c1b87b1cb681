// Characters by their first bytes, sorted into a few dozen kinds: a set of kinds fits one word.
//
// A class of characters in a pattern is mostly a union of kinds: letters, digits, single signs. The set of kinds in a
// subtree of the vocabulary then shows whether a text state that repeats a class accepts the whole subtree, without a
// visit of its nodes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace structgen {

using Kinds = uint64_t;

namespace kinds {
constexpr std::array<uint8_t, 128> ascii_kinds() {
  std::array<uint8_t, 128> out{};
  uint8_t next = 6;
  for (int b = 0; b < 128; ++b) {
    auto &kind = out[static_cast<size_t>(b)];
    if (b >= 'a' && b <= 'z') kind = b <= 'f' ? 0 : 1;
    else if (b >= 'A' && b <= 'Z') kind = b <= 'F' ? 2 : 3;
    else if (b >= '0' && b <= '9') kind = 4;
    else if ((b < 0x20 && b != '\t' && b != '\n' && b != '\r') || b == 0x7f) kind = 5;
    else kind = next++;
  }
  return out;
}
inline constexpr std::array<uint8_t, 128> OF_ASCII = ascii_kinds();

// Characters beyond ASCII by their first bytes; the well-formed sequences of RFC 3629.
struct Led {
  uint8_t from, to;   // first bytes
  uint8_t low, high;  // second bytes
  int more;           // bytes after the second
};
inline constexpr Led BEYOND_ASCII[] = {
    {0xc2, 0xdf, 0x80, 0xbf, 0}, {0xe0, 0xe0, 0xa0, 0xbf, 1}, {0xe1, 0xe1, 0x80, 0xbf, 1}, {0xe2, 0xe2, 0x80, 0xbf, 1},
    {0xe3, 0xe3, 0x80, 0xbf, 1}, {0xe4, 0xe9, 0x80, 0xbf, 1}, {0xea, 0xec, 0x80, 0xbf, 1}, {0xed, 0xed, 0x80, 0x9f, 1},
    {0xee, 0xef, 0x80, 0xbf, 1}, {0xf0, 0xf0, 0x90, 0xbf, 2}, {0xf1, 0xf3, 0x80, 0xbf, 2}, {0xf4, 0xf4, 0x80, 0x8f, 2}};
constexpr int FIRST_LED = 48;
constexpr Kinds BROKEN = Kinds{1} << 63;  // a character without its beginning or its end

constexpr Kinds of_led(size_t index) { return Kinds{1} << (FIRST_LED + index); }
}  // namespace kinds

// The kind of the character that a byte begins.
constexpr Kinds kind_of(uint8_t byte) {
  if (byte < 128) return Kinds{1} << kinds::OF_ASCII[byte];
  for (size_t i = 0; i < std::size(kinds::BEYOND_ASCII); ++i)
    if (byte >= kinds::BEYOND_ASCII[i].from && byte <= kinds::BEYOND_ASCII[i].to) return kinds::of_led(i);
  return kinds::BROKEN;
}

// Letters, digits and the underscore: what names are made of. No other byte is of these kinds.
constexpr bool is_word(uint8_t byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '_';
}
constexpr Kinds WORDS = kind_of('a') | kind_of('z') | kind_of('A') | kind_of('Z') | kind_of('0') | kind_of('_');

}  // namespace structgen
