// The rest of a key, for a completion: owed keys first, then declared ones, then any.
#include <algorithm>
#include <bit>

#include "text/json_space.h"
#include "json/shortest/shortest_values.h"
#include "util/sorting.h"
#include "completion/search.h"

namespace structgen {
namespace {

constexpr size_t MANY_GROUPS = 16;  // of a frame with branches
constexpr size_t MOST_OTHERS = 40;  // undeclared keys that are tried at one place

// The first declared key of the range that may come, from `i` on: `owed` ones, others, or (null) any. Word by word, since
// of a large object most keys may be there already.
uint32_t next_key(const KeyFrame *n, uint32_t i, const Bits *required, bool owed) {
  for (; i < n->match_end; i = (i | 63) + 1) {
    uint64_t word = n->allowed[i >> 6];
    if (required) word &= owed ? (*required)[i >> 6] : ~(*required)[i >> 6];
    word &= ~uint64_t{0} << (i & 63);
    if (word != 0) return std::min(n->match_end, (i & ~63u) + static_cast<uint32_t>(std::countr_zero(word)));
  }
  return n->match_end;
}

}  // namespace

// Trying keys one by one would ask all branches about each.
const Frame *WitnessSearch::rest_of_object(const JsonFrame *n) {
  const auto *begun = as_if<KeyFrame>(n);
  const ObjectFrame *frame = begun ? begun->object() : as<ObjectFrame>(n);
  ObjectControl *o = frame->control;
  if (o->simple || o->groups.size() < MANY_GROUPS || (begun && begun->escape != 0) || hopeless_.contains(n)) return nullptr;
  const KeyUniverse &u = *o->universe;
  const ObjectView view = frame->view();
  std::optional<ObjectCompletion> rest = n->json->objects().complete(o, view, -1);
  auto is_next = [&](uint32_t i) { return i >= begun->match_begin && i < begun->match_end && bit(begun->allowed, i); };
  auto key_rank = [&](const std::string &key) {
    const int64_t i = u.find(key);
    return i < 0 ? u.keys.size() : u.rank[static_cast<size_t>(i)];
  };
  auto begins = [&](auto &part) {
    const int64_t i = u.find(part.first);
    return i >= 0 && is_next(static_cast<uint32_t>(i));
  };
  // A key that has begun, or that a comma asks for, need not be one that is wanted.
  if (begun && rest && std::none_of(rest->keys.begin(), rest->keys.end(), begins)) {
    const uint32_t i = next_key(begun, begun->match_begin, nullptr, false);
    rest = i < begun->match_end ? n->json->objects().complete(o, view, i) : std::nullopt;
  }
  const size_t before = out_.size();
  const JsonFrame *m = rest && !(rest->keys.empty() && rest->extras.empty()) ? n : nullptr;
  if (m) {
    charge(rest->keys.size() * search_work(rest->keys.size()));
    std::stable_sort(rest->keys.begin(), rest->keys.end(), [&](auto &a, auto &b) {
      const bool first = begun && begins(a), second = begun && begins(b);
      return first != second ? first : key_rank(a.first) < key_rank(b.first);
    });
  }
  for (size_t i = 0; m && i < rest->keys.size() && !spent(); ++i)
    m = as_if<JsonFrame>(key_and_value(m, rest->keys[i].first, rest->keys[i].second));
  std::unordered_map<Re, size_t> used;
  for (size_t i = 0; m && i < rest->extras.size() && !spent(); ++i) {
    auto &[language, value] = rest->extras[i];
    const KeyTree *seen = frame->seen_extra;
    const std::string *key;
    do {
      charge();
      key = n->json->shortest().undeclared_key(*o, language, used[language]++);
    } while (key && seen && has_key(seen, *key));
    m = key ? as_if<JsonFrame>(key_and_value(m, *key, value)) : nullptr;
  }
  if (m && m != n) return m;
  out_.resize(before);
  hopeless_.insert(n);
  return nullptr;
}

bool WitnessSearch::by_rest_of_object(const JsonFrame *n) {
  const size_t before = out_.size();
  const Frame *rest = rest_of_object(n);
  if (rest && from(rest)) return true;
  out_.resize(before);
  return false;
}

// From a frame, or from a key of which some is there already.
const Frame *WitnessSearch::key_and_value(const JsonFrame *from, std::string_view key, Formula value) {
  std::string text;
  steps_ += WHOLE;
  if (!from->json->shortest().text(value, &text)) return nullptr;
  const Frame *n = from;
  const auto *object = as_if<ObjectFrame>(n);
  if (is<ScalarFrame>(n) || (object && object->phase == Phase::AfterValue)) {
    n = read_space_before(n, ',');
    if (n) n = read(n, ",");
  }
  auto read_up_to = [&](char c) {
    while ((object = as_if<ObjectFrame>(n))) {
      const char blank = space_owed(object->options(), object->space);
      if (!blank && !(c == '"' && lines(object->options()) && object->space == SPACE_EMPTY)) break;
      n = read(n, blank ? std::string(1, blank) : "\n");
    }
    if (n) n = read(n, {&c, 1});
  };
  if (as_if<ObjectFrame>(n)) read_up_to('"');
  if (const auto *begun = as_if<KeyFrame>(n)) n = read(n, escape_json(key.substr(begun->length)) + '"');
  if (n) read_up_to(':');
  return n ? read_value_of(n, text) : nullptr;
}

const Frame *WitnessSearch::simple_key(const KeyFrame *key) {
  const Frame *state = end_escape(key);
  const auto *n = as_if<KeyFrame>(state);
  if (!n) return state;
  const ObjectControl &o = *n->object()->control;
  for (bool owed : {true, false})
    if (const uint32_t i = next_key(n, n->match_begin, &o.required, owed); i < n->match_end)
      return read(n, escape_json(std::string_view(o.universe->keys[i]).substr(n->length)) + '"');
  std::string text;
  for (uint64_t i = 0; n->text != TextSpace::DEAD && extra_key(n, i, &text); ++i)
    if (const Frame *next = read(n, text)) return next;
  return nullptr;
}

// The state after the escape that has begun in a key.
const Frame *WitnessSearch::end_escape(const KeyFrame *key) {
  const Frame *n = key;
  for (; key && key->escape != 0; key = as_if<KeyFrame>(n)) n = any_of(n, ESCAPE_BYTES);
  return n;
}

bool WitnessSearch::key(const KeyFrame *n, size_t before) {
  const ObjectControl &o = *n->object()->control;
  const KeyUniverse &u = *o.universe;
  std::vector<std::string> texts, others;
  auto offer = [&](bool owed) {
    const Bits *required = o.simple ? &o.required : nullptr;
    for (uint32_t i = next_key(n, n->match_begin, required, owed); i < n->match_end; i = next_key(n, i + 1, required, owed)) {
      texts.push_back(escape_json(std::string_view(u.keys[i]).substr(n->length)) + '"');
      if (o.simple) return;
    }
  };
  if (n->escape != 0) {
    if (const auto *next = as_if<KeyFrame>(end_escape(n)); next && key(next, out_.size())) return true;
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
      const Frame *next = read(n, text);
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

bool WitnessSearch::closing_key(const KeyFrame *n, const std::vector<std::string> &texts) {
  if (n->object()->control->simple) return false;
  for (const std::string &t : texts) {
    const size_t here = out_.size();
    const Frame *next = read(n, t);
    if (next) next = read(next, ":");
    const auto *value = as_if<ValueFrame>(next);
    next = value ? closing_value(value) : nullptr;
    if (next && from(next)) return true;
    out_.resize(here);
    if (spent()) return false;
  }
  return false;
}

bool WitnessSearch::extra_key(const KeyFrame *n, uint64_t i, std::string *text) {
  ObjectControl *o = n->object()->control;
  *text = "\"";
  if (i == 0) return true;
  const Re re = a_.text().re(n->text);
  // One key of each kind first, where patterns tell them apart.
  if (n->length == 0 && !o->patterns.empty()) {
    const auto [it, fresh] = examples_.try_emplace(o);
    if (fresh) it->second = n->json->objects().undeclared_key_examples(o);
    if (i <= it->second.size()) {
      *text = escape_json(it->second[i - 1]) + '"';
      return true;
    }
    i -= it->second.size();
  }
  if (re == RegexSpace::ANY_TEXT) {
    // One more name than there are keys: one of them is free.
    const uint64_t keys = n->object()->key_count;
    if (i > keys + o->universe->keys.size() + 1) return false;
    *text = name(keys + i) + '"';
    return true;
  }
  std::string one;
  if (i > 1 || !other_key(n, re, &one)) return false;
  *text = escape_json(one) + '"';
  return true;
}

// Follows the fewest keys until no key is left.
bool WitnessSearch::other_key(const KeyFrame *n, Re re, std::string *rest) {
  const KeyTree *seen = n->seen_extra;
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
  *rest = read.substr(n->seen_extra ? n->length : 0);
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
