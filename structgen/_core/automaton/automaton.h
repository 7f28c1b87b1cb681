// The automaton of a constraint: states are stacks of frames (automaton/frames.h), a step reads one byte.
//
// The constraint is a plan: regular expressions, JSON Schemas, grammars, and sequences and unions of plans. The state
// after a dead prefix is a null pointer. JSON is deterministic. Where a sequence, a union or a grammar can be parsed in
// several ways, `AlternativesFrame` holds all of them.
//
// This class owns the plan and dispatches on the kind of the top frame. What belongs to one kind is in the file of that
// kind; what concerns several kinds is in a header of its own: alternatives.h, grammar_steps.h, json_values.h,
// seen_keys.h, token_counts.h, token_steps.h, unique_items.h.
//
// Invariant: a state that `step` returns has a completion (see the guarantees of RegexSpace and JsonControl).
#pragma once

#include <bitset>
#include <cstdint>
#include <map>
#include <memory>

#include "automaton/frames.h"
#include "automaton/step_context.h"
#include "text/text_space.h"

namespace structgen {

class Automaton {
 public:
  Automaton(std::unique_ptr<Plan> plan, TextSpace &text);

  const Frame *start(StepContext &ctx) { return start_of(ctx, *plan_, nullptr); }
  // The state at the beginning of a plan of this automaton, on top of `parent`.
  const Frame *start_of(StepContext &ctx, const Plan &plan, const Frame *parent);
  const Frame *step(StepContext &ctx, const Frame *state, uint8_t byte);
  bool accepts(StepContext &ctx, const Frame *state) { return completes(ctx, state, nullptr); }
  // Is the text complete in all frames above `bottom` (null: in all frames)?
  bool completes(StepContext &ctx, const Frame *state, const Frame *bottom);
  // The state after the child of `parent` has ended. `holds(i)`: root formula i of the child's obligation came out
  // true.
  const Frame *finish(StepContext &ctx, const Frame *parent, const Holds &holds);
  const Frame *finish(StepContext &ctx, const Frame *parent);
  // Bytes that a step may read: a superset that costs little.
  std::bitset<256> candidates(const Frame *state);
  // A hash of what a mask may depend on in the top frame.
  Hash128 signature(const Frame *frame);

  TextSpace &text() { return text_; }
  const Plan &plan() const { return *plan_; }
  // The sets of tokens that some terminal names, by their numbers.
  const std::map<uint32_t, const TokenSet *> &token_sets() const { return token_sets_; }
  bool writes_lines() const { return writes_lines_; }    // some JSON is written with an indentation
  bool counts_tokens() const { return counts_tokens_; }  // some part has `max_tokens`
  bool cuts() const { return cuts_; }                    // some such part is cut at its limit
  // Verdicts "live" that were given because a search met its limit.
  uint64_t unproven() const;
  size_t memory() const;

  // Work in grammars is counted in units of about 20 ns of CPU time. The limit `mask_steps` counts `UNITS` of them.
  static constexpr uint64_t UNITS = 10;
  // Limits the work of one mask, or of the bytes of one token, from here on.
  void limit_mask_work(StepContext &ctx) const;
  void limit_token_work(StepContext &ctx) const;
  // Counts a step in `grammar`, and what its parser has done since the last one. Throws `LimitError` at the limit.
  void count_step(StepContext &ctx, GrammarControl &grammar);
  void count_work(StepContext &ctx, uint64_t units);
  uint64_t work() const { return work_; }  // units counted so far

 private:
  std::unique_ptr<Plan> plan_;
  TextSpace &text_;
  std::map<uint32_t, const TokenSet *> token_sets_;
  uint64_t work_ = 0;
  bool counts_tokens_ = false, cuts_ = false, writes_lines_ = false;
};

}  // namespace structgen
