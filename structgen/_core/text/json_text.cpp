#include "text/json_text.h"

#include <algorithm>
#include <set>

namespace structgen {
namespace {

// The bytes of escapes. Upper-case digits lead to the same states as lower-case ones.
constexpr uint8_t SYMBOLS[] = {'"', '\\', '/', 'b', 'f', 'n', 'r', 't', 'u', '0', '1', '2', '3', '4', '5',
                               '6', '7',  '8', '9', 'a', 'c', 'd', 'e', 'A', 'B', 'C', 'D', 'E', 'F'};

// stage | digits read << 3 | value << 5 | (high surrogate's low ten bits + 1) << 17
enum Stage : uint32_t { None = 0, Backslash = 1, Hex = 2, LowBackslash = 3, LowU = 4, LowHex = 5 };

uint32_t pack(Stage stage, uint32_t digits = 0, uint32_t value = 0, uint32_t high = 0) {
  return stage | digits << 3 | value << 5 | high << 17;
}
Stage stage_of(uint32_t e) { return static_cast<Stage>(e & 7); }
uint32_t digits_of(uint32_t e) { return e >> 3 & 3; }
uint32_t value_of(uint32_t e) { return e >> 5 & 0xfff; }
uint32_t high_of(uint32_t e) { return e >> 17; }

int hex_value(uint8_t b) {
  if (b >= '0' && b <= '9') return b - '0';
  if (b >= 'a' && b <= 'f') return b - 'a' + 10;
  if (b >= 'A' && b <= 'F') return b - 'A' + 10;
  return -1;
}

int short_escape(uint8_t b) {
  switch (b) {
    case '"':
    case '\\':
    case '/': return b;
    case 'b': return 8;
    case 'f': return 12;
    case 'n': return 10;
    case 'r': return 13;
    case 't': return 9;
    default: return -1;
  }
}
bool has_short_form(uint32_t c) { return c == 8 || c == 9 || c == 10 || c == 12 || c == 13; }

void encode_utf8(uint32_t c, Decoded &d) {
  d.kind = Decoded::Bytes;
  if (c < 0x80) {
    d.size = 1;
    d.bytes[0] = static_cast<uint8_t>(c);
  } else if (c < 0x800) {
    d.size = 2;
    d.bytes[0] = static_cast<uint8_t>(0xc0 | c >> 6);
    d.bytes[1] = static_cast<uint8_t>(0x80 | (c & 63));
  } else if (c < 0x10000) {
    d.size = 3;
    d.bytes[0] = static_cast<uint8_t>(0xe0 | c >> 12);
    d.bytes[1] = static_cast<uint8_t>(0x80 | (c >> 6 & 63));
    d.bytes[2] = static_cast<uint8_t>(0x80 | (c & 63));
  } else {
    d.size = 4;
    d.bytes[0] = static_cast<uint8_t>(0xf0 | c >> 18);
    d.bytes[1] = static_cast<uint8_t>(0x80 | (c >> 12 & 63));
    d.bytes[2] = static_cast<uint8_t>(0x80 | (c >> 6 & 63));
    d.bytes[3] = static_cast<uint8_t>(0x80 | (c & 63));
  }
}

uint8_t first_byte(uint32_t c) {
  return static_cast<uint8_t>(c < 0x80 ? c : c < 0x800 ? 0xc0 | c >> 6 : c < 0x10000 ? 0xe0 | c >> 12 : 0xf0 | c >> 18);
}

// The first bytes of the characters that an escape can become are between these two.
struct FirstBytes {
  uint8_t low, high;
};
FirstBytes first_bytes(uint32_t escape) {
  const Stage stage = stage_of(escape);
  if (stage == LowBackslash || stage == LowU || stage == LowHex) {
    const uint8_t byte = first_byte(0x10000 + ((high_of(escape) - 1) << 10));  // the low half does not reach it
    return {byte, byte};
  }
  if (stage != Hex) return {0, 0xff};
  const uint32_t open = 4 * (4 - digits_of(escape)), low = value_of(escape) << open, high = low + (1u << open) - 1;
  if (low <= 0xdbff && high >= 0xd800) return {first_byte(low), 0xf4};  // some are halves of a pair
  return {first_byte(low), first_byte(high)};
}

Re run(RegexSpace &space, Re re, const Decoded &d) {
  for (int i = 0; i < d.size && re != RegexSpace::EMPTY; ++i) re = space.row(re)[d.bytes[i]];
  return re;
}

}  // namespace

Decoded decode(uint32_t escape, uint8_t byte, Escapes mode) {
  Decoded d{};
  Stage stage = stage_of(escape);
  if (stage == None) {
    if (byte == '"') {
      d.kind = Decoded::Quote;
    } else if (byte == '\\') {
      d.kind = Decoded::Pending;
      d.escape = pack(Backslash);
    } else if (byte < 0x20) {
      d.kind = Decoded::Dead;
    } else {
      d.kind = Decoded::Bytes;
      d.size = 1;
      d.bytes[0] = byte;
    }
    return d;
  }
  if (stage == Backslash) {
    if (byte == 'u') {
      d.kind = Decoded::Pending;
      d.escape = pack(Hex);
      return d;
    }
    int c = short_escape(byte);
    if (c < 0 || (byte == '/' && mode == Escapes::Canonical)) return d;
    encode_utf8(static_cast<uint32_t>(c), d);
    return d;
  }
  if (stage == LowBackslash || stage == LowU) {
    if (byte != (stage == LowBackslash ? '\\' : 'u')) return d;
    d.kind = Decoded::Pending;
    d.escape = pack(stage == LowBackslash ? LowU : LowHex, 0, 0, high_of(escape));
    return d;
  }
  int h = hex_value(byte);
  if (h < 0) return d;
  uint32_t value = value_of(escape) << 4 | static_cast<uint32_t>(h), digits = digits_of(escape) + 1;
  if (mode == Escapes::Canonical) {
    // \u00 0|1 X, and only for characters without a short form
    if ((digits <= 2 && value != 0) || (digits == 3 && value > 1)) return d;
    if (digits == 4 && has_short_form(value)) return d;
  }
  if (stage == LowHex && ((digits == 1 && value != 0xd) || (digits == 2 && value < 0xdc))) return d;
  if (stage == Hex && digits == 2 && value >= 0xdc && value <= 0xdf) return d;  // a low surrogate first
  if (digits < 4) {
    d.kind = Decoded::Pending;
    d.escape = pack(stage, digits, value, high_of(escape));
    return d;
  }
  if (stage == LowHex) {
    encode_utf8(0x10000 + ((high_of(escape) - 1) << 10) + (value - 0xdc00), d);
  } else if (value >= 0xd800 && value < 0xdc00) {
    d.kind = Decoded::Pending;
    d.escape = pack(LowBackslash, 0, 0, (value - 0xd800) + 1);
  } else {
    encode_utf8(value, d);
  }
  return d;
}

namespace {

// Is there a character between two code points after which `enough` holds? Characters that lead to the same expression
// are tested once, and so are blocks of characters with the same first bytes.
class CharacterSearch {
 public:
  CharacterSearch(RegexSpace &space, Re re, const std::function<bool(Re)> &enough)
      : space_(space), re_(re), enough_(enough) {}

  bool any(uint32_t low, uint32_t high) {
    struct Form {
      uint32_t first, last, lead;
      int shift;
    };
    static constexpr Form FORMS[] = {
        {0, 0x7f, 0, 0}, {0x80, 0x7ff, 0xc0, 6}, {0x800, 0xffff, 0xe0, 12}, {0x10000, 0x10ffff, 0xf0, 18}};
    for (const Form &form : FORMS) {
      const uint32_t from = std::max(low, form.first), to = std::min(high, form.last);
      if (from <= to && below(re_, from, to, form.shift, form.lead)) return true;
    }
    return false;
  }

 private:
  bool below(Re re, uint32_t low, uint32_t high, int shift, uint32_t lead) {
    const uint32_t rest = (uint32_t{1} << shift) - 1;
    for (uint32_t b = low >> shift; b <= high >> shift; ++b) {
      const Re to = space_.row(re)[lead | b];
      if (to == RegexSpace::EMPTY) continue;
      if (shift == 0) {
        if (met_.emplace(to, 0).second && enough_(to)) return true;
        continue;
      }
      const uint32_t from = b == low >> shift ? low & rest : 0, until = b == high >> shift ? high & rest : rest;
      if (from == 0 && until == rest && !met_.emplace(to, shift).second) continue;
      if (below(to, from, until, shift - 6, 0x80)) return true;
    }
    return false;
  }

  RegexSpace &space_;
  const Re re_;
  const std::function<bool(Re)> &enough_;
  std::set<std::pair<Re, int>> met_;  // with the bits of the code point that are still open
};

// The same for all characters that the digits still to come can make.
bool any_digits(CharacterSearch &search, uint32_t escape) {
  const Stage stage = stage_of(escape);
  const uint32_t open = 4 * (4 - digits_of(escape)), low = value_of(escape) << open, high = low + (1u << open) - 1;
  if (stage == Backslash || stage == Hex) {
    const uint32_t from = stage == Hex ? low : 0, to = stage == Hex ? high : 0xffff;
    if (from < 0xd800 && search.any(from, std::min(to, 0xd7ffu))) return true;
    if (to > 0xdfff && search.any(std::max(from, 0xe000u), to)) return true;
    const uint32_t first = std::max(from, 0xd800u), last = std::min(to, 0xdbffu);
    return first <= last && search.any(0x10000 + ((first - 0xd800) << 10), 0x103ff + ((last - 0xd800) << 10));
  }
  const uint32_t base = 0x10000 + ((high_of(escape) - 1) << 10);
  if (stage != LowHex) return search.any(base, base + 0x3ff);
  const uint32_t first = std::max(low, 0xdc00u), last = std::min(high, 0xdfffu);
  return first <= last && search.any(base + (first - 0xdc00), base + (last - 0xdc00));
}

bool all_digits(const std::bitset<256> &bytes) {
  for (const char *c = "0123456789"; *c; ++c)
    if (!bytes.test(static_cast<uint8_t>(*c))) return false;
  for (uint8_t c = 'a'; c <= 'f'; ++c)
    if (!bytes.test(c) && !bytes.test(static_cast<uint8_t>(c - 'a' + 'A'))) return false;
  return bytes.test('\\') && bytes.test('u');
}

}  // namespace

bool escape_viable(RegexSpace &space, Re re, uint32_t escape, Escapes mode, const std::bitset<256> &bytes,
                   const std::function<bool(Re)> &enough) {
  if (re == RegexSpace::EMPTY) return false;
  const Row &next = space.row(re);
  if (mode == Escapes::Canonical && stage_of(escape) == Backslash) {
    // Only characters that cannot be written unescaped have a canonical escape.
    auto dead = [](Re r) { return r == RegexSpace::EMPTY; };
    if (dead(next['"']) && dead(next['\\']) && std::all_of(next.begin(), next.begin() + 0x20, dead)) return false;
  }
  const FirstBytes can = first_bytes(escape);
  if (std::all_of(next.begin() + can.low, next.begin() + can.high + 1, [](Re r) { return r == RegexSpace::EMPTY; }))
    return false;
  const bool by_digits = mode == Escapes::All && all_digits(bytes);
  if (by_digits) {
    CharacterSearch search(space, re, enough);
    if (any_digits(search, escape)) return true;
    if (stage_of(escape) != Backslash) return false;
  }
  // Depth-first search over what may follow; the first viable character ends it.
  for (uint8_t s : SYMBOLS) {
    if (!bytes.test(s)) continue;
    Decoded d = decode(escape, s, mode);
    if (d.kind == Decoded::Bytes)
      if (const Re after = run(space, re, d); after != RegexSpace::EMPTY && enough(after)) return true;
    if (!by_digits && d.kind == Decoded::Pending && escape_viable(space, re, d.escape, mode, bytes, enough))
      return true;
  }
  return false;
}

bool escape_can_be(uint32_t escape, std::string_view character, Escapes mode, const std::bitset<256> &bytes) {
  const FirstBytes can = first_bytes(escape);
  const auto first = static_cast<uint8_t>(character[0]);
  if (first < can.low || first > can.high) return false;
  for (uint8_t s : SYMBOLS) {
    if (!bytes.test(s)) continue;
    const Decoded d = decode(escape, s, mode);
    if (d.kind == Decoded::Bytes && d.size == character.size() &&
        std::equal(d.bytes, d.bytes + d.size, character.begin(),
                   [](uint8_t x, char y) { return x == static_cast<uint8_t>(y); }))
      return true;
    if (d.kind == Decoded::Pending && escape_can_be(d.escape, character, mode, bytes)) return true;
  }
  return false;
}

std::string escape_json(std::string_view text) {
  static constexpr char HEX[] = "0123456789abcdef";
  std::string out;
  for (unsigned char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\b': out += "\\b"; break;
      case '\f': out += "\\f"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (c < 0x20) {
          out += "\\u00";
          out += HEX[c >> 4];
          out += HEX[c & 15];
        } else {
          out += static_cast<char>(c);
        }
    }
  }
  return out;
}

}  // namespace structgen
