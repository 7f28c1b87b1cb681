// A key of an object, byte by byte.
//
// The declared keys that begin with the text so far are a range of the sorted universe, narrowed by each byte. All
// other keys run through the language of extra keys.
#include <algorithm>

#include "automaton/frame_operations.h"
#include "automaton/seen_keys.h"

namespace structgen {
namespace {

bool any_bit(const uint64_t *words, uint32_t begin, uint32_t end) {
  while (begin < end) {
    charge();
    const uint32_t stop = std::min(end, (begin | 63) + 1);
    const uint64_t from = ~uint64_t{0} << (begin & 63), to = ~uint64_t{0} >> (63 - ((stop - 1) & 63));
    if (words[begin >> 6] & from & to) return true;
    begin = stop;
  }
  return false;
}

// Does an allowed declared key go on with a character for which `fits` holds? `fits` is called once for a character.
template <class Fits>
bool any_goes_on(const KeyUniverse &universe, const KeyFrame &key, const Fits &fits) {
  for (uint32_t begin = key.match_begin; begin < key.match_end;) {
    if (universe.keys[begin].size() == key.length) {  // ends here; the first of its range
      ++begin;
      continue;
    }
    const auto lead = static_cast<uint8_t>(universe.keys[begin][key.length]);
    const size_t size = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    const std::string_view character = std::string_view(universe.keys[begin]).substr(key.length, size);
    const auto next =
        std::partition_point(universe.keys.begin() + begin, universe.keys.begin() + key.match_end,
                             [&](const std::string &other) { return other.compare(key.length, size, character) <= 0; });
    const auto end = static_cast<uint32_t>(next - universe.keys.begin());
    if (fits(character) && any_bit(key.allowed, begin, end)) return true;
    begin = end;
  }
  return false;
}

const Frame *close(Automaton &automaton, StepContext &ctx, const KeyFrame &key) {
  ctx.depends_on(key.parent);
  const KeyUniverse &universe = *key.object()->control->universe;
  if (key.match_begin < key.match_end && universe.keys[key.match_begin].size() == key.length)
    return bit(key.allowed, key.match_begin) ? close_declared_key(ctx, key, key.match_begin) : nullptr;
  if (key.text == TextSpace::DEAD || !automaton.text().complete(key.text) || is_extra_key_seen(key)) return nullptr;
  return close_extra_key(ctx, key);
}

// Reads one byte of the decoded key; `text` is the state of the extra key's text.
void read_character_byte(StepContext &ctx, const KeyUniverse &universe, TextState text, uint8_t byte, KeyFrame &key) {
  const uint32_t before = key.match_begin;
  if (key.match_begin < key.match_end) {
    const auto at = [&](const std::string &other) {
      return other.size() > key.length ? static_cast<unsigned char>(other[key.length]) : -1;
    };
    const auto index_where = [&](const auto &is_before) {
      const auto begin = universe.keys.begin();
      return static_cast<uint32_t>(std::partition_point(begin + before, begin + key.match_end, is_before) - begin);
    };
    key.match_begin = index_where([&](const std::string &other) { return at(other) < byte; });
    key.match_end = index_where([&](const std::string &other) { return at(other) <= byte; });
  }
  if (key.match_begin >= key.match_end && text != TextSpace::DEAD) {
    if (!key.bytes && key.length > 0)
      key.bytes = ctx.arena.make<TextLink>(nullptr, universe.keys[before].data(), key.length, uint8_t{0});
    key.bytes = ctx.arena.make<TextLink>(key.bytes, nullptr, key.length + 1, byte);
  }
  key.hash = extend(key.hash, byte);
  if (key.seen_extra) {
    const std::string longer = std::string(key.seen_extra->key(key.length)) + static_cast<char>(byte);
    key.seen_extra = keys_beginning_with(key.seen_extra, longer);
  }
  ++key.length;
}

const Frame *step(Automaton &automaton, StepContext &ctx, const Frame *frame, uint8_t byte) {
  const auto &key = *as<KeyFrame>(frame);
  const Escapes mode = key.options().escapes;
  const Decoded decoded = decode(key.escape, byte, mode);
  if (decoded.kind == Decoded::Dead) return nullptr;
  if (decoded.kind == Decoded::Quote) return close(automaton, ctx, key);
  const ObjectFrame &object = *key.object();
  const KeyUniverse &universe = *object.control->universe;
  TextSpace &text = automaton.text();
  KeyFrame next = key;
  if (key.text != TextSpace::DEAD) next.text = text.row(key.text)[byte];
  next.escape = decoded.escape;
  if (decoded.kind == Decoded::Pending) {
    next.text = remove_seen_keys(automaton, ctx, object, next.text, key.length, &next.seen_extra);
    const auto can_be = [&](std::string_view character) { return text.escape_can_be(decoded.escape, character, mode); };
    if (next.text == TextSpace::DEAD && !any_goes_on(universe, key, can_be)) return nullptr;
  }
  for (int k = 0; k < decoded.size; ++k) read_character_byte(ctx, universe, next.text, decoded.bytes[k], next);
  if (decoded.kind == Decoded::Bytes) {
    next.text = remove_seen_keys(automaton, ctx, object, next.text, next.length, &next.seen_extra);
    if (next.text == TextSpace::DEAD && !any_bit(key.allowed, next.match_begin, next.match_end)) return nullptr;
  }
  return ctx.arena.make<KeyFrame>(next);
}

Hash128 signature(Automaton &automaton, const Frame *frame) {
  const auto &key = *as<KeyFrame>(frame);
  Hash128 h = begin_signature(automaton, frame, nullptr);
  h = extend(h, static_cast<uint64_t>(key.text) << 32 | key.escape);
  h = extend(h, static_cast<uint64_t>(key.match_begin) << 32 | key.match_end);
  h = extend(h, key.match_begin < key.match_end ? key.length : 0);
  TextSpace &text = automaton.text();
  // What the value of an extra key must satisfy depends on the patterns that the key will match.
  const std::vector<Re> &patterns = key.object()->control->patterns;
  if (key.text != TextSpace::DEAD && !patterns.empty()) {
    const std::string read = key_text(key);
    for (Re pattern : patterns) {
      for (unsigned char c : read)
        if (pattern != RegexSpace::EMPTY) pattern = text.regex().row(pattern)[c];
      h = extend(h, pattern);
    }
  }
  // Off the declared keys the text matters only where it may become a key already there, or come again in a token.
  const bool may_come_again = key.text != TextSpace::DEAD && text.ending_tokens(automaton.writes_lines()).second_key;
  return key.seen_extra || may_come_again ? extend(extend(h, key.hash.a), key.hash.b) : h;
}

Frame *copy_into(FrameCopier &copier, const Frame *frame) {
  const auto &key = *as<KeyFrame>(frame);
  KeyFrame *copy = copier.clone_json(key);
  copy->allowed = copier.copy_array(key.allowed, key.object()->control->universe->words());
  copy->bytes = copier.copy(key.bytes);
  copy->seen_extra = copier.copy(key.seen_extra);
  return copy;
}

bool equals(const Frame *a, const Frame *b) {
  const auto &x = *as<KeyFrame>(a), &y = *as<KeyFrame>(b);
  return x.text == y.text && x.escape == y.escape && x.length == y.length && x.hash == y.hash;
}

}  // namespace

const FrameOperations KEY_FRAME{step, never_completes, has_no_child, any_byte, signature, copy_into, equals};

}  // namespace structgen
