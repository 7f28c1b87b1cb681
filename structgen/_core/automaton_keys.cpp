// Keys of objects, byte by byte: declared keys are a range of the sorted universe, all others run
// through the language of extra keys; a key closes once in an object, however it is spelled.
#include <algorithm>
#include <cstring>

#include "automaton.h"
#include "json_space.h"

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
    // A language of extra keys that patterns restrict loses the keys already there.
    if (re != RegexSpace::ANY_TEXT)
      for (const SeenKey *s = object->extras; s; s = s->previous)
        re = text_.regex().intersect(re, text_.regex().complement(text_.regex().literal({s->text, s->length})));
    if (re == RegexSpace::ANY_TEXT || text_.regex().alive(re)) k->text = text_.state(re, 0, encoding(object));
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
    m->extras = r.arena.make<SeenKey>(SeenKey{object->extras, copy, static_cast<uint32_t>(text.size()), key_node->hash});
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
  if (n->text == TextSpace::DEAD || !text_.complete(n->text) || extra_seen(object, n->hash)) return nullptr;
  return close_extra_key(r, n);
}

// Where keys have an order, those of a pattern with few texts are no declared ones, and may all be there.
bool Automaton::key_left(const Node *object) {
  ObjectControl *o = object->control.object;
  RegexSpace &space = text_.regex();
  if (!object->extras || !object->json->schema().options.ordered || o->extra == RegexSpace::ANY_TEXT ||
      space.has_length(o->extra, LONG_KEY, -1))
    return true;
  Bits declared(o->universe->words());
  object->json->allowed_keys(o, view(object), declared.data());
  if (std::any_of(declared.begin(), declared.end(), [](uint64_t w) { return w != 0; })) return true;
  std::vector<std::string> there;
  for (const SeenKey *s = object->extras; s; s = s->previous) there.emplace_back(s->text, s->length);
  return space.alive(space.intersect(o->extra, space.complement(space.literals(there))));
}

bool Automaton::extra_seen(const Node *object, const Hash128 &hash) const {
  charge();
  for (const SeenKey *s = object->extras; s; s = s->previous)
    if (s->hash == hash) return true;
  return false;
}

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
  if (d.kind == Decoded::Pending && text == TextSpace::DEAD &&
      !any_continues(u, n, [&](std::string_view c) { return escape_can_be(d.escape, c, mode, text_.vocabulary().spellable()); }))
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
    ++length;
  }
  if (d.kind == Decoded::Bytes && text == TextSpace::DEAD && !any_bit(n->bits, lo, hi)) return nullptr;
  Node *m = r.arena.make<Node>(*n);
  m->text = text;
  m->escape = d.escape;
  m->lo = lo;
  m->hi = hi;
  m->length = length;
  m->hash = hash;
  m->link = link;
  return m;
}

}  // namespace structgen
