// Sets of tokens that constraints name: by number, by text, or as all tokens but some.
//
// A terminal of a grammar may be such a set. Each of its tokens, as a whole, is a text of the terminal, independent of
// the token's bytes. A set belongs to one vocabulary, is stored once, and has a number. The automaton reads a set and
// not a token, so one step decides for all tokens of the set.
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
  // A token that represents the set where one has to be written: with the shortest text, or without text.
  uint32_t sample() const { return sample_; }
  // Has some token a text? The bytes of a text may be that token, too.
  bool has_text() const { return has_text_; }

 private:
  std::vector<uint32_t> ids_;   // if they are few
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

// The parts of a set, as a constraint states them.
struct TokenRange {
  uint32_t first, last;
};
struct TokenSetParts {
  bool is_any = false;             // all tokens that have a text or a name, except those that end a sequence
  std::vector<TokenRange> ranges;  // otherwise: these, and those that have one of these texts
  std::vector<std::string> texts;
  std::vector<TokenRange> excluded;
  std::vector<std::string> excluded_texts;
};
// A part that names no token of the vocabulary.
struct NoSuchToken {
  std::string what;
};

// The special token with this name; otherwise all tokens with these bytes.
std::vector<uint32_t> tokens_with_text(const Vocabulary &vocabulary, const std::string &text);
// The tokens of a set, sorted. A token that ends a sequence is included only if it is named by itself.
std::vector<uint32_t> tokens_of(const TokenSetParts &parts, const Vocabulary &vocabulary);

}  // namespace structgen
