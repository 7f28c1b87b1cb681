// Masks inside arrays whose items must differ.
//
// A mask is made, and remembered, as if no item were there already; then the tokens that end an
// item are read one by one with the items in sight. Only few tokens can: they hold a bracket, or
// two quotes, or close the string that is being read where it equals an earlier one.
#include <algorithm>
#include <bit>

#include "masks.h"

namespace structgen {
namespace {

bool within_loose_array(const Node *node) {
  for (; node; node = node->parent)
    if (node->kind == Node::Array && node->control.array->loose) return true;
  return false;
}

}  // namespace

std::shared_ptr<const Mask> Masks::without_repeats(Arena &arena, const Node *node, std::shared_ptr<const Mask> mask) {
  Reader reader{arena};
  a_.bound_mask(reader);
  r_ = &reader;
  std::shared_ptr<Mask> changed;
  auto check = [&](uint32_t id) {
    const Mask &now = changed ? *changed : *mask;
    if (!now.test(id) || token_allowed(node, id, 0)) return;
    if (!changed) changed = new_mask(*mask);
    changed->clear(id);
  };
  const EndingTokens &ending = text_.ending_tokens(a_.writes_lines());
  const bool inside = node->kind == Node::String || node->kind == Node::Key;
  for (uint32_t id : inside ? ending.after_quote : ending.all) check(id);
  if (within_loose_array(node)) {
    // Where only a repeated item helps, any other must not end.
    const std::string_view ends = inside ? "\"" : "\",]} \t\r\n";
    for (uint32_t id = 0; id < v_.size(); ++id)
      if (v_.token(id).find_first_of(ends) != std::string::npos) check(id);
  }
  if (node->kind == Node::String && node->parent->kind == Node::Array && node->parent->control.array->unique &&
      node->parent->items) {
    // The string is an item itself: it may not close where it equals an earlier one.
    std::string read = Automaton::item_text(node->trace, node->parent);
    read.erase(0, read.find('"') + 1);
    if (a_.encoding(node) == Encoding::AllEscapes) {
      for (uint32_t id = 0; id < v_.size(); ++id)
        if (v_.token(id).find('"') != std::string::npos) check(id);
    } else {
      const bool plain = read.find('\\') == std::string::npos;
      for (const SeenItem *s = node->parent->items; s; s = s->previous) {
        if (!s->text) continue;
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
  r_ = nullptr;
  if (!changed) return mask;
  return changed;
}

}  // namespace structgen
