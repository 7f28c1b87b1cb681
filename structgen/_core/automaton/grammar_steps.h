// How the parser of a grammar moves: what begins at a position, and where a terminal leads.
//
// A grammar frame holds parses of the text so far, as entries: an Earley set and what has been read since. An entry in
// which nothing of a lexeme has been read is a *position*. Whether a lexeme ends is decided by the byte after it, so
// between bytes nothing is decided early, and what the lexer's rule forbids to follow is checked on that byte. All
// lexemes that end at one place lead to one set, so there is at most one more parse than lexemes that go on.
#pragma once

#include <span>
#include <vector>

#include "automaton/automaton.h"

namespace structgen {

struct ParserPosition {
  GrammarEntry at;
  Re forbidden;  // what follows may not begin with a text of this
};

// Frames. Null for no entries. The positions of a symbol frame differ in their sets alone.
const Frame *make_grammar_frame(StepContext &ctx, GrammarControl &grammar, std::span<const GrammarEntry> entries,
                                const Frame *parent);
const SymbolFrame *make_symbol_frame(StepContext &ctx, GrammarControl &grammar, std::span<const GrammarEntry> positions,
                                     uint32_t terminal, const Frame *parent);
// One frame for several of one grammar that have the same parent.
const GrammarFrame *merge_grammar_frames(Automaton &automaton, StepContext &ctx,
                                         std::span<const GrammarFrame *const> frames);

// Entries
Hash128 entry_identity(const GrammarEntry &entry);  // a hash of all that can follow
bool is_same_entry(StepContext &ctx, GrammarControl &grammar, const GrammarEntry &a, const GrammarEntry &b);
// Keeps one of equal entries. Throws `LimitError` for too many entries.
void drop_equal_entries(Automaton &automaton, StepContext &ctx, GrammarControl &grammar, GrammarEntries &entries);

// The position after the terminal `terminal`, which ends in `entry`; false: there is no such position.
bool after_terminal(StepContext &ctx, GrammarControl &grammar, const GrammarEntry &entry, uint32_t terminal,
                    GrammarEntry *out);
// The same for the constraint in the frame, wherever it began.
bool after_constraint(Automaton &automaton, StepContext &ctx, const SymbolFrame &frame, GrammarEntry *out);

// The positions of a text if nothing more is read into its lexemes: several where the parses differ.
std::vector<ParserPosition> positions_of(StepContext &ctx, const GrammarFrame &frame);
// Is the text of the grammar on top complete?
bool is_grammar_complete(StepContext &ctx, const Frame *state);
// The same state with the parser after lexemes that no byte can make longer. Masks are cached by state, and positions
// that many lexemes lead to become one state.
const Frame *skip_ended_lexemes(Automaton &automaton, StepContext &ctx, const Frame *state);

enum class Beginning { All, Touched };  // which lexemes of the grammar may begin: see Lexer::begin_touched

// Reads a byte into the lexeme of an entry; false where that leads nowhere.
bool step_lexeme(StepContext &ctx, GrammarControl &grammar, GrammarEntry &entry, uint8_t byte);

// The state after `byte` at a position, in a grammar frame with this parent. No text of `forbidden` may begin there.
const Frame *begin_at(Automaton &automaton, StepContext &ctx, GrammarControl &grammar, const GrammarEntry &position,
                      Re forbidden, uint8_t byte, const Frame *parent, Beginning which = Beginning::All);
// The same without lexemes of the grammar: other constraints, and what follows the grammar's text.
const Frame *begin_others_at(Automaton &automaton, StepContext &ctx, GrammarControl &grammar,
                             const GrammarEntry &position, uint8_t byte, const Frame *parent);
// The state at the beginning of the constraint that is terminal `terminal`.
const Frame *begin_constraint(Automaton &automaton, StepContext &ctx, GrammarControl &grammar,
                              const GrammarEntry &position, uint32_t terminal, const Frame *parent);

// Calls `read` with a constraint that `begin_constraint` has started. Meanwhile it may not end: see UnreadConstraint.
template <class Read>
const Frame *read_first(StepContext &ctx, const Frame *started, const Read &read) {
  const Frame *frame = started;
  while (!is<SymbolFrame>(frame)) {
    const auto *list = as_if<AlternativesFrame>(frame);
    frame = list ? list->first : frame->parent;
  }
  const UnreadConstraint unread{as<SymbolFrame>(frame), ctx.unread};
  ctx.unread = &unread;
  const Frame *next = read(started);
  ctx.unread = unread.outer;
  return next;
}

}  // namespace structgen
