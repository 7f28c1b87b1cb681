// Sets of tokens that constraints name: by number, by text, or as all tokens but some.
//
// A terminal of a grammar may be such a set; any one of its tokens, whole, is a text of the terminal, whatever the token's
// bytes are. A set is made for one vocabulary, kept once, and known by its number: a step reads a set and not a token, so
// that one step decides for all tokens of the set whether they may come.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "vocabulary/vocabulary.h"

namespace structgen {

class TokenSet {
 public:
  // `ids`: sorted, each once.
  TokenSet(std::vector<uint32_t> ids, const Vocabulary &vocabulary);

  bool has(uint32_t token) const;
  void add_to(uint32_t *mask) const;
  std::vector<uint32_t> ids() const;
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // One that stands for all of them, where some token is to be written: of the shortest text, or without text.
  uint32_t sample() const { return sample_; }
  // Is some token of it text, which the bytes of a text might be, too?
  bool has_text() const { return has_text_; }

 private:
  std::vector<uint32_t> ids_;   // where they are few
  std::vector<uint32_t> bits_;  // otherwise
  size_t size_ = 0;
  uint32_t sample_ = 0;
  bool has_text_ = false;
};

class TokenSets {
 public:
  explicit TokenSets(const Vocabulary &vocabulary) : vocabulary_(vocabulary) {}

  static constexpr uint32_t NONE = UINT32_MAX;
  // The number of a set; `ids` are sorted, each once.
  uint32_t add(std::vector<uint32_t> ids);
  const TokenSet &operator[](uint32_t set) const { return sets_[set]; }

 private:
  const Vocabulary &vocabulary_;
  std::deque<TokenSet> sets_;
  std::map<std::vector<uint32_t>, uint32_t> numbers_;  // by the ranges of its tokens: first, last, first, last, ...
};

// What a set is made of, as constraints write it.
struct TokenRange {
  uint32_t first, last;
};
struct TokenSetParts {
  bool is_any = false;             // all tokens that are text or have a name, but those that end a text
  std::vector<TokenRange> ranges;  // otherwise: these, and those that have one of these texts
  std::vector<std::string> texts;
  std::vector<TokenRange> excluded;
  std::vector<std::string> excluded_texts;
};
// A part that means no token of the vocabulary.
struct NoSuchToken {
  std::string what;
};

// The tokens with this text: the special token of that name, otherwise all whose bytes it is.
std::vector<uint32_t> tokens_with_text(const Vocabulary &vocabulary, const std::string &text);
// The tokens of a set, sorted. A token that ends a text is among them only where it is named by itself.
std::vector<uint32_t> tokens_of(const TokenSetParts &parts, const Vocabulary &vocabulary);

}  // namespace structgen
