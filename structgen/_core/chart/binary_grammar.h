// A grammar in binary form: each production has one symbol or two, and none is empty (Lange and Leiß, "To CNF or not to
// CNF?", 2009). Charts of spans are computed for this form.
//
// Symbols are numbers: the terminals first, then the rules of the grammar, then ends of their productions, each stored
// once. Text to ignore may stand before the first terminal and after any; rules express that, too.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "grammar/lexer.h"
#include "text/lexemes.h"
#include "text/text_space.h"

namespace structgen {

class BinaryGrammar {
 public:
  struct Terminal {
    LexemeState begin = Lexemes::DEAD;  // the initial state of its texts
    std::vector<uint32_t> tokens;       // instead, if it is a set of tokens
    uint32_t number = 0;                // in the grammar
  };
  struct Pair {
    uint32_t left, right;
  };
  struct Into {  // a production of `head`: the symbol under which it is listed, then `right`
    uint32_t head, right;
  };

  BinaryGrammar();                               // has no texts
  BinaryGrammar(Re language, TextSpace &space);  // one terminal, which spans the whole text
  BinaryGrammar(const Grammar &grammar, Lexer &lexer);

  uint32_t size() const { return static_cast<uint32_t>(units_of.size()); }
  uint32_t terminal_count() const { return static_cast<uint32_t>(terminals.size()); }

  static constexpr uint32_t NONE = UINT32_MAX;

  std::vector<Terminal> terminals;
  uint32_t start = 0;
  // Symbols of the original grammar: the first rule; text to ignore; each terminal together with the text to ignore
  // that follows it.
  uint32_t first_rule = 0, blank = NONE;
  std::vector<uint32_t> terminal_then_blank;
  bool accepts_empty = false;
  // By head.
  std::vector<std::vector<uint32_t>> units_of;
  std::vector<std::vector<Pair>> pairs_of;
  // By their first symbol.
  std::vector<std::vector<uint32_t>> units_into;
  std::vector<std::vector<Into>> pairs_into;
  // The terminals that may begin a text, and those that may follow each terminal, as words of bits.
  std::vector<uint64_t> first;
  std::vector<std::vector<uint64_t>> follow;

 private:
  class Builder;
  void find_neighbours();
};

}  // namespace structgen
