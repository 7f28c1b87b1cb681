#include "automaton/token_counts.h"

#include <unordered_set>
#include <utility>
#include <vector>

#include "automaton/alternatives.h"
#include "automaton/grammar_steps.h"
#include "util/stack.h"

namespace structgen {
namespace {

using States = std::vector<const Frame *>;

// A part with `max_tokens`; null for other frames.
const SequenceFrame *as_limited(const Frame *frame) {
  const auto *sequence = as_if<SequenceFrame>(frame);
  return sequence && sequence->plan->max_tokens > 0 ? sequence : nullptr;
}

bool is_exhausted(const SequenceFrame &part, uint64_t tokens) {
  return tokens > part.first_token && tokens - part.first_token >= part.plan->max_tokens;
}

// Calls `visit` with the parts with `max_tokens` around each parse of a state.
template <class Visit>
void each_limited_part(const Frame *state, const Visit &visit) {
  each_alternative(state, [&](const Frame *one) {
    for (const Frame *frame = one; frame; frame = frame->parent) {
      charge();
      if (const SequenceFrame *part = as_limited(frame)) visit(*part);
    }
  });
}

bool is_inside(const Frame *state, const Frame *frame) {
  while (state && state != frame) {
    charge();
    state = state->parent;
  }
  return state != nullptr;
}

// The state after the text of `part`, if that is complete.
const Frame *after_part(Automaton &automaton, StepContext &ctx, const Frame *state, const SequenceFrame &part) {
  check_stack("constraints are nested too deeply");
  if (const auto *list = as_if<AlternativesFrame>(state)) {
    const Frame *first = after_part(automaton, ctx, list->first, part);
    return either(automaton, ctx, first, after_part(automaton, ctx, list->rest(), part));
  }
  if (!is_inside(state, &part)) return state;  // the end of an inner part was the end of this one
  if (const auto *scalar = as_if<ScalarFrame>(state)) {
    if (!automaton.text().complete(scalar->text) || !is_open_ended(scalar)) return nullptr;
  } else if (!is<GrammarFrame>(state) || !is_grammar_complete(ctx, state)) {
    return nullptr;
  }
  const Frame *after = automaton.finish(ctx, state->parent);
  return after ? after_part(automaton, ctx, after, part) : nullptr;
}

// Ends, at the end of a token, the parts that have used up their tokens.
class TokenEnd {
 public:
  TokenEnd(Automaton &automaton, StepContext &ctx, const Frame *state, uint64_t tokens, bool is_in_character)
      : automaton_(automaton), ctx_(ctx), state_(state), tokens_(tokens), is_in_character_(is_in_character) {
    each_alternative(state, [&](const Frame *one) { parses_.push_back(one); });
  }

  const Frame *run() {
    std::vector<const SequenceFrame *> *const noted = std::exchange(ctx_.ended_parts, &ended_);
    if (noted) ended_ = *noted;
    drop_ended_parts();
    while (const SequenceFrame *part = innermost_exhausted_part()) {
      end_part(*part);
      drop_ended_parts();
    }
    ctx_.ended_parts = noted;
    ctx_.is_byte_read = false;
    if (!has_changed_) return state_;
    const Frame *all = nullptr;
    for (const Frame *one : parses_) all = either(automaton_, ctx_, one, all);
    return all ? all : state_;  // nothing can follow a part that ended: it goes on
  }

 private:
  // The frame of `part` in another parse. Each parse has frames of its own, and may have the same part several times.
  const SequenceFrame *find_in(const Frame *parse, const SequenceFrame &part) {
    const Frame *frame = parse;
    while (frame && frame->depth > part.depth) frame = frame->parent;
    const SequenceFrame *same = as_limited(frame);
    const bool is_it =
        same && same->plan == part.plan && same->first_token == part.first_token && is_same_state(ctx_, same, &part);
    return is_it ? same : nullptr;
  }

  // A part whose text is complete has ended, however else it may be parsed.
  void drop_ended_parts() {
    for (size_t i = 0; i < ended_.size(); ++i) {  // it may grow
      const SequenceFrame &part = *ended_[i];
      if (part.plan->cuts || !is_exhausted(part, tokens_)) continue;
      has_changed_ |= std::erase_if(parses_, [&](const Frame *one) { return find_in(one, part) != nullptr; }) > 0;
    }
    ended_.clear();
  }

  // Inner parts end first: whether an outer one is complete depends on them.
  const SequenceFrame *innermost_exhausted_part() {
    const SequenceFrame *innermost = nullptr;
    for (const Frame *parse : parses_)
      for (const Frame *frame = parse; frame; frame = frame->parent) {
        charge();
        const SequenceFrame *part = as_limited(frame);
        if (part && is_exhausted(*part, tokens_) && (!innermost || part->depth > innermost->depth) &&
            !goes_on_.contains(part))
          innermost = part;
      }
    return innermost;
  }

  const Frame *after_exhausted(const SequenceFrame &part) {
    if (part.plan->cuts) return is_in_character_ ? nullptr : automaton_.finish(ctx_, part.parent);
    const Frame *after = nullptr;
    ctx_.exhausted_part = part.plan;
    for (const Frame *parse : parses_)
      if (const SequenceFrame *same = find_in(parse, part))
        after = either(automaton_, ctx_, after_part(automaton_, ctx_, parse, *same), after);
    ctx_.exhausted_part = nullptr;
    return after;
  }

  // Replaces the parses inside the part by what follows it; where nothing does, the part goes on.
  void end_part(const SequenceFrame &part) {
    const Frame *after = after_exhausted(part);
    States left;
    for (const Frame *parse : parses_) {
      const SequenceFrame *same = find_in(parse, part);
      if (!same || !after) left.push_back(parse);
      if (same && !after) goes_on_.insert(same);
    }
    if (!after) return;
    has_changed_ = true;
    each_alternative(after, [&](const Frame *one) { left.push_back(one); });
    parses_ = std::move(left);
  }

  Automaton &automaton_;
  StepContext &ctx_;
  const Frame *const state_;
  const uint64_t tokens_;
  const bool is_in_character_;
  States parses_;
  std::vector<const SequenceFrame *> ended_;
  std::unordered_set<const Frame *> goes_on_;  // parts that have used up their tokens and cannot end here
  bool has_changed_ = false;
};

}  // namespace

const Frame *end_token(Automaton &automaton, StepContext &ctx, const Frame *state, uint64_t tokens,
                       bool is_in_character) {
  if (!automaton.counts_tokens() || !state || tokens == 0) return state;
  // What ends now ends with the last byte of the token, and what begins then begins in the next token.
  ctx.token = tokens - 1;
  ctx.is_last_byte = ctx.is_byte_read = true;
  return TokenEnd(automaton, ctx, state, tokens, is_in_character).run();
}

const Frame *with_cuts(Automaton &automaton, StepContext &ctx, const Frame *state, uint64_t bytes) {
  if (!automaton.cuts() || !state) return state;
  ctx.token = bytes - 1;
  ctx.is_last_byte = ctx.is_byte_read = true;
  const Frame *after = nullptr;
  each_limited_part(state, [&](const SequenceFrame &part) {
    if (part.plan->cuts && bytes > part.first_token)
      after = either(automaton, ctx, automaton.finish(ctx, part.parent), after);
  });
  ctx.is_byte_read = false;
  return after ? either(automaton, ctx, state, after) : state;
}

bool may_be_cut(const Automaton &automaton, const Frame *state, uint64_t tokens) {
  if (!automaton.cuts() || !state) return false;
  bool found = false;
  each_limited_part(
      state, [&](const SequenceFrame &part) { found = found || (part.plan->cuts && is_exhausted(part, tokens)); });
  return found;
}

}  // namespace structgen
