// Where the parser stands after lexemes, found once for each mask.
//
// Why: tokens leave a lexeme at many trie nodes, and all of these lead to one parser position.
#pragma once

#include <bitset>
#include <span>
#include <unordered_map>

#include "automaton/automaton.h"
#include "automaton/grammar_steps.h"

namespace structgen {

class MaskBuilder;

// One parse of a lexeme: the Earley set where it began, and the terminal that it is read as.
struct LexemeParse {
  const EarleySet *since;
  uint32_t terminal;
};

// A running lexeme in one or more parses of a state.
//
// Why: parses that are in one state of a lexeme leave it at the same trie nodes, where `advance` merges them.
struct RunningLexeme {
  LexemeState state;
  GrammarEntry entry;  // of the first parse; those of the others differ in their sets alone
  std::span<const LexemeParse> parses;
  uint32_t terminal() const { return parses[0].terminal; }
};

// The parser position after a lexeme.
struct NextPosition {
  bool is_live = false;
  GrammarEntry entry{};
  std::bitset<256> first_bytes{};  // that may come there
};

// May the text continue with what is not the grammar's own, after the lexemes that `set` has read?
bool may_leave_grammar(GrammarControl &grammar, const EarleySet *set, const GrammarFrame *state);
// The position at `entry`, with its first bytes.
NextPosition position_at(GrammarControl &grammar, const GrammarEntry &entry, const GrammarFrame *state);

class ParserPositions {
 public:
  explicit ParserPositions(MaskBuilder &m) : m_(m) {}
  ParserPositions(const ParserPositions &) = delete;
  ParserPositions &operator=(const ParserPositions &) = delete;

  // The position after a lexeme in all of its parses. `state`: any state with the same frame and grammar.
  const NextPosition &after(const GrammarFrame *state, const RunningLexeme &ended);
  void clear();

 private:
  const NextPosition &after_one(const GrammarFrame *state, const RunningLexeme &ended);
  const NextPosition &after_several(const GrammarFrame *state, const RunningLexeme &ended);
  // The position under `key`, or the one that `find` finds; `lasts`: the key's sets live as long as the mask is built.
  template <class Find>
  const NextPosition &find_once(bool lasts, const Hash128 &key, const GrammarFrame *state, const Find &find);
  // The first set of this mask whose items need the same. A run of one character may be a row of operators, each of
  // which may be the last: the parser then stands in equal positions, and what follows them is found once.
  const EarleySet *first_equal(GrammarControl &grammar, const EarleySet *set);

  MaskBuilder &m_;
  std::unordered_map<Hash128, const NextPosition *, HashOf128> positions_;
  std::unordered_map<Hash128, const EarleySet *, HashOf128> sets_;  // by what their items still need
  Arena memory_;
};

}  // namespace structgen
