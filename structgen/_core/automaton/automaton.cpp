#include "automaton/automaton.h"

#include <algorithm>
#include <cstring>

#include "text/json_space.h"
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

const Node *Automaton::start(Reader &r) { return begin(r, *plan_, nullptr); }

const Node *Automaton::begin(Reader &r, const Plan &plan, const Node *parent) {
  check_stack("constraints are nested too deeply");
  const int32_t depth = parent ? parent->depth + 1 : 0;
  switch (plan.kind) {
    case Plan::Regex: {
      if (!text_.regex().alive(plan.re)) return nullptr;
      Node *n = r.arena.make<Node>();
      n->kind = Node::Scalar;
      n->depth = depth;
      n->parent = parent;
      n->text = text_.state(plan.re, 0, Encoding::Plain);
      if (!parent && !text_.spellable(n->text)) return nullptr;
      return n;
    }
    case Plan::Json:
      return value(r, parent, plan.json.get(), plan.json->root(),
                   space_start(plan.json->schema().options, SpaceAt::Start));
    case Plan::Grammar: {
      GrammarControl &g = *plan.grammar;
      if (g.empty()) return nullptr;
      const GrammarEntry place = g.start(r.arena);
      return grammar_node(r, g, {&place, 1}, parent);
    }
    case Plan::Sequence: {
      for (auto &part : plan.parts)
        if (part->texts == Plan::None) return nullptr;
      Node *n = r.arena.make<Node>();
      n->kind = Node::Sequence;
      n->depth = depth;
      n->parent = parent;
      n->control.plan = &plan;
      if (plan.max_tokens > 0) n->count = r.token + (r.is_read && r.is_last_byte ? 1 : 0);
      return begin(r, *plan.parts[0], n);
    }
    case Plan::Union: {
      const Node *all = nullptr;
      for (auto &p : plan.parts) all = alternatives(r, begin(r, *p, parent), all);
      return all;
    }
  }
  return nullptr;
}

const Node *Automaton::value(Reader &r, const Node *parent, JsonControl *json, ValueControl *v, uint16_t space) {
  if (v->first.none()) return nullptr;
  Node *n = r.arena.make<Node>();
  n->kind = Node::Value;
  n->depth = parent ? parent->depth + 1 : 0;
  n->parent = parent;
  n->json = json;
  n->control.value = v;
  n->space = space;
  n->traced = parent && (parent->traced || (parent->kind == Node::Array && parent->control.array->unique));
  return n;
}

// ---------------------------------------------------------------- end of a value

template <class Holds>
const Node *Automaton::finish_with(Reader &r, const Node *parent, const Holds &holds) {
  r.looked_at(parent);
  if (!parent) {
    static const Node end;
    return &end;
  }
  switch (parent->kind) {
    case Node::Sequence: {
      const Plan &plan = *parent->control.plan;
      if (plan.at_limit && parent->parent->control.plan != r.used_up) return nullptr;
      if (plan.max_tokens > 0 && r.ended && r.is_read && r.is_last_byte) r.ended->push_back(parent);
      if (parent->length + 1 == plan.parts.size()) return finish(r, parent->parent);
      Node *n = r.arena.make<Node>(*parent);
      n->length = parent->length + 1;
      return begin(r, *plan.parts[n->length], n);
    }
    case Node::Symbol: {
      for (const Unread *u = r.unread; u; u = u->outer)
        if (u->frame == parent) return nullptr;
      GrammarEntry place;
      if (!after_constraint(r, parent, &place)) return nullptr;
      return grammar_node(r, *parent->control.grammar, {&place, 1}, parent->parent);
    }
    case Node::Object: {
      KeyControl *key = parent->child.key;
      ObjectControl *after = parent->json->after_child(key->frame, key->verdicts, holds);
      if ((after != parent->control.object || !after->simple) && !parent->json->object_alive(after, view(parent)))
        return nullptr;
      Node *n = r.arena.make<Node>(*parent);
      n->phase = Phase::AfterValue;
      n->control.object = after;
      n->trace = r.trace;
      n->space = space_start(parent->json->schema().options, SpaceAt::AfterValue);
      return n;
    }
    case Node::Array: {
      ItemControl *item = parent->child.item;
      ArrayControl *after = parent->json->after_item(item, holds);
      const SeenItem *items = parent->items;
      if (after->unique && !take_item(r, parent, &after, &items)) return nullptr;
      if (after != parent->control.array || after->loose) {
        JsonControl &json = *parent->json;
        // A mask that leaves out which items are there must not miss that this one may be among them.
        if (!(r.blind ? json.alive_after_item(after, parent->count, false) : json.array_alive(after, parent->count))) return nullptr;
      }
      Node *n = r.arena.make<Node>(*parent);
      n->phase = Phase::AfterValue;
      n->control.array = after;
      n->items = items;
      n->trace = parent->traced ? r.trace : nullptr;
      n->space = space_start(parent->json->schema().options, SpaceAt::AfterValue);
      return n;
    }
    default: return nullptr;
  }
}

bool Automaton::take_item(Reader &r, const Node *array, ArrayControl **control, const SeenItem **items) {
  const std::string text = item_text(r.trace, array);
  const ItemValue::Kind kind = kind_of_value(text);
  const bool apart = kind != ItemValue::Container &&
                     !(kind == ItemValue::String && JsonControl::free_strings(array->child.item->child));
  if (r.blind && r.arena.contains(array) && (array->count > 1 || kind == ItemValue::Container)) r.repeats = true;
  if (r.blind && !apart) return true;
  r.leaned = true;
  const ItemValue value = read_value(text);
  for (const SeenItem *s = array->items; s; s = s->previous)
    if (s->hash == value.hash) {
      *control = array->json->after_repeat(*control);
      return !r.blind || array->json->array_alive(*control, array->count);
    }
  const bool container = kind == ItemValue::Container;
  const std::string &kept = container ? text : value.text;
  char *copy = nullptr;
  if (container || kind == ItemValue::String) {
    copy = static_cast<char *>(r.arena.allocate(kept.size() + 1));
    std::memcpy(copy, kept.data(), kept.size());
  }
  *items = r.arena.make<SeenItem>(SeenItem{array->items, copy, static_cast<uint32_t>(kept.size()), container,
                                           container || (array->items && array->items->containers), value.hash});
  if (apart) *control = array->json->with_value(*control, value);
  return true;
}

std::string Automaton::item_text(const TextLink *trace, const Node *array) {
  if (!trace || trace->length <= array->length) return {};
  std::string out(trace->length - array->length, ' ');
  charge(out.size());  // each link is where it was read, so the way back waits for memory
  for (const TextLink *l = trace; l && l->length > array->length; l = l->previous)
    out[l->length - array->length - 1] = static_cast<char>(l->byte);
  return out;
}

const Node *Automaton::finish(Reader &r, const Node *parent) {
  return finish_with(r, parent, [](uint32_t) { return true; });
}

namespace {

// What is read from here on comes after the byte of the running step.
struct AfterByte {
  explicit AfterByte(Reader &reader) : r(reader), before(reader.is_read) { r.is_read = true; }
  ~AfterByte() { r.is_read = before; }
  AfterByte(const AfterByte &) = delete;
  Reader &r;
  bool before;
};

}  // namespace

bool Automaton::completes(Reader &r, const Node *node, const Node *bottom) {
  switch (node->kind) {
    case Node::End: return !bottom;
    case Node::Scalar: {
      if (!text_.complete(node->text)) return false;
      r.looked_at(node->parent);
      if (node->parent && node->parent->kind != Node::Sequence && node->parent->kind != Node::Symbol)
        return false;  // its container is open
      const Node *after = node->parent ? finish_with(r, node->parent, [&](uint32_t i) {
        return !node->roots || text_.complete(node->roots[i]);
      }) : finish(r, nullptr);
      return after && completes(r, after, bottom);
    }
    case Node::Alternatives: return completes(r, node->control.left, bottom) || completes(r, node->parent, bottom);
    case Node::Grammar: {
      const bool ends = grammar_ends(r, node);
      if (!ends || node->parent == bottom) return ends;
      const Node *after = finish(r, node->parent);
      return after && completes(r, after, bottom);
    }
    default: return false;
  }
}

// ---------------------------------------------------------------- steps

const Node *Automaton::step(Reader &r, const Node *n, uint8_t b) {
  charge(3);
  r.trace = nullptr;
  if (n->traced) r.trace = r.arena.make<TextLink>(TextLink{n->trace, nullptr, (n->trace ? n->trace->length : 0) + 1, b,
                                                              n->trace ? n->trace->differs_above : int16_t{-1}});
  const Node *next = read(r, n, b);
  // The node is new: nobody else has seen it.
  if (!next || !next->traced) return next;
  const_cast<Node *>(next)->trace = r.trace;
  return r.blind || differing(r, next) ? next : nullptr;
}

const Node *Automaton::read(Reader &r, const Node *n, uint8_t b) {
  switch (n->kind) {
    case Node::Value: return step_value(r, n, b);
    case Node::String: return step_string(r, n, b);
    case Node::Scalar: return step_scalar(r, n, b);
    case Node::Object: return step_object(r, n, b);
    case Node::Key: return step_key(r, n, b);
    case Node::Array: return step_array(r, n, b);
    case Node::Grammar: return step_grammar(r, n, b);
    case Node::Alternatives: {
      const Node *left = step(r, n->control.left, b);
      const Node *rest = step(r, n->parent, b);
      return alternatives(r, left, rest);
    }
    default: return nullptr;
  }
}

const Node *Automaton::step_value(Reader &r, const Node *n, uint8_t b) {
  if (is_space(b)) return step_space(r, n, b);
  ValueControl *v = n->control.value;
  if (!v->first.test(b) || !space_allows(n->json->schema().options, n->space, b)) return nullptr;
  Node *m = r.arena.make<Node>();
  m->depth = n->depth;
  m->parent = n->parent;
  m->json = n->json;
  m->control.value = v;
  m->traced = n->traced;
  auto take_roots = [&](const std::vector<Re> &roots, Encoding encoding) {
    if (roots.empty()) return;
    auto *states = static_cast<TextState *>(r.arena.allocate(roots.size() * sizeof(TextState)));
    for (size_t i = 0; i < roots.size(); ++i) {
      states[i] = text_.state(roots[i], 0, encoding);
      if (encoding == Encoding::Plain && states[i]) states[i] = text_.row(states[i])[b];
    }
    m->roots = states;
  };
  switch (b) {
    case '"':
      m->kind = Node::String;
      m->text = text_.state(v->string.re, 0, encoding(n));
      take_roots(v->string.roots, encoding(n));
      return m;
    case '{': {
      if (too_deep(n)) return nullptr;
      ObjectControl *o = n->json->open_object(v);
      const uint32_t words = o->universe->words();
      auto *seen = static_cast<uint64_t *>(r.arena.allocate(words * 8));
      std::memset(seen, 0, words * 8);
      m->kind = Node::Object;
      m->control.object = o;
      m->bits = seen;
      m->space = space_start(n->json->schema().options, SpaceAt::Open);
      return m;
    }
    case '[':
      if (too_deep(n)) return nullptr;
      m->kind = Node::Array;
      m->control.array = n->json->open_array(v);
      m->space = space_start(n->json->schema().options, SpaceAt::Open);
      return m;
    default: {
      m->kind = Node::Scalar;
      for (const ScalarLanguage *s : {&v->number, &v->literal}) {
        if (s->re == RegexSpace::EMPTY) continue;
        TextState t = text_.row(text_.state(s->re, 0, Encoding::Plain))[b];
        if (t == TextSpace::DEAD) continue;
        m->text = t;
        take_roots(s->roots, Encoding::Plain);
        return m;
      }
      return nullptr;
    }
  }
}

const Node *Automaton::step_string(Reader &r, const Node *n, uint8_t b) {
  TextState t = text_.row(n->text)[b];
  if (t == TextSpace::DEAD) return nullptr;
  const StringLanguage &language = n->control.value->string;
  if (t == TextSpace::LEAVE) {
    if (n->length < language.min) return nullptr;
    const AfterByte read(r);
    return finish_with(r, n->parent, [&](uint32_t i) { return !n->roots || text_.complete(n->roots[i]); });
  }
  // A character counts when it begins: at its first byte, or at its backslash.
  uint32_t length = n->length;
  if (text_.escape(n->text) == 0 && (b & 0xc0) != 0x80) {
    if (length >= language.max) return nullptr;
    ++length;
  }
  const Re re = text_.re(t);
  if ((language.max != UNBOUNDED || length < language.min) && re != RegexSpace::ANY_TEXT) {
    const int64_t least = language.min > length ? static_cast<int64_t>(language.min - length) : 0;
    const int64_t most = language.max == UNBOUNDED ? -1 : static_cast<int64_t>(language.max - length);
    const auto fits = [&](Re rest) { return text_.regex().has_length(rest, least, most); };
    if (text_.escape(t) == 0 ? !fits(re) : !text_.escape_viable(t, fits)) return nullptr;
  }
  Node *m = r.arena.make<Node>(*n);
  m->text = t;
  m->length = length;
  if (n->roots) {
    size_t count = n->control.value->string.roots.size();
    auto *states = static_cast<TextState *>(r.arena.allocate(count * sizeof(TextState)));
    for (size_t i = 0; i < count; ++i) {
      TextState next = n->roots[i] ? text_.row(n->roots[i])[b] : TextSpace::DEAD;
      states[i] = next == TextSpace::LEAVE ? TextSpace::DEAD : next;
    }
    m->roots = states;
  }
  return m;
}

const Node *Automaton::step_scalar(Reader &r, const Node *n, uint8_t b) {
  TextState t = text_.row(n->text)[b];
  const Node *inside = nullptr;
  if (t != TextSpace::DEAD) {
    Node *m = r.arena.make<Node>(*n);
    m->text = t;
    if (n->roots) {
      const ValueControl *v = n->control.value;
      size_t count = std::max(v->number.roots.size(), v->literal.roots.size());
      auto *states = static_cast<TextState *>(r.arena.allocate(count * sizeof(TextState)));
      for (size_t i = 0; i < count; ++i) states[i] = n->roots[i] ? text_.row(n->roots[i])[b] : TextSpace::DEAD;
      m->roots = states;
    }
    inside = m;
    if (!n->parent || (n->parent->kind != Node::Sequence && n->parent->kind != Node::Symbol))
      return inside;  // JSON: a number or its end, never both
  }
  r.looked_at(n->parent);
  if (!n->parent || !text_.complete(n->text)) return inside;
  r.trace = n->trace;  // the item ended before this byte
  const Node *after = finish_with(r, n->parent, [&](uint32_t i) { return !n->roots || text_.complete(n->roots[i]); });
  if (!after) return inside;
  return alternatives(r, inside, step(r, after, b));
}

const Node *Automaton::step_object(Reader &r, const Node *n, uint8_t b) {
  if (is_space(b)) return step_space(r, n, b);
  const JsonOptions &options = n->json->schema().options;
  if (!space_allows(options, n->space, b)) return nullptr;
  ObjectControl *o = n->control.object;
  switch (n->phase) {
    case Phase::Open:
    case Phase::AfterComma:
      if (b == '"') return open_key(r, n);
      if (b != '}' || n->phase == Phase::AfterComma) return nullptr;
      break;
    case Phase::AfterKey: {
      if (b != ':') return nullptr;
      Node *m = r.arena.make<Node>(*n);
      m->phase = Phase::InValue;
      return value(r, m, n->json, n->child.key->child, space_start(options, SpaceAt::AfterColon));
    }
    case Phase::AfterValue:
      if (b == ',') {
        if (!n->json->more_keys(o, view(n)) || !key_left(r, n)) return nullptr;
        Node *m = r.arena.make<Node>(*n);
        m->phase = Phase::AfterComma;
        m->space = space_start(options, SpaceAt::AfterComma);
        return m;
      }
      if (b != '}') return nullptr;
      break;
    default: return nullptr;
  }
  if (!n->json->object_can_close(o, view(n))) return nullptr;
  const AfterByte read(r);
  if (o->simple) return finish(r, n->parent);
  std::vector<bool> v = n->json->object_verdicts(o, view(n));
  return finish_with(r, n->parent, [&](uint32_t i) { return static_cast<bool>(v[i]); });
}

const Node *Automaton::step_array(Reader &r, const Node *n, uint8_t b) {
  if (is_space(b)) return step_space(r, n, b);
  const JsonOptions &options = n->json->schema().options;
  if (!space_allows(options, n->space, b)) return nullptr;
  ArrayControl *a = n->control.array;
  if (b == ']') {
    if (!n->json->array_can_close(a, n->count)) return nullptr;
    const AfterByte read(r);
    if (a->simple) return finish(r, n->parent);
    std::vector<bool> v = n->json->array_verdicts(a, n->count);
    return finish_with(r, n->parent, [&](uint32_t i) { return static_cast<bool>(v[i]); });
  }
  if (n->phase == Phase::AfterValue && b != ',') return nullptr;
  if (!n->json->item_allowed(a, n->count)) return nullptr;
  ItemControl *item = n->json->next_item(a, n->count);
  if (!item) return nullptr;
  Node *m = r.arena.make<Node>(*n);
  m->phase = Phase::InValue;
  m->count = n->count + 1;
  m->child.item = item;
  if (a->unique && n->phase != Phase::AfterValue && !n->traced)
    r.trace = r.arena.make<TextLink>(TextLink{nullptr, nullptr, 1, b});
  if (r.trace && r.trace->differs_above >= n->depth) const_cast<TextLink *>(r.trace)->differs_above = static_cast<int16_t>(n->depth - 1);
  if (n->phase == Phase::AfterValue) m->length = r.trace ? r.trace->length : 0;
  else m->length = n->traced && n->trace ? n->trace->length : 0;
  if (n->phase == Phase::AfterValue) return value(r, m, n->json, item->child, space_start(options, SpaceAt::AfterComma));
  const Node *v = value(r, m, n->json, item->child, n->space);
  return v ? step_value(r, v, b) : nullptr;
}

// ---------------------------------------------------------------- figures

uint64_t Automaton::unproven() const {
  uint64_t total = 0;
  each_json(*plan_, [&](const JsonControl &json) { total += json.unproven(); });
  each_plan(*plan_, [&](const Plan &p) {
    if (p.grammar && !p.grammar->empty()) total += p.grammar->life().unproven();
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
