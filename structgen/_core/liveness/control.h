// What all states of one grammar share: its item sets, its lexer, its parser and its liveness.
#pragma once

#include <bitset>
#include <initializer_list>
#include <memory>
#include <unordered_map>

#include "grammar/earley.h"
#include "grammar/lexer.h"
#include "liveness/liveness.h"
#include "util/inline_vector.h"

namespace structgen {

struct GrammarEntry {         // one parse of the text so far
  const EarleySet *set;       // where the running lexeme began
  LexState lex;               // of the lexemes that may be running since; Lexer::FRESH: nothing
  const IndentLevel *indent;  // open blocks, innermost first
  uint32_t brackets;          // open brackets; between them, newlines are ignored
  uint32_t column;            // of the line, while a newline lexeme runs
  OuterState outer;           // of the regular language that the whole text must be in, too
};

using GrammarEntries = InlineVector<GrammarEntry, 4>;

class GrammarShortest;

class GrammarControl {
 public:
  // Takes a grammar whose productions are still to be laid out.
  GrammarControl(Grammar grammar, std::vector<Grammar::Production> productions, TextSpace &space);

  const Grammar &grammar() const { return g_; }
  bool empty() const { return empty_; }
  GrammarEntry start(Arena &arena);
  // Does the regular language on the whole text allow the text to end here?
  bool may_end(const GrammarEntry &entry) { return lexemes().may_end(entry.outer); }
  ItemSets &items() { return *items_; }
  Lexer &lexer() { return *lexer_; }
  Lexemes &lexemes() { return lexer_->lexemes(); }
  Earley &earley() { return *earley_; }
  GrammarLiveness &liveness() { return *liveness_; }

  // The cheapest texts of its rules: made and used by completion/grammar_witness.h.
  std::shared_ptr<const GrammarShortest> &shortest() { return shortest_; }

  // The lexer's context for the terminals of an outlook. `in_brackets`: newlines are ignored, and brackets may close.
  Context context(Outlook outlook, bool in_brackets);
  // The expected terminals that the lexer does not read: sets of tokens and embedded constraints.
  const std::vector<uint32_t> &expected_nonlexical(Outlook outlook);
  const std::vector<uint32_t> &token_terminals() const { return token_terminals_; }
  bool has_constraints() const { return has_constraints_; }  // do its rules embed other constraints?
  bool is_newline(uint32_t terminal) const { return g_.indentation.newline == terminal; }
  bool runs_newline(LexState s) const;
  // May the parser be at the position where this parse's lexeme began, with or without what has been read since?
  // Otherwise only the results of the running lexemes matter of the set there.
  bool may_stand(const GrammarEntry &entry) const;
  // The first bytes of the texts that may follow a newline lexeme.
  const std::bitset<256> &after_newline() const { return after_newline_; }
  int bracket(uint32_t terminal) const { return g_.indentation.bracket(terminal); }
  size_t memory() const { return items_->memory() + lexer_->memory(); }

 private:
  std::bitset<256> first_after(std::initializer_list<uint32_t> terminals);

  Grammar g_;
  bool empty_ = false, has_constraints_ = false;
  std::unique_ptr<Lexer> lexer_;
  std::unique_ptr<ItemSets> items_;
  std::unique_ptr<Earley> earley_;
  std::unique_ptr<GrammarLiveness> liveness_;
  std::shared_ptr<const GrammarShortest> shortest_;
  std::vector<uint32_t> token_terminals_;  // those that are sets of tokens
  std::bitset<256> after_newline_;
  std::unordered_map<uint64_t, Context> contexts_;
  std::unordered_map<Outlook, std::vector<uint32_t>> expected_nonlexical_;
};

}  // namespace structgen
