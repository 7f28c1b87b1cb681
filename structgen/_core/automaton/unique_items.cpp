// `uniqueItems` where the items are objects or arrays.
//
// The schema of an item leaves out the scalars that the array already has. A container is compared with earlier ones only
// when it ends. Before that, its text can be a prefix of an earlier item that has no other completion: a dead end. Usually
// the item can still become many other values, which is cheap to see (`has_many`). Otherwise the earlier items that the
// text can still become are removed from the item's schema, and the text is read again under that schema.
#include <algorithm>

#include "automaton/automaton.h"
#include "text/json_space.h"
#include "json/value.h"
#include "json/shortest/shortest.h"

namespace structgen {
namespace {

constexpr size_t MOST_ALIKE = 4;          // earlier items removed from a schema; the cost grows with the number of subsets
constexpr size_t LONGEST_ALIKE = 16'384;  // bytes of an item that is read again

// Has the exponent of the number that is being read started?
bool in_exponent(const TextLink *trace) {
  for (const TextLink *l = trace; l; l = l->previous) {
    charge();
    const char c = static_cast<char>(l->byte);
    if (c == 'e' || c == 'E') return true;
    if (c != '.' && c != '-' && c != '+' && (c < '0' || c > '9')) return false;
  }
  return false;
}

}  // namespace

bool Automaton::has_containers(const Node *array) {
  return array->kind == Node::Array && array->control.array->unique && array->items && array->items->containers;
}

// These functions give lower bounds: false means "not known".
bool Automaton::scalar_has_many(const Node *n, uint64_t many) {
  RegexSpace &space = text_.regex();
  if (n->kind == Node::String) {
    const StringLanguage &language = n->control.value->string;
    if (JsonControl::free_strings(n->control.value)) return true;
    if (n->roots || text_.escape(n->text) != 0) return false;
    Re rest = text_.re(n->text);
    if (language.max != UNBOUNDED || language.min > n->length) {
      const int64_t least = language.min > n->length ? static_cast<int64_t>(language.min - n->length) : 0;
      const int64_t most = language.max == UNBOUNDED ? -1 : static_cast<int64_t>(language.max - n->length);
      if (rest == RegexSpace::ANY_TEXT && most != 0) return true;
      rest = space.intersect(rest, space.repeat(space.any_char(), least, most));
    }
    return space.count_texts(rest) >= many;
  }
  if (n->roots || in_exponent(n->trace)) return false;
  // Appending different digits gives different numbers, except for zeros.
  const CodeRange digit[] = {{'1', '9'}};
  return space.count_texts(space.intersect(text_.re(n->text), space.repeat(space.text_class(digit), 0, -1))) >= many;
}

bool Automaton::frames_have_many(const Node *n, const Node *array, uint64_t many, Until until) {
  const Node *below = nullptr;
  for (const Node *f = n; f != array; below = f, f = f->parent) {
    charge();
    if (f->kind == Node::Array && f->json->has_no_last_item(f->control.array, f->count)) return true;
    if (f->kind != Node::Object) continue;
    std::optional<JsonControl::OpenKey> open;
    if (below && below->kind == Node::Key) open = {below->lo, below->hi};
    if (f->json->has_many_keys(f->control.object, view(f), open, many, until == Until::Closed)) return true;
  }
  return false;
}

bool Automaton::has_many(const Node *n, const Node *array, uint64_t many, Until until) {
  // Until::Closed: a string without a limit needs two quotes, and an open frame a bracket or a whole key, before few values
  // are left.
  const auto value_has_many = [&](const ValueControl *v) {
    return until == Until::Closed ? JsonControl::only_free_strings(v) : n->json->has_many(v->goal, many);
  };
  switch (n->kind) {
    case Node::Value:
      if (value_has_many(n->control.value)) return true;
      break;
    case Node::Object:
      if (n->phase == Phase::AfterKey && value_has_many(n->child.key->child)) return true;
      break;
    case Node::String:
    case Node::Scalar:
      if (until == Until::Now && scalar_has_many(n, many)) return true;
      break;
    default: break;
  }
  return frames_have_many(n, array, many, until);
}

Automaton::SeenItems Automaton::items_alike(const Node *n, const Node *array, const SeenItems *among,
                                            std::set<std::string> *rests) {
  SeenItems out;
  const std::string text = item_text(n->trace, array);
  const auto take = [&](const SeenItem *s) {
    if (s->container && may_become(text, {s->text, s->length}, rests)) out.push_back(s);
  };
  if (among) std::for_each(among->begin(), among->end(), take);
  else
    for (const SeenItem *s = array->items; s && s->containers; s = s->previous) take(s);
  return out;
}

std::vector<const Node *> Automaton::arrays_to_differ(const Node *n, int32_t above) {
  std::vector<const Node *> arrays;
  if (n->trace) above = std::max(above, int32_t{n->trace->differs_above});
  for (const Node *p = n->parent; p && p->depth > above; p = p->parent)
    if (has_containers(p)) {
      ArrayControl *a = p->control.array;
      // Where other branches of the schema allow equal items, a repeated item is no dead end.
      if (!a->loose || !p->json->array_alive(p->json->after_repeat(a), p->count)) arrays.push_back(p);
    }
  return {arrays.rbegin(), arrays.rend()};
}

Automaton::ItemsAhead Automaton::items_ahead(const Node *n, int32_t above, Until until, const ItemsAhead *before,
                                             std::set<std::string> *rests) {
  ItemsAhead out;
  const std::vector<const Node *> arrays = arrays_to_differ(n, above);
  uint64_t many = 1;
  for (const Node *array : arrays) many += array->count;
  bool differs = true;  // in all arrays so far
  for (const Node *array : arrays) {
    // Usually true, and cheaper than comparing items.
    if (until != Until::Never && has_many(n, array, many, until)) {
      differs = false;
      continue;
    }
    const SeenItems *among = nullptr;
    for (size_t i = 0; before && i < before->size(); ++i)
      if ((*before)[i].first == array) among = &(*before)[i].second;
    SeenItems alike = items_alike(n, array, among, rests);
    differs = differs && alike.empty();
    if (!alike.empty()) out.emplace_back(array, std::move(alike));
    else if (differs && above < 0 && n->trace && array->depth <= INT16_MAX)
      const_cast<TextLink *>(n->trace)->differs_above = static_cast<int16_t>(array->depth);
  }
  many = 1;
  for (auto &[array, alike] : out) many += alike.size();
  if (until != Until::Never) std::erase_if(out, [&](const auto &one) { return has_many(n, one.first, many, until); });
  return out;
}

const Node *Automaton::differing(Reader &r, const Node *n, Avoid avoid) {
  if (!n->traced) return n;
  for (int32_t above = r.differs_above;;) {
    // The outermost array first: reading its item again checks the arrays inside it as well.
    const ItemsAhead ahead = items_ahead(n, above, avoid == Avoid::DeadEnds ? Until::Now : Until::Never);
    if (ahead.empty()) return n;
    // subtle: the state after reading again has no verdicts, which some frames need when the item ends.
    const ItemControl *item = ahead[0].first->child.item;
    if (avoid == Avoid::All && (!item->verdicts.empty() || !item->counted.empty())) return n;
    n = read_again(r, n, ahead[0].first, ahead[0].second);
    if (!n || avoid == Avoid::DeadEnds) return n;
    above = ahead[0].first->depth;
  }
}

const Node *Automaton::read_again(Reader &r, const Node *n, const Node *array, const SeenItems &alike) {
  const std::string text = item_text(n->trace, array);
  JsonControl &json = *array->json;
  // In order, keys that only an earlier item has would count as declared ones, which come first.
  if (json.schema().options.ordered || alike.size() > MOST_ALIKE || text.size() > LONGEST_ALIKE) {
    json.leave_unproven();
    return n;
  }
  std::vector<std::string> texts;
  for (const SeenItem *s : alike) {
    charge(s->length);
    texts.emplace_back(s->text, s->length);
  }
  ValueControl *other = json.other_than(array->child.item->child, texts);
  if (!other) return nullptr;
  Reader again{r.arena};
  again.differs_above = array->depth;
  const Node *m = value(again, array, &json, other, space_start(json.schema().options, SpaceAt::AfterComma));
  const TextLink *before = n->trace;
  while (before && before->length > array->length) before = before->previous;
  if (m) const_cast<Node *>(m)->trace = before;
  for (size_t i = 0; m && i < text.size(); ++i) m = step(again, m, static_cast<uint8_t>(text[i]));
  return m;
}

}  // namespace structgen
