#include "masks/masks.h"

#include <algorithm>
#include <bit>
#include <map>

#include "automaton/seen_keys.h"
#include "text/json_space.h"
#include "util/bits.h"
#include "util/stack.h"

namespace structgen {
namespace {

// Below this many trie nodes a walk beats looking up a fragment.
constexpr uint32_t SMALL_SUBTREE = 12;

// Does white space of a flexible layout begin here, between JSON tokens?
bool begins_flexible_gap(const Frame *n) {
  if (!is<ValueFrame>(n) && !is<ContainerFrame>(n)) return false;
  const auto *json = as<JsonFrame>(n);
  return json->space == 0 && json->options().whitespace == Whitespace::Flexible;
}

}  // namespace

std::shared_ptr<const Mask> Masks::mask(Arena &arena, const Frame *node) {
  StepContext bound{arena};
  a_.limit_mask_work(bound);
  work_left_ = bound.work_left;
  return of_reading(arena, node);
}

std::shared_ptr<const Mask> Masks::of_reading(Arena &arena, const Frame *node) {
  if (is<AlternativesFrame>(node)) {
    // What is allowed is allowed by one of the readings; each has a mask of its own to be remembered.
    auto all = new_mask(text_.mask_pool());
    each_alternative(node, [&](const Frame *one) { all->add(*of_reading(arena, one)); });
    return all;
  }
  if (const auto *grammar = as_if<GrammarFrame>(node)) return of_grammar(arena, grammar);
  std::shared_ptr<const Mask> made = blind(arena, node);
  return may_repeat(node) ? without_repeats(arena, node, std::move(made)) : made;
}

std::shared_ptr<const Mask> Masks::blind(Arena &arena, const Frame *node) {
  {
    Hash128 h = a_.signature(node);
    for (const Frame *f = node;;) {
      auto it = cache_.find(h);
      if (it == cache_.end()) break;
      if (it->second.mask) {
        ++hits_;
        return it->second.mask;
      }
      f = f->parent;
      h = extend(h, f ? a_.signature(f) : hash_words(10));
    }
  }
  ++misses_;
  int32_t lowest = INT32_MAX;
  std::shared_ptr<const Mask> made = compute(arena, node, &lowest);
  text_.make_room();
  if (lowest == LEANED) return made;
  if (bytes_ > text_.limits().mask_cache_bytes) {
    cache_.clear();
    bytes_ = 0;
  }
  Hash128 h = a_.signature(node);
  const Frame *f = node;
  while (f && f->depth > lowest) {
    charge();
    cache_.try_emplace(h);
    bytes_ += 64;
    f = f->parent;
    h = extend(h, f ? a_.signature(f) : hash_words(10));
  }
  bytes_ += v_.words() * 4 + 128;
  cache_[h].mask = made;
  return made;
}

std::shared_ptr<const Mask> Masks::compute(Arena &arena, const Frame *node, int32_t *lowest) {
  forget_places();  // those of a mask that met a limit
  StepContext ctx{arena};
  a_.limit_mask_work(ctx);
  ctx.work_left = work_left_;
  ctx.ignore_seen_items = true;
  ctx_ = &ctx;
  Arena::Mark mark = arena.mark();
  arena.prepare();
  auto made = new_mask(text_.mask_pool());
  out_ = made->data();
  below(Vocabulary::ROOT, node);
  if (ctx.may_repeat_items && !may_repeat(node)) {
    // Tokens that hold a whole array may repeat an item in it.
    ctx.ignore_seen_items = false;
    const bool leaned = ctx.used_item_text;
    for (uint32_t id : text_.ending_tokens(a_.writes_lines()).all)
      if (made->test(id) && !token_allowed(node, id, 0)) clear(id);
    ctx.used_item_text = leaned;  // on items of the token itself
  }
  token_sets(node);
  made->complete = a_.accepts(ctx, node);
  if (made->complete)
    for (uint32_t id : v_.eos_ids()) set(id);
  forget_places();
  arena.release(mark);
  work_left_ = ctx.work_left;
  *lowest = ctx.used_item_text ? LEANED : ctx.lowest_depth;
  ctx_ = nullptr;
  return made;
}

void Masks::below(Vocabulary::Node at, const Frame *node) {
  check_stack("a token is too long");
  // subtle: also at a small root, since only these functions check that tokens can complete the text.
  if (at == Vocabulary::ROOT || v_.end(at) - at > SMALL_SUBTREE) switch (node->kind) {
      case FrameKind::String: return string_below(at, as<StringFrame>(node));
      case FrameKind::Key: return key_below(at, as<KeyFrame>(node));
      case FrameKind::Scalar: return scalar_below(at, as<ScalarFrame>(node));
      case FrameKind::Grammar: return walk_from(at, node);
      default: break;
    }
  walk(at, node);
}

// Tokens that begin with white space. What comes after it does not depend on how much there is.
void Masks::blanks_before(const JsonFrame *node) {
  const GapTokens &gap = text_.gap_tokens(node->options());
  charge(gap.blank.size() / 4);
  for (const uint32_t id : gap.blank) set(id);
  read_rests(gap.rests, 0, node, [&](uint32_t n) {
    for (uint32_t i = gap.rests.first_item[n]; i < gap.rests.first_item[n + 1]; ++i) set(gap.rests.items[i].id);
  });
}

void Masks::walk(Vocabulary::Node at, const Frame *node) {
  const std::bitset<256> candidates = a_.candidates(node);
  const auto child = [&](Vocabulary::Node n) {
    Branch branch(*this);
    if (const Frame *next = a_.step(*ctx_, node, v_.byte(n))) from_exit(n, next);
  };
  if (at == Vocabulary::ROOT) {
    const bool gap = begins_flexible_gap(node);
    if (gap) blanks_before(as<JsonFrame>(node));
    for (int b = 0; b < 256; ++b)
      if (candidates.test(b) && !(gap && is_space(static_cast<uint8_t>(b))) && v_.root_child(static_cast<uint8_t>(b)) != Vocabulary::NONE)
        child(v_.root_child(static_cast<uint8_t>(b)));
    return;
  }
  for (const Vocabulary::Child *c = v_.children(at); !c->is_end; ++c)
    if (candidates.test(c->byte)) child(c->node);
}

bool Masks::token_allowed(const Frame *node, uint32_t id, size_t skip) {
  charge();
  Arena::Mark mark = ctx_->arena.mark();
  const std::string_view t = v_.token(id);
  for (size_t i = skip; i < t.size() && node; ++i) node = a_.step(*ctx_, node, static_cast<uint8_t>(t[i]));
  ctx_->arena.release(mark);
  return node != nullptr;
}

// The exit's own byte closes the text of a string: it has been read when `after` holds.
void Masks::from_exit(Vocabulary::Node exit, const Frame *after) {
  for (uint32_t id : v_.ids(exit)) set(id);
  if (v_.end(exit) > exit + 1) below(exit, after);
}

void Masks::rests(const RestTrie &trie, const Frame *after, uint64_t least, uint64_t most) {
  auto emit = [&](uint32_t n) {
    for (uint32_t i = trie.first_item[n]; i < trie.first_item[n + 1]; ++i)
      if (trie.items[i].characters >= least && trie.items[i].characters <= most) set(trie.items[i].id);
  };
  emit(0);
  read_rests(trie, 0, after, emit);
}

void Masks::inside(const Fragment &f) {
  charge(f.bits.empty() ? f.ids.size() / 4 : v_.words() / 16);
  if (f.bits.empty())
    for (uint32_t id : f.ids) set(id);
  else
    add_bits(out_, f.bits.data(), v_.words());
}

// Tokens that end in one state after as many characters are alike: some text of a length within bounds goes on from there.
void Masks::inside_by_end(const Fragment &f, uint64_t least, uint64_t most) {
  enum : uint8_t { Unknown, No, Yes };
  std::vector<uint8_t> verdicts;
  for (const TokensByEnd &group : *f.by_end) {
    verdicts.clear();
    const auto fits = [&](uint32_t characters) {
      if (characters > most) return false;
      const auto lo = static_cast<int64_t>(least > characters ? least - characters : 0);
      const int64_t hi = most == UNBOUNDED ? -1 : static_cast<int64_t>(most - characters);
      const auto has_length = [&](Re rest) { return text_.regex().has_length(rest, lo, hi); };
      return text_.escape(group.end) == 0 ? has_length(text_.re(group.end)) : text_.escape_viable(group.end, has_length);
    };
    if (group.kinds && fits(group.characters)) {
      charge(v_.words() / 16);
      add_bits(out_, group.kinds->by_length[group.characters].data(), v_.words());
    }
    charge(1 + group.tokens.size() / 16);
    for (const auto [id, characters] : group.tokens) {
      if (verdicts.size() <= characters) verdicts.resize(characters + 1, Unknown);
      uint8_t &verdict = verdicts[characters];
      if (verdict == Unknown) verdict = fits(characters) ? Yes : No;
      if (verdict == Yes) set(id);
    }
  }
}

// Tokens that stay inside a string of any characters, at most so many of them. It can be drawn out to any length.
void Masks::inside_any(Vocabulary::Node at, const StringFrame *n, const Fragment &f, uint64_t most) {
  if (!f.dense) {
    for (size_t i = 0; i < f.ids.size(); ++i)
      if (f.characters[i] <= most) set(f.ids[i]);
    return;
  }
  const std::vector<uint32_t> &within = text_.at_most_characters(static_cast<uint32_t>(std::min<uint64_t>(most, UINT32_MAX)));
  charge(v_.words() / 16);
  for (uint32_t w = 0; w < v_.words(); ++w) out_[w] |= f.bits[w] & within[w];
  // An escape has more characters in a token than it adds to the text.
  const auto try_token = [&](uint32_t id) {
    const bool is_open = (f.bits[id >> 5] >> (id & 31) & 1) != 0 && (out_[id >> 5] >> (id & 31) & 1) == 0;
    if (is_open && token_allowed(n, id, v_.depth(at))) set(id);
  };
  if (text_.escape(n->text) == 0) {
    for (const uint32_t id : text_.escaped_tokens()) try_token(id);
    return;
  }
  for (uint32_t w = 0; w < v_.words(); ++w)
    for (uint32_t rest = f.bits[w] & ~out_[w]; rest; rest &= rest - 1) try_token(w * 32 + static_cast<uint32_t>(std::countr_zero(rest)));
}

// Does every token that stays inside the text leave room for the rest of it?
bool Masks::fits_surely(TextState s, uint64_t most) {
  if (text_.escape(s) != 0 || text_.re(s) == RegexSpace::ANY_TEXT) return false;
  const int64_t missing = text_.regex().most_missing(text_.re(s));
  return missing >= 0 && text_.longest_characters() + static_cast<uint64_t>(missing) <= most;
}

void Masks::string_below(Vocabulary::Node at, const StringFrame *n) {
  const StringLanguage &language = n->control->string;
  const uint64_t least = language.min > n->length ? language.min - n->length : 0;
  const uint64_t most = language.max == UNBOUNDED ? UNBOUNDED : language.max - n->length;
  const bool any = text_.re(n->text) == RegexSpace::ANY_TEXT;
  const size_t skip = v_.depth(at);
  const bool started = least == 0 || (least == 1 && n->length == 0);  // any character is enough for minLength
  const bool free = most == UNBOUNDED && (least == 0 || any);
  // Texts inside: all of the fragment where the length cannot matter, the others by their characters.
  const auto name_fits = [&] {
    if (at != Vocabulary::ROOT || !text_.reads_host_names(n->text)) return false;
    return static_cast<uint64_t>(text_.fragment(at, n->text).needs) <= most;
  };
  const bool fits = free || (started && (fits_surely(n->text, most) || name_fits()));
  const bool by_end = !fits && !any;
  Fragment &f = text_.fragment(at, n->text, by_end);
  if (fits || (by_end && text_.escape(n->text) == 0 && started && most != UNBOUNDED &&
               static_cast<uint64_t>(text_.needs(f)) <= most))
    inside(f);
  else if (by_end)
    inside_by_end(f, least, most);
  else
    inside_any(at, n, f, most);
  if (f.exits.empty()) return;
  if (n->root_states || excludes_seen_values(*n)) {
    // What the text gives depends on the text: close each way on its own.
    for (const Exit &e : f.exits) {
      Branch branch(*this);
      const Frame *s = n;
      const Vocabulary::Node first = e.node;
      std::string path = v_.path(first);
      for (size_t i = skip; i < path.size() && s; ++i) s = a_.step(*ctx_, s, static_cast<uint8_t>(path[i]));
      if (s) from_exit(first, s);
    }
    return;
  }
  Branch branch(*this);
  ctx_->item_text = n->item_text;
  if (const Frame *after = a_.finish(*ctx_, n->parent)) {
    if (at == Vocabulary::ROOT) {
      const RestTrie &trie = text_.rests(f);
      rests(trie, after, least, most);
      for (uint32_t id : trie.singles)
        if (token_allowed(n, id, 0)) set(id);
    } else {
      for (const Exit &e : f.exits)
        if (e.characters >= least && e.characters <= most) from_exit(e.node, after);
    }
  }
}

// Of a text after which another constraint may go on at any byte: tokens that stay inside it are taken together, the others one
// by one where they are few, as in free text. False: they are not.
bool Masks::text_below(Vocabulary::Node at, const ScalarFrame *n) {
  constexpr size_t FEW = 16;  // and one in so many
  if (n->root_states || excludes_seen_values(*n)) return false;
  inside(text_.fragment(at, n->text));
  ctx_->depends_on(n->parent);
  const std::span<const uint32_t> ids = v_.ids_within(at).subspan(v_.ids(at).size());
  std::vector<uint32_t> others;
  charge(ids.size() / 32);
  for (const uint32_t id : ids) {
    if (out_[id >> 5] >> (id & 31) & 1) continue;
    others.push_back(id);
    if (others.size() > FEW + ids.size() / FEW) return false;
  }
  for (const uint32_t id : others)
    if (token_allowed(n, id, v_.depth(at))) set(id);
  return true;
}

void Masks::scalar_below(Vocabulary::Node at, const ScalarFrame *n) {
  if (n->root_states || excludes_seen_values(*n)) return walk(at, n);
  if (is_open_ended(n)) {
    if (!text_below(at, n)) walk(at, n);
    return;
  }
  const Fragment &f = text_.fragment(at, n->text);
  inside(f);
  if (!n->parent && !v_.closed_under_bytes()) {
    // Some bytes occur only inside longer tokens: a token must leave a text that tokens can complete.
    charge(v_.words() / 16);
    for (uint32_t w = 0; w < v_.words(); ++w)
      for (uint32_t rest = out_[w]; rest; rest &= rest - 1) {
        const uint32_t id = w * 32 + static_cast<uint32_t>(std::countr_zero(rest));
        TextState s = n->text;
        for (unsigned char c : v_.token(id).substr(v_.depth(at))) s = text_.row(s)[c];
        if (!text_.spellable(s)) clear(id);
      }
  }
  ctx_->depends_on(n->parent);
  if (f.exits.empty() || !n->parent) return;
  Branch branch(*this);
  ctx_->item_text = n->item_text;
  if (const Frame *after = a_.finish(*ctx_, n->parent)) {
    const std::bitset<256> candidates = a_.candidates(after);
    for (const Exit &e : f.exits) {
      if (!candidates.test(v_.byte(e.node))) continue;
      Branch inner(*this);
      if (const Frame *next = a_.step(*ctx_, after, v_.byte(e.node))) from_exit(e.node, next);
    }
  }
}

// Extra keys that match the same patterns are alike, so each kind is closed once: the most common one
// for all exits together, and the others put right after it.
void Masks::extra_kinds(Vocabulary::Node at, const KeyFrame *n, Fragment &f) {
  ObjectControl *control = n->object()->control;
  const size_t skip = v_.depth(at);
  const std::string before = key_text(*n);
  std::map<uint32_t, std::vector<Vocabulary::Node>> kinds;
  std::vector<Vocabulary::Node> escaped;
  for (const Exit &e : f.exits) {
    const std::string path = v_.path(e.node);
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
    if (const Frame *after = close_extra_key_of(*ctx_, *n, common)) rests(text_.rests(f), after, 0, UNBOUNDED);
    for (uint32_t id : text_.rests(f).singles)
      if (token_allowed(n, id, 0)) set(id);
  }
  auto each_token = [&](Vocabulary::Node exit, auto act) {
    for (Vocabulary::Node m = exit; m < v_.end(exit); ++m)
      for (uint32_t id : v_.ids(m)) act(id);
  };
  for (auto &[kind, exits] : kinds) {
    if (together && kind == common) continue;
    const Frame *after = close_extra_key_of(*ctx_, *n, kind);
    for (Vocabulary::Node exit : exits) {
      each_token(exit, [&](uint32_t id) { clear(id); });
      if (!after) continue;
      from_exit(exit, after);
      // As in `key_below`.
      each_token(exit, [&](uint32_t id) {
        const std::string_view t = v_.token(id);
        if (std::count(t.begin() + static_cast<std::ptrdiff_t>(skip), t.end(), '"') <= 1) return;
        if (token_allowed(n, id, skip)) set(id);
        else clear(id);
      });
    }
  }
  for (Vocabulary::Node exit : escaped)
    each_token(exit, [&](uint32_t id) {
      if (token_allowed(n, id, skip)) set(id);
      else clear(id);
    });
}

// Along the keys that are there already the fragment allows too much: such a key may not close again, and where hardly
// another one is left, the state knows which.
void Masks::seen_keys_below(Vocabulary::Node at, const KeyFrame *n) {
  auto child = [&](Vocabulary::Node m) {
    const uint8_t byte = v_.byte(m);
    if (!meets_seen_key(*n, byte)) return;
    Arena::Mark mark = ctx_->arena.mark();
    const Frame *next = a_.step(*ctx_, n, byte);
    const auto *inside = as_if<KeyFrame>(next);
    if (inside && inside->parent != n->parent) inside = nullptr;
    if (!next || (inside && inside->text != text_.row(n->text)[byte])) {
      for (uint32_t id : v_.ids_within(m)) clear(id);
      if (next) from_exit(m, next);
    } else if (inside && inside->seen_extra && v_.end(m) > m + 1) {
      seen_keys_below(m, inside);
    }
    ctx_->arena.release(mark);
  };
  if (at == Vocabulary::ROOT) {
    for (int b = 0; b < 256; ++b)
      if (const Vocabulary::Node m = v_.root_child(static_cast<uint8_t>(b)); m != Vocabulary::NONE) child(m);
    return;
  }
  for (Vocabulary::Node m = at + 1; m < v_.end(at); m = v_.end(m)) child(m);
}

void Masks::key_below(Vocabulary::Node at, const KeyFrame *n) {
  if (agenda_) {
    const Apart apart(*this);  // keys that are there already are taken out of the mask again
    return key_below(at, n);
  }
  const ObjectFrame *object = n->object();
  ctx_->depends_on(object);
  if (n->escape != 0) return walk(at, n);
  const KeyUniverse &u = *object->control->universe;
  const size_t skip = v_.depth(at);
  const bool extra = n->text != TextSpace::DEAD;
  ObjectControl *control = object->control;
  if (extra) {
    // Extra keys: inside, and out of a key that is no declared one and not there yet; keys for which
    // that is wrong are put right below.
    Fragment &f = text_.fragment(at, n->text);
    inside(f);
    Arena::Mark mark = ctx_->arena.mark();
    auto one_by_one = [&](Vocabulary::Node exit) {
      for (Vocabulary::Node m = exit; m < v_.end(exit); ++m)
        for (uint32_t id : v_.ids(m))
          if (token_allowed(n, id, skip)) set(id);
    };
    if (are_keys_running_out(a_, *object)) {
      // What may follow a key depends on which keys are left.
      for (const Exit &e : f.exits) one_by_one(e.node);
    } else if (!f.exits.empty()) {
      if (n->json->objects().only_undeclared_key(control)) {
        if (const Frame *after = close_extra_key(*ctx_, *n)) {
          if (at == Vocabulary::ROOT) {
            const RestTrie &trie = text_.rests(f);
            rests(trie, after, 0, UNBOUNDED);
            for (uint32_t id : trie.singles)
              if (token_allowed(n, id, 0)) set(id);
          } else {
            for (const Exit &e : f.exits) {
              if (v_.path(e.node).find('\\', skip) != std::string::npos) {
                one_by_one(e.node);
                continue;
              }
              from_exit(e.node, after);
              // `after` has the key as far as it had been read before: a token with a second key is read by itself.
              for (uint32_t id : v_.ids_within(e.node)) {
                const std::string_view t = v_.token(id);
                if (std::count(t.begin() + static_cast<std::ptrdiff_t>(skip), t.end(), '"') <= 1) continue;
                if (token_allowed(n, id, skip)) set(id);
                else clear(id);
              }
            }
          }
        }
      } else {
        extra_kinds(at, n, f);
      }
    }
    if (n->seen_extra) seen_keys_below(at, n);
    ctx_->arena.release(mark);
  }
  if (n->match_begin >= n->match_end) return;
  // Declared keys: narrow the sorted range byte by byte.
  const auto step_from = [&](uint32_t lo, uint32_t hi, uint32_t length, bool is_declared, Vocabulary::Node to) {
    const Arena::Mark mark = ctx_->arena.mark();
    KeyFrame key = *n;
    key.match_begin = lo;
    key.match_end = hi;
    key.length = length;
    if (is_declared) key.text = TextSpace::DEAD;
    if (const Frame *after = a_.step(*ctx_, &key, v_.byte(to))) from_exit(to, after);
    ctx_->arena.release(mark);
  };
  const auto descend = [&](const auto &self, Vocabulary::Node here, uint32_t lo, uint32_t hi, uint32_t length) -> void {
    // Where any text may be a key the fragment has all that begins an escape; elsewhere only its own.
    if (!extra || text_.re(n->text) != RegexSpace::ANY_TEXT)
      if (const Vocabulary::Node m = v_.child(here, '\\'); m != Vocabulary::NONE) step_from(lo, hi, length, true, m);
    uint32_t i = lo;
    if (u.keys[lo].size() == length) {
      ++i;
      if (const Vocabulary::Node m = v_.child(here, '"'); m != Vocabulary::NONE) {
        if (extra)
          for (const uint32_t id : v_.ids_within(m)) clear(id);
        step_from(lo, hi, length, false, m);
      }
    }
    while (i < hi) {
      charge();
      const uint32_t first = i;
      const auto b = static_cast<uint8_t>(u.keys[first][length]);
      const auto others = std::partition_point(u.keys.begin() + first, u.keys.begin() + hi, [&](const std::string &key) {
        return static_cast<unsigned char>(key[length]) == b;
      });
      i = static_cast<uint32_t>(others - u.keys.begin());
      if (b < 0x20 || b == '"' || b == '\\') continue;  // written as an escape
      const Vocabulary::Node m = v_.child(here, b);
      if (m == Vocabulary::NONE) continue;
      bool any = false;
      for (uint32_t k = first; k < i && !any; ++k) any = bit(n->allowed, k);
      // Seen keys stay in the walk beside extra keys: closing them must be taken back.
      if (!any && !extra) continue;
      if (any)
        for (const uint32_t id : v_.ids(m)) set(id);
      if (v_.end(m) > m + 1) self(self, m, first, i, length + 1);
    }
  };
  descend(descend, at, n->match_begin, n->match_end, n->length);
}

}  // namespace structgen
