#include "json/value.h"

#include <algorithm>
#include <vector>

#include "regex/decimal.h"
#include "text/json_text.h"
#include "util/stack.h"
#include "util/work.h"

namespace structgen {
namespace {

Hash128 named(uint64_t kind, std::string_view text) { return extend(hash_words(7, kind), hash_text(text)); }

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

  // The texts of the members of a container.
  std::vector<std::string_view> items() {
    std::vector<std::string_view> out;
    for (++at_, skip(); at_ < s_.size() && peek() != ']'; separator()) out.push_back(part());
    return out;
  }
  std::vector<std::pair<std::string, std::string_view>> members() {
    std::vector<std::pair<std::string, std::string_view>> out;
    for (++at_, skip(); at_ < s_.size() && peek() != '}'; separator()) {
      out.emplace_back(string(), std::string_view());
      skip();
      ++at_;  // the colon
      skip();
      out.back().second = part();
    }
    return out;
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

 private:
  // The text of the value at the current position.
  std::string_view part() {
    const size_t start = at_;
    bool inside = false;
    for (int open = 0; at_ < s_.size(); ++at_) {
      const char c = s_[at_];
      if (inside) {
        at_ += c == '\\';
        inside = c != '"';
      } else if (c == '"') {
        inside = true;
      } else if (c == '[' || c == '{') {
        ++open;
      } else if (open == 0 && (c == ',' || c == ']' || c == '}')) {
        break;
      } else if (c == ']' || c == '}') {
        --open;
      }
    }
    return s_.substr(start, at_ - start);
  }
  char peek() const { return at_ < s_.size() ? s_[at_] : '\0'; }
  void skip() {
    while (at_ < s_.size() && (s_[at_] == ' ' || s_[at_] == '\t' || s_[at_] == '\n' || s_[at_] == '\r')) ++at_;
  }
  void separator() {
    skip();
    if (peek() == ',') ++at_, skip();
  }

  std::string_view s_;
  size_t at_ = 0;
};

// The digits of a number from the first one that is not zero.
std::string digits_of(std::string_view number) {
  std::string out;
  for (char c : number.substr(0, number.find_first_of("eE")))
    if (c >= '0' && c <= '9' && !(c == '0' && out.empty())) out += c;
  return out;
}

// The position of the point is ignored, since an exponent may move it.
bool number_may_become(std::string_view part, std::string_view whole) {
  const std::string read = digits_of(part);
  std::string digits = digits_of(whole);
  if (!digits.empty() && part.starts_with('-') != whole.starts_with('-')) return false;
  if (digits.size() < read.size()) digits.append(read.size() - digits.size(), '0');
  return digits.starts_with(read);
}

// Compares a JSON text that may end anywhere with a complete one.
class Comparison {
 public:
  enum Result : uint8_t { Differs, Equal, Open };  // Open: the first text ends before it differs

  Comparison(std::string_view part, std::set<std::string> *rests) : s_(part), rests_(rests) {}

  Result value(std::string_view whole) {
    check_stack("a value is nested too deeply");
    skip();
    if (at_ == s_.size()) return Open;
    switch (s_[at_]) {
      case '"': return whole[0] == '"' ? text({ValueReader(whole).string()}) : Differs;
      case '[': return whole[0] == '[' ? array(ValueReader(whole).items()) : Differs;
      case '{': return whole[0] == '{' ? object(ValueReader(whole).members()) : Differs;
      default: return scalar(whole);
    }
  }

 private:
  using Members = std::vector<std::pair<std::string, std::string_view>>;

  Result array(const std::vector<std::string_view> &items) {
    ++at_;
    for (size_t i = 0;; ++i) {
      skip();
      if (at_ == s_.size()) return Open;
      if (s_[at_] == ']') return ++at_, i == items.size() ? Equal : Differs;
      if (s_[at_] == ',') ++at_;
      if (i == items.size()) return Differs;
      if (const Result r = value(items[i]); r != Equal) return r;
    }
  }

  Result object(Members left) {
    ++at_;
    for (;;) {
      skip();
      if (at_ == s_.size()) return Open;
      if (s_[at_] == '}') return ++at_, left.empty() ? Equal : Differs;
      if (s_[at_] == ',') ++at_;
      if (left.empty()) return Differs;
      skip();
      if (at_ == s_.size()) return Open;
      std::vector<std::string> names;
      for (auto &[name, member] : left) names.push_back(name);
      if (const Result r = text(names); r != Equal) return r;
      const auto it = std::find_if(left.begin(), left.end(), [&](const auto &m) { return m.first == read_; });
      skip();
      if (at_ == s_.size()) return Open;
      ++at_;  // the colon
      if (const Result r = value(it->second); r != Equal) return r;
      left.erase(it);
    }
  }

  // Compares the next string with these.
  Result text(const std::vector<std::string> &wanted) {
    const bool ends = read();
    Result result = Differs;
    for (const std::string &w : wanted) {
      charge(1 + w.size() / 16);
      if (ends ? w != read_ : !w.starts_with(read_)) continue;
      result = ends ? Equal : Open;
      if (!ends && rests_) rests_->insert(w.substr(read_.size()));
    }
    return result;
  }

  Result scalar(std::string_view whole) {
    const size_t end = std::min(s_.find_first_of(",]} \t\r\n", at_), s_.size());
    const std::string_view text = s_.substr(at_, end - at_);
    const bool ends = end < s_.size(), number = kind_of_value(text) == ItemValue::Number;
    at_ = end;
    if (number != (kind_of_value(whole) == ItemValue::Number)) return Differs;
    if (!ends) return (number ? number_may_become(text, whole) : whole.starts_with(text)) ? Open : Differs;
    return read_value(text).hash == read_value(whole).hash ? Equal : Differs;
  }

  // Reads the string at the current position, up to its end or that of the text. Returns whether it ends.
  bool read() {
    read_.clear();
    uint32_t escape = 0;
    for (++at_; at_ < s_.size(); ++at_) {
      const Decoded d = decode(escape, static_cast<uint8_t>(s_[at_]), Escapes::All);
      escape = d.escape;
      if (d.kind == Decoded::Quote) return ++at_, true;
      for (int i = 0; i < d.size; ++i) read_ += static_cast<char>(d.bytes[i]);
    }
    return false;
  }

  void skip() { at_ = std::min(s_.find_first_not_of(" \t\r\n", at_), s_.size()); }

  std::string_view s_;
  std::set<std::string> *rests_;
  std::string read_;
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

bool may_become(std::string_view part, std::string_view whole, std::set<std::string> *rests) {
  charge(4 + part.size() / 2 + whole.size() / 2);
  whole.remove_prefix(std::min(whole.find_first_not_of(" \t\r\n"), whole.size()));
  return Comparison(part, rests).value(whole) != Comparison::Differs;
}

}  // namespace structgen
