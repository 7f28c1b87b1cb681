#include "automaton/automaton.h"

#include "automaton/alternatives.h"
#include "automaton/frame_operations.h"
#include "automaton/grammar_steps.h"
#include "automaton/json_values.h"
#include "automaton/unique_items.h"
#include "text/json_space.h"
#include "util/limit_error.h"
#include "util/stack.h"

namespace structgen {

namespace {

template <class Visit>
void each_plan(const Plan &plan, const Visit &visit) {
  visit(plan);
  for (auto &part : plan.parts) each_plan(*part, visit);
  if (plan.grammar)
    for (const GrammarTerminal &t : plan.grammar->grammar().terminals)
      if (t.plan) each_plan(*t.plan, visit);
}

template <class Visit>
void each_json(const Plan &plan, const Visit &visit) {
  each_plan(plan, [&](const Plan &p) {
    if (p.json) visit(*p.json);
  });
}

}  // namespace

Automaton::Automaton(std::unique_ptr<Plan> plan, TextSpace &text) : plan_(std::move(plan)), text_(text) {
  each_json(*plan_, [&](const JsonControl &json) { writes_lines_ = writes_lines_ || lines(json.schema().options); });
  each_plan(*plan_, [&](const Plan &p) {
    counts_tokens_ = counts_tokens_ || p.max_tokens > 0;
    cuts_ = cuts_ || p.cuts;
    if (!p.grammar) return;
    for (uint32_t t : p.grammar->token_terminals()) {
      const uint32_t set = p.grammar->grammar().terminals[t].tokens;
      token_sets_.emplace(set, &text_.token_sets()[set]);
    }
  });
}

const Frame *Automaton::start_of(StepContext &ctx, const Plan &plan, const Frame *parent) {
  check_stack("constraints are nested too deeply");
  switch (plan.kind) {
    case Plan::Regex: {
      if (!text_.regex().alive(plan.re)) return nullptr;
      auto *frame = ctx.arena.make<ScalarFrame>(parent, nullptr, nullptr);
      frame->text = text_.state(plan.re, 0, Encoding::Plain);
      return !parent && !text_.spellable(frame->text) ? nullptr : frame;
    }
    case Plan::Json:
      return begin_value(ctx, parent, plan.json.get(), plan.json->root(),
                         space_start(plan.json->schema().options, SpaceAt::Start));
    case Plan::Grammar: {
      GrammarControl &grammar = *plan.grammar;
      if (grammar.empty()) return nullptr;
      const GrammarEntry entry = grammar.start(ctx.arena);
      return make_grammar_frame(ctx, grammar, {&entry, 1}, parent);
    }
    case Plan::Sequence: {
      for (auto &part : plan.parts)
        if (part->texts == Plan::None) return nullptr;
      auto *frame = ctx.arena.make<SequenceFrame>(parent, &plan);
      if (plan.max_tokens > 0) frame->first_token = ctx.token + (ctx.is_byte_read && ctx.is_last_byte ? 1 : 0);
      return start_of(ctx, *plan.parts[0], frame);
    }
    case Plan::Union: {
      const Frame *all = nullptr;
      for (auto &part : plan.parts) all = either(*this, ctx, start_of(ctx, *part, parent), all);
      return all;
    }
  }
  return nullptr;
}

const Frame *Automaton::step(StepContext &ctx, const Frame *state, uint8_t byte) {
  charge(3);
  ctx.item_text = nullptr;
  if (state->is_traced) {
    const TextLink *before = as<JsonFrame>(state)->item_text;
    ctx.item_text = ctx.arena.make<TextLink>(before, nullptr, (before ? before->length : 0) + 1, byte,
                                             before ? before->known_distinct_depth : int16_t{-1});
  }
  const Frame *next = operations_of(state->kind).step(*this, ctx, state, byte);
  if (!next || !next->is_traced) return next;
  // subtle: the frame is new, so no one else has seen it without its text.
  const_cast<JsonFrame *>(as<JsonFrame>(next))->item_text = ctx.item_text;
  return ctx.ignore_seen_items || avoid_seen_items(*this, ctx, next) ? next : nullptr;
}

bool Automaton::completes(StepContext &ctx, const Frame *state, const Frame *bottom) {
  return operations_of(state->kind).completes(*this, ctx, state, bottom);
}

const Frame *Automaton::finish(StepContext &ctx, const Frame *parent, const Holds &holds) {
  ctx.depends_on(parent);
  if (!parent) {
    static const EndFrame end;
    return &end;
  }
  return operations_of(parent->kind).after_child(*this, ctx, parent, holds);
}

const Frame *Automaton::finish(StepContext &ctx, const Frame *parent) {
  static const Holds all_hold = [](uint32_t) { return true; };
  return finish(ctx, parent, all_hold);
}

std::bitset<256> Automaton::candidates(const Frame *state) {
  charge();
  return operations_of(state->kind).candidates(*this, state);
}

Hash128 Automaton::signature(const Frame *frame) {
  charge();
  return operations_of(frame->kind).signature(*this, frame);
}

// ---------------------------------------------------------------- accounting

void Automaton::limit_mask_work(StepContext &ctx) const {
  ctx.is_mask = true;
  ctx.counted_grammar = nullptr;
  ctx.work_left = static_cast<uint64_t>(std::min(text_.limits().mask_steps, size_t{1} << 56)) * UNITS;
}

// A mask reads all tokens and may take half as much, so that a token which a mask allows can be read.
void Automaton::limit_token_work(StepContext &ctx) const {
  limit_mask_work(ctx);
  ctx.is_mask = false;
  ctx.work_left *= 2;
}

// A step costs what the parser does in it: the item sets of an ambiguous text grow with the text.
void Automaton::count_step(StepContext &ctx, GrammarControl &grammar) {
  constexpr uint64_t STEP = 20;
  constexpr uint64_t LIVENESS_STEP = 25;
  const auto done = [](GrammarControl &of) {
    return of.earley().work() + of.lexemes().work() + LIVENESS_STEP * of.liveness().work();
  };
  const uint64_t since = ctx.counted_grammar ? done(*ctx.counted_grammar) - ctx.counted_work : 0;
  ctx.counted_grammar = &grammar;
  ctx.counted_work = done(grammar);
  // subtle: the steps of one token are bounded by its bytes, so they do not count towards the limit. A mask may allow
  // the token by a fragment, without a single step.
  if (!ctx.is_mask) work_ += STEP;
  count_work(ctx, since + (ctx.is_mask ? STEP : 0));
}

void Automaton::count_work(StepContext &ctx, uint64_t units) {
  work_ += units;
  if (units > ctx.work_left)
    throw LimitError(
        (ctx.is_mask ? "one mask of the grammar takes more than " : "one token of the grammar takes more than ") +
        std::to_string(text_.limits().mask_steps) +
        " steps, since tokens can be parsed in very many ways (limit mask_steps)");
  ctx.work_left -= units;
}

uint64_t Automaton::unproven() const {
  uint64_t total = 0;
  each_json(*plan_, [&](const JsonControl &json) { total += json.unproven(); });
  each_plan(*plan_, [&](const Plan &p) {
    if (p.grammar && !p.grammar->empty()) total += p.grammar->liveness().unproven();
  });
  return total;
}

size_t Automaton::memory() const {
  size_t total = 0;
  each_plan(*plan_, [&](const Plan &p) {
    if (p.grammar && !p.grammar->empty()) total += p.grammar->memory();
  });
  each_json(*plan_, [&](const JsonControl &json) { total += json.memory(); });
  return total;
}

}  // namespace structgen
