#include "completion/witness.h"

#include <algorithm>

#include "automaton/alternatives.h"
#include "automaton/grammar_steps.h"
#include "automaton/token_steps.h"
#include "automaton/unique_items.h"
#include "completion/grammar_witness.h"
#include "completion/search.h"
#include "text/json_space.h"
#include "util/stack.h"

namespace structgen {
namespace {

constexpr int MAX_EXTRA_DEPTH = 200;
constexpr size_t MAX_STACK = size_t{2} << 20;  // bytes: choices are nested calls
constexpr uint64_t STEP_BUDGET = 400'000;
constexpr uint64_t FIRST_BUDGET =
    20'000;  // for each depth at first: at too low a depth very many keys may be tried in vain
// Of whole values, which are not nested calls. Enough for 131,072 keys at about 110 steps each.
constexpr uint64_t WHOLE_BUDGET = 20'000'000;

// The same alternatives, where texts that are complete have ended. What follows them may be one state, whose shortest
// completion is known; otherwise each text would be followed by another one for a long time.
const Frame *end_complete_texts(Automaton &automaton, StepContext &ctx, const Frame *state) {
  const Frame *all = nullptr;
  bool has_ended = false;
  each_alternative(state, [&](const Frame *one) {
    const auto *scalar = as_if<ScalarFrame>(one);
    const bool ends = scalar && is_open_ended(scalar) && automaton.text().complete(scalar->text);
    const Frame *after = ends ? automaton.finish(ctx, one->parent) : nullptr;
    has_ended |= after != nullptr;
    all = either(automaton, ctx, after ? after : one, all);
  });
  return has_ended ? all : state;
}

}  // namespace

void WitnessSearch::set_budget(uint64_t steps, Mode mode) {
  budget_ = steps_ + steps;
  mode_ = mode;
}

bool WitnessSearch::run(const Frame *state, int32_t max_depth, WitnessSymbols *out) {
  max_depth_ = max_depth;
  if (!stack_base_) stack_base_ = static_cast<const char *>(__builtin_frame_address(0));
  out_.clear();
  was_cut_ = false;
  if (!complete_from(state)) {
    if (is_exhausted()) note(SearchFailure::Attempts);
    return false;
  }
  out->insert(out->end(), out_.begin(), out_.end());
  return true;
}

size_t WitnessSearch::stack_used() const {
  const auto *here = static_cast<const char *>(__builtin_frame_address(0));
  return static_cast<size_t>(stack_base_ > here ? stack_base_ - here : here - stack_base_);
}

bool WitnessSearch::complete_from(const Frame *state) {
  const size_t before = out_.size();
  while (state) {
    charge();
    if (automaton_.accepts(ctx_, state)) return true;
    if (is_exhausted()) break;
    if (stack_used() > MAX_STACK || stack_is_short()) {
      note(SearchFailure::Stack);
      break;
    }
    if (is<ValueFrame>(state) || is<ContainerFrame>(state)) {
      const auto *json = as<JsonFrame>(state);
      if (const char blank = space_owed(json->options(), json->space)) {
        state = read(state, {&blank, 1});
        continue;
      }
    }
    const Next next = next_of(state, before);
    if (next.is_complete) return true;
    state = next.state;
  }
  out_.resize(before);
  return false;
}

WitnessSearch::Next WitnessSearch::next_of(const Frame *state, size_t before) {
  switch (state->kind) {
    case FrameKind::String: return {read_rest_of_string(as<StringFrame>(state))};
    case FrameKind::Scalar: return {read_rest_of_scalar(as<ScalarFrame>(state))};
    case FrameKind::Value: return next_of_value(as<ValueFrame>(state), before);
    case FrameKind::Array: return {next_of_array(as<ArrayFrame>(state))};
    case FrameKind::Object: return next_of_object(as<ObjectFrame>(state));
    case FrameKind::Key: {
      const auto *key = as<KeyFrame>(state);
      if (complete_by_rest_of_object(key)) return {nullptr, true};
      const bool has_branches = !key->object()->control->simple;
      if (mode_ == Mode::Thorough || has_branches) return {nullptr, complete_from_key(key, before)};
      return {read_rest_of_key(key)};
    }
    case FrameKind::Grammar: return {read_rest_of_grammar(as<GrammarFrame>(state))};
    case FrameKind::Alternatives: {
      if (const Frame *ended = end_complete_texts(automaton_, ctx_, state); ended != state) return {ended};
      const auto *list = as<AlternativesFrame>(state);
      if (complete_from(list->first)) return {nullptr, true};
      return {list->rest()};
    }
    default: return {nullptr};
  }
}

WitnessSearch::Next WitnessSearch::next_of_value(const ValueFrame *value, size_t before) {
  const auto *array = as_if<ArrayFrame>(value->parent);
  if (mode_ == Mode::WholeValues) {
    const Frame *next = read_whole_value(value, value->control, array, array ? array->count - 1 : 0);
    return {next ? next : begin_object(value)};
  }
  const Frame *next = read_closing_value(value);
  if (!next && array) {
    const bool was_cut = std::exchange(was_cut_, false);
    next = read_counted_item(value, array->control, array->count - 1);
    if (!next && was_cut_) return {nullptr};
    was_cut_ = was_cut;
  }
  if (!next) next = begin_scalar(value, value->control);
  if (next) return {next};
  if (value->depth >= max_depth_) {
    was_cut_ = true;
    return {nullptr};
  }
  return {nullptr, complete_after_one_of(value, {"[", "{"}, before)};
}

const Frame *WitnessSearch::next_of_array(const ArrayFrame *array) {
  if (const Frame *closed = read_bracket(array, ']')) return closed;
  if (array->phase == Phase::AfterValue) return read_comma(array);
  if (lines(array->options()) && array->space == SPACE_EMPTY) return read(array, "\n");
  return begin_item(array);
}

WitnessSearch::Next WitnessSearch::next_of_object(const ObjectFrame *object) {
  if (object->phase == Phase::AfterKey) return {read(object, ":")};
  if (object->phase != Phase::AfterComma)
    if (const Frame *closed = read_bracket(object, '}')) return {closed};
  if (complete_by_rest_of_object(object)) return {nullptr, true};
  if (object->phase == Phase::AfterValue) return {read_comma(object)};
  return {read(object, lines(object->options()) && object->space == SPACE_EMPTY ? "\n" : "\"")};
}

bool WitnessSearch::complete_after_one_of(const Frame *state, const std::vector<std::string> &texts, size_t before) {
  for (const std::string &text : texts) {
    const size_t here = out_.size();
    const Frame *next = read(state, text);
    if (next && complete_from(next)) return true;
    out_.resize(here);
    if (is_exhausted()) break;
  }
  out_.resize(before);
  return false;
}

const Frame *WitnessSearch::read(const Frame *state, std::string_view text) {
  const size_t before = out_.size();
  for (char c : text) {
    state = read_symbol(state, static_cast<uint8_t>(c));
    if (!state) {
      out_.resize(before);
      return nullptr;
    }
  }
  return state;
}

const Frame *WitnessSearch::read_symbol(const Frame *state, uint32_t symbol) {
  ++steps_;
  const Frame *next = step_symbol(automaton_, ctx_, state, symbol);
  if (next) out_.push_back(symbol);
  return next;
}

const Frame *WitnessSearch::read_symbols(const Frame *state, const WitnessSymbols &symbols) {
  const size_t before = out_.size();
  for (size_t i = 0; state && i < symbols.size(); ++i) state = read_symbol(state, symbols[i]);
  if (!state) out_.resize(before);
  return state;
}

const Frame *WitnessSearch::read_rest_of_grammar(const GrammarFrame *grammar) {
  if (grammar->parent && is_grammar_complete(ctx_, grammar)) return automaton_.finish(ctx_, grammar->parent);
  WitnessSymbols rest;
  if (hopeless_.contains(grammar)) return nullptr;
  if (complete_grammar(automaton_, ctx_, grammar, &rest) && !rest.empty()) return read_symbols(grammar, rest);
  note(SearchFailure::Grammar);
  hopeless_.insert(grammar);
  return nullptr;
}

const Frame *WitnessSearch::read_bracket(const ContainerFrame *container, char bracket) {
  const JsonOptions &options = container->options();
  if (options.whitespace == Whitespace::Table)
    return read(container, space_before(options, container->space, true) + bracket);
  return read(container, (container->space == SPACE_AFTER ? line_before_bracket(*container) : std::string{}) + bracket);
}

std::string WitnessSearch::line_before_bracket(const JsonFrame &container) {
  std::string text;
  if (!lines(container.options())) return text;
  text = "\n";
  for (int32_t level = container.depth - container.options().root_depth; level > 0; --level)
    text += container.options().indent;
  return text;
}

const Frame *WitnessSearch::read_comma(const ContainerFrame *container) {
  const JsonOptions &options = container->options();
  if (options.whitespace == Whitespace::Table)
    return read(container, space_before(options, container->space, false) + ',');
  const bool has_spaces = options.whitespace == Whitespace::Written && container->space == SPACE_AFTER;
  return read(container, std::string(has_spaces ? options.before_comma : 0, ' ') + ',');
}

// An object whose shortest text is not known, mostly because it is too long: its keys are read one by one. Arrays are
// left out: equal items of `uniqueItems` would be tried in every level below.
const Frame *WitnessSearch::begin_object(const ValueFrame *value) {
  return value->depth >= max_depth_ || is_exhausted() ? nullptr : read(value, "{");
}

const Frame *WitnessSearch::begin_item(const ArrayFrame *array) {
  ItemControl *item = array->json->arrays().next_item(array->control, array->count);
  if (!item) return nullptr;
  if (mode_ == Mode::WholeValues) return read_whole_value(array, item->child, array, array->count);
  if (const Frame *next = read_closing_item(array, item, array->count + 1)) return next;
  // An array reads its first item's first byte itself.
  const bool was_cut = std::exchange(was_cut_, false);
  if (const Frame *next = read_counted_item(array, array->control, array->count)) {
    was_cut_ = was_cut;
    return next;
  }
  if (was_cut_) return nullptr;  // an item that counts is deeper: others would go on for ever
  was_cut_ = was_cut;
  for (const char *text : {"null", "true", "false"})
    if (const Frame *next = read(array, text)) return next;
  if (const Frame *next = begin_scalar(array, item->child)) return next;
  if (array->depth + 1 >= max_depth_) {
    was_cut_ = true;
    return nullptr;
  }
  if (const Frame *next = read(array, "[")) return next;
  return read(array, "{");
}

void append_text(WitnessSymbols &out, std::string_view text) {
  for (char c : text) out.push_back(static_cast<uint8_t>(c));
}

const Frame *step_symbol(Automaton &automaton, StepContext &ctx, const Frame *state, uint32_t symbol) {
  return symbol < FIRST_TOKEN_SET ? automaton.step(ctx, state, static_cast<uint8_t>(symbol))
                                  : step_token_set(automaton, ctx, state, symbol - FIRST_TOKEN_SET);
}

bool complete_state(Automaton &automaton, StepContext &ctx, const Frame *state, WitnessSymbols *out, bool is_patient,
                    SearchFailure *why) {
  using Mode = WitnessSearch::Mode;
  WitnessSearch search(automaton, ctx);
  if (const Frame *other = avoid_seen_items(automaton, ctx, state, Avoid::All)) state = other;
  // Further items are chosen as a whole, so that they differ: their bytes need not be compared one by one.
  struct Distinct {
    explicit Distinct(StepContext &context)
        : ctx(context), outer(std::exchange(context.compare_below_depth, INT32_MAX)) {}
    ~Distinct() { ctx.compare_below_depth = outer; }
    StepContext &ctx;
    const int32_t outer;
  } const distinct{ctx};
  const auto deepen = [&](uint64_t budget, Mode mode) {
    for (int extra = 0; extra <= MAX_EXTRA_DEPTH; extra += extra < 4 ? 1 : extra) {
      search.set_budget(budget, mode);
      if (search.run(state, state->depth + extra, out)) return true;
      if (search.is_exhausted() ? mode == Mode::Thorough : !search.was_cut()) return false;
    }
    if (search.was_cut() && !search.is_exhausted()) search.note(SearchFailure::Nesting);
    return false;
  };
  if (deepen(FIRST_BUDGET, Mode::Quick)) return true;
  search.set_budget(is_patient ? WHOLE_BUDGET : FIRST_BUDGET, Mode::WholeValues);
  if (search.run(state, state->depth + MAX_EXTRA_DEPTH, out)) return true;
  if (is_patient && deepen(STEP_BUDGET, Mode::Thorough)) return true;
  if (why) *why = search.search_failure();
  return false;
}

bool complete_text(Automaton &automaton, StepContext &ctx, const Frame *state, std::string *out, bool is_patient,
                   SearchFailure *why) {
  WitnessSymbols symbols;
  if (!complete_state(automaton, ctx, state, &symbols, is_patient, why)) return false;
  if (std::any_of(symbols.begin(), symbols.end(), [](uint32_t s) { return s >= FIRST_TOKEN_SET; })) return false;
  for (uint32_t s : symbols) *out += static_cast<char>(s);
  return true;
}

}  // namespace structgen
