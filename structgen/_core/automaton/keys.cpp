// Keys of objects, byte by byte: declared keys are a range of the sorted universe, all others run
// through the language of extra keys; a key closes once in an object, however it is spelled.
#include <algorithm>
#include <cstring>

#include "automaton/automaton.h"
#include "text/json_space.h"

namespace structgen {
namespace {

bool any_bit(const uint64_t *words, uint32_t lo, uint32_t hi) {
  while (lo < hi) {
    charge();
    const uint32_t end = std::min(hi, (lo | 63) + 1);
    const uint64_t from = ~uint64_t{0} << (lo & 63), to = ~uint64_t{0} >> (63 - ((end - 1) & 63));
    if (words[lo >> 6] & from & to) return true;
    lo = end;
  }
  return false;
}

// Does an allowed key of the range go on with a character of which `fits` holds? Asked once a character, not once a key.
template <class Fits>
bool any_continues(const KeyUniverse &u, const Node *n, const Fits &fits) {
  for (uint32_t lo = n->lo; lo < n->hi;) {
    if (u.keys[lo].size() == n->length) {  // ends here; the first of its range
      ++lo;
      continue;
    }
    const auto lead = static_cast<uint8_t>(u.keys[lo][n->length]);
    const size_t size = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    const std::string_view character = std::string_view(u.keys[lo]).substr(n->length, size);
    const auto next = std::partition_point(u.keys.begin() + lo, u.keys.begin() + n->hi, [&](const std::string &key) {
      return key.compare(n->length, size, character) <= 0;
    });
    const auto hi = static_cast<uint32_t>(next - u.keys.begin());
    if (fits(character) && any_bit(n->bits, lo, hi)) return true;
    lo = hi;
  }
  return false;
}

}  // namespace

const Node *Automaton::open_key(Reader &r, const Node *object) {
  ObjectControl *o = object->control.object;
  const uint32_t words = o->universe->words();
  auto *allowed = static_cast<uint64_t *>(r.arena.allocate(words * 8));
  bool extra = object->json->allowed_keys(o, view(object), allowed);
  bool any = std::any_of(allowed, allowed + words, [](uint64_t w) { return w != 0; });
  if (!any && !extra) return nullptr;
  Node *k = r.arena.make<Node>();
  k->kind = Node::Key;
  k->depth = object->depth + 1;
  k->parent = object;
  k->json = object->json;
  k->traced = object->traced;
  k->bits = allowed;
  k->hi = static_cast<uint32_t>(o->universe->keys.size());
  k->hash = hash_text({});
  if (extra) {
    Re re = object->json->extra_keys(o, view(object));
    k->seen = object->seen;
    if (re == RegexSpace::ANY_TEXT || text_.regex().alive(re))
      k->text = without_seen(r, object, text_.state(re, 0, encoding(object)), 0, &k->seen);
    if (!any && k->text == TextSpace::DEAD) return nullptr;
  }
  return k;
}

const Node *Automaton::object_after_key(Reader &r, const Node *object, KeyControl *key, int64_t index,
                                        const Node *key_node) {
  if (!key->possible) return nullptr;
  const KeyUniverse &u = *object->control.object->universe;
  const bool ordered = object->json->schema().options.ordered;
  Node *m = r.arena.make<Node>(*object);
  m->phase = Phase::AfterKey;
  m->count = object->count + 1;
  m->space = space_start(object->json->schema().options, SpaceAt::AfterKey);
  if (index >= 0) {
    auto *seen = static_cast<uint64_t *>(r.arena.allocate(u.words() * 8));
    std::memcpy(seen, object->bits, u.words() * 8);
    set_bit(seen, static_cast<uint32_t>(index));
    m->bits = seen;
    if (ordered) m->last_rank = u.rank[static_cast<size_t>(index)];
    m->hash ^= member(u.hashes[static_cast<size_t>(index)]);
  } else {
    std::string text = key_text(key_node);
    auto *copy = static_cast<char *>(r.arena.allocate(text.size()));
    std::memcpy(copy, text.data(), text.size());
    m->seen = with_key(r.arena, object->seen, {copy, text.size()});
    if (ordered) m->last_rank = static_cast<int64_t>(u.keys.size());
    m->hash ^= member(key_node->hash);
  }
  m->child.key = object->json->resolve(key, view(m));
  return m->child.key ? m : nullptr;
}

const Node *Automaton::close_extra_key(Reader &r, const Node *n) {
  const Node *object = n->parent;
  ObjectControl *o = object->control.object;
  KeyControl *key = n->json->only_extra_class(o);
  if (!key) key = n->json->extra_key(o, key_text(n));
  if (!key->possible) return nullptr;
  return object_after_key(r, object, key, -1, n);
}

const Node *Automaton::close_extra_key_of(Reader &r, const Node *n, uint32_t kind) {
  return object_after_key(r, n->parent, n->json->extra_key_of(n->parent->control.object, kind), -1, n);
}

const Node *Automaton::close_key(Reader &r, const Node *n) {
  const Node *object = n->parent;
  r.looked_at(object);
  const KeyUniverse &u = *object->control.object->universe;
  if (n->lo < n->hi && u.keys[n->lo].size() == n->length) {
    if (!bit(n->bits, n->lo)) return nullptr;
    return object_after_key(r, object, n->json->key(object->control.object, n->lo), n->lo, n);
  }
  if (n->text == TextSpace::DEAD || !text_.complete(n->text) || extra_seen(n)) return nullptr;
  return close_extra_key(r, n);
}

// The state in which the text of an extra key is after `length` bytes, without the keys that are there. They are taken
// out where hardly anything but them is left; everywhere else there are more texts than keys, so another one is left for
// sure, and `close_key` refuses those that are there. Where they are taken out, `seen` becomes null.
TextState Automaton::without_seen(Reader &r, const Node *object, TextState text, size_t length, const KeyTree **seen) {
  if (!*seen || text == TextSpace::DEAD) return text;
  RegexSpace &space = text_.regex();
  const std::string_view read = (*seen)->key(length);
  const uint32_t escape = text_.escape(text);
  if (escape == 0 && space.count_texts(text_.re(text)) == UINT64_MAX) return text;
  r.looked_at(object);
  charge(4);
  const uint64_t there = count_keys(*seen, read);
  const auto another = [&](Re rest) { return space.count_texts(rest) > there; };
  if (escape == 0 ? another(text_.re(text)) : text_.escape_viable(text, another)) return text;
  // Languages are told apart between characters only, so the last one that has started is read again.
  size_t whole = length;
  while (whole > 0 && (read[whole - 1] & 0xc0) == 0x80) --whole;
  if (whole > 0 && static_cast<uint8_t>(read[whole - 1]) >= 0xc0) --whole;
  std::vector<std::string> rests;
  charge(4 * there);
  each_key(*seen, read, [&](std::string_view key) { rests.emplace_back(key.substr(whole)); });
  *seen = nullptr;
  Re left = object->json->extra_keys(object->control.object, view(object));
  for (size_t i = 0; i < whole; ++i) left = space.row(left)[static_cast<uint8_t>(read[i])];
  left = space.intersect(left, space.complement(space.literals(rests)));
  for (size_t i = whole; i < length; ++i) left = space.row(left)[static_cast<uint8_t>(read[i])];
  if (left == RegexSpace::EMPTY || !space.alive(left)) return TextSpace::DEAD;
  const TextState state = text_.state(left, escape, encoding(object));
  return escape == 0 || text_.escape_viable(state, [](Re) { return true; }) ? state : TextSpace::DEAD;
}

bool Automaton::key_left(Reader &r, const Node *object) {
  if (!object->seen) return true;
  ObjectControl *o = object->control.object;
  Bits declared(o->universe->words());
  const bool extra = object->json->allowed_keys(o, view(object), declared.data());
  if (std::any_of(declared.begin(), declared.end(), [](uint64_t w) { return w != 0; })) return true;
  if (!extra) return false;
  const KeyTree *seen = object->seen;
  const Re re = object->json->extra_keys(o, view(object));
  return without_seen(r, object, text_.state(re, 0, encoding(object)), 0, &seen) != TextSpace::DEAD;
}

bool Automaton::keys_run_out(const Node *object) {
  const Re re = object->json->extra_keys(object->control.object, view(object));
  const uint64_t texts = text_.regex().count_texts(re);
  return texts != UINT64_MAX && texts <= (object->seen ? object->seen->size : 0) + text_.vocabulary().longest_token();
}

bool Automaton::meets_seen_key(const Node *n, uint8_t b) const {
  if (n->escape != 0 || b == '\\') return true;
  if (b == '"') return extra_seen(n);
  return keys_beginning_with(n->seen, std::string(n->seen->key(n->length)) + static_cast<char>(b)) != nullptr;
}

bool Automaton::extra_seen(const Node *n) const { return n->seen && has_key(n->seen, n->seen->key(n->length)); }

std::string Automaton::key_text(const Node *n) const {
  const KeyUniverse &u = *n->parent->control.object->universe;
  if (!n->link) return n->lo < n->hi ? u.keys[n->lo].substr(0, n->length) : std::string{};
  std::string out(n->link->length, '\0');
  for (const TextLink *l = n->link; l; l = l->previous) {
    if (l->base) {
      std::memcpy(out.data(), l->base, l->length);
      break;
    }
    out[l->length - 1] = static_cast<char>(l->byte);
  }
  return out;
}

const Node *Automaton::step_key(Reader &r, const Node *n, uint8_t b) {
  const Escapes mode = n->json->schema().options.escapes;
  Decoded d = decode(n->escape, b, mode);
  if (d.kind == Decoded::Dead) return nullptr;
  if (d.kind == Decoded::Quote) return close_key(r, n);
  const KeyUniverse &u = *n->parent->control.object->universe;
  TextState text = n->text == TextSpace::DEAD ? TextSpace::DEAD : text_.row(n->text)[b];
  uint32_t lo = n->lo, hi = n->hi, length = n->length;
  Hash128 hash = n->hash;
  const TextLink *link = n->link;
  const KeyTree *seen = n->seen;
  if (d.kind == Decoded::Pending) text = without_seen(r, n->parent, text, length, &seen);
  if (d.kind == Decoded::Pending && text == TextSpace::DEAD &&
      !any_continues(u, n, [&](std::string_view c) { return text_.escape_can_be(d.escape, c, mode); }))
    return nullptr;
  for (int k = 0; k < d.size; ++k) {
    const uint8_t c = d.bytes[k];
    const uint32_t before = lo;
    if (lo < hi) {
      auto at = [&](const std::string &key) { return key.size() > length ? static_cast<unsigned char>(key[length]) : -1; };
      auto first = u.keys.begin() + lo, last = u.keys.begin() + hi;
      lo = static_cast<uint32_t>(std::partition_point(first, last, [&](auto &key) { return at(key) < c; }) - u.keys.begin());
      hi = static_cast<uint32_t>(std::partition_point(first, last, [&](auto &key) { return at(key) <= c; }) - u.keys.begin());
    }
    if (lo >= hi && text != TextSpace::DEAD) {
      if (!link && length > 0) link = r.arena.make<TextLink>(TextLink{nullptr, u.keys[before].data(), length, 0});
      link = r.arena.make<TextLink>(TextLink{link, nullptr, length + 1, c});
    }
    hash = extend(hash, c);
    if (seen) seen = keys_beginning_with(seen, std::string(seen->key(length)) + static_cast<char>(c));
    ++length;
  }
  if (d.kind == Decoded::Bytes) text = without_seen(r, n->parent, text, length, &seen);
  if (d.kind == Decoded::Bytes && text == TextSpace::DEAD && !any_bit(n->bits, lo, hi)) return nullptr;
  Node *m = r.arena.make<Node>(*n);
  m->text = text;
  m->escape = d.escape;
  m->lo = lo;
  m->hi = hi;
  m->length = length;
  m->hash = hash;
  m->link = link;
  m->seen = seen;
  return m;
}

}  // namespace structgen
