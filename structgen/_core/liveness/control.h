// What the states of one grammar share: its item sets, its lexer, and what follows from both.
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

struct GrammarEntry {         // one reading of the text so far
  const EarleySet *set;       // where the running lexeme began
  LexState lex;               // what is being read since; Lexer::FRESH: nothing
  const IndentLevel *indent;  // open blocks, innermost first
  uint32_t brackets;          // open ones, between which newlines mean nothing
  uint32_t column;            // of the line, while a newline lexeme runs
  Within within;              // of what follows, where the whole text must be in a regular language, too
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
  // May the text end here, as far as the other constraint on it goes?
  bool may_end(const GrammarEntry &entry) { return lexemes().may_end(entry.within); }
  ItemSets &items() { return *items_; }
  Lexer &lexer() { return *lexer_; }
  Lexemes &lexemes() { return lexer_->lexemes(); }
  Earley &earley() { return *earley_; }
  GrammarLife &life() { return *life_; }

  // The cheapest texts of its rules: made and used by completion/grammar_witness.h.
  std::shared_ptr<const GrammarShortest> &shortest() { return shortest_; }

  // The lexer's context where these are expected; `in_brackets`: newlines are ignored, and brackets may close.
  Context context(Outlook outlook, bool in_brackets);
  // Expected terminals that are sets of tokens or other constraints.
  const std::vector<uint32_t> &others(Outlook outlook);
  const std::vector<uint32_t> &token_terminals() const { return token_terminals_; }
  bool has_constraints() const { return has_constraints_; }  // other ones, in its rules
  bool is_newline(uint32_t terminal) const { return g_.indentation.newline == terminal; }
  bool runs_newline(LexState s) const;
  // May the parser stand where this reading's lexeme began, with or without what has been read since? Otherwise all
  // that matters of the set there is what the lexemes that run lead to.
  bool may_stand(const GrammarEntry &entry) const;
  // Bytes that some text after a newline lexeme begins with.
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
  std::unique_ptr<GrammarLife> life_;
  std::shared_ptr<const GrammarShortest> shortest_;
  std::vector<uint32_t> token_terminals_;  // those that are sets of tokens
  std::bitset<256> after_newline_;
  std::unordered_map<uint64_t, Context> contexts_;
  std::unordered_map<Outlook, std::vector<uint32_t>> others_;
};

}  // namespace structgen
