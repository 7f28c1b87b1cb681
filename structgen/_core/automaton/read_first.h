// How constraints that begin in a grammar are read, by bytes (automaton/grammar_frames.cpp) or tokens (automaton/tokens.cpp).
#pragma once

#include "automaton/automaton.h"

namespace structgen {

// Reads the first byte or token of a constraint that has just started in a grammar.
template <class Read>
const Node *Automaton::read_first(Reader &r, const Node *child, const Read &read) {
  const Node *frame = child;
  while (frame->kind != Node::Symbol) frame = frame->kind == Node::Alternatives ? frame->control.left : frame->parent;
  const Unread unread{frame, r.unread};
  r.unread = &unread;
  const Node *next = read(child);
  r.unread = unread.outer;
  return next;
}

}  // namespace structgen
