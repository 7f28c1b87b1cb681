// The rest of a key, for a completion: owed keys first, then declared ones, then any.
#include <algorithm>
#include <bit>

#include "json_space.h"
#include "witness_search.h"

namespace structgen {
namespace {

constexpr size_t MOST_OTHERS = 40;  // undeclared keys that are tried at one place

// The first declared key of the range that may come, from `i` on: `owed` ones, others, or (null) any. Word by word, since
// of a large object most keys may be there already.
uint32_t next_key(const Node *n, uint32_t i, const Bits *required, bool owed) {
  for (; i < n->hi; i = (i | 63) + 1) {
    uint64_t word = n->bits[i >> 6];
    if (required) word &= owed ? (*required)[i >> 6] : ~(*required)[i >> 6];
    word &= ~uint64_t{0} << (i & 63);
    if (word != 0) return std::min(n->hi, (i & ~63u) + static_cast<uint32_t>(std::countr_zero(word)));
  }
  return n->hi;
}

}  // namespace

const Node *WitnessSearch::simple_key(const Node *n) {
  while (n && n->kind == Node::Key && n->escape != 0) n = any_of(n, "\"\\/bfnrtu0123456789abcdef");
  if (!n || n->kind != Node::Key) return n;
  const ObjectControl &o = *n->parent->control.object;
  for (bool owed : {true, false})
    if (const uint32_t i = next_key(n, n->lo, &o.required, owed); i < n->hi)
      return read(n, escape_json(std::string_view(o.universe->keys[i]).substr(n->length)) + '"');
  std::string text;
  for (uint64_t i = 0; n->text != TextSpace::DEAD && extra_key(n, i, &text); ++i)
    if (const Node *next = read(n, text)) return next;
  return nullptr;
}

bool WitnessSearch::key(const Node *n, size_t before) {
  const ObjectControl &o = *n->parent->control.object;
  const KeyUniverse &u = *o.universe;
  std::vector<std::string> texts, others;
  auto offer = [&](bool owed) {
    const Bits *required = o.simple ? &o.required : nullptr;
    for (uint32_t i = next_key(n, n->lo, required, owed); i < n->hi; i = next_key(n, i + 1, required, owed)) {
      texts.push_back(escape_json(std::string_view(u.keys[i]).substr(n->length)) + '"');
      if (o.simple) return;
    }
  };
  if (n->escape != 0) {
    while (n && n->escape != 0) n = any_of(n, "\"\\/bfnrtu0123456789abcdef");
    if (n && n->kind == Node::Key && key(n, out_.size())) return true;
    out_.resize(before);
    return false;
  }
  if (o.simple) offer(true);
  if (texts.empty()) offer(false);
  if (closing_key(n, texts)) return true;
  // In a simple frame any key will do: the first that can be read is taken, and nothing is tried twice.
  if (!texts.empty()) {
    const bool deeper = cut_;
    cut_ = false;
    if (choose(n, texts, out_.size())) return true;
    // subtle: other keys would go on for ever where the declared one that is wanted lies deeper.
    const bool enough = mode_ != Mode::Thorough && (o.simple || cut_);
    cut_ = cut_ || deeper;
    if (enough) {
      out_.resize(before);
      return false;
    }
  }
  if (n->text != TextSpace::DEAD) {
    const size_t here = out_.size();
    const bool any = a_.text().re(n->text) == RegexSpace::ANY_TEXT;
    std::string text;
    for (uint64_t i = 0; extra_key(n, i, &text); ++i) {
      const Node *next = read(n, text);
      if (!next) continue;
      if (texts.empty() && o.simple) {
        if (from(next)) return true;
        out_.resize(before);
        return false;
      }
      out_.resize(here);
      others.push_back(text);
      if (any && o.patterns.empty()) break;
      if (others.size() >= MOST_OTHERS) break;
    }
  }
  return closing_key(n, others) || choose(n, others, before);
}

bool WitnessSearch::closing_key(const Node *n, const std::vector<std::string> &texts) {
  if (n->parent->control.object->simple) return false;
  for (const std::string &t : texts) {
    const size_t here = out_.size();
    const Node *next = read(n, t);
    if (next) next = read(next, ":");
    if (next && next->kind == Node::Value) next = closing_value(next);
    else next = nullptr;
    if (next && from(next)) return true;
    out_.resize(here);
    if (spent()) return false;
  }
  return false;
}

bool WitnessSearch::extra_key(const Node *n, uint64_t i, std::string *text) {
  ObjectControl *o = n->parent->control.object;
  *text = "\"";
  if (i == 0) return true;
  const Re re = a_.text().re(n->text);
  // One key of each kind first, where patterns tell them apart.
  if (n->length == 0 && !o->patterns.empty()) {
    const auto [it, fresh] = examples_.try_emplace(o);
    if (fresh) it->second = n->json->extra_key_examples(o);
    if (i <= it->second.size()) {
      *text = escape_json(it->second[i - 1]) + '"';
      return true;
    }
    i -= it->second.size();
  }
  if (re == RegexSpace::ANY_TEXT) {
    // One more name than there are keys: one of them is free.
    if (i > n->parent->count + o->universe->keys.size() + 1) return false;
    *text = name(n->parent->count + i) + '"';
    return true;
  }
  std::string one;
  if (i > 1 || !other_key(n, re, &one)) return false;
  *text = escape_json(one) + '"';
  return true;
}

// Follows the fewest keys until no key is left.
bool WitnessSearch::other_key(const Node *n, Re re, std::string *rest) {
  const KeyTree *seen = n->seen;
  std::string read(seen ? seen->key(n->length) : std::string_view());
  while (seen && !(space_.nullable(re) && !has_key(seen, read))) {
    charge(8);
    const KeyTree *fewest = seen;
    int with = -1;
    read += ' ';
    for (int k = 0; k < 256 && fewest; ++k) {
      const auto byte = static_cast<uint8_t>('a' + k);  // letters first: people read it
      const Re next = space_.row(re)[byte];
      if (next == RegexSpace::EMPTY || !space_.alive(next)) continue;
      charge();
      read.back() = static_cast<char>(byte);
      const KeyTree *there = keys_beginning_with(seen, read);
      if (there && with >= 0 && there->size >= fewest->size) continue;
      // Not all keys of the subtree need begin so: they are counted only where that may matter.
      const uint64_t texts = there ? space_.count_texts(next) : UINT64_MAX;
      if (there && texts <= there->size && texts <= count_keys(there, read)) continue;
      fewest = there;
      with = byte;
    }
    if (with < 0) return false;
    read.back() = static_cast<char>(with);
    re = space_.row(re)[with];
    seen = fewest;
  }
  *rest = read.substr(n->seen ? n->length : 0);
  return seen || space_.witness(re, rest);
}

std::string WitnessSearch::name(uint64_t i) {
  if (letters_.empty()) {
    for (char c = 'a'; c <= 'z'; ++c)
      if (a_.text().vocabulary().spellable().test(static_cast<size_t>(c))) letters_.emplace_back(1, c);
    std::string any;
    if (letters_.empty() && space_.witness(a_.text().writable(space_.any_char()), &any)) letters_ = {escape_json(any)};
    if (letters_.empty()) letters_ = {"a"};
  }
  std::string out;
  for (; i > 0; i = (i - 1) / letters_.size()) out += letters_[(i - 1) % letters_.size()];
  return out;
}

}  // namespace structgen
