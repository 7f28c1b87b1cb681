#include "json/control/object_frames.h"

#include <algorithm>
#include <bit>

#include "json/control/allowed_keys.h"
#include "util/undo.h"

namespace structgen {
namespace {

constexpr size_t MAX_RESOLVED = 50'000;        // keys that are memoised
constexpr size_t MAX_ALLOWED_WORDS = 4 << 20;  // of memoised sets of keys

uint64_t count_unseen(const Bits &keys, const ObjectView &view) {
  uint64_t n = 0;
  for (size_t i = 0; i < keys.size(); ++i) n += static_cast<uint64_t>(std::popcount(keys[i] & ~view.seen[i]));
  return n;
}

void clear_bit(uint64_t *words, uint32_t i) { words[i >> 6] &= ~(uint64_t{1} << (i & 63)); }

// Simple frames without an order are looked at by words of 64 keys, all others key by key.
void charge_keys(const ObjectControl &o, bool ordered) {
  const size_t keys = o.universe->keys.size();
  charge(1 + (o.simple && !ordered ? keys / 64 : keys / 8));
}

}  // namespace

// ---------------------------------------------------------------- keys

KeyControl *ObjectFrames::key(ObjectControl *o, uint32_t index) {
  auto &slot = o->keys[index];
  if (!slot) {
    const std::string &key = o->universe->keys[index];
    ObjectControl *frame = controls_.with_key_named(o, key);
    const Groups relevant = tables_.keys.relevant_groups(key, frame->groups, frame->open);
    slot = children_.make<ObjectControl>(
        frame, {relevant, [&](SchemaId group) { return tables_.keys.requirement(group, key); },
                [&](ObligationId obligation) { return controls_.control(obligation, o->universe); }});
  }
  return slot.get();
}

KeyControl *ObjectFrames::undeclared_key(ObjectControl *o, std::string_view key) {
  return key_of_class(o, controls_.class_of(*o, key));
}

KeyControl *ObjectFrames::key_of_class(ObjectControl *o, KeyClass of) {
  if (auto it = o->extras.find(of); it != o->extras.end()) return it->second.get();
  auto made = children_.make<ObjectControl>(
      o, {o->open, [&](SchemaId group) { return controls_.requirement(group, *o, of); },
          [&](ObligationId obligation) { return controls_.control(obligation, o->universe); }});
  return (o->extras[of] = std::move(made)).get();
}

KeyControl *ObjectFrames::only_undeclared_key(ObjectControl *o) {
  return o->patterns.empty() ? undeclared_key(o, "") : nullptr;
}

KeyControl *ObjectFrames::resolve(KeyControl *key, const ObjectView &view) {
  if (!key->possible) return nullptr;
  if (key->child) return key;
  Hash128 read = hash_words(4, reinterpret_cast<uintptr_t>(key), view.count, view.last_rank);
  for (uint32_t w = 0; w < key->frame->universe->words(); ++w) read = extend(read, view.seen[w]);
  if (auto it = resolved_.find(read); it != resolved_.end()) return it->second;
  const std::optional<Formula> known = oracle_.branches().object_verdicts(key->frame, key->undecided, view);
  KeyControl *found = children_.resolve(key, known, [&](const Holds &holds) {
    const ObligationId obligation = tables_.obligations.after(key->frame->obligation, key->undecided, holds);
    return oracle_.objects().live(controls_.control(obligation, key->frame->universe), view);
  });
  if (resolved_.size() > MAX_RESOLVED) resolved_.clear();
  return resolved_[read] = found;
}

ObjectControl *ObjectFrames::after(ObjectControl *o, const GroupRoots &group_roots, const Holds &holds) {
  if (group_roots.empty()) return o;
  const ObligationId after = tables_.obligations.after(o->obligation, group_roots, holds);
  return after == o->obligation ? o : controls_.control(after, o->universe);
}

// ---------------------------------------------------------------- keys that have values

void ObjectFrames::prepare(ObjectControl *o) {
  charge();
  if (o->prepared) return;
  charge(o->universe->keys.size());
  o->prepared = true;
  Undo undo([&] {  // a limit ended it
    o->prepared = o->impossible = false;
    o->usable.clear();
  });
  prepare_declared(o);
  prepare_undeclared(o);
  undo.keep_if(true);
}

void ObjectFrames::prepare_declared(ObjectControl *o) {
  const KeyUniverse &u = *o->universe;
  o->usable.resize(u.words());
  if (!o->simple) return;
  for (uint32_t i = 0; i < u.keys.size(); ++i) {
    if (oracle_.can_hold(tables_.keys.requirement(u.keys[i], o->groups, o->open))) set_bit(o->usable.data(), i);
    else if (bit(o->required.data(), i)) o->impossible = true;
  }
}

void ObjectFrames::prepare_undeclared(ObjectControl *o) {
  std::vector<Re> possible;
  bool all = true;
  for (auto &[of, re] : controls_.classes(o)) {
    if (o->simple ? oracle_.can_hold(controls_.requirement(o->open, *o, of)) : oracle_.objects().class_possible(o, of))
      possible.push_back(re);
    else all = false;
  }
  if (all) {
    o->extra = RegexSpace::ANY_TEXT;
  } else if (!possible.empty()) {
    RegexSpace &space = tables_.regex();
    Re re = space.alternate(possible);
    const std::vector<std::string> &declared = o->universe->keys;
    if (!declared.empty()) re = space.intersect(re, space.complement(space.literals(declared)));
    o->extra = space.alive(re) ? re : RegexSpace::EMPTY;
  }
}

// ---------------------------------------------------------------- liveness

bool ObjectFrames::live(ObjectControl *o, const ObjectView &view) {
  charge_keys(*o, is_ordered());
  if (!o->simple) return oracle_.objects().live(o, view);
  prepare(o);
  // subtle: the oracle also makes simple frames of one way to satisfy another frame; their groups may contradict one
  // another.
  if (o->impossible || o->min > o->max || view.count > o->max) return false;
  const uint64_t required = count_unseen(o->required, view);
  if (required > 0 && is_ordered() && has_passed_required_key(*o, view)) return false;
  if (view.count + required > o->max) return false;
  if (view.count + required >= o->min) return true;
  uint64_t free = undeclared_left(*o, view);
  if (free == UINT64_MAX) return true;
  const KeyUniverse &u = *o->universe;
  charge(u.keys.size() / 8);
  for (uint32_t i = 0; i < u.keys.size(); ++i)
    free += bit(o->usable.data(), i) && !bit(view.seen, i) &&
            !(is_ordered() && static_cast<int64_t>(u.rank[i]) <= view.last_rank);
  return view.count + free >= o->min;
}

bool ObjectFrames::has_passed_required_key(const ObjectControl &o, const ObjectView &view) const {
  const KeyUniverse &u = *o.universe;
  for (uint32_t r = 0; r < u.keys.size() && static_cast<int64_t>(r) <= view.last_rank; ++r)
    if (bit(o.required.data(), u.by_rank[r]) && !bit(view.seen, u.by_rank[r])) return true;
  return false;
}

// In a simple frame all undeclared keys that were read are in the language of those that may come.
uint64_t ObjectFrames::undeclared_left(const ObjectControl &o, const ObjectView &view) {
  const uint64_t texts = controls_.count_keys(o.extra);
  if (texts == UINT64_MAX) return texts;
  uint64_t declared = 0;
  for (uint32_t w = 0; w < o.universe->words(); ++w) declared += static_cast<uint64_t>(std::popcount(view.seen[w]));
  const uint64_t read = view.count - declared;
  return texts > read ? texts - read : 0;
}

// ---------------------------------------------------------------- allowed keys

bool ObjectFrames::allowed_keys(ObjectControl *o, const ObjectView &view, uint64_t *allowed) {
  charge_keys(*o, is_ordered());
  prepare(o);
  if (o->simple) return allowed_in_simple(o, view, allowed);
  const Hash128 frame = ObjectSearch::hash_of(*o, view, nullptr);
  auto known = allowed_.find(frame);
  if (known == allowed_.end()) {
    AllowedKeys found = find_allowed_keys(tables_, oracle_, *this, o, view);
    if ((allowed_.size() + 1) * (found.declared.size() + 8) > MAX_ALLOWED_WORDS) allowed_.clear();
    known = allowed_.emplace(frame, std::move(found)).first;
  }
  std::copy(known->second.declared.begin(), known->second.declared.end(), allowed);
  return known->second.undeclared && o->extra != RegexSpace::EMPTY;
}

bool ObjectFrames::allowed_in_simple(ObjectControl *o, const ObjectView &view, uint64_t *allowed) {
  const uint32_t words = o->universe->words();
  for (uint32_t i = 0; i < words; ++i) allowed[i] = 0;
  if (o->impossible || view.count >= o->max) return false;
  const uint64_t required = count_unseen(o->required, view);
  const bool room = view.count + 1 + required <= o->max;  // for a key that is not required
  for (uint32_t i = 0; i < words; ++i)
    allowed[i] = (room ? o->usable[i] : o->required[i] & o->usable[i]) & ~view.seen[i];
  bool undeclared = room && o->extra != RegexSpace::EMPTY;
  if (!is_ordered()) return undeclared;
  undeclared = !drop_keys_out_of_order(*o, view, allowed) && undeclared;
  if (o->min <= view.count + required || undeclared_left(*o, view) == UINT64_MAX) return undeclared;
  drop_keys_that_skip_too_many(o, view, allowed);
  return undeclared && live(o, {view.seen, view.count + 1, static_cast<int64_t>(o->universe->keys.size())});
}

// Keys come by rank, and none may pass one that is required. True: no undeclared key may come either.
bool ObjectFrames::drop_keys_out_of_order(const ObjectControl &o, const ObjectView &view, uint64_t *allowed) {
  const KeyUniverse &u = *o.universe;
  bool stop = false;
  for (uint32_t r = 0; r < u.keys.size(); ++r) {
    const uint32_t i = u.by_rank[r];
    if (stop || static_cast<int64_t>(r) <= view.last_rank) clear_bit(allowed, i);
    else if (bit(o.required.data(), i) && !bit(view.seen, i)) stop = true;
  }
  return stop;
}

// Keys that are passed over may be missed for `minProperties`.
void ObjectFrames::drop_keys_that_skip_too_many(ObjectControl *o, const ObjectView &view, uint64_t *allowed) {
  const KeyUniverse &u = *o->universe;
  for (uint32_t r = 0; r < u.keys.size(); ++r) {
    const uint32_t i = u.by_rank[r];
    if (!bit(allowed, i)) continue;
    Bits seen(view.seen, view.seen + u.words());
    set_bit(seen.data(), i);
    if (!live(o, {seen.data(), view.count + 1, static_cast<int64_t>(r)})) clear_bit(allowed, i);
  }
}

bool ObjectFrames::any_key_allowed(ObjectControl *o, const ObjectView &view) {
  constexpr uint32_t FEW_WORDS = 16;
  uint64_t few[FEW_WORDS];
  Bits many;
  uint64_t *allowed = few;
  if (o->universe->words() > FEW_WORDS) {
    many.resize(o->universe->words());
    allowed = many.data();
  }
  if (allowed_keys(o, view, allowed)) return true;
  return std::any_of(allowed, allowed + o->universe->words(), [](uint64_t w) { return w != 0; });
}

Re ObjectFrames::allowed_undeclared_keys(ObjectControl *o, const ObjectView &view) {
  if (o->simple || o->patterns.empty()) return o->extra;
  RegexSpace &space = tables_.regex();
  std::vector<Re> allowed;
  bool all = true;
  for (auto &[of, re] : std::vector<std::pair<KeyClass, Re>>(controls_.classes(o))) {
    if (oracle_.objects().class_allowed(o, view, of)) allowed.push_back(re);
    else all = false;
  }
  if (all) return o->extra;
  const Re re = space.intersect(o->extra, space.alternate(allowed));
  return space.alive(re) ? re : RegexSpace::EMPTY;
}

std::vector<std::string> ObjectFrames::undeclared_key_examples(ObjectControl *o) {
  RegexSpace &space = tables_.regex();
  const std::vector<std::string> &declared = o->universe->keys;
  std::vector<std::string> out;
  for (auto &[of, re] : std::vector<std::pair<KeyClass, Re>>(controls_.classes(o))) {
    const Re undeclared = declared.empty() ? re : space.intersect(re, space.complement(space.literals(declared)));
    std::string text;
    if (space.witness(undeclared, &text)) out.push_back(std::move(text));
  }
  return out;
}

// ---------------------------------------------------------------- completions

std::optional<ObjectCompletion> ObjectFrames::complete(ObjectControl *o, const ObjectView &view, int64_t key) {
  if (key < 0) return oracle_.objects().complete(o, view, nullptr);
  const NextKey next{false, 0, o->universe->keys[static_cast<size_t>(key)]};
  return oracle_.objects().complete(o, view, &next);
}

bool ObjectFrames::has_many_values(ObjectControl *o, const ObjectView &view, std::optional<OpenKey> open, uint64_t n,
                                   bool whole_keys) {
  if (!o->simple) return false;
  prepare(o);
  const KeyUniverse &u = *o->universe;
  const uint64_t keys = 1 + open.has_value() + count_unseen(o->required, view);
  if (o->impossible || (o->max != UNBOUNDED && view.count + keys > o->max)) return false;
  if (o->extra != RegexSpace::EMPTY && o->patterns.empty() && undeclared_left(*o, view) == UINT64_MAX) return true;
  for (uint32_t i = 0; i < u.keys.size(); ++i) {
    charge();
    if (!bit(o->usable.data(), i) || bit(view.seen, i)) continue;
    if (is_ordered() && !bit(o->required.data(), i)) continue;  // a later key may come first
    KeyControl *k = key(o, i);
    if (!k->possible || !k->child) continue;
    // The key that is being read may be this one; its value is then still to come.
    const bool may_be_open = whole_keys && open && open->first <= i && i < open->last;
    if (may_be_open ? k->child->is_any_string() : counts_.has_many(k->child->obligation, n)) return true;
  }
  return false;
}

}  // namespace structgen
