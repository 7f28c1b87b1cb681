// Tokens that may follow a state inside the key of an object.
//
// Undeclared ("extra") keys come from a fragment, as if every text were an extra key that the object does not have yet.
// Then tokens along keys that the object has, and along declared keys, are corrected. Declared keys are walked through
// the sorted list of keys and the trie side by side.
#include <algorithm>
#include <map>

#include "automaton/seen_keys.h"
#include "masks/text_tokens.h"

namespace structgen {
namespace {

// Does a token hold another quote, from byte `skip` on, after the one that ends a key? It may hold a second key then.
bool may_hold_second_key(std::string_view token, size_t skip) {
  return std::count(token.begin() + static_cast<std::ptrdiff_t>(skip), token.end(), '"') > 1;
}

// The state after an extra key has the key only as far as it had been read before, so tokens with a second key are read
// one by one.
void decide_second_keys(MaskBuilder &m, const KeyFrame *n, Vocabulary::Node exit, size_t skip) {
  for (const uint32_t id : m.vocabulary.ids_within(exit))
    if (may_hold_second_key(m.vocabulary.token(id), skip)) m.decide(n, id, skip);
}

// Extra keys that match the same patterns are alike, so each kind is closed once: the most common one for all exits
// together, after which the tokens of the other kinds are corrected.
void add_exits_by_kind(MaskBuilder &m, Vocabulary::Node at, const KeyFrame *n, Fragment &f) {
  const Vocabulary &v = m.vocabulary;
  ObjectControl *control = n->object()->control;
  const size_t skip = v.depth(at);
  const std::string before = key_text(*n);
  std::map<uint32_t, std::vector<Vocabulary::Node>> kinds;
  std::vector<Vocabulary::Node> escaped;
  for (const Exit &e : f.exits) {
    const std::string path = v.path(e.node);
    if (path.find('\\', skip) != path.npos) {
      escaped.push_back(e.node);
      continue;
    }
    const std::string key = before + path.substr(skip, path.size() - skip - 1);
    kinds[n->json->objects().class_of(control, key)].push_back(e.node);
  }
  uint32_t common = 0;
  size_t most = 0;
  for (auto &[kind, exits] : kinds)
    if (exits.size() > most) most = exits.size(), common = kind;
  const bool together = at == Vocabulary::ROOT && most > 0;
  if (together) {
    if (const Frame *after = close_extra_key_of(m.ctx, *n, common)) m.add_rests(m.text.rests(f), after, 0, UNBOUNDED);
    for (uint32_t id : m.text.rests(f).singles)
      if (m.can_read(n, id, 0)) m.set(id);
  }
  for (auto &[kind, exits] : kinds) {
    if (together && kind == common) continue;
    const Frame *after = close_extra_key_of(m.ctx, *n, kind);
    for (Vocabulary::Node exit : exits) {
      for (const uint32_t id : v.ids_within(exit)) m.clear(id);
      if (!after) continue;
      m.add_from(exit, after);
      decide_second_keys(m, n, exit, skip);
    }
  }
  for (Vocabulary::Node exit : escaped)
    for (const uint32_t id : v.ids_within(exit)) m.decide(n, id, skip);
}

void add_exits(MaskBuilder &m, Vocabulary::Node at, const KeyFrame *n, Fragment &f) {
  const Vocabulary &v = m.vocabulary;
  const ObjectFrame *object = n->object();
  const size_t skip = v.depth(at);
  const auto add_one_by_one = [&](Vocabulary::Node exit) {
    for (const uint32_t id : v.ids_within(exit))
      if (m.can_read(n, id, skip)) m.set(id);
  };
  if (are_keys_running_out(m.automaton, *object)) {
    // What may follow a key depends on which keys are left.
    for (const Exit &e : f.exits) add_one_by_one(e.node);
    return;
  }
  if (f.exits.empty()) return;
  if (!n->json->objects().only_undeclared_key(object->control)) return add_exits_by_kind(m, at, n, f);
  const Frame *const after = close_extra_key(m.ctx, *n);
  if (!after) return;
  if (at == Vocabulary::ROOT) return add_exits_at_root(m, f, n, after, 0, UNBOUNDED);
  for (const Exit &e : f.exits) {
    if (v.path(e.node).find('\\', skip) != std::string::npos) {
      add_one_by_one(e.node);
      continue;
    }
    m.add_from(e.node, after);
    decide_second_keys(m, n, e.node, skip);
  }
}

// Corrects the tokens along keys that the object has. The fragment allows too much there: such a key may not close
// again, and if hardly any other key is left, only the state knows which.
void correct_seen_keys(MaskBuilder &m, Vocabulary::Node at, const KeyFrame *n) {
  const Vocabulary &v = m.vocabulary;
  const auto correct_child = [&](Vocabulary::Node child) {
    const uint8_t byte = v.byte(child);
    if (!meets_seen_key(*n, byte)) return;
    const ArenaScope scope(m.ctx.arena);
    const Frame *next = m.automaton.step(m.ctx, n, byte);
    const auto *inside = as_if<KeyFrame>(next);
    if (inside && inside->parent != n->parent) inside = nullptr;
    if (!next || (inside && inside->text != m.text.row(n->text)[byte])) {
      for (uint32_t id : v.ids_within(child)) m.clear(id);
      if (next) m.add_from(child, next);
    } else if (inside && inside->seen_extra && v.end(child) > child + 1) {
      correct_seen_keys(m, child, inside);
    }
  };
  if (at == Vocabulary::ROOT) {
    for (int b = 0; b < 256; ++b)
      if (const Vocabulary::Node child = v.root_child(static_cast<uint8_t>(b)); child != Vocabulary::NONE)
        correct_child(child);
    return;
  }
  for (Vocabulary::Node child = at + 1; child < v.end(at); child = v.end(child)) correct_child(child);
}

// Walks the declared keys that the text may still become: a range of the sorted list, narrowed byte by byte.
class DeclaredKeys {
 public:
  DeclaredKeys(MaskBuilder &m, const KeyFrame &state, bool has_extra_keys)
      : m_(m),
        v_(m.vocabulary),
        state_(state),
        keys_(state.object()->control->universe->keys),
        has_extra_keys_(has_extra_keys) {}

  // Adds the tokens below `at`, where the keys from `lo` to `hi` agree with the text in the first `length` bytes.
  void add(Vocabulary::Node at, uint32_t lo, uint32_t hi, uint32_t length) {
    // Where any text may be a key, the fragment has all tokens that begin an escape; elsewhere only its own.
    if (!has_extra_keys_ || m_.text.re(state_.text) != RegexSpace::ANY_TEXT)
      if (const Vocabulary::Node n = v_.child(at, '\\'); n != Vocabulary::NONE) step_to(n, lo, hi, length, true);
    uint32_t i = lo;
    if (keys_[lo].size() == length) {
      ++i;
      if (const Vocabulary::Node n = v_.child(at, '"'); n != Vocabulary::NONE) {
        if (has_extra_keys_)
          for (const uint32_t id : v_.ids_within(n)) m_.clear(id);
        step_to(n, lo, hi, length, false);
      }
    }
    while (i < hi) {
      charge();
      const uint32_t first = i;
      const auto b = static_cast<uint8_t>(keys_[first][length]);
      const auto others = std::partition_point(keys_.begin() + first, keys_.begin() + hi, [&](const std::string &key) {
        return static_cast<unsigned char>(key[length]) == b;
      });
      i = static_cast<uint32_t>(others - keys_.begin());
      if (b < 0x20 || b == '"' || b == '\\') continue;  // written as an escape
      const Vocabulary::Node n = v_.child(at, b);
      if (n == Vocabulary::NONE) continue;
      bool any = false;
      for (uint32_t k = first; k < i && !any; ++k) any = bit(state_.allowed, k);
      // With extra keys, seen keys stay in the walk: the fragment allowed to close them, which must be corrected.
      if (!any && !has_extra_keys_) continue;
      if (any) m_.set_all(v_.ids(n));
      if (v_.end(n) > n + 1) add(n, first, i, length + 1);
    }
  }

 private:
  // Adds the tokens of `to` and below, from a state with this range of keys. `is_declared`: the key is not an extra
  // one.
  void step_to(Vocabulary::Node to, uint32_t lo, uint32_t hi, uint32_t length, bool is_declared) {
    const ArenaScope scope(m_.ctx.arena);
    KeyFrame key = state_;
    key.match_begin = lo;
    key.match_end = hi;
    key.length = length;
    if (is_declared) key.text = TextSpace::DEAD;
    if (const Frame *after = m_.automaton.step(m_.ctx, &key, v_.byte(to))) m_.add_from(to, after);
  }

  MaskBuilder &m_;
  const Vocabulary &v_;
  const KeyFrame &state_;
  const std::vector<std::string> &keys_;
  const bool has_extra_keys_;
};

}  // namespace

void add_key_tokens(MaskBuilder &m, Vocabulary::Node at, const KeyFrame *n) {
  if (m.grammar.is_running()) {
    const SeparateMask separate(m);  // tokens along seen keys are cleared again
    return add_key_tokens(m, at, n);
  }
  m.ctx.depends_on(n->object());
  if (n->escape != 0) return m.add_by_bytes(at, n);
  const bool has_extra_keys = n->text != TextSpace::DEAD;
  if (has_extra_keys) {
    Fragment &f = m.text.fragment(at, n->text);
    add_inside(m, f);
    const ArenaScope scope(m.ctx.arena);
    add_exits(m, at, n, f);
    if (n->seen_extra) correct_seen_keys(m, at, n);
  }
  if (n->match_begin < n->match_end)
    DeclaredKeys(m, *n, has_extra_keys).add(at, n->match_begin, n->match_end, n->length);
}

}  // namespace structgen
