#include "automaton/seen_keys.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "text/json_space.h"

namespace structgen {
namespace {

// The object after a key, once its own fields know of the key.
const Frame *choose_member(KeyControl *control, ObjectFrame *object) {
  object->member = object->json->objects().resolve(control, object->view());
  return object->member ? object : nullptr;
}

ObjectFrame *object_after_key(StepContext &ctx, const ObjectFrame &object) {
  auto *after = ctx.arena.make<ObjectFrame>(object);
  after->phase = Phase::AfterKey;
  ++after->key_count;
  after->space = space_start(object.options(), SpaceAt::AfterKey);
  return after;
}

const Frame *close_extra_key(StepContext &ctx, const KeyFrame &key, KeyControl *control) {
  if (!control->possible) return nullptr;
  const ObjectFrame &object = *key.object();
  ObjectFrame *after = object_after_key(ctx, object);
  const std::string text = key_text(key);
  auto *copy = static_cast<char *>(ctx.arena.allocate(text.size()));
  std::memcpy(copy, text.data(), text.size());
  after->seen_extra = with_key(ctx.arena, object.seen_extra, {copy, text.size()});
  if (object.options().ordered) after->last_rank = static_cast<int64_t>(object.control->universe->keys.size());
  after->keys_hash ^= member(key.hash);
  return choose_member(control, after);
}

// The number of bytes before the last character. Languages change between characters only, so that one is read again.
size_t count_whole_characters(std::string_view read) {
  size_t whole = read.size();
  while (whole > 0 && (read[whole - 1] & 0xc0) == 0x80) --whole;
  if (whole > 0 && static_cast<uint8_t>(read[whole - 1]) >= 0xc0) --whole;
  return whole;
}

bool any_set(const Bits &words) {
  return std::any_of(words.begin(), words.end(), [](uint64_t word) { return word != 0; });
}

}  // namespace

const Frame *open_key(Automaton &automaton, StepContext &ctx, const ObjectFrame &object) {
  ObjectControl *control = object.control;
  const uint32_t words = control->universe->words();
  auto *allowed = static_cast<uint64_t *>(ctx.arena.allocate(words * 8));
  const bool allows_extra = object.json->objects().allowed_keys(control, object.view(), allowed);
  const bool allows_declared = std::any_of(allowed, allowed + words, [](uint64_t word) { return word != 0; });
  if (!allows_declared && !allows_extra) return nullptr;
  auto *key = ctx.arena.make<KeyFrame>(&object, allowed);
  key->is_traced = object.is_traced;
  key->match_end = static_cast<uint32_t>(control->universe->keys.size());
  key->hash = hash_text({});
  if (!allows_extra) return key;
  TextSpace &text = automaton.text();
  const Re re = object.json->objects().allowed_undeclared_keys(control, object.view());
  key->seen_extra = object.seen_extra;
  if (re == RegexSpace::ANY_TEXT || text.regex().alive(re))
    key->text = remove_seen_keys(automaton, ctx, object, text.state(re, 0, object.encoding()), 0, &key->seen_extra);
  return allows_declared || key->text != TextSpace::DEAD ? key : nullptr;
}

const Frame *close_declared_key(StepContext &ctx, const KeyFrame &key, uint32_t index) {
  const ObjectFrame &object = *key.object();
  KeyControl *control = object.json->objects().key(object.control, index);
  if (!control->possible) return nullptr;
  const KeyUniverse &universe = *object.control->universe;
  ObjectFrame *after = object_after_key(ctx, object);
  auto *seen = static_cast<uint64_t *>(ctx.arena.allocate(universe.words() * 8));
  std::memcpy(seen, object.seen_declared, universe.words() * 8);
  set_bit(seen, index);
  after->seen_declared = seen;
  if (object.options().ordered) after->last_rank = universe.rank[index];
  after->keys_hash ^= member(universe.hashes[index]);
  return choose_member(control, after);
}

const Frame *close_extra_key(StepContext &ctx, const KeyFrame &key) {
  ObjectControl *object = key.object()->control;
  KeyControl *control = key.json->objects().only_undeclared_key(object);
  return close_extra_key(ctx, key, control ? control : key.json->objects().undeclared_key(object, key_text(key)));
}

const Frame *close_extra_key_of(StepContext &ctx, const KeyFrame &key, uint32_t key_class) {
  return close_extra_key(ctx, key, key.json->objects().key_of_class(key.object()->control, key_class));
}

TextState remove_seen_keys(Automaton &automaton, StepContext &ctx, const ObjectFrame &object, TextState text,
                           size_t length, const KeyTree **seen) {
  if (!*seen || text == TextSpace::DEAD) return text;
  TextSpace &texts = automaton.text();
  RegexSpace &space = texts.regex();
  const std::string_view read = (*seen)->key(length);
  const uint32_t escape = texts.escape(text);
  if (escape == 0 && space.count_texts(texts.re(text)) == UINT64_MAX) return text;
  ctx.depends_on(&object);
  charge(4);
  const uint64_t there = count_keys(*seen, read);
  const auto has_another = [&](Re rest) { return space.count_texts(rest) > there; };
  if (escape == 0 ? has_another(texts.re(text)) : texts.escape_viable(text, has_another)) return text;
  const size_t whole = count_whole_characters(read.substr(0, length));
  std::vector<std::string> rests;
  charge(4 * there);
  each_key(*seen, read, [&](std::string_view key) { rests.emplace_back(key.substr(whole)); });
  *seen = nullptr;
  Re left = object.json->objects().allowed_undeclared_keys(object.control, object.view());
  for (size_t i = 0; i < whole; ++i) left = space.row(left)[static_cast<uint8_t>(read[i])];
  left = space.intersect(left, space.complement(space.literals(rests)));
  for (size_t i = whole; i < length; ++i) left = space.row(left)[static_cast<uint8_t>(read[i])];
  if (left == RegexSpace::EMPTY || !space.alive(left)) return TextSpace::DEAD;
  const TextState state = texts.state(left, escape, object.encoding());
  return escape == 0 || texts.escape_viable(state, [](Re) { return true; }) ? state : TextSpace::DEAD;
}

bool has_key_left(Automaton &automaton, StepContext &ctx, const ObjectFrame &object) {
  if (!object.seen_extra) return true;
  Bits declared(object.control->universe->words());
  const bool allows_extra = object.json->objects().allowed_keys(object.control, object.view(), declared.data());
  if (any_set(declared)) return true;
  if (!allows_extra) return false;
  const KeyTree *seen = object.seen_extra;
  const TextState text = automaton.text().state(
      object.json->objects().allowed_undeclared_keys(object.control, object.view()), 0, object.encoding());
  return remove_seen_keys(automaton, ctx, object, text, 0, &seen) != TextSpace::DEAD;
}

bool are_keys_running_out(Automaton &automaton, const ObjectFrame &object) {
  TextSpace &text = automaton.text();
  const uint64_t texts =
      text.regex().count_texts(object.json->objects().allowed_undeclared_keys(object.control, object.view()));
  const uint64_t there = object.seen_extra ? object.seen_extra->size : 0;
  return texts != UINT64_MAX && texts <= there + text.vocabulary().longest_token();
}

bool meets_seen_key(const KeyFrame &key, uint8_t byte) {
  if (key.escape != 0 || byte == '\\') return true;
  if (byte == '"') return is_extra_key_seen(key);
  const std::string longer = std::string(key.seen_extra->key(key.length)) + static_cast<char>(byte);
  return keys_beginning_with(key.seen_extra, longer) != nullptr;
}

bool is_extra_key_seen(const KeyFrame &key) {
  return key.seen_extra && has_key(key.seen_extra, key.seen_extra->key(key.length));
}

std::string key_text(const KeyFrame &key) {
  const KeyUniverse &universe = *key.object()->control->universe;
  if (!key.bytes) {
    const bool is_declared = key.match_begin < key.match_end;
    return is_declared ? universe.keys[key.match_begin].substr(0, key.length) : std::string{};
  }
  std::string text(key.bytes->length, '\0');
  for (const TextLink *link = key.bytes; link; link = link->previous) {
    if (link->base) {
      std::memcpy(text.data(), link->base, link->length);
      break;
    }
    text[link->length - 1] = static_cast<char>(link->byte);
  }
  return text;
}

}  // namespace structgen
