// How the mask of a grammar walks the token trie: all parses of a text arrive at a trie node before any goes on.
//
// Why: literals of different lengths cut a token in exponentially many ways. `advance` merges the parses after every
// byte, so the walk merges them at every trie node: lexemes that end at one node lead to one Earley set.
// Invariant: what a parse leads to lies at its trie node or below. So when a node is visited in the order of the trie,
// all parses of it have arrived.
// Cost: one visit of a trie node for each different state of the lexer, not one for each parse. Parses that are in one
// state of a lexeme are one from there on.
#pragma once

#include <bitset>
#include <deque>
#include <utility>
#include <vector>

#include "masks/parser_positions.h"
#include "vocabulary/vocabulary.h"

namespace structgen {

class MaskBuilder;

// A parse that arrives at a trie node: a state of a grammar after the node's byte, or the parser position after a
// lexeme.
struct Arrival {
  enum Kind : uint8_t {
    State,
    BeforeByte,          // the position stands before the node's own byte,
    EmbeddedBeforeByte,  // the same, but only embedded constraints may begin,
    AfterByte            // or after it
  } kind;
  Vocabulary::Node at;
  const Frame *node;  // the state; of a position: one with the same frame and grammar
  // Of a position:
  RunningLexeme ended{};
  Re forbidden = RegexSpace::EMPTY;  // what follows may not begin with a text of this
  OuterState outer = ANYTHING;       // at the position
};

class GrammarWalk {
 public:
  explicit GrammarWalk(MaskBuilder &m);
  GrammarWalk(const GrammarWalk &) = delete;
  GrammarWalk &operator=(const GrammarWalk &) = delete;

  // Adds the tokens below trie node `at`, whose own bytes led to `state`: now, or when a running walk visits the node.
  void add_tokens(Vocabulary::Node at, const GrammarFrame *state);
  // Adds the tokens that begin at a parser position, none of them with a text of `forbidden`.
  void add_tokens_at_position(const GrammarFrame *state, const GrammarEntry &position, Re forbidden);

  // For the functions that find out what tokens lead to (masks/lexeme_tokens.h):
  // Lets a parse wait for the visit of its trie node.
  void arrive(const Arrival &arrival);
  // The byte of trie node `at` leads to `next` (null: nowhere).
  void go_on(Vocabulary::Node at, const Frame *next);
  // A lexeme in one parse.
  RunningLexeme lexeme(const GrammarEntry &entry, const Lexer::Running &running);
  // The lexemes that run in a state, each in all of its parses.
  std::vector<RunningLexeme> running_lexemes(const GrammarFrame *state);
  ParserPositions &positions() { return positions_; }

  class Agenda;
  bool is_running() const { return agenda_ != nullptr; }
  uint64_t arrivals() const { return arrivals_; }
  Agenda *exchange_agenda(Agenda *agenda) { return std::exchange(agenda_, agenda); }

 private:
  // Runs `begin`, which lets parses arrive, and visits all of them.
  template <class Begin>
  void run(const Begin &begin);
  // Continues all parses of one trie node. States first: lexemes that end there lead to positions after it.
  void visit(Vocabulary::Node at);
  void visit_states(Vocabulary::Node at);
  void step_by_bytes(Vocabulary::Node at, const Frame *state);
  // Calls `act` for the positions that arrivals lead to, those that `advance` would merge as one.
  template <class Act>
  void for_each_position(const std::vector<const Arrival *> &arrivals, const Act &act);
  // The lexeme of the first arrival, with the parses of all of them, each once.
  RunningLexeme in_all_parses(const std::vector<const Arrival *> &arrivals);
  // Copies parses to the memory of the walk.
  std::span<const LexemeParse> store(const std::vector<LexemeParse> &parses);
  bool is_wide(Vocabulary::Node at) const { return vocabulary_.end(at) - at > Vocabulary::WIDE; }
  // Are all of these tokens allowed already?
  bool are_all_set(std::span<const uint32_t> ids);

  MaskBuilder &m_;
  Automaton &automaton_;
  const Vocabulary &vocabulary_;
  StepContext &ctx_;
  ParserPositions positions_;
  std::vector<LexemeParse> parses_;  // scratch: of lexemes that end at one trie node
  Agenda *agenda_ = nullptr;         // of the running walk; null: there is no walk, or one that clears tokens
  uint64_t arrivals_ = 0;            // number of those that may still wait
};

}  // namespace structgen
