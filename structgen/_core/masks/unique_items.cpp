#include "masks/unique_items.h"

#include <set>

#include "automaton/unique_items.h"
#include "text/json_space.h"
#include "util/stack.h"

namespace structgen {
namespace {

bool is_in_loose_array(const Frame *state) {
  for (; state; state = state->parent)
    if (const auto *array = as_if<ArrayFrame>(state); array && array->control->may_violate_unique) return true;
  return false;
}

// A mask that is copied when it is changed for the first time.
class ChangedMask {
 public:
  explicit ChangedMask(std::shared_ptr<const Mask> mask) : original_(std::move(mask)) {}
  const Mask &now() const { return changed_ ? *changed_ : *original_; }
  Mask &change() {
    if (!changed_) changed_ = new_mask(*original_);
    return *changed_;
  }
  std::shared_ptr<const Mask> result() const {
    if (changed_) return changed_;
    return original_;
  }

 private:
  std::shared_ptr<const Mask> original_;
  std::shared_ptr<Mask> changed_;
};

// The earlier items that the text can still become without a bracket or two more quotes. Tokens that contain those are
// checked one by one in `remove_repeats`.
struct NearRepeats {
  PossibleRepeats items;
  std::set<std::string> rests;         // of the string or key that is being read
  bool is_between_containers = false;  // an item may begin, and some earlier item is a container

  bool has_any() const { return !items.empty() || is_between_containers; }
};

// `before`: the result for the text without its last byte, if known.
NearRepeats find_near_repeats(Automaton &automaton, const Frame *state, const NearRepeats *before) {
  NearRepeats out;
  out.is_between_containers = has_seen_containers(state);
  out.items = find_possible_repeats(automaton, state, -1, Until::Closed, before ? &before->items : nullptr, &out.rests);
  return out;
}

// Clears the tokens below trie node `at` that lead into a dead end.
void clear_dead_ends(MaskBuilder &m, Vocabulary::Node at, const Frame *state, const NearRepeats &repeats) {
  check_stack("a token is too long");
  const Vocabulary &v = m.vocabulary;
  bool safe = true;  // no dead end is near
  const auto follow = [&](Vocabulary::Node to, std::string_view bytes, bool space) {
    const ArenaScope scope(m.ctx.arena);
    const Frame *next = state;
    for (size_t i = 0; i < bytes.size() && next; ++i)
      next = m.automaton.step(m.ctx, next, static_cast<uint8_t>(bytes[i]));
    if (!next) {
      safe = false;
      for (uint32_t id : v.ids_within(to)) m.clear(id);
    } else if (space) {
      clear_dead_ends(m, to, next, repeats);
    } else if (const NearRepeats after = find_near_repeats(m.automaton, next, &repeats); after.has_any()) {
      safe = false;
      clear_dead_ends(m, to, next, after);
    }
  };
  const auto *key = as_if<KeyFrame>(state);
  const auto *string = as_if<StringFrame>(state);
  const bool spelled = (key && key->escape == 0 && key->encoding() != Encoding::AllEscapes) ||
                       (string && m.text.escape(string->text) == 0 && string->encoding() != Encoding::AllEscapes);
  if (spelled && string && string->control->allows_any_string()) {
    // A dead end can only follow a string that equals the one of an earlier item.
    for (const std::string &rest : repeats.rests) {
      const std::string bytes = escape_json(rest) + '"';
      Vocabulary::Node to = at;
      for (size_t i = 0; i < bytes.size() && to != Vocabulary::NONE; ++i)
        to = v.child(to, static_cast<uint8_t>(bytes[i]));
      if (to != Vocabulary::NONE) follow(to, bytes, false);
    }
    return;
  }
  std::bitset<256> bytes;
  if (!spelled) bytes = m.automaton.candidates(state);
  for (const std::string &rest : repeats.rests)
    bytes.set(rest.empty() ? '"' : static_cast<uint8_t>(escape_json(rest)[0]));
  // Between tokens of JSON, white space leads to the same state.
  const bool between = is<ValueFrame>(state) || is<ContainerFrame>(state);
  const auto follow_all = [&](bool space) {
    for (int b = 0; b < 256; ++b) {
      charge();
      const char byte = static_cast<char>(b);
      if (!bytes.test(static_cast<size_t>(b)) || space != (between && is_space(static_cast<uint8_t>(b)))) continue;
      const Vocabulary::Node to = v.child(at, static_cast<uint8_t>(b));
      if (to != Vocabulary::NONE) follow(to, {&byte, 1}, space);
    }
  };
  follow_all(false);
  if (!safe) follow_all(true);
}

// The string is an item itself: checks the tokens with which it would equal an earlier one.
template <class Check, class CheckAll>
void check_equal_strings(const Vocabulary &v, const StringFrame &string, const ArrayFrame &array,
                         const EndingTokens &ending, const Check &check, const CheckAll &check_all) {
  std::string read = item_text_in(string.item_text, array);
  read.erase(0, read.find('"') + 1);
  if (string.encoding() == Encoding::AllEscapes) return check_all(ending.with_quote);
  const bool plain = read.find('\\') == std::string::npos;
  for (const SeenItem *s = array.seen_items; s; s = s->previous) {
    if (!s->text || s->is_container) continue;
    const std::string_view text{s->text, s->length};
    if (plain && !text.starts_with(read)) continue;  // most of them, before anything is spelled
    const std::string spelled = escape_json(text) + '"';
    if (!spelled.starts_with(read)) continue;
    Vocabulary::Node n = Vocabulary::ROOT;
    for (char c : std::string_view(spelled).substr(read.size()))
      if (n != Vocabulary::NONE) n = v.child(n, static_cast<uint8_t>(c));
    if (n == Vocabulary::NONE) continue;  // later masks catch spellings that are longer than a token
    for (uint32_t id : v.ids_within(n)) check(id);
  }
}

}  // namespace

std::shared_ptr<const Mask> remove_repeats(MaskBuilder &m, const Frame *state, std::shared_ptr<const Mask> mask) {
  ChangedMask result(std::move(mask));
  const auto check = [&](uint32_t id) {
    if (result.now().test(id) && !m.can_read(state, id, 0)) result.change().clear(id);
  };
  const auto check_all = [&](const std::vector<uint32_t> &set) {
    charge(m.vocabulary.words() / 16);
    each_bit_by_word(0, m.vocabulary.words(), [&](size_t w) { return set[w] & result.now().bits()[w]; }, check);
  };
  const EndingTokens &ending = m.text.ending_tokens(m.automaton.writes_lines());
  const bool inside = is<StringFrame>(state) || is<KeyFrame>(state);
  for (uint32_t id : inside ? ending.after_quote : ending.all) check(id);
  if (is_in_loose_array(state)) {
    // The array may have to repeat an item. Then a token must not end any other item.
    check_all(inside ? ending.with_quote : ending.with_end);
    // A repeated item can also be what allows the array to end in the same token.
    for (const uint32_t id : ending.brackets)
      if (!result.now().test(id) && m.can_read(state, id, 0)) set_bit(result.change().data(), id);
  }
  const auto *string = as_if<StringFrame>(state);
  const auto *array = string ? as_if<ArrayFrame>(string->parent) : nullptr;
  if (array && array->control->unique && array->seen_items)
    check_equal_strings(m.vocabulary, *string, *array, ending, check, check_all);
  if (has_seen_containers(state) || has_seen_containers(state->parent))
    for (uint32_t id : ending.commas) check(id);  // they end a scalar, and the next item may begin
  if (const NearRepeats repeats = find_near_repeats(m.automaton, state, nullptr); repeats.has_any()) {
    m.write_to(result.change());
    clear_dead_ends(m, Vocabulary::ROOT, state, repeats);
  }
  return result.result();
}

void remove_repeats_inside_tokens(MaskBuilder &m, const Frame *state, const Mask &mask) {
  m.ctx.ignore_seen_items = false;
  const bool used_item_text = m.ctx.used_item_text;
  for (uint32_t id : m.text.ending_tokens(m.automaton.writes_lines()).all)
    if (mask.test(id) && !m.can_read(state, id, 0)) m.clear(id);
  m.ctx.used_item_text = used_item_text;  // it is used only if it is not the token's own
}

}  // namespace structgen
