// Kinds of characters of internationalised host names: all rules treat characters of one kind in the same way.
// The tables are written by tools/make_host_name_data.py.
#pragma once

#include <cstdint>
#include <span>

namespace structgen {

struct HostKind {
  enum Trait : uint16_t {
    Ascii = 1,
    Mark = 2,
    Virama = 4,
    JoinsBefore = 8,  // joins the next character
    JoinsAfter = 16,  // joins the character before it
    Transparent = 32,
    Greek = 64,
    Hebrew = 128,
    Japanese = 256,
    ArabicDigit = 512,
    ExtendedDigit = 1024,
  };
  enum Role : uint8_t {
    None,
    LowerL,
    MiddleDot,
    Keraia,
    Geresh,
    KatakanaDot,
    Joiner,
    NonJoiner,
    Hyphen,
    FullStop,
    OtherStop,
    Capital
  };
  enum Direction : uint8_t { Other, L, R, AN, EN, NSM };  // R includes AL

  uint32_t scripts = 0;  // the ranges that contain it, by index in HOST_LENGTHS
  uint16_t traits = 0;
  uint8_t role = None;
  uint8_t base = 0;    // in HOST_BASES: the characters that it composes with
  uint8_t order = 0;   // canonical combining class
  uint8_t second = 0;  // its bit in HOST_BASES; 0: none
  uint8_t direction = Other;
  bool operator==(const HostKind &) const = default;
};

struct HostRange {
  uint32_t lo, hi;
  uint16_t kind;
};

extern const std::span<const HostKind> HOST_KINDS;  // kind 0 has no character
extern const std::span<const HostRange> HOST_RANGES;
extern const std::span<const uint64_t> HOST_BASES;
extern const std::span<const uint8_t> HOST_LENGTHS;  // the most characters of a label within each range

}  // namespace structgen
