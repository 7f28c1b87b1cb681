// A context-free grammar as the core keeps it: flat productions over rules and terminals.
//
// A *symbol* is one integer: a rule (>= 0), a terminal (~index, negative) or END, which closes every
// production. An *item* is an index into the array of all symbols: the production it points into, with the dot
// before that symbol. So moving the dot is adding one.
//
// Invariant after `reduce`: every rule that is left in a production derives a text, and no text terminal has the
// empty text (`nullable` says that it had).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "regex/regex.h"

namespace structgen {

struct Plan;

using Symbol = int32_t;
using Item = uint32_t;

enum class Lexing : uint8_t { Scannerless, Longest, Ordered };

struct GrammarTerminal {
  enum Kind : uint8_t { Text, Tokens, Constraint } kind = Text;
  bool is_made() const { return kind == Tokens && tokens == NONE; }  // by the indentation: it has no text
  std::string name;
  Re language = RegexSpace::EMPTY;  // Text
  bool nullable = false;
  static constexpr uint32_t NONE = UINT32_MAX;
  uint32_t scanner = 0;              // Text, where Lexing is Ordered: the scanner that finds it
  bool lazy = false;                 // Text: the lexeme ends where it first matches, even if another could continue
  uint32_t keyword = NONE;           // Text: the entry of `Grammar::keywords` that it belongs to
  uint32_t tokens = NONE;            // Tokens: which of the space's sets; NONE: the indentation makes it
  std::shared_ptr<const Plan> plan;  // Constraint; shared, so that the type may be incomplete here
  bool has_text = true;              // Constraint: some text other than the empty one
};

// Lark's indentation rule: after the lexeme `newline` the column decides whether `indent` or `dedent`s follow.
struct IndentationRule {
  static constexpr uint32_t NONE = UINT32_MAX;
  uint32_t newline = NONE, indent = NONE, dedent = NONE;  // terminals
  std::vector<uint32_t> open, close;                      // between these, newlines mean nothing
  uint32_t tab_width = 8;
  std::vector<int8_t>
      change;  // by terminal: the brackets that it opens, or (-1) closes; empty if there are no brackets
  bool active() const { return newline != NONE; }
  int bracket(uint32_t terminal) const { return change.empty() ? 0 : change[terminal]; }
};

// Of a contextual lexer with rule "ordered": a text that patterns match, too. Where such a pattern may come, it finds
// the keyword, as the terminal `found`; `own` is the keyword as its own scanner finds it, elsewhere.
struct GrammarKeyword {
  struct Finder {
    uint32_t found, pattern;  // terminals
    bool replaces;            // the keyword's own scanner is not used in addition to the pattern
    bool ignores() const { return found == pattern; }  // the text is not treated as a keyword
  };
  uint32_t own = 0;
  std::vector<Finder> finders = {};
};

struct Grammar {
  static constexpr Symbol END = std::numeric_limits<Symbol>::min();

  Lexing lexing = Lexing::Scannerless;
  bool contextual = false;
  uint32_t start = 0;
  std::vector<std::string> rules;    // names
  std::vector<double> temperatures;  // of rules; not a number: none. Empty: no rule has one
  std::vector<GrammarTerminal> terminals;
  std::vector<Re> scanners;
  std::vector<uint32_t> ignore;  // terminals
  std::vector<GrammarKeyword> keywords;
  IndentationRule indentation;
  Re outer_language = RegexSpace::ANY_TEXT;  // the whole text must be in this language, too

  // Productions, by rule: those of rule r begin at the items first[first_of[r]], ..., first[first_of[r + 1] - 1].
  std::vector<Symbol> symbols;
  std::vector<uint32_t> head;  // of the item's production: its rule
  std::vector<Item> first;
  std::vector<uint32_t> first_of;
  std::vector<bool> nullable_rule;

  std::span<const Item> productions(uint32_t rule) const {
    return {first.data() + first_of[rule], first.data() + first_of[rule + 1]};
  }
  bool nullable(Symbol s) const {
    if (s == END) return false;
    return s >= 0 ? nullable_rule[static_cast<uint32_t>(s)] : terminals[static_cast<uint32_t>(~s)].nullable;
  }

  struct Production {
    uint32_t head = 0;
    std::vector<Symbol> body;
  };
  // Lays out `productions`, without those that derive no text: `dead` says which terminals have none.
  // False when the start itself derives none.
  bool lay_out(std::vector<Production> productions, const std::vector<bool> &dead);
};

}  // namespace structgen
