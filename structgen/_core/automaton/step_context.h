// What a caller of the automaton passes through its steps: memory, assumptions of the steps, and what they found out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "automaton/frames.h"

namespace structgen {

// Constraints that have started in a grammar, before their first byte is read. Such a constraint may not end yet: the
// grammar covers its empty text itself, and could begin another one for ever.
struct UnreadConstraint {
  const SymbolFrame *frame;
  const UnreadConstraint *outer;
};

struct StepContext {
  Arena &arena;  // holds new frames

  // What the result depends on, so that a mask can be shared with other states.
  int32_t lowest_depth = INT32_MAX;  // of the frames that were used; -1: also that the stack ends below them
  MaskDependencies *mask_dependencies = nullptr;  // of the grammar's mask that is being built
  bool used_item_text = false;  // the result depends on the text of an array item, so it must not be shared

  // `uniqueItems`
  bool ignore_seen_items = false;       // set while a mask is built: uniqueItems is applied afterwards, token by token
  bool may_repeat_items = false;        // set with `ignore_seen_items`: an array inside the token may have equal items
  int32_t compare_below_depth = -1;     // items of arrays with a greater depth are compared; others need not be
  const TextLink *item_text = nullptr;  // of the step that runs: the text of the item, the byte included

  // Grammars
  const UnreadConstraint *unread = nullptr;
  bool keep_equal_parses = false;  // for a trace of all parses: equal entries are not merged

  // Work in grammars (`Automaton::count_work`)
  bool is_mask = false;  // the work is that of a mask, not that of one token
  uint64_t work_left = UINT64_MAX;
  GrammarControl *counted_grammar = nullptr;  // its work since `counted_work` has not been counted yet
  uint64_t counted_work = 0;

  // Parts with `max_tokens` (automaton/token_counts.h)
  uint64_t token = 0;         // the number of the token that is being read
  bool is_last_byte = false;  // of that token
  bool is_byte_read = false;  // a part that begins now begins after the byte of the running step
  std::vector<const SequenceFrame *> *ended_parts = nullptr;  // collects parts whose text ends with the token
  const Plan *exhausted_part = nullptr;  // while an end is searched for: the part that has used up its tokens

  void depends_on(const Frame *frame) { lowest_depth = std::min(lowest_depth, frame ? frame->depth : -1); }
};

// While this object exists, a part that begins does so after the byte of the running step.
class AfterByte {
 public:
  explicit AfterByte(StepContext &ctx) : ctx_(ctx), before_(ctx.is_byte_read) { ctx.is_byte_read = true; }
  ~AfterByte() { ctx_.is_byte_read = before_; }
  AfterByte(const AfterByte &) = delete;
  AfterByte &operator=(const AfterByte &) = delete;

 private:
  StepContext &ctx_;
  const bool before_;
};

}  // namespace structgen
