#include "regex/decimal.h"

#include <algorithm>
#include <stdexcept>

#include "regex/regex.h"  // LimitError

namespace structgen {

namespace {

constexpr size_t MAX_DIGITS = 1'000;
constexpr int64_t MAX_EXPONENT = 10'000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

[[noreturn]] void not_a_number(std::string_view text) {
  throw std::invalid_argument("'" + std::string(text.substr(0, 40)) + "' is not a JSON number");
}

size_t skip_digits(std::string_view text, size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

}  // namespace

SignedDecimal parse_decimal(std::string_view text) {
  SignedDecimal result;
  size_t at = 0;
  if (at < text.size() && text[at] == '-') {
    result.negative = true;
    ++at;
  }
  size_t end = skip_digits(text, at);
  if (end == at || (text[at] == '0' && end > at + 1)) not_a_number(text);
  std::string digits(text.substr(at, end - at));
  int64_t fraction = 0;
  at = end;
  if (at < text.size() && text[at] == '.') {
    end = skip_digits(text, ++at);
    if (end == at) not_a_number(text);
    digits += text.substr(at, end - at);
    fraction = static_cast<int64_t>(end - at);
    at = end;
  }
  int64_t exponent = 0;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    bool negative = at < text.size() && text[at] == '-';
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    end = skip_digits(text, at);
    if (end == at) not_a_number(text);
    for (; at < end; ++at) exponent = std::min<int64_t>(exponent * 10 + (text[at] - '0'), MAX_EXPONENT * 10);
    if (negative) exponent = -exponent;
  }
  if (at != text.size()) not_a_number(text);
  if (digits.size() > MAX_DIGITS)
    throw LimitError("a number in the schema has more than 1000 digits (limit number_digits)");
  result.magnitude = make_decimal(digits, fraction - exponent);
  if (result.magnitude.zero()) result.negative = false;
  if (result.magnitude.exponent > MAX_EXPONENT || result.magnitude.exponent < -MAX_EXPONENT)
    throw LimitError("a number in the schema is beyond 1e10000 or below 1e-10000 (limit number_exponent)");
  return result;
}

Decimal make_decimal(std::string_view digits, int64_t fraction) {
  size_t first = digits.find_first_not_of('0');
  if (first == std::string_view::npos) return {};
  size_t last = digits.find_last_not_of('0');
  return {std::string(digits.substr(first, last - first + 1)),
          static_cast<int64_t>(digits.size() - first) - 1 - fraction};
}

int compare(const Decimal &a, const Decimal &b) {
  if (a.zero() || b.zero()) return static_cast<int>(b.zero()) - static_cast<int>(a.zero());
  if (a.exponent != b.exponent) return a.exponent < b.exponent ? -1 : 1;
  return a.digits.compare(b.digits);  // no trailing zeros, so a proper prefix is smaller
}

SplitDecimal split(const Decimal &value, int64_t fraction) {
  if (value.zero()) return {};
  int64_t kept = value.exponent + 1 + fraction;  // digits at or above the position
  if (kept <= 0) return {"", std::string(static_cast<size_t>(-kept), '0') + value.digits};
  std::string head = value.digits.substr(0, static_cast<size_t>(kept));
  head.resize(static_cast<size_t>(kept), '0');
  size_t used = std::min(value.digits.size(), static_cast<size_t>(kept));
  return {std::move(head), value.digits.substr(used)};
}

int compare_naturals(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a.compare(b);
}

std::string add(std::string_view natural, uint64_t increment) {
  std::string reversed;
  unsigned __int128 carry = increment;
  for (size_t i = natural.size(); i > 0 || carry > 0;) {
    if (i > 0) carry += static_cast<unsigned>(natural[--i] - '0');
    reversed += static_cast<char>('0' + static_cast<int>(carry % 10));
    carry /= 10;
  }
  return {reversed.rbegin(), reversed.rend()};
}

std::string decrement(std::string_view natural) {
  std::string result(natural);
  size_t at = result.size();
  while (result[--at] == '0') result[at] = '9';
  --result[at];
  return result[0] == '0' ? result.substr(1) : result;
}

uint64_t remainder(std::string_view natural, uint64_t modulus) {
  unsigned __int128 rest = 0;
  for (char digit : natural) rest = (rest * 10 + static_cast<unsigned>(digit - '0')) % modulus;
  return static_cast<uint64_t>(rest);
}

}  // namespace structgen
