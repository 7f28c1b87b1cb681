// Parts of a text that hold at most so many tokens.
//
// A part is a `Sequence` of one part, whose frame knows the token that its text began in. Bytes know nothing of tokens,
// so steps and masks are those of the same text without a count. Only where a token ends, the parts that have used up
// theirs are ended: all readings in such a part become what follows it, if one of them is complete there, or if the
// part may be cut. A part that neither is complete nor may be cut goes on until the end of a token where it is
// complete.
//
// Invariant: a state that has a completion still has one afterwards, since what follows a part is alive by itself.
#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "automaton/automaton.h"
#include "util/stack.h"

namespace structgen {
namespace {

using States = std::vector<const Node *>;

template <class Visit>
void each_reading(const Node *n, const Visit &visit) {
  for (; n; n = n->parent) {
    charge();
    const bool more = n->kind == Node::Alternatives;
    visit(more ? n->control.left : n);
    if (!more) return;
  }
}

bool is_counted(const Node *n) { return n->kind == Node::Sequence && n->control.plan->max_tokens > 0; }

bool stands_in(const Node *n, const Node *frame) {
  while (n && n != frame) {
    charge();
    n = n->parent;
  }
  return n != nullptr;
}

bool is_used_up(const Node *frame, uint64_t tokens) {
  return tokens > frame->count && tokens - frame->count >= frame->control.plan->max_tokens;
}

}  // namespace

const Node *Automaton::after_part(Reader &r, const Node *n, const Node *frame) {
  check_stack("constraints are nested too deeply");
  switch (n->kind) {
    case Node::Alternatives: {
      const Node *left = after_part(r, n->control.left, frame);
      return alternatives(r, left, after_part(r, n->parent, frame));
    }
    case Node::Scalar:
      if (!stands_in(n, frame)) return n;  // the end of an inner part was the end of this one
      if (!text_.complete(n->text) || (n->parent->kind != Node::Sequence && n->parent->kind != Node::Symbol))
        return nullptr;
      break;
    case Node::Grammar:
      if (!stands_in(n, frame)) return n;
      if (!grammar_ends(r, n)) return nullptr;
      break;
    default: return stands_in(n, frame) ? nullptr : n;
  }
  const Node *after = finish(r, n->parent);
  return after ? after_part(r, after, frame) : nullptr;
}

const Node *Automaton::end_token(Reader &r, const Node *n, uint64_t tokens, bool in_character) {
  if (!counts_tokens_ || !n || tokens == 0) return n;
  // What ends now ends with the last byte of the token, and what begins then begins in the next token.
  r.token = tokens - 1;
  r.is_last_byte = r.is_read = true;
  States ended, readings;
  std::unordered_set<const Node *> open;  // used up, and going on, for it cannot end here
  States *const noted = std::exchange(r.ended, &ended);
  if (noted) ended = *noted;
  each_reading(n, [&](const Node *one) { readings.push_back(one); });
  // Each reading has frames of its own: the same part may be there several times.
  const auto frame_in = [&](const Node *one, const Node *frame) -> const Node * {
    const Node *f = one;
    while (f && f->depth > frame->depth) f = f->parent;
    const bool is_it =
        f && is_counted(f) && f->control.plan == frame->control.plan && f->count == frame->count && same(r, f, frame);
    return is_it ? f : nullptr;
  };
  bool has_changed = false;
  // A part whose text is complete has ended, in whatever way it may also be read.
  const auto leave_ended = [&] {
    for (size_t i = 0; i < ended.size(); ++i) {  // it may grow
      const Node *frame = ended[i];
      if (frame->control.plan->cuts || !is_used_up(frame, tokens)) continue;
      has_changed |= std::erase_if(readings, [&](const Node *one) { return frame_in(one, frame) != nullptr; }) > 0;
    }
    ended.clear();
  };
  leave_ended();
  while (true) {
    // Inner parts end first: whether an outer one is complete depends on them.
    const Node *innermost = nullptr;
    for (const Node *one : readings)
      for (const Node *f = one; f; f = f->parent) {
        charge();
        if (is_counted(f) && is_used_up(f, tokens) && (!innermost || f->depth > innermost->depth) && !open.contains(f))
          innermost = f;
      }
    if (!innermost) break;
    const bool cut = innermost->control.plan->cuts;
    const Node *after = cut && !in_character ? finish(r, innermost->parent) : nullptr;
    if (!cut) {
      r.used_up = innermost->control.plan;
      for (const Node *one : readings)
        if (const Node *f = frame_in(one, innermost)) after = alternatives(r, after_part(r, one, f), after);
      r.used_up = nullptr;
    }
    States left;
    for (const Node *one : readings) {
      const Node *f = frame_in(one, innermost);
      if (!f || !after) left.push_back(one);
      if (f && !after) open.insert(f);
    }
    if (after) {
      has_changed = true;
      each_reading(after, [&](const Node *one) { left.push_back(one); });
      readings = std::move(left);
    }
    leave_ended();
  }
  r.ended = noted;
  r.is_read = false;
  if (!has_changed) return n;
  const Node *all = nullptr;
  for (const Node *one : readings) all = alternatives(r, one, all);
  return all ? all : n;  // nothing can follow a part that ended: it goes on
}

const Node *Automaton::with_cuts(Reader &r, const Node *n, uint64_t bytes) {
  if (!cuts_ || !n) return n;
  r.token = bytes - 1;
  r.is_last_byte = r.is_read = true;
  const Node *ended = nullptr;
  each_reading(n, [&](const Node *one) {
    for (const Node *f = one; f; f = f->parent) {
      charge();
      if (is_counted(f) && f->control.plan->cuts && bytes > f->count)
        ended = alternatives(r, finish(r, f->parent), ended);
    }
  });
  r.is_read = false;
  return ended ? alternatives(r, n, ended) : n;
}

bool Automaton::may_be_cut(const Node *n, uint64_t tokens) const {
  if (!cuts_ || !n) return false;
  bool found = false;
  each_reading(n, [&](const Node *one) {
    for (const Node *f = one; f; f = f->parent) {
      charge();
      found = found || (is_counted(f) && f->control.plan->cuts && is_used_up(f, tokens));
    }
  });
  return found;
}

}  // namespace structgen
