#include "json_value.h"

#include <algorithm>

#include "decimal.h"
#include "json_text.h"
#include "stack.h"

namespace structgen {
namespace {

Hash128 named(uint64_t kind, std::string_view text) {
  return extend(hash_words(7, kind), hash_text(text));
}

std::string number_text(std::string_view json) {
  const SignedDecimal d = parse_decimal(json);
  if (d.magnitude.zero()) return "0";
  std::string out = d.negative ? "-" : "";
  out += d.magnitude.digits[0];
  if (d.magnitude.digits.size() > 1) out += '.' + d.magnitude.digits.substr(1);
  return out + 'e' + std::to_string(d.magnitude.exponent);
}

class ValueReader {
 public:
  explicit ValueReader(std::string_view json) : s_(json) {}

  ItemValue value() {
    check_stack("a value is nested too deeply");
    skip();
    ItemValue v;
    switch (peek()) {
      case '"':
        v.kind = ItemValue::String;
        v.text = string();
        v.hash = named(1, v.text);
        return v;
      case '[': {
        v.kind = ItemValue::Container;
        v.hash = hash_words(8);
        for (++at_, skip(); at_ < s_.size() && peek() != ']'; separator()) {
          const Hash128 item = value().hash;
          v.hash = extend(v.hash, item);
        }
        ++at_;
        return v;
      }
      case '{': {
        v.kind = ItemValue::Container;
        v.hash = hash_words(9);
        uint64_t members = 0;
        for (++at_, skip(); at_ < s_.size() && peek() != '}'; separator(), ++members) {
          const Hash128 name = named(4, string());
          skip();
          ++at_;  // the colon
          const Hash128 inner = value().hash;
          v.hash ^= member(extend(name, inner));
        }
        ++at_;
        v.hash = extend(v.hash, members);
        return v;
      }
      default: {
        const size_t end = std::min(s_.find_first_of(",]} \t\r\n", at_), s_.size());
        const std::string_view text = s_.substr(at_, end - at_);
        at_ = end;
        const bool number = text.empty() || text[0] == '-' || (text[0] >= '0' && text[0] <= '9');
        v.kind = number ? ItemValue::Number : ItemValue::Literal;
        v.text = number ? number_text(text) : std::string(text);
        v.hash = named(number ? 6 : 7, v.text);
        return v;
      }
    }
  }

 private:
  char peek() const { return at_ < s_.size() ? s_[at_] : '\0'; }
  void skip() {
    while (at_ < s_.size() && (s_[at_] == ' ' || s_[at_] == '\t' || s_[at_] == '\n' || s_[at_] == '\r')) ++at_;
  }
  void separator() {
    skip();
    if (peek() == ',') ++at_, skip();
  }
  std::string string() {
    std::string out;
    uint32_t escape = 0;
    for (++at_; at_ < s_.size(); ++at_) {
      const Decoded d = decode(escape, static_cast<uint8_t>(s_[at_]), Escapes::All);
      escape = d.escape;
      if (d.kind == Decoded::Quote) {
        ++at_;
        break;
      }
      for (int i = 0; i < d.size; ++i) out += static_cast<char>(d.bytes[i]);
    }
    return out;
  }

  std::string_view s_;
  size_t at_ = 0;
};

}  // namespace

ItemValue::Kind kind_of_value(std::string_view json) {
  const size_t at = json.find_first_not_of(" \t\r\n");
  switch (at == json.npos ? '\0' : json[at]) {
    case '"': return ItemValue::String;
    case '[':
    case '{': return ItemValue::Container;
    case 't':
    case 'f':
    case 'n': return ItemValue::Literal;
    default: return ItemValue::Number;
  }
}

ItemValue read_value(std::string_view json) { return ValueReader(json).value(); }

}  // namespace structgen
