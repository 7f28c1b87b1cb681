#include <algorithm>
#include <vector>

#include "automaton/alternatives.h"
#include "automaton/frame_operations.h"
#include "automaton/grammar_steps.h"
#include "util/limit_error.h"

namespace structgen {
namespace {

// Are two frames equal, apart from their parents and from the entries of grammars?
bool differ_in_entries_at_most(const Frame *a, const Frame *b) {
  return a->kind == b->kind && a->depth == b->depth && operations_of(a->kind).equals(a, b);
}

// Are these frames of one part that began in different tokens, and that ends as soon as it is complete? Then the frame
// that began later continues wherever the other one does, and may end wherever the other one must.
bool differ_in_tokens(const Frame *a, const Frame *b) {
  const auto *x = as_if<SequenceFrame>(a), *y = as_if<SequenceFrame>(b);
  if (!x || !y || x->plan != y->plan) return false;
  const Plan &plan = *x->plan;
  if (plan.max_tokens == 0 || plan.cuts) return false;
  // A text that may end only at the limit may end the earlier one alone.
  const Plan &part = *plan.parts[0];
  if (part.kind == Plan::Union && part.parts.back()->at_limit) return false;
  return a->depth == b->depth && x->first_token != y->first_token;
}

// Do two parser positions differ only in their item sets? Then a terminal leads from both to one position.
bool differ_in_sets_alone(const GrammarEntry &a, const GrammarEntry &b) {
  const bool is_same_indent =
      a.indent == b.indent || (a.indent && b.indent && a.indent->identity == b.indent->identity);
  return a.lex == Lexer::FRESH && b.lex == Lexer::FRESH && a.brackets == b.brackets && a.outer == b.outer &&
         is_same_indent;
}

bool have_same_entries(StepContext &ctx, const Frame *a, const Frame *b) {
  const auto *x = as_if<ParserFrame>(a);
  if (!x) return true;
  const auto first = x->entries(), second = as<ParserFrame>(b)->entries();
  return std::equal(
      first.begin(), first.end(), second.begin(), second.end(),
      [&](const GrammarEntry &p, const GrammarEntry &q) { return is_same_entry(ctx, *x->grammar, p, q); });
}

// A frame with the entries of both: two frames that differ in their entries alone.
const Frame *merge_entries(Automaton &automaton, StepContext &ctx, const ParserFrame &a, const ParserFrame &b) {
  GrammarEntries entries;
  for (const ParserFrame *frame : {&a, &b})
    for (const GrammarEntry &entry : frame->entries()) entries.push_back(entry);
  drop_equal_entries(automaton, ctx, *a.grammar, entries);
  const auto *symbol = as_if<SymbolFrame>(&a);
  return symbol ? make_symbol_frame(ctx, *a.grammar, entries, symbol->terminal, a.parent)
                : make_grammar_frame(ctx, *a.grammar, entries, a.parent);
}

// Copies the frames from `top` down to, but not including, `bottom`, and puts the copies on top of `parent`.
const Frame *copy_on_top(StepContext &ctx, const Frame *top, const Frame *bottom, const Frame *parent) {
  std::vector<const Frame *> frames;
  for (const Frame *frame = top; frame != bottom; frame = frame->parent) frames.push_back(frame);
  const Arena nothing;
  FrameCopier copier(nothing, ctx.arena);  // what the frames own is shared
  for (; !frames.empty(); frames.pop_back()) {
    Frame *copy = operations_of(frames.back()->kind).copy_into(copier, frames.back());
    copy->parent = parent;
    parent = copy;
  }
  return parent;
}

// The list of alternatives `all` without `removed`.
const Frame *without(StepContext &ctx, const Frame *all, const Frame *removed) {
  std::vector<const Frame *> before;
  for (; all != removed && as<AlternativesFrame>(all)->first != removed; all = all->parent) {
    charge();
    before.push_back(as<AlternativesFrame>(all)->first);
  }
  const Frame *left = all == removed ? nullptr : all->parent;
  for (; !before.empty(); before.pop_back())
    left = left ? ctx.arena.make<AlternativesFrame>(before.back(), left) : before.back();
  return left;
}

}  // namespace

bool is_same_state(StepContext &ctx, const Frame *a, const Frame *b) {
  for (; a != b; a = a->parent, b = b->parent) {
    charge();
    if (!a || !b || !differ_in_entries_at_most(a, b) || !have_same_entries(ctx, a, b)) return false;
  }
  return true;
}

const Frame *join(Automaton &automaton, StepContext &ctx, const Frame *a, const Frame *b) {
  const Frame *one = nullptr, *other = nullptr;  // the two frames that differ in their entries
  const Frame *longer = nullptr;  // of states that differ in the tokens of parts alone: the one with more tokens left
  for (const Frame *x = a, *y = b; x != y; x = x->parent, y = y->parent) {
    charge();
    if (!x || !y) return nullptr;
    if (differ_in_tokens(x, y)) {
      const Frame *more = as<SequenceFrame>(x)->first_token > as<SequenceFrame>(y)->first_token ? a : b;
      if (longer && longer != more) return nullptr;
      longer = more;
      continue;
    }
    if (!differ_in_entries_at_most(x, y)) return nullptr;
    if (have_same_entries(ctx, x, y)) continue;
    if (one) return nullptr;
    if (is<SymbolFrame>(x) && !differ_in_sets_alone(*as<SymbolFrame>(x)->first_entry, *as<SymbolFrame>(y)->first_entry))
      return nullptr;
    one = x, other = y;
  }
  if (longer) return one ? nullptr : longer;
  if (!one) return b;
  const Frame *merged = merge_entries(automaton, ctx, *as<ParserFrame>(one), *as<ParserFrame>(other));
  return copy_on_top(ctx, a, one, merged);
}

const Frame *either(Automaton &automaton, StepContext &ctx, const Frame *a, const Frame *b) {
  if (!a) return b;
  if (!b) return a;
  if (const auto *list = as_if<AlternativesFrame>(a)) {
    b = either(automaton, ctx, list->first, b);
    return either(automaton, ctx, list->rest(), b);
  }
  size_t count = 1;
  for (const Frame *rest = b; rest; rest = rest->parent) {
    const auto *list = as_if<AlternativesFrame>(rest);
    const Frame *one = list ? list->first : rest;
    if (const Frame *both = join(automaton, ctx, a, one))
      return both == one ? b : either(automaton, ctx, both, without(ctx, b, one));
    const size_t most = automaton.text().limits().max_alternatives;
    if (++count > most)
      throw LimitError(
          "the text has more than " + std::to_string(most) +
          " parallel parses, since the parts of a sequence, a union or a grammar with other constraints in it "
          "can end at many places (limit max_alternatives)");
    if (!list) break;
  }
  return ctx.arena.make<AlternativesFrame>(a, b);
}

namespace {

const Frame *step(Automaton &automaton, StepContext &ctx, const Frame *frame, uint8_t byte) {
  const auto &list = *as<AlternativesFrame>(frame);
  const Frame *first = automaton.step(ctx, list.first, byte);
  const Frame *rest = automaton.step(ctx, list.rest(), byte);
  return either(automaton, ctx, first, rest);
}

bool completes(Automaton &automaton, StepContext &ctx, const Frame *frame, const Frame *bottom) {
  const auto &list = *as<AlternativesFrame>(frame);
  return automaton.completes(ctx, list.first, bottom) || automaton.completes(ctx, list.rest(), bottom);
}

Hash128 signature(Automaton &automaton, const Frame *frame) {
  return begin_signature(automaton, frame, as<AlternativesFrame>(frame)->first);
}

// Lists of alternatives are compared one alternative at a time (`either`), never as a whole.
bool equals(const Frame *, const Frame *) { return false; }

Frame *copy_into(FrameCopier &copier, const Frame *frame) {
  const auto &list = *as<AlternativesFrame>(frame);
  AlternativesFrame *copy = copier.clone(list);
  copy->first = copier.copy(list.first);
  return copy;
}

}  // namespace

const FrameOperations ALTERNATIVES_FRAME{step, completes, has_no_child, any_byte, signature, copy_into, equals};

}  // namespace structgen
