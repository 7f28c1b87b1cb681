#include "completion/witness.h"

#include <algorithm>

#include "completion/grammar_witness.h"
#include "text/json_space.h"
#include "util/stack.h"
#include "completion/search.h"

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

bool WitnessSearch::run(const Node *node, int32_t deepest, WitnessSymbols *out) {
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
static const Node *with_ends(Automaton &a, Reader &r, const Node *n) {
  const Node *all = nullptr;
  bool has_ended = false;
  for (const Node *rest = n; rest;) {
    charge();
    const bool more = rest->kind == Node::Alternatives;
    const Node *one = more ? rest->control.left : rest;
    rest = more ? rest->parent : nullptr;
    const bool ends = one->kind == Node::Scalar && one->parent && a.text().complete(one->text) &&
                      (one->parent->kind == Node::Sequence || one->parent->kind == Node::Symbol);
    const Node *after = ends ? a.finish(r, one->parent) : nullptr;
    has_ended |= after != nullptr;
    all = a.joined_with(r, after ? after : one, all);
  }
  return has_ended ? all : n;
}

bool WitnessSearch::from(const Node *n) {
  const size_t before = out_.size();
  while (n) {
    charge();
    if (a_.accepts(r_, n)) return true;
    if (spent()) break;
    if (stack_used() > MOST_STACK || stack_is_short()) {
      note(SearchFailure::Stack);
      break;
    }
    if (n->kind == Node::Value || n->kind == Node::Array || n->kind == Node::Object)
      if (const char c = space_owed(options(n), n->space)) {
        n = read(n, {&c, 1});
        continue;
      }
    switch (n->kind) {
      case Node::String: n = string(n); continue;
      case Node::Scalar: n = scalar(n); continue;
      case Node::Value: {
        if (mode_ == Mode::WholeValues) {
          const Node *array = n->parent && n->parent->kind == Node::Array ? n->parent : nullptr;
          const Node *whole = whole_value(n, n->control.value, array, array ? array->count - 1 : 0);
          n = whole ? whole : open_object(n);
          continue;
        }
        const Node *s = closing_value(n);
        if (!s && n->parent && n->parent->kind == Node::Array) {
          const bool deeper = cut_;
          cut_ = false;
          s = counted(n, n->parent->control.array, n->parent->count - 1);
          if (!s && cut_) {
            n = nullptr;
            continue;
          }
          cut_ = deeper;
        }
        if (!s) s = scalar_text(n, n->control.value);
        if (s) {
          n = s;
          continue;
        }
        if (n->depth >= deepest_) {
          cut_ = true;
          n = nullptr;
          continue;
        }
        return choose(n, {"[", "{"}, before);
      }
      case Node::Array: {
        if (const Node *closed = end(n, ']')) {
          n = closed;
          continue;
        }
        if (n->phase == Phase::AfterValue) {
          n = comma(n);
          continue;
        }
        if (lines(options(n)) && n->space == SPACE_EMPTY) {
          n = read(n, "\n");
          continue;
        }
        n = open_item(n);
        if (!n) break;
        continue;
      }
      case Node::Object: {
        if (n->phase == Phase::AfterKey) {
          n = read(n, ":");
          continue;
        }
        if (n->phase != Phase::AfterComma)
          if (const Node *closed = end(n, '}')) {
            n = closed;
            continue;
          }
        if (by_rest_of_object(n)) return true;
        if (n->phase == Phase::AfterValue) n = comma(n);
        else n = read(n, lines(options(n)) && n->space == SPACE_EMPTY ? "\n" : "\"");
        continue;
      }
      case Node::Key:
        if (by_rest_of_object(n)) return true;
        if (mode_ == Mode::Thorough || !n->parent->control.object->simple) return key(n, before);
        n = simple_key(n);
        continue;
      case Node::Grammar: n = grammar(n); continue;
      case Node::Alternatives: {
        if (const Node *closed = with_ends(a_, r_, n); closed != n) {
          n = closed;
          continue;
        }
        if (from(n->control.left)) return true;
        n = n->parent;
        continue;
      }
      default: n = nullptr;
    }
  }
  out_.resize(before);
  return false;
}

const Node *WitnessSearch::read(const Node *n, std::string_view text) {
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

const Node *WitnessSearch::read_symbol(const Node *n, uint32_t symbol) {
  ++steps_;
  const Node *next = step_symbol(a_, r_, n, symbol);
  if (next) out_.push_back(symbol);
  return next;
}

const Node *WitnessSearch::grammar(const Node *n) {
  if (n->parent && a_.grammar_ends(r_, n)) return a_.finish(r_, n->parent);
  WitnessSymbols rest;
  if (hopeless_.contains(n)) return nullptr;
  if (!complete_grammar(a_, r_, n, &rest) || rest.empty()) {
    note(SearchFailure::Grammar);
    hopeless_.insert(n);
    return nullptr;
  }
  const size_t here = out_.size();
  for (size_t i = 0; n && i < rest.size(); ++i) n = read_symbol(n, rest[i]);
  if (!n) out_.resize(here);
  return n;
}

const Node *WitnessSearch::end(const Node *n, char bracket) {
  if (options(n).whitespace == Whitespace::Table) return read(n, space_before(options(n), n->space, true) + bracket);
  return read(n, (n->space == SPACE_AFTER ? last_line(n) : std::string{}) + bracket);
}

std::string WitnessSearch::last_line(const Node *container) {
  std::string text;
  if (!lines(options(container))) return text;
  text = "\n";
  for (int32_t level = container->depth - options(container).root_depth; level > 0; --level)
    text += options(container).indent;
  return text;
}

const Node *WitnessSearch::comma(const Node *n) {
  if (options(n).whitespace == Whitespace::Table) return read(n, space_before(options(n), n->space, false) + ',');
  const bool before = options(n).whitespace == Whitespace::Written && n->space == SPACE_AFTER;
  return read(n, std::string(before ? options(n).before_comma : 0, ' ') + ',');
}

bool WitnessSearch::choose(const Node *n, const std::vector<std::string> &texts, size_t before) {
  for (const std::string &t : texts) {
    const size_t here = out_.size();
    const Node *next = read(n, t);
    if (next && from(next)) return true;
    out_.resize(here);
    if (spent()) break;
  }
  out_.resize(before);
  return false;
}

// An object whose shortest text is not known, mostly since it is too long: its keys are taken one by one. Not an array: equal
// items of `uniqueItems` would be tried in every level below.
const Node *WitnessSearch::open_object(const Node *n) {
  return n->depth >= deepest_ || spent() ? nullptr : read(n, "{");
}

const Node *WitnessSearch::open_item(const Node *n) {
  ItemControl *item = n->json->next_item(n->control.array, n->count);
  if (!item) return nullptr;
  if (mode_ == Mode::WholeValues) return whole_value(n, item->child, n, n->count);
  if (const Node *m = closing_item(n, item, n->count + 1)) return m;
  // An array reads its first item's first byte itself.
  const bool deeper = cut_;
  cut_ = false;
  if (const Node *m = counted(n, n->control.array, n->count)) {
    cut_ = deeper;
    return m;
  }
  if (cut_) return nullptr;  // one that counts lies deeper: others would go on for ever
  cut_ = deeper;
  for (const char *text : {"null", "true", "false"})
    if (const Node *m = read(n, text)) return m;
  if (const Node *m = scalar_text(n, item->child)) return m;
  if (n->depth + 1 >= deepest_) {
    cut_ = true;
    return nullptr;
  }
  if (const Node *m = read(n, "[")) return m;
  return read(n, "{");
}

void append_text(WitnessSymbols &out, std::string_view text) {
  for (char c : text) out.push_back(static_cast<uint8_t>(c));
}

const Node *step_symbol(Automaton &automaton, Reader &reader, const Node *node, uint32_t symbol) {
  return symbol < FIRST_TOKEN_SET ? automaton.step(reader, node, static_cast<uint8_t>(symbol))
                                  : automaton.step_tokens(reader, node, symbol - FIRST_TOKEN_SET);
}

bool complete_state(Automaton &automaton, Reader &reader, const Node *node, WitnessSymbols *out, bool patient, SearchFailure *why) {
  using Mode = WitnessSearch::Mode;
  WitnessSearch search(automaton, reader);
  if (const Node *other = automaton.differing(reader, node, Automaton::Avoid::All)) node = other;
  // Further items are chosen as a whole, so that they differ: no need to look at each byte of them.
  const auto outer = std::exchange(reader.differs_above, INT32_MAX);
  struct Restored {
    Reader &reader;
    int32_t outer;
    ~Restored() { reader.differs_above = outer; }
  } const restored{reader, outer};
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

bool complete_text(Automaton &automaton, Reader &reader, const Node *node, std::string *out, bool patient, SearchFailure *why) {
  WitnessSymbols symbols;
  if (!complete_state(automaton, reader, node, &symbols, patient, why)) return false;
  if (std::any_of(symbols.begin(), symbols.end(), [](uint32_t s) { return s >= FIRST_TOKEN_SET; })) return false;
  for (uint32_t s : symbols) *out += static_cast<char>(s);
  return true;
}

}  // namespace structgen
