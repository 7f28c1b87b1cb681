// Masks of many lexemes that are single texts, such as the names of tools.
//
// Why: a fragment for each text costs a walk through the token trie and a row of states, for hundreds of texts. Tokens
// hold only a few characters of them.
// How: one walk through the trie with all texts side by side, grouped by their next byte.
// Cost: the sum of the texts over the trie nodes that they reach. Most texts separate within a few bytes.
#pragma once

#include <vector>

#include "masks/context_fragments.h"
#include "masks/grammar_walk.h"

namespace structgen {

constexpr size_t FEW_LEXEMES = 8;  // up to this many have fragments of their own

// Is a lexeme a single text that is allowed in every parser state, with any continuation?
bool is_literal(GrammarControl &grammar, LexemeState state, OuterState outer);

// If more than a few lexemes of a state are running, adds the tokens of those that are single texts, and removes these
// lexemes from `running`.
void add_running_literals(MaskBuilder &m, Vocabulary::Node at, const GrammarFrame *state,
                          std::vector<RunningLexeme> &running);

// Finds the tokens of literals that begin in a context, and where the literals end before tokens do (`made.ending`).
void find_literal_tokens(MaskBuilder &m, Vocabulary::Node at, const std::vector<Lexer::Running> &literals,
                         ContextFragment &made, std::vector<uint32_t> &ids);

}  // namespace structgen
