// A text of a grammar, byte by byte: lexemes go on, end, and let the parser move.
#include <algorithm>

#include "automaton/alternatives.h"
#include "automaton/frame_operations.h"
#include "automaton/grammar_steps.h"

namespace structgen {
namespace {

struct EndedLexeme {
  Re forbidden;  // what must not follow it
  const GrammarEntry *entry;
  uint32_t terminal;
};

// One step: collects the entries after the byte, and states of other kinds.
class GrammarStep {
 public:
  GrammarStep(Automaton &automaton, StepContext &ctx, const GrammarFrame &frame, uint8_t byte)
      : automaton_(automaton), ctx_(ctx), frame_(frame), grammar_(*frame.grammar), byte_(byte) {}

  const Frame *run() {
    automaton_.count_step(ctx_, grammar_);
    for (const GrammarEntry &entry : frame_.entries()) {
      if (entry.lex == Lexer::FRESH) begin(entry, RegexSpace::EMPTY);
      else read_into(entry);
    }
    begin_after_ended();
    drop_equal_entries(automaton_, ctx_, grammar_, entries_);
    const Frame *inside = make_grammar_frame(ctx_, grammar_, entries_, frame_.parent);
    return either(automaton_, ctx_, inside, others_);
  }

 private:
  void begin(const GrammarEntry &position, Re forbidden) {
    add_all(begin_at(automaton_, ctx_, grammar_, position, forbidden, byte_, frame_.parent));
  }

  void read_into(const GrammarEntry &entry) {
    GrammarEntry next = entry;
    if (step_lexeme(ctx_, grammar_, next, byte_)) entries_.push_back(next);
    Lexer &lexer = grammar_.lexer();
    // Ignored text has ended. The lexer itself goes on to text of the grammar; what else may come begins here.
    if (!lexer.ignored_ends(entry.lex).empty()) {
      GrammarEntry position = entry;
      position.lex = Lexer::FRESH;
      position.column = 0;
      add_all(begin_others_at(automaton_, ctx_, grammar_, position, byte_, frame_.parent));
    }
    for (const Lexer::End &end : lexer.ends(entry.lex)) {
      if (!can_follow(end.after)) continue;
      if (!grammar_.grammar().indentation.active()) {
        ended_.push_back({end.after, &entry, end.terminal});
        continue;
      }
      GrammarEntry position;
      if (after_terminal(ctx_, grammar_, entry, end.terminal, &position)) begin(position, end.after);
    }
  }

  // Cheap: where only text of this grammar can come, the lexer's rule may forbid the byte.
  bool can_follow(Re forbidden) {
    const Re rest = grammar_.lexemes().rest_of(forbidden, byte_);
    const bool is_forbidden = rest != RegexSpace::EMPTY && automaton_.text().regex().nullable(rest);
    return !is_forbidden || frame_.parent || grammar_.has_constraints();
  }

  // Ended lexemes after which the same is forbidden lead to one set.
  void begin_after_ended() {
    for (size_t i = 0; i < ended_.size(); ++i) {
      const EndedLexeme &ended = ended_[i];
      charge(1 + i / 8);
      const auto is_alike = [&](const EndedLexeme &other) { return other.forbidden == ended.forbidden; };
      if (std::any_of(ended_.begin(), ended_.begin() + i, is_alike)) continue;
      Earley::Builder builder(grammar_.earley(), ctx_.mask_dependencies);
      for (size_t j = i; j < ended_.size(); ++j)
        if (is_alike(ended_[j])) builder.recognised(ended_[j].entry->set, ~static_cast<Symbol>(ended_[j].terminal));
      GrammarEntry position = *ended.entry;
      position.lex = Lexer::FRESH;
      position.set = builder.finish(ctx_.arena);
      if (position.set) begin(position, ended.forbidden);
    }
  }

  void add_all(const Frame *state) {  // a union of a few states at most
    each_alternative(state, [&](const Frame *one) {
      const auto *other = as_if<GrammarFrame>(one);
      if (other && other->grammar == &grammar_ && other->parent == frame_.parent)
        entries_.append(other->first_entry, other->first_entry + other->entry_count);
      else others_ = either(automaton_, ctx_, one, others_);
    });
  }

  Automaton &automaton_;
  StepContext &ctx_;
  const GrammarFrame &frame_;
  GrammarControl &grammar_;
  const uint8_t byte_;
  GrammarEntries entries_;
  InlineVector<EndedLexeme, 8> ended_;
  const Frame *others_ = nullptr;
};

const Frame *step(Automaton &automaton, StepContext &ctx, const Frame *frame, uint8_t byte) {
  return GrammarStep(automaton, ctx, *as<GrammarFrame>(frame), byte).run();
}

bool completes(Automaton &automaton, StepContext &ctx, const Frame *frame, const Frame *bottom) {
  const bool is_complete = is_grammar_complete(ctx, frame);
  if (!is_complete || frame->parent == bottom) return is_complete;
  const Frame *after = automaton.finish(ctx, frame->parent);
  return after && automaton.completes(ctx, after, bottom);
}

std::bitset<256> candidates(Automaton &automaton, const Frame *frame) {
  GrammarControl &grammar = *as<GrammarFrame>(frame)->grammar;
  std::bitset<256> bytes;
  for (const GrammarEntry &entry : as<GrammarFrame>(frame)->entries()) {
    const bool may_stand = entry.lex == Lexer::FRESH || !grammar.lexer().ends(entry.lex).empty() ||
                           !grammar.lexer().ignored_ends(entry.lex).empty();
    if (may_stand) return any_byte(automaton, frame);
    for (const Lexer::Running &running : grammar.lexer().running(entry.lex))
      bytes |= grammar.lexemes().first(running.lexeme);
  }
  return bytes;
}

Hash128 sign_entries(const ParserFrame &frame, Hash128 h) {
  charge(frame.entry_count / 8);
  for (const GrammarEntry &entry : frame.entries()) h = extend(h, entry_identity(entry));
  return h;
}

Hash128 signature(Automaton &automaton, const Frame *frame) {
  const auto &grammar = *as<GrammarFrame>(frame);
  return sign_entries(grammar, extend(begin_signature(automaton, frame, grammar.grammar), grammar.entry_count));
}

Frame *copy_into(FrameCopier &copier, const Frame *frame) {
  const auto &grammar = *as<GrammarFrame>(frame);
  GrammarFrame *copy = copier.clone(grammar);
  copy->first_entry = copier.copy(grammar.entries());
  return copy;
}

// ---------------------------------------------------------------- a grammar below the frame of another constraint

const Frame *after_symbol(Automaton &automaton, StepContext &ctx, const Frame *frame, const Holds &) {
  for (const UnreadConstraint *unread = ctx.unread; unread; unread = unread->outer)
    if (unread->frame == frame) return nullptr;
  const auto &symbol = *as<SymbolFrame>(frame);
  GrammarEntry position;
  if (!after_constraint(automaton, ctx, symbol, &position)) return nullptr;
  return make_grammar_frame(ctx, *symbol.grammar, {&position, 1}, frame->parent);
}

Hash128 sign_symbol(Automaton &automaton, const Frame *frame) {
  const auto &symbol = *as<SymbolFrame>(frame);
  return sign_entries(symbol, extend(begin_signature(automaton, frame, symbol.grammar), symbol.terminal));
}

Frame *copy_symbol(FrameCopier &copier, const Frame *frame) {
  const auto &symbol = *as<SymbolFrame>(frame);
  SymbolFrame *copy = copier.clone(symbol);
  copy->first_entry = copier.copy(symbol.entries());
  return copy;
}

bool equals(const Frame *a, const Frame *b) { return as<GrammarFrame>(a)->grammar == as<GrammarFrame>(b)->grammar; }

bool symbol_equals(const Frame *a, const Frame *b) {
  const auto &x = *as<SymbolFrame>(a), &y = *as<SymbolFrame>(b);
  return x.grammar == y.grammar && x.terminal == y.terminal;
}

}  // namespace

const FrameOperations GRAMMAR_FRAME{step, completes, has_no_child, candidates, signature, copy_into, equals};
const FrameOperations SYMBOL_FRAME{cannot_step, never_completes, after_symbol, any_byte,
                                   sign_symbol, copy_symbol,     symbol_equals};

}  // namespace structgen
