// Can what has been read still become a text, where a lexer's rule has a say in what may follow what?
//
// Every Earley set has a continuation in terminals. Whether terminals can be written one after the other is another
// question: after a name no name can begin, so `start: NAME NAME` without anything to ignore between them is
// empty. A *boundary* is what must not follow a lexeme that has ended. From cheap to dear:
//   1. Nothing forbids anything (scannerless), or whatever the grammar puts side by side can be written so at every
//      boundary: everything is alive.
//   2. *Separators*: text to ignore after which every terminal can be written, and after it a separator again. A
//      lexeme that can be completed to a boundary where a separator may stand is *free*: it is alive wherever its
//      terminal is expected.
//   3. The rest is a least fixpoint over (symbol, boundary before, boundary after), made as far as one question needs
//      it; a budget bounds it, past which the answer is "alive" and counted as unproven.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "earley.h"
#include "lexer.h"

namespace structgen {

class GrammarLife {
 public:
  GrammarLife(const Grammar &grammar, ItemSets &items, Lexer &lexer, Earley &earley, size_t budget);

  bool always() const { return always_; }
  // Can lexeme `s` of terminal `t`, which began at `set`, be completed and then the text?
  bool lexeme(const EarleySet *set, bool in_brackets, uint32_t t, LexemeState s, Reads *reads, Arena &scratch);
  // Is every token of the fragment alive wherever the terminal is expected?
  bool all_free(Lexemes::Fragment &fragment);
  bool empty();  // no text at all
  // Text to ignore that may stand at a boundary; empty where there is none.
  std::string separator(Re boundary);
  uint64_t unproven() const { return unproven_; }

 private:
  struct Separator {
    std::string text;
    Re after;
  };
  struct Ends {  // boundaries at which a lexeme can end
    std::vector<Re> after;
    bool all = true;  // false: too many states to find them all
  };
  class Search;

  bool free(LexemeState s);
  bool separable(Re boundary);
  bool separates(const Separator &separator, Re boundary);
  void find_separators();
  bool fits_everywhere();
  const Ends &ends(LexemeState s);
  // A lexeme of `t` after `boundary`, among all terminals.
  LexemeState begin(uint32_t t, Re boundary);
  enum class Near : uint8_t { Free, Dead, Open };
  Near near(Outlook outlook, bool in_brackets, Re boundary);
  bool place(const EarleySet *set, bool in_brackets, bool after_newline, Re boundary, Reads *reads);

  const Grammar &g_;
  ItemSets &items_;
  Lexer &lexer_;
  Lexemes &lexemes_;
  Earley &earley_;
  size_t budget_;
  bool always_ = false;
  std::vector<LexemeState> plain_;  // by terminal, where nothing is before it
  std::vector<Separator> separators_;
  std::unordered_map<LexemeState, bool> free_;
  std::unordered_map<Re, bool> separable_;
  std::unordered_map<LexemeState, Ends> ends_;
  std::unordered_map<Hash128, bool, HashOf128> places_;
  std::unordered_map<Hash128, Near, HashOf128> near_;
  uint64_t unproven_ = 0;
};

}  // namespace structgen
