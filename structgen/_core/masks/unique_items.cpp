// Masks inside arrays whose items must differ.
//
// A mask is made, and remembered, as if no item were there already; then the tokens that end an
// item are read one by one with the items in sight. Only few tokens can: they hold a bracket, or
// two quotes, or close the string that is being read where it equals an earlier one.
#include <algorithm>
#include <bit>

#include "text/json_space.h"
#include "masks/masks.h"
#include "util/stack.h"

namespace structgen {
namespace {

bool within_loose_array(const Frame *node) {
  for (; node; node = node->parent)
    if (const auto *array = as_if<ArrayFrame>(node); array && array->control->loose) return true;
  return false;
}

}  // namespace

std::shared_ptr<const Mask> Masks::without_repeats(Arena &arena, const Frame *node, std::shared_ptr<const Mask> mask) {
  StepContext ctx{arena};
  a_.limit_mask_work(ctx);
  ctx_ = &ctx;
  std::shared_ptr<Mask> changed;
  auto check = [&](uint32_t id) {
    const Mask &now = changed ? *changed : *mask;
    if (!now.test(id) || token_allowed(node, id, 0)) return;
    if (!changed) changed = new_mask(*mask);
    changed->clear(id);
  };
  const auto check_all = [&](const std::vector<uint32_t> &set) {
    charge(v_.words() / 16);
    for (uint32_t w = 0; w < v_.words(); ++w)
      for (uint32_t rest = set[w] & (changed ? *changed : *mask).bits()[w]; rest; rest &= rest - 1)
        check(w * 32 + static_cast<uint32_t>(std::countr_zero(rest)));
  };
  const EndingTokens &ending = text_.ending_tokens(a_.writes_lines());
  const bool inside = is<StringFrame>(node) || is<KeyFrame>(node);
  for (uint32_t id : inside ? ending.after_quote : ending.all) check(id);
  if (within_loose_array(node)) {
    // Where only a repeated item helps, any other must not end.
    check_all(inside ? ending.with_quote : ending.with_end);
    // A repeated item can also be what allows the array to end in the same token.
    for (const uint32_t id : ending.brackets) {
      if ((changed ? *changed : *mask).test(id) || !token_allowed(node, id, 0)) continue;
      if (!changed) changed = new_mask(*mask);
      changed->data()[id >> 5] |= 1u << (id & 31);
    }
  }
  const auto *string = as_if<StringFrame>(node);
  const auto *array = string ? as_if<ArrayFrame>(string->parent) : nullptr;
  if (array && array->control->unique && array->seen_items) {
    // The string is an item itself: it may not close where it equals an earlier one.
    std::string read = item_text_in(string->item_text, *array);
    read.erase(0, read.find('"') + 1);
    if (string->encoding() == Encoding::AllEscapes) {
      check_all(ending.with_quote);
    } else {
      const bool plain = read.find('\\') == std::string::npos;
      for (const SeenItem *s = array->seen_items; s; s = s->previous) {
        if (!s->text || s->is_container) continue;
        const std::string_view text{s->text, s->length};
        if (plain && !text.starts_with(read)) continue;  // most of them, before anything is spelled
        const std::string spelled = escape_json(text) + '"';
        if (!spelled.starts_with(read)) continue;
        Vocabulary::Node m = Vocabulary::ROOT;
        for (char c : std::string_view(spelled).substr(read.size()))
          if (m != Vocabulary::NONE) m = v_.child(m, static_cast<uint8_t>(c));
        if (m == Vocabulary::NONE) continue;
        for (Vocabulary::Node k = m; k < v_.end(m); ++k)
          for (uint32_t id : v_.ids(k)) check(id);
        // Longer spellings than one token has are caught by later masks.
      }
    }
  }
  if (has_seen_containers(node) || has_seen_containers(node->parent))
    for (uint32_t id : ending.commas) check(id);  // they end a scalar, and the next item may begin
  Ahead ahead = items_ahead(node, nullptr);
  if (!ahead.none()) {
    if (!changed) changed = new_mask(*mask);
    out_ = changed->data();
    without_alike(Vocabulary::ROOT, node, ahead);
  }
  ctx_ = nullptr;
  if (!changed) return mask;
  return changed;
}

// The earlier items that the text can become without a bracket or two more quotes. Tokens that contain those are checked
// one by one in `without_repeats`.
Masks::Ahead Masks::items_ahead(const Frame *node, const Ahead *before) {
  Ahead out;
  out.between = has_seen_containers(node);
  out.items = find_possible_repeats(a_, node, -1, Until::Closed, before ? &before->items : nullptr, &out.rests);
  return out;
}

// Clears the tokens below a trie node that lead into a dead end.
void Masks::without_alike(Vocabulary::Node at, const Frame *node, const Ahead &ahead) {
  check_stack("a token is too long");
  bool safe = true;  // no dead end is near
  const auto follow = [&](Vocabulary::Node to, std::string_view bytes, bool space) {
    const Arena::Mark mark = ctx_->arena.mark();
    const Frame *next = node;
    for (size_t i = 0; i < bytes.size() && next; ++i) next = a_.step(*ctx_, next, static_cast<uint8_t>(bytes[i]));
    if (!next) {
      safe = false;
      for (Vocabulary::Node k = to; k < v_.end(to); ++k)
        for (uint32_t id : v_.ids(k)) clear(id);
    } else if (space) {
      without_alike(to, next, ahead);
    } else if (const Ahead after = items_ahead(next, &ahead); !after.none()) {
      safe = false;
      without_alike(to, next, after);
    }
    ctx_->arena.release(mark);
  };
  const auto *key = as_if<KeyFrame>(node);
  const auto *string = as_if<StringFrame>(node);
  const bool spelled = (key && key->escape == 0 && key->encoding() != Encoding::AllEscapes) ||
                       (string && text_.escape(string->text) == 0 && string->encoding() != Encoding::AllEscapes);
  if (spelled && string && string->control->allows_any_string()) {
    // A dead end can only follow a string that equals the one of an earlier item.
    for (const std::string &rest : ahead.rests) {
      const std::string bytes = escape_json(rest) + '"';
      Vocabulary::Node to = at;
      for (size_t i = 0; i < bytes.size() && to != Vocabulary::NONE; ++i) to = v_.child(to, static_cast<uint8_t>(bytes[i]));
      if (to != Vocabulary::NONE) follow(to, bytes, false);
    }
    return;
  }
  std::bitset<256> bytes;
  if (!spelled) bytes = a_.candidates(node);
  for (const std::string &rest : ahead.rests) bytes.set(rest.empty() ? '"' : static_cast<uint8_t>(escape_json(rest)[0]));
  // Between tokens of JSON, white space leads to the same state.
  const bool between = is<ValueFrame>(node) || is<ContainerFrame>(node);
  const auto follow_all = [&](bool space) {
    for (int b = 0; b < 256; ++b) {
      charge();
      const char byte = static_cast<char>(b);
      if (!bytes.test(static_cast<size_t>(b)) || space != (between && is_space(static_cast<uint8_t>(b)))) continue;
      const Vocabulary::Node to = v_.child(at, static_cast<uint8_t>(b));
      if (to != Vocabulary::NONE) follow(to, {&byte, 1}, space);
    }
  };
  follow_all(false);
  if (!safe) follow_all(true);
}

}  // namespace structgen
