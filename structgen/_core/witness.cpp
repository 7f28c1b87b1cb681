#include "witness.h"

#include <algorithm>

#include "json_space.h"
#include "json_value.h"
#include "shortest.h"

namespace structgen {
namespace {

constexpr int MAX_EXTRA_DEPTH = 200;
constexpr uint64_t MAX_STRING = uint64_t{1} << 24;
constexpr size_t MOST_OTHERS = 40;   // undeclared keys that are tried at one place
constexpr size_t MOST_VERDICTS = 6;  // of one value, that are tried in all combinations
constexpr uint64_t STEP_BUDGET = 400'000;
constexpr size_t MOST_STACK = size_t{2} << 20;  // bytes: choices are made one inside another
constexpr uint64_t FIRST_BUDGET = 20'000;  // for each depth at first: what is too shallow may try very many keys in vain

class Search {
 public:
  // With `whole_values` a value that has not begun is taken as a whole, the shortest one.
  Search(Automaton &a, Reader &r, bool whole_values)
      : a_(a), r_(r), space_(a.text().regex()), whole_values_(whole_values) {}

  // Steps from here on; a thorough search takes a key of any other name where a declared one would lead too deep.
  void allow(uint64_t steps, bool thorough) {
    budget_ = steps_ + steps;
    thorough_ = thorough;
  }
  bool run(const Node *node, int32_t deepest, std::string *out) {
    deepest_ = deepest;
    if (!base_) base_ = static_cast<const char *>(__builtin_frame_address(0));
    out_.clear();
    cut_ = false;
    if (!from(node)) return false;
    *out += out_;
    return true;
  }
  size_t stack_used() const {
    const auto *here = static_cast<const char *>(__builtin_frame_address(0));
    return static_cast<size_t>(base_ > here ? base_ - here : here - base_);
  }
  bool cut() const { return cut_; }
  bool spent() const { return steps_ > budget_; }

 private:
  // Completes the text from `n`, trying the choices in order; leaves `out_` as it was on failure.
  bool from(const Node *n) {
    const size_t before = out_.size();
    while (n) {
      if (a_.accepts(r_, n)) return true;
      if (spent() || stack_used() > MOST_STACK) break;
      if (n->kind == Node::Value || n->kind == Node::Array || n->kind == Node::Object)
        if (const char c = space_owed(options(n), n->space)) {
          n = read(n, {&c, 1});
          continue;
        }
      switch (n->kind) {
        case Node::String: n = string(n); continue;
        case Node::Scalar: n = scalar(n); continue;
        case Node::Value: {
          if (whole_values_) {
            const Node *array = n->parent && n->parent->kind == Node::Array ? n->parent : nullptr;
            n = whole_value(n, n->control.value, array, array ? array->count - 1 : 0);
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
          if (!s) s = scalar_value(n);
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
          if (n->phase == Phase::AfterValue) n = comma(n);
          else n = read(n, lines(options(n)) && n->space == SPACE_EMPTY ? "\n" : "\"");
          continue;
        }
        case Node::Key:
          if (thorough_ || !n->parent->control.object->simple) return key(n, before);
          n = simple_key(n);
          continue;
        case Node::Alternatives: {
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

  const Node *read(const Node *n, std::string_view text) {
    const size_t before = out_.size();
    for (char c : text) {
      ++steps_;
      n = a_.step(r_, n, static_cast<uint8_t>(c));
      if (!n) {
        out_.resize(before);
        return nullptr;
      }
      out_ += c;
    }
    return n;
  }

  static const JsonOptions &options(const Node *n) { return n->json->schema().options; }

  // The end of a container, on a line of its own where lines are written.
  const Node *end(const Node *n, char bracket) {
    return read(n, (n->space == SPACE_AFTER ? last_line(n) : std::string{}) + bracket);
  }
  static std::string last_line(const Node *container) {
    std::string text;
    if (!lines(options(container))) return text;
    text = "\n";
    for (int32_t level = container->depth - options(container).root_depth; level > 0; --level)
      text += options(container).indent;
    return text;
  }
  const Node *comma(const Node *n) {
    const bool before = options(n).whitespace == Whitespace::Written && n->space == SPACE_AFTER;
    return read(n, std::string(before ? options(n).before_comma : 0, ' ') + ',');
  }

  // A compact text of a value, with the white space that the policy wants.
  const Node *read_value_of(const Node *n, std::string_view compact) {
    bool inside = false, escaped = false;
    for (char c : compact) {
      if (!inside) n = read_space_before(n, c);
      if (n) n = read(n, {&c, 1});
      if (!n) return nullptr;
      if (!inside) inside = c == '"';
      else if (escaped) escaped = false;
      else if (c == '\\') escaped = true;
      else inside = c != '"';
    }
    return n;
  }
  const Node *read_space_before(const Node *n, char c) {
    const bool closes = c == ']' || c == '}', ends = closes || c == ',';
    if (n->kind == Node::Scalar && !ends) return n;
    const Node *container = n->kind == Node::Scalar ? n->parent : n;
    if ((ends && container != n) || n->space == SPACE_AFTER) {
      if (closes) return read(n, last_line(container));
      const JsonOptions &o = options(n);
      return c == ',' && o.whitespace == Whitespace::Written ? read(n, std::string(o.before_comma, ' ')) : n;
    }
    if (lines(options(n)) && n->space == SPACE_EMPTY && !closes) n = read(n, "\n");
    while (n && n->kind != Node::Scalar) {
      const char blank = space_owed(options(n), n->space);
      if (!blank) break;
      n = read(n, {&blank, 1});
    }
    return n;
  }

  // Every text in turn, each with all that follows.
  bool choose(const Node *n, const std::vector<std::string> &texts, size_t before) {
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

  const Node *open_item(const Node *n) {
    ItemControl *item = n->json->next_item(n->control.array, n->count);
    if (!item) return nullptr;
    if (whole_values_) return whole_value(n, item->child, n, n->count);
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

  // A value after which its container can close, where that depends on which of several requirements it meets.
  const Node *closing_value(const Node *n) {
    const Node *frame = n->parent;
    if (!frame || frame->json != n->json) return nullptr;
    if (frame->kind == Node::Array) return closing_item(n, frame->child.item, frame->count);
    if (frame->kind != Node::Object) return nullptr;
    KeyControl *key = frame->child.key;
    return closing(n, n->control.value, [&](const Holds &holds) {
      return n->json->object_can_close(n->json->after_child(key->frame, key->verdicts, holds),
                                       {frame->bits, frame->count, frame->last_rank});
    });
  }
  const Node *closing_item(const Node *n, ItemControl *item, uint64_t count) {
    return closing(n, item->child, [&](const Holds &holds) {
      return n->json->array_can_close(n->json->after_item(item, holds), count);
    });
  }
  const Node *closing(const Node *n, const ValueControl *v, const std::function<bool(const Holds &)> &closes) {
    JsonControl &json = *n->json;
    const std::vector<Formula> roots = json.goal(v->goal).roots;
    const Formula need = json.goal(v->goal).need;
    if (roots.size() > MOST_VERDICTS || (roots.size() == 1 && need == json.formulas().leaf(0))) return nullptr;
    for (size_t row = size_t{1} << roots.size(); row-- > 0;) {
      auto holds = [row](uint32_t i) { return (row >> i & 1) != 0; };
      if (!json.formulas().evaluate(need, holds) || !closes(holds)) continue;
      std::vector<Formula> all;
      for (uint32_t i = 0; i < roots.size(); ++i)
        all.push_back(holds(i) ? roots[i] : json.formulas().negation(roots[i]));
      const Formula wanted = json.formulas().conjunction(std::move(all));
      std::string text;
      steps_ += text.size() + 20;
      if (!json.can_hold(wanted) || !json.shortest().text(wanted, &text)) continue;
      const size_t before = out_.size();
      if (const Node *m = read_value_of(n, text)) return m;
      out_.resize(before);
    }
    return nullptr;
  }

  // A shortest value of `v`; as an item of `array`, one that counts if some are wanted, and another than there are.
  const Node *whole_value(const Node *n, const ValueControl *v, const Node *array, uint64_t before) {
    JsonControl &json = *n->json;
    if (array && array->control.array->counting)
      if (const ValueControl *wanted = json.helpful(array->control.array, before); wanted && wanted->first.any()) v = wanted;
    const Formula f = json.goal(v->goal).combined;
    // The frame knows which scalars are taken; containers are told apart by value, one after the other.
    std::vector<std::string> taken;
    for (;;) {
      std::string text;
      if (!json.shortest().text(taken.empty() ? f : json.shortest().other_than(f, taken), &text)) return nullptr;
      bool there = false;
      if (array && array->control.array->unique) {
        const Hash128 hash = read_value(text).hash;
        for (const SeenKey *s = array->extras; s && !there; s = s->previous) there = s->hash == hash;
      }
      if (!there) return read_value_of(n, text);
      if (spent()) return nullptr;
      taken.push_back(std::move(text));
    }
  }

  // A whole item that counts for a `contains` which wants more; null when none does.
  const Node *counted(const Node *n, ArrayControl *array, uint64_t before) {
    if (!array->counting) return nullptr;
    ValueControl *v = n->json->helpful(array, before);
    if (!v || v->first.none()) return nullptr;
    Node alone;
    alone.kind = Node::Value;
    alone.depth = n->kind == Node::Value ? n->depth : n->depth + 1;
    alone.json = n->json;
    alone.space = SPACE_CLOSED;
    alone.control.value = v;
    Search inner(a_, r_, false);
    inner.base_ = base_;
    inner.allow(budget_ > steps_ ? budget_ - steps_ : 0, thorough_);
    std::string text;
    const bool found = inner.run(&alone, deepest_, &text);
    steps_ += inner.steps_;
    cut_ = cut_ || inner.cut_;
    return found ? read(n, text) : nullptr;
  }

  const Node *scalar_value(const Node *n) { return scalar_text(n, n->control.value); }

  const Node *scalar_text(const Node *n, const ValueControl *v) {
    for (const ScalarLanguage *s : {&v->literal, &v->number}) {
      std::string text;
      if (s->re != RegexSpace::EMPTY && space_.witness(s->re, &text))
        if (const Node *m = read(n, text)) return m;
    }
    if (v->types & type_bit(Type::String)) return read(n, "\"");
    return nullptr;
  }

  const Node *string(const Node *n) {
    const StringLanguage &language = n->control.value->string;
    while (n && a_.text().escape(n->text) != 0) n = any_of(n, "\"\\/bfnrtu0123456789abcdef");
    if (!n) return nullptr;
    Re re = a_.text().re(n->text);
    const uint64_t least = language.min > n->length ? language.min - n->length : 0;
    if (least > MAX_STRING) return nullptr;
    if (n->traced && n->parent->kind == Node::Array && n->parent->extras && re == RegexSpace::ANY_TEXT) {
      // Free strings that must differ: one longer than any that is there.
      uint32_t longest = 0;
      for (const SeenKey *s = n->parent->extras; s; s = s->previous) longest = std::max(longest, s->length);
      if (const Node *m = read(n, "\"")) return m;
      for (uint32_t more = 1; more <= longest + 1; ++more)
        if (const Node *m = read(n, std::string(std::max<uint64_t>(least, more), 'a') + '"')) return m;
    }
    if (least > 0 || language.max != UNBOUNDED) {
      if (re == RegexSpace::ANY_TEXT) {
        const Node *m = read(n, std::string(least, 'a') + '"');
        return m ? m : read(n, "\"");
      }
      // Inside a character its remaining bytes come first; its length has been counted.
      while (n && !at_character(n)) n = any_byte(n);
      if (!n) return nullptr;
      re = a_.text().re(n->text);
      re = space_.intersect(re, space_.repeat(space_.any_char(), static_cast<int64_t>(least),
                                              language.max == UNBOUNDED ? -1 : static_cast<int64_t>(language.max - n->length)));
    }
    std::string text;
    if (!space_.witness(re, &text)) return nullptr;
    // The first bytes may finish a character that has begun, so they are no text of their own.
    return read(n, escape_json(text) + '"');
  }

  bool at_character(const Node *n) {
    const Row &row = space_.row(a_.text().re(n->text));
    return std::none_of(row.begin() + 0x80, row.begin() + 0xc0, [](Re r) { return r != RegexSpace::EMPTY; });
  }

  const Node *any_of(const Node *n, std::string_view bytes) {
    for (char c : bytes)
      if (const Node *m = read(n, {&c, 1})) return m;
    return nullptr;
  }
  const Node *any_byte(const Node *n) {
    for (int b = 0; b < 256; ++b) {
      char c = static_cast<char>(b);
      if (const Node *m = read(n, {&c, 1})) return m;
    }
    return nullptr;
  }

  const Node *scalar(const Node *n) {
    if (!a_.text().complete(n->text)) {
      std::string text;
      if (!space_.witness(a_.text().re(n->text), &text)) return nullptr;
      return read(n, text);
    }
    // Complete, and something must follow in the frame below.
    if (n->parent && n->parent->kind == Node::Sequence) return a_.finish(r_, n->parent);
    if (n->json && lines(options(n))) return any_of(n, "\n, ");
    return any_of(n, n->parent && n->parent->kind == Node::Array ? "], " : "}, ");
  }

  // In a simple frame any key will do: the first that can be read is taken, those that are owed first.
  const Node *simple_key(const Node *n) {
    while (n && n->kind == Node::Key && n->escape != 0) n = any_of(n, "\"\\/bfnrtu0123456789abcdef");
    if (!n || n->kind != Node::Key) return n;
    const ObjectControl &o = *n->parent->control.object;
    for (bool owed : {true, false})
      for (uint32_t i = n->lo; i < n->hi; ++i)
        if (bit(n->bits, i) && bit(o.required.data(), i) == owed)
          return read(n, escape_json(std::string_view(o.universe->keys[i]).substr(n->length)) + '"');
    std::string text;
    for (uint64_t i = 0; n->text != TextSpace::DEAD && extra_key(n, i, &text); ++i)
      if (const Node *next = read(n, text)) return next;
    return nullptr;
  }

  bool key(const Node *n, size_t before) {
    const ObjectControl &o = *n->parent->control.object;
    const KeyUniverse &u = *o.universe;
    std::vector<std::string> texts, others;
    auto offer = [&](bool owed) {
      for (uint32_t i = n->lo; i < n->hi; ++i) {
        if (!bit(n->bits, i) || (o.simple && bit(o.required.data(), i) != owed)) continue;
        texts.push_back(escape_json(std::string_view(u.keys[i]).substr(n->length)) + '"');
        if (o.simple) return;
      }
    };
    if (n->escape != 0) {
      while (n && n->escape != 0) n = any_of(n, "\"\\/bfnrtu0123456789abcdef");
      if (n && n->kind == Node::Key && key(n, out_.size())) return true;
      out_.resize(before);
      return false;
    }
    if (o.simple) offer(true);
    if (texts.empty()) offer(false);
    if (closing_key(n, texts)) return true;
    // In a simple frame any key will do: the first that can be read is taken, and nothing is tried twice.
    if (!texts.empty()) {
      const bool deeper = cut_;
      cut_ = false;
      if (choose(n, texts, out_.size())) return true;
      // subtle: other keys would go on for ever where the declared one that is wanted lies deeper.
      const bool enough = !thorough_ && (o.simple || cut_);
      cut_ = cut_ || deeper;
      if (enough) {
        out_.resize(before);
        return false;
      }
    }
    if (n->text != TextSpace::DEAD) {
      const size_t here = out_.size();
      const bool any = a_.text().re(n->text) == RegexSpace::ANY_TEXT;
      std::string text;
      for (uint64_t i = 0; extra_key(n, i, &text); ++i) {
        const Node *next = read(n, text);
        if (!next) continue;
        if (texts.empty() && o.simple) {
          if (from(next)) return true;
          out_.resize(before);
          return false;
        }
        out_.resize(here);
        others.push_back(text);
        if (any && o.patterns.empty()) break;
        if (others.size() >= MOST_OTHERS) break;
      }
    }
    return closing_key(n, others) || choose(n, others, before);
  }

  // A key of a branching frame that lets the object end right after its value: one key after the other that
  // does not could be taken for ever.
  bool closing_key(const Node *n, const std::vector<std::string> &texts) {
    if (n->parent->control.object->simple) return false;
    for (const std::string &t : texts) {
      const size_t here = out_.size();
      const Node *next = read(n, t);
      if (next) next = read(next, ":");
      if (next && next->kind == Node::Value) next = closing_value(next);
      else next = nullptr;
      if (next && from(next)) return true;
      out_.resize(here);
      if (spent()) return false;
    }
    return false;
  }

  // The i-th rest of an undeclared key that is worth a try, with its quote; false when there are no more.
  bool extra_key(const Node *n, uint64_t i, std::string *text) {
    ObjectControl *o = n->parent->control.object;
    *text = "\"";
    if (i == 0) return true;
    const Re re = a_.text().re(n->text);
    // One key of each kind first, where patterns tell them apart.
    std::vector<std::string> examples;
    if (n->length == 0 && !o->patterns.empty()) examples = n->json->extra_key_examples(o);
    if (i <= examples.size()) {
      *text = escape_json(examples[i - 1]) + '"';
      return true;
    }
    i -= examples.size();
    if (re == RegexSpace::ANY_TEXT) {
      // One more name than there are keys: one of them is free.
      if (i > n->parent->count + o->universe->keys.size() + 1) return false;
      *text = name(n->parent->count + i) + '"';
      return true;
    }
    std::string one;
    if (i > 1 || !space_.witness(re, &one)) return false;
    *text = escape_json(one) + '"';
    return true;
  }

  // The i-th of infinitely many texts that tokens can spell, the shortest first; i > 0.
  std::string name(uint64_t i) {
    if (letters_.empty()) {
      for (char c = 'a'; c <= 'z'; ++c)
        if (a_.text().vocabulary().spellable().test(static_cast<size_t>(c))) letters_.emplace_back(1, c);
      std::string any;
      if (letters_.empty() && space_.witness(a_.text().writable(space_.any_char()), &any)) letters_ = {escape_json(any)};
      if (letters_.empty()) letters_ = {"a"};
    }
    std::string out;
    for (; i > 0; i = (i - 1) / letters_.size()) out += letters_[(i - 1) % letters_.size()];
    return out;
  }

  Automaton &a_;
  Reader &r_;
  RegexSpace &space_;
  std::vector<std::string> letters_;
  std::string out_;
  int32_t deepest_ = 0;
  uint64_t steps_ = 0, budget_ = 0;
  const char *base_ = nullptr;  // of the stack, where the search began
  bool cut_ = false, thorough_ = false, whole_values_;
};

}  // namespace

bool complete_text(Automaton &automaton, Reader &reader, const Node *node, std::string *out, bool patient) {
  Search search(automaton, reader, false);
  auto deepening = [&](uint64_t budget, bool thorough) {
    for (int extra = 0; extra <= MAX_EXTRA_DEPTH; extra += extra < 4 ? 1 : extra) {
      search.allow(budget, thorough);
      if (search.run(node, node->depth + extra, out)) return true;
      if (search.spent() ? thorough : !search.cut()) break;
    }
    return false;
  };
  if (deepening(FIRST_BUDGET, false)) return true;
  Search whole(automaton, reader, true);
  whole.allow(FIRST_BUDGET, false);
  if (whole.run(node, INT32_MAX, out)) return true;
  return patient && deepening(STEP_BUDGET, true);
}

}  // namespace structgen
