// How a mask of a grammar goes through the vocabulary: all readings of a text arrive at a trie node before any goes on.
//
// Why: literals of different lengths cut a token in exponentially many ways. `advance` merges the readings after every
// byte, so the walk merges them at every trie node: lexemes that end at one node lead to one Earley set.
// Invariant: what a reading leads to lies at its trie node or below. So when a node is visited in the order of the
// trie, all readings of it have arrived.
// Cost: one visit of a trie node for each different state of the lexer, not one for each reading.
// Readings that are in one state of a lexeme are one from there on.
#pragma once

#include <bitset>
#include <deque>
#include <vector>

#include "masks/masks.h"

namespace structgen {

// What a lexeme is read as.
struct Masks::Reading {
  const EarleySet *since;  // where it began
  uint32_t terminal;
};

// A running lexeme in one or more readings of a state.
//
// Why: readings that are in one state of a lexeme leave it at the same trie nodes, where `advance` merges them.
struct Masks::Lexeme {
  LexemeState state;
  GrammarEntry entry;  // of the first reading; those of others differ in their sets alone
  std::span<const Reading> readings;
  uint32_t terminal() const { return readings[0].terminal; }
};

// What lexemes that begin in a context allow below a trie node, those apart of which some tokens go on to others.
struct Masks::ContextFragment {
  bool dense = false;
  std::vector<uint32_t> bits, ids;
  std::vector<std::pair<Lexer::Running, Lexemes::Fragment *>> leaving;
  std::vector<std::pair<Lexer::Running, Vocabulary::Node>> ending;  // texts, and where they end before tokens do
  std::vector<Lexer::Running> whole;      // whose fragments are in it, those of `leaving` too
  std::vector<Lexer::Running> dependent;  // it depends on the parser which of their tokens are alive
  std::vector<Lexer::Running> lines;      // newline lexemes
  std::bitset<256> touched;               // bytes of lexemes that are left out
};

// Where the parser stands after a lexeme.
struct Masks::Place {
  bool alive = false;
  GrammarEntry at{};
  std::bitset<256> first{};  // bytes that may come there
};

// A reading that arrives at a trie node: a state of a grammar after the node's byte, or a place after a lexeme.
struct Masks::Arrival {
  enum Kind : uint8_t {
    State,
    PlaceBefore,
    OthersBefore,  // of what follows, other constraints alone
    PlaceAfter
  } kind;  // a place may stand before the node's own byte or after it
  Vocabulary::Node at;
  const Frame *node;  // the state; of a place: one with the same frame and grammar
  // Of a place:
  Lexeme ended{};
  Re after = RegexSpace::EMPTY;  // what must not follow it
  Within within = ANYTHING;      // at the place
};

// Readings that wait, those at the first trie node on top; of one node, those that came first.
class Masks::Agenda {
 public:
  void put(const Arrival &arrival);
  bool empty() const { return heap_.empty(); }
  Vocabulary::Node next() const { return static_cast<Vocabulary::Node>(heap_.front().key >> 32); }

  // The readings of the node that is visited. Their memory is kept, since a walk visits thousands of nodes.
  struct Visit {
    std::vector<const Arrival *> states, before, after;
    // States of grammars; of other constraints; of grammars, those with one frame as one.
    std::vector<const GrammarFrame *> merged;
    std::vector<const Frame *> others, frames;
    std::vector<const Arrival *> open, group;
    std::vector<const GrammarFrame *> same_frame;
  } visit;
  // Takes the readings that wait at `at` into `visit`.
  void take(Vocabulary::Node at);
  void begin_visit();  // ends the one before

 private:
  struct Waiting {
    uint64_t key;  // trie node, order of arrival
    Arrival *arrival;
  };
  static bool is_later(const Waiting &a, const Waiting &b) { return a.key > b.key; }
  std::vector<Waiting> heap_;
  std::deque<Arrival> arrivals_;
  std::vector<Arrival *> taken_, free_;
  uint32_t count_ = 0;
};

}  // namespace structgen
