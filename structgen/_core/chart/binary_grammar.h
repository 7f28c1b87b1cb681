// A grammar in the form in which spans of a canvas are put together: each rule has one symbol or two, and none is empty.
//
// Symbols are numbers: the terminals first, then the rules of the grammar, then parts of their productions, each once.
// Text to ignore may stand before the first terminal and after any; that is said by rules, too.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "grammar/lexer.h"
#include "text/lexemes.h"
#include "text/text_space.h"

namespace structgen {

class CanvasGrammar {
 public:
  struct Terminal {
    LexemeState begin = Lexemes::DEAD;  // of text
    std::vector<uint32_t> tokens;       // of a set of tokens, which are no text
    uint32_t number = 0;                // in the grammar
  };
  struct Pair {
    uint32_t left, right;
  };
  struct Into {  // `head` is made of the symbol that this is listed under and, behind it, `right`
    uint32_t head, right;
  };

  CanvasGrammar();  // has no text
  CanvasGrammar(Re language, TextSpace &space);  // one terminal, which spans the whole text
  CanvasGrammar(const Grammar &grammar, Lexer &lexer);

  uint32_t size() const { return static_cast<uint32_t>(units_of.size()); }
  uint32_t terminal_count() const { return static_cast<uint32_t>(terminals.size()); }

  static constexpr uint32_t NONE = UINT32_MAX;

  std::vector<Terminal> terminals;
  uint32_t start = 0;
  // Of the grammar that it was made of: where its rules begin, its terminals with the text to ignore behind them, and
  // text to ignore.
  uint32_t first_rule = 0, blank = NONE;
  std::vector<uint32_t> behind;
  bool accepts_empty = false;
  // By head.
  std::vector<std::vector<uint32_t>> units_of;
  std::vector<std::vector<Pair>> pairs_of;
  // By what comes first in them.
  std::vector<std::vector<uint32_t>> units_into;
  std::vector<std::vector<Into>> pairs_into;
  // Which terminals may begin a text, and come right after each; as words of bits.
  std::vector<uint64_t> first;
  std::vector<std::vector<uint64_t>> follow;

 private:
  class Builder;
  void find_neighbours();
};

}  // namespace structgen
