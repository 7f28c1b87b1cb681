// The tokens of a grammar in Lark's language, for the reader of plain grammars (grammar/lark/text.h).
//
// What plain grammars do not have ends it with `NotPlain`: the text is then read in Python, which words mistakes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "util/work.h"

namespace structgen::lark {

struct NotPlain {};

inline bool is_letter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
// Of a name; letters that are not ASCII count, since Python's `\w` takes them.
inline bool is_word(char32_t c) { return is_letter(c) || is_digit(c) || c == '_' || c >= 0x80; }
inline bool is_space(char32_t c) { return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F); }

struct Token {
  enum Kind : uint8_t { Line, Name, String, Regexp, Directive, Number, Sign } kind;
  // Sign: the character itself; those of two are '-' for "->" and '=' for "..".
  char32_t sign;
  uint32_t offset, length;
};

class Tokens {
 public:
  explicit Tokens(std::u32string_view text) : text_(text) {
    while (next()) {
      charge();
    }
  }
  std::vector<Token> found;

 private:
  char32_t at(size_t i) const { return i < text_.size() ? text_[i] : 0; }
  void add(Token::Kind kind, size_t length, char32_t sign = 0) {
    found.push_back({kind, sign, static_cast<uint32_t>(at_), static_cast<uint32_t>(length)});
    at_ += length;
  }

  // To the end of a comment that begins here; false where none does.
  bool comment() {
    if (at(at_) != '#' && !(at(at_) == '/' && at(at_ + 1) == '/')) return false;
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    return true;
  }
  // A backslash and blanks before the end of a line.
  bool continued() {
    if (at(at_) != '\\') return false;
    size_t end = at_ + 1;
    while (at(end) == ' ') ++end;
    if (at(end) != '\n') return false;
    at_ = end + 1;
    return true;
  }

  bool next() {
    while (at(at_) == ' ' || at(at_) == '\t' ? (++at_, true) : continued() || comment()) {
      charge();
    }
    if (at_ >= text_.size()) {
      add(Token::Line, 0);
      return false;
    }
    const char32_t c = text_[at_];
    if (c == '\n' || (c == '\r' && at(at_ + 1) == '\n')) return line();
    if (is_letter(c) || (c == '_' && is_letter(at(at_ + 1)))) return name();
    if (c == '"') return string();
    if (c == '/') return regexp();
    if (c == '%') return directive();
    if (c == '-' && at(at_ + 1) == '>') return add(Token::Sign, 2, '-'), true;
    if (c == '.' && at(at_ + 1) == '.') return add(Token::Sign, 2, '='), true;
    if (c < 0x80 && std::u32string_view(U"()[]{}|:.,~*+?!").find(c) != std::u32string_view::npos)
      return add(Token::Sign, 1, c), true;
    return number();
  }

  // All lines that say nothing, and the sign that goes on with alternatives.
  bool line() {
    const size_t start = at_;
    while (at_ < text_.size() && (is_space(text_[at_]) ? (++at_, true) : comment())) {
      charge();
    }
    if (at(at_) == '|') return add(Token::Sign, 1, '|'), true;
    found.push_back({Token::Line, 0, static_cast<uint32_t>(start), 0});
    return true;
  }
  bool name() {
    size_t end = at_ + 1;
    while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]) || text_[end] == '_')) ++end;
    if (at(end) == '-' && is_word(at(end + 1))) throw NotPlain{};
    return add(Token::Name, end - at_), true;
  }
  bool string() {
    size_t end = at_ + 1;
    for (; at(end) != '"'; ++end) {
      charge();
      if (at(end) == '\\') ++end;
      if (end >= text_.size() || text_[end] == '\n') throw NotPlain{};
    }
    ++end;
    return add(Token::String, end + (at(end) == 'i') - at_), true;
  }
  bool regexp() {
    size_t end = at_ + 1;
    for (; at(end) != '/'; ++end) {
      charge();
      if (at(end) == '\\') ++end;
      if (end >= text_.size()) throw NotPlain{};
    }
    ++end;
    while (end < text_.size() && text_[end] < 0x80 &&
           std::u32string_view(U"imslux").find(text_[end]) != std::u32string_view::npos)
      ++end;
    return add(Token::Regexp, end - at_), true;
  }
  bool directive() {
    for (std::u32string_view one : {U"%ignore", U"%import", U"%declare", U"%override", U"%extend"})
      if (text_.substr(at_, one.size()) == one && !is_word(at(at_ + one.size())))
        return add(Token::Directive, one.size(), one[2]), true;
    throw NotPlain{};
  }
  bool number() {
    size_t end = at_ + (text_[at_] == '-');
    const size_t digits = end;
    while (end < digits + 10 && is_digit(at(end))) ++end;
    if (end == digits) throw NotPlain{};
    return add(Token::Number, end - at_), true;
  }

  std::u32string_view text_;
  size_t at_ = 0;
};

}  // namespace structgen::lark
