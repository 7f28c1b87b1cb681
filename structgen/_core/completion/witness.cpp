#include "completion/witness.h"

#include <algorithm>

#include "completion/grammar_witness.h"
#include "automaton/alternatives.h"
#include "automaton/grammar_steps.h"
#include "automaton/token_steps.h"
#include "automaton/unique_items.h"
#include "completion/search.h"
#include "text/json_space.h"
#include "util/stack.h"

namespace structgen {
namespace {

constexpr int MAX_EXTRA_DEPTH = 200;
constexpr uint64_t STEP_BUDGET = 400'000;
constexpr size_t MOST_STACK = size_t{2} << 20;  // bytes: choices are made one inside another
constexpr uint64_t FIRST_BUDGET = 20'000;  // for each depth at first: what is too shallow may try very many keys in vain
// Of whole values, which are taken one after the other and not one inside another: enough for 131,072 keys, of which
// each costs about 110 steps.
constexpr uint64_t WHOLE_BUDGET = 20'000'000;

}  // namespace

void WitnessSearch::allow(uint64_t steps, Mode mode) {
  budget_ = steps_ + steps;
  mode_ = mode;
}

bool WitnessSearch::run(const Frame *node, int32_t deepest, WitnessSymbols *out) {
  deepest_ = deepest;
  if (!base_) base_ = static_cast<const char *>(__builtin_frame_address(0));
  out_.clear();
  cut_ = false;
  if (!from(node)) {
    if (spent()) note(SearchFailure::Attempts);
    return false;
  }
  out->insert(out->end(), out_.begin(), out_.end());
  return true;
}

size_t WitnessSearch::stack_used() const {
  const auto *here = static_cast<const char *>(__builtin_frame_address(0));
  return static_cast<size_t>(base_ > here ? base_ - here : here - base_);
}

// The same readings, where texts that are complete have ended: what follows them may be one state then, whose shortest
// completion is known. One after the other, each text would be followed by another one for a long time.
static const Frame *with_ends(Automaton &a, StepContext &ctx, const Frame *n) {
  const Frame *all = nullptr;
  bool has_ended = false;
  each_alternative(n, [&](const Frame *one) {
    const auto *scalar = as_if<ScalarFrame>(one);
    const bool ends = scalar && is_open_ended(scalar) && a.text().complete(scalar->text);
    const Frame *after = ends ? a.finish(ctx, one->parent) : nullptr;
    has_ended |= after != nullptr;
    all = either(a, ctx, after ? after : one, all);
  });
  return has_ended ? all : n;
}

bool WitnessSearch::from(const Frame *n) {
  const size_t before = out_.size();
  while (n) {
    charge();
    if (a_.accepts(ctx_, n)) return true;
    if (spent()) break;
    if (stack_used() > MOST_STACK || stack_is_short()) {
      note(SearchFailure::Stack);
      break;
    }
    if (is<ValueFrame>(n) || is<ContainerFrame>(n))
      if (const char blank = space_owed(options(n), as<JsonFrame>(n)->space)) {
        n = read(n, {&blank, 1});
        continue;
      }
    const Next next = next_of(n, before);
    if (next.is_complete) return true;
    n = next.state;
  }
  out_.resize(before);
  return false;
}

WitnessSearch::Next WitnessSearch::next_of(const Frame *n, size_t before) {
  switch (n->kind) {
    case FrameKind::String: return {string(as<StringFrame>(n))};
    case FrameKind::Scalar: return {scalar(as<ScalarFrame>(n))};
    case FrameKind::Value: return next_of_value(as<ValueFrame>(n), before);
    case FrameKind::Array: return {next_of_array(as<ArrayFrame>(n))};
    case FrameKind::Object: return next_of_object(as<ObjectFrame>(n));
    case FrameKind::Key: {
      const auto *open = as<KeyFrame>(n);
      if (by_rest_of_object(open)) return {nullptr, true};
      if (mode_ == Mode::Thorough || !open->object()->control->simple) return {nullptr, key(open, before)};
      return {simple_key(open)};
    }
    case FrameKind::Grammar: return {grammar(as<GrammarFrame>(n))};
    case FrameKind::Alternatives: {
      if (const Frame *ended = with_ends(a_, ctx_, n); ended != n) return {ended};
      const auto *list = as<AlternativesFrame>(n);
      if (from(list->first)) return {nullptr, true};
      return {list->rest()};
    }
    default: return {nullptr};
  }
}

WitnessSearch::Next WitnessSearch::next_of_value(const ValueFrame *value, size_t before) {
  const auto *array = as_if<ArrayFrame>(value->parent);
  if (mode_ == Mode::WholeValues) {
    const Frame *whole = whole_value(value, value->control, array, array ? array->count - 1 : 0);
    return {whole ? whole : open_object(value)};
  }
  const Frame *next = closing_value(value);
  if (!next && array) {
    const bool was_cut = std::exchange(cut_, false);
    next = counted(value, array->control, array->count - 1);
    if (!next && cut_) return {nullptr};
    cut_ = was_cut;
  }
  if (!next) next = scalar_text(value, value->control);
  if (next) return {next};
  if (value->depth >= deepest_) {
    cut_ = true;
    return {nullptr};
  }
  return {nullptr, choose(value, {"[", "{"}, before)};
}

const Frame *WitnessSearch::next_of_array(const ArrayFrame *array) {
  if (const Frame *closed = end(array, ']')) return closed;
  if (array->phase == Phase::AfterValue) return comma(array);
  if (lines(array->options()) && array->space == SPACE_EMPTY) return read(array, "\n");
  return open_item(array);
}

WitnessSearch::Next WitnessSearch::next_of_object(const ObjectFrame *object) {
  if (object->phase == Phase::AfterKey) return {read(object, ":")};
  if (object->phase != Phase::AfterComma)
    if (const Frame *closed = end(object, '}')) return {closed};
  if (by_rest_of_object(object)) return {nullptr, true};
  if (object->phase == Phase::AfterValue) return {comma(object)};
  return {read(object, lines(object->options()) && object->space == SPACE_EMPTY ? "\n" : "\"")};
}

const Frame *WitnessSearch::read(const Frame *n, std::string_view text) {
  const size_t before = out_.size();
  for (char c : text) {
    n = read_symbol(n, static_cast<uint8_t>(c));
    if (!n) {
      out_.resize(before);
      return nullptr;
    }
  }
  return n;
}

const Frame *WitnessSearch::read_symbol(const Frame *n, uint32_t symbol) {
  ++steps_;
  const Frame *next = step_symbol(a_, ctx_, n, symbol);
  if (next) out_.push_back(symbol);
  return next;
}

const Frame *WitnessSearch::grammar(const GrammarFrame *from) {
  if (from->parent && is_grammar_complete(ctx_, from)) return a_.finish(ctx_, from->parent);
  WitnessSymbols rest;
  if (hopeless_.contains(from)) return nullptr;
  if (!complete_grammar(a_, ctx_, from, &rest) || rest.empty()) {
    note(SearchFailure::Grammar);
    hopeless_.insert(from);
    return nullptr;
  }
  const size_t here = out_.size();
  const Frame *n = from;
  for (size_t i = 0; n && i < rest.size(); ++i) n = read_symbol(n, rest[i]);
  if (!n) out_.resize(here);
  return n;
}

const Frame *WitnessSearch::end(const ContainerFrame *n, char bracket) {
  if (options(n).whitespace == Whitespace::Table) return read(n, space_before(options(n), n->space, true) + bracket);
  return read(n, (n->space == SPACE_AFTER ? last_line(*n) : std::string{}) + bracket);
}

std::string WitnessSearch::last_line(const JsonFrame &container) {
  std::string text;
  if (!lines(container.options())) return text;
  text = "\n";
  for (int32_t level = container.depth - container.options().root_depth; level > 0; --level)
    text += container.options().indent;
  return text;
}

const Frame *WitnessSearch::comma(const ContainerFrame *n) {
  if (options(n).whitespace == Whitespace::Table) return read(n, space_before(options(n), n->space, false) + ',');
  const bool before = options(n).whitespace == Whitespace::Written && n->space == SPACE_AFTER;
  return read(n, std::string(before ? options(n).before_comma : 0, ' ') + ',');
}

bool WitnessSearch::choose(const Frame *n, const std::vector<std::string> &texts, size_t before) {
  for (const std::string &t : texts) {
    const size_t here = out_.size();
    const Frame *next = read(n, t);
    if (next && from(next)) return true;
    out_.resize(here);
    if (spent()) break;
  }
  out_.resize(before);
  return false;
}

// An object whose shortest text is not known, mostly since it is too long: its keys are taken one by one. Not an array: equal
// items of `uniqueItems` would be tried in every level below.
const Frame *WitnessSearch::open_object(const ValueFrame *n) {
  return n->depth >= deepest_ || spent() ? nullptr : read(n, "{");
}

const Frame *WitnessSearch::open_item(const ArrayFrame *n) {
  ItemControl *item = n->json->arrays().next_item(n->control, n->count);
  if (!item) return nullptr;
  if (mode_ == Mode::WholeValues) return whole_value(n, item->child, n, n->count);
  if (const Frame *m = closing_item(n, item, n->count + 1)) return m;
  // An array reads its first item's first byte itself.
  const bool deeper = cut_;
  cut_ = false;
  if (const Frame *m = counted(n, n->control, n->count)) {
    cut_ = deeper;
    return m;
  }
  if (cut_) return nullptr;  // one that counts lies deeper: others would go on for ever
  cut_ = deeper;
  for (const char *text : {"null", "true", "false"})
    if (const Frame *m = read(n, text)) return m;
  if (const Frame *m = scalar_text(n, item->child)) return m;
  if (n->depth + 1 >= deepest_) {
    cut_ = true;
    return nullptr;
  }
  if (const Frame *m = read(n, "[")) return m;
  return read(n, "{");
}

void append_text(WitnessSymbols &out, std::string_view text) {
  for (char c : text) out.push_back(static_cast<uint8_t>(c));
}

const Frame *step_symbol(Automaton &automaton, StepContext &ctx, const Frame *node, uint32_t symbol) {
  return symbol < FIRST_TOKEN_SET ? automaton.step(ctx, node, static_cast<uint8_t>(symbol))
                                  : step_token_set(automaton, ctx, node, symbol - FIRST_TOKEN_SET);
}

bool complete_state(Automaton &automaton, StepContext &ctx, const Frame *node, WitnessSymbols *out, bool patient, SearchFailure *why) {
  using Mode = WitnessSearch::Mode;
  WitnessSearch search(automaton, ctx);
  if (const Frame *other = avoid_seen_items(automaton, ctx, node, Avoid::All)) node = other;
  // Further items are chosen as a whole, so that they differ: no need to look at each byte of them.
  const auto outer = std::exchange(ctx.distinct_above, INT32_MAX);
  struct Restored {
    StepContext &ctx;
    int32_t outer;
    ~Restored() { ctx.distinct_above = outer; }
  } const restored{ctx, outer};
  auto deepening = [&](uint64_t budget, Mode mode) {
    for (int extra = 0; extra <= MAX_EXTRA_DEPTH; extra += extra < 4 ? 1 : extra) {
      search.allow(budget, mode);
      if (search.run(node, node->depth + extra, out)) return true;
      if (search.spent() ? mode == Mode::Thorough : !search.cut()) return false;
    }
    if (search.cut() && !search.spent()) search.note(SearchFailure::Nesting);
    return false;
  };
  if (deepening(FIRST_BUDGET, Mode::Quick)) return true;
  search.allow(patient ? WHOLE_BUDGET : FIRST_BUDGET, Mode::WholeValues);
  if (search.run(node, node->depth + MAX_EXTRA_DEPTH, out)) return true;
  if (patient && deepening(STEP_BUDGET, Mode::Thorough)) return true;
  if (why) *why = search.search_failure();
  return false;
}

bool complete_text(Automaton &automaton, StepContext &ctx, const Frame *node, std::string *out, bool patient, SearchFailure *why) {
  WitnessSymbols symbols;
  if (!complete_state(automaton, ctx, node, &symbols, patient, why)) return false;
  if (std::any_of(symbols.begin(), symbols.end(), [](uint32_t s) { return s >= FIRST_TOKEN_SET; })) return false;
  for (uint32_t s : symbols) *out += static_cast<char>(s);
  return true;
}

}  // namespace structgen
