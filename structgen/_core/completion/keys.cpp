// The rest of a key, for a completion: required keys first, then declared ones, then any.
#include <algorithm>
#include <bit>

#include "completion/search.h"
#include "json/shortest/shortest_values.h"
#include "text/json_space.h"
#include "util/sorting.h"

namespace structgen {
namespace {

constexpr size_t MANY_GROUPS = 16;     // in an object with branches
constexpr size_t MAX_EXTRA_KEYS = 40;  // that are tried at one place

enum class Keys : uint8_t { All, Required, Optional };

// The first declared key that may come, from index `i` on, or `match_end`. Reads word by word, since a large object may
// have most of its keys already. `required`: null where every key counts.
uint32_t next_declared_key(const KeyFrame &key, uint32_t i, Keys which, const Bits *required) {
  for (; i < key.match_end; i = (i | 63) + 1) {
    uint64_t word = key.allowed[i >> 6];
    if (which != Keys::All && required) word &= which == Keys::Required ? (*required)[i >> 6] : ~(*required)[i >> 6];
    word &= ~uint64_t{0} << (i & 63);
    if (word != 0) return std::min(key.match_end, (i & ~63u) + static_cast<uint32_t>(std::countr_zero(word)));
  }
  return key.match_end;
}

// What is left of a declared key, with its quote.
std::string rest_of_declared_key(const KeyFrame &key, uint32_t i) {
  const KeyUniverse &universe = *key.object()->control->universe;
  return escape_json(std::string_view(universe.keys[i]).substr(key.length)) + '"';
}

}  // namespace

// Trying keys one by one would query all branches about each key.
const Frame *WitnessSearch::read_rest_of_object(const JsonFrame *object_or_key) {
  const auto *open_key = as_if<KeyFrame>(object_or_key);
  const ObjectFrame &object = open_key ? *open_key->object() : *as<ObjectFrame>(object_or_key);
  ObjectControl *control = object.control;
  if (control->simple || control->groups.size() < MANY_GROUPS || hopeless_.contains(object_or_key)) return nullptr;
  if (open_key && open_key->escape != 0) return nullptr;
  const KeyUniverse &universe = *control->universe;
  JsonControl &json = *object.json;
  std::optional<ObjectCompletion> rest = json.objects().complete(control, object.view(), -1);
  const auto rank_of = [&](const std::string &key) {
    const int64_t i = universe.find(key);
    return i < 0 ? universe.keys.size() : universe.rank[static_cast<size_t>(i)];
  };
  // Can the key that is being read become this one?
  const auto can_become = [&](auto &member) {
    const int64_t found = open_key ? universe.find(member.first) : -1;
    const auto i = static_cast<uint32_t>(found);
    return found >= 0 && i >= open_key->match_begin && i < open_key->match_end && bit(open_key->allowed, i);
  };
  // A key that has started, or that follows a comma, need not be one that is needed.
  if (open_key && rest && std::none_of(rest->keys.begin(), rest->keys.end(), can_become)) {
    const uint32_t i = next_declared_key(*open_key, open_key->match_begin, Keys::All, nullptr);
    rest = i < open_key->match_end ? json.objects().complete(control, object.view(), i) : std::nullopt;
  }
  const size_t before = out_.size();
  const JsonFrame *state = rest && !(rest->keys.empty() && rest->extras.empty()) ? object_or_key : nullptr;
  if (state) {
    charge(rest->keys.size() * search_work(rest->keys.size()));
    std::stable_sort(rest->keys.begin(), rest->keys.end(), [&](auto &a, auto &b) {
      const bool is_first = can_become(a), is_second = can_become(b);
      return is_first != is_second ? is_first : rank_of(a.first) < rank_of(b.first);
    });
  }
  for (size_t i = 0; state && i < rest->keys.size() && !is_exhausted(); ++i)
    state = as_if<JsonFrame>(read_key_and_value(state, rest->keys[i].first, rest->keys[i].second));
  std::unordered_map<Re, size_t> used;
  for (size_t i = 0; state && i < rest->extras.size() && !is_exhausted(); ++i) {
    auto &[language, value] = rest->extras[i];
    const std::string *key;
    do {
      charge();
      key = json.shortest().undeclared_key(*control, language, used[language]++);
    } while (key && object.seen_extra && has_key(object.seen_extra, *key));
    state = key ? as_if<JsonFrame>(read_key_and_value(state, *key, value)) : nullptr;
  }
  if (state && state != object_or_key) return state;
  out_.resize(before);
  hopeless_.insert(object_or_key);
  return nullptr;
}

bool WitnessSearch::complete_by_rest_of_object(const JsonFrame *object_or_key) {
  const size_t before = out_.size();
  const Frame *rest = read_rest_of_object(object_or_key);
  if (rest && complete_from(rest)) return true;
  out_.resize(before);
  return false;
}

// `object_or_key`: also a scalar, after whose end the object goes on.
const Frame *WitnessSearch::read_key_and_value(const JsonFrame *object_or_key, std::string_view key, Formula value) {
  std::string text;
  steps_ += WHOLE_VALUE_STEPS;
  if (!object_or_key->json->shortest().text(value, &text)) return nullptr;
  const Frame *state = object_or_key;
  const auto *object = as_if<ObjectFrame>(state);
  if (is<ScalarFrame>(state) || (object && object->phase == Phase::AfterValue)) {
    state = read_space_before(state, ',');
    if (state) state = read(state, ",");
  }
  const auto read_up_to = [&](char token) {
    while ((object = as_if<ObjectFrame>(state))) {
      const char blank = space_owed(object->options(), object->space);
      const bool wants_line = token == '"' && lines(object->options()) && object->space == SPACE_EMPTY;
      if (!blank && !wants_line) break;
      state = read(state, blank ? std::string(1, blank) : "\n");
    }
    if (state) state = read(state, {&token, 1});
  };
  if (as_if<ObjectFrame>(state)) read_up_to('"');
  if (const auto *open_key = as_if<KeyFrame>(state))
    state = read(state, escape_json(key.substr(open_key->length)) + '"');
  if (state) read_up_to(':');
  return state ? read_value(state, text) : nullptr;
}

const Frame *WitnessSearch::read_rest_of_key(const KeyFrame *key) {
  const Frame *state = read_rest_of_escape(key);
  key = as_if<KeyFrame>(state);
  if (!key) return state;
  for (Keys which : {Keys::Required, Keys::Optional}) {
    const uint32_t i = next_declared_key(*key, key->match_begin, which, &key->object()->control->required);
    if (i < key->match_end) return read(key, rest_of_declared_key(*key, i));
  }
  std::string text;
  for (uint64_t i = 0; key->text != TextSpace::DEAD && nth_extra_key(key, i, &text); ++i)
    if (const Frame *next = read(key, text)) return next;
  return nullptr;
}

const Frame *WitnessSearch::read_rest_of_escape(const KeyFrame *key) {
  const Frame *state = key;
  for (; key && key->escape != 0; key = as_if<KeyFrame>(state)) state = read_any_of(state, ESCAPE_BYTES);
  return state;
}

bool WitnessSearch::complete_from_key(const KeyFrame *key, size_t before) {
  const ObjectControl &control = *key->object()->control;
  if (key->escape != 0) {
    if (const auto *next = as_if<KeyFrame>(read_rest_of_escape(key)); next && complete_from_key(next, out_.size()))
      return true;
    out_.resize(before);
    return false;
  }
  std::vector<std::string> declared, extra;
  const auto add_declared = [&](Keys which) {
    const Bits *required = control.simple ? &control.required : nullptr;
    for (uint32_t i = key->match_begin; (i = next_declared_key(*key, i, which, required)) < key->match_end; ++i) {
      declared.push_back(rest_of_declared_key(*key, i));
      if (control.simple) return;
    }
  };
  if (control.simple) add_declared(Keys::Required);
  if (declared.empty()) add_declared(Keys::Optional);
  if (complete_by_closing_key(key, declared)) return true;
  // In an object without branches every key will do: the first that can be read is taken, and nothing is tried twice.
  if (!declared.empty()) {
    const bool was_cut = std::exchange(was_cut_, false);
    if (complete_after_one_of(key, declared, out_.size())) return true;
    // subtle: other keys would go on for ever where the declared key that is wanted is deeper.
    const bool is_enough = mode_ != Mode::Thorough && (control.simple || was_cut_);
    was_cut_ = was_cut_ || was_cut;
    if (is_enough) {
      out_.resize(before);
      return false;
    }
  }
  const size_t here = out_.size();
  const bool is_any_text = key->text != TextSpace::DEAD && automaton_.text().re(key->text) == RegexSpace::ANY_TEXT;
  std::string text;
  for (uint64_t i = 0; key->text != TextSpace::DEAD && nth_extra_key(key, i, &text); ++i) {
    const Frame *next = read(key, text);
    if (!next) continue;
    if (declared.empty() && control.simple) {
      if (complete_from(next)) return true;
      out_.resize(before);
      return false;
    }
    out_.resize(here);
    extra.push_back(text);
    if ((is_any_text && control.patterns.empty()) || extra.size() >= MAX_EXTRA_KEYS) break;
  }
  return complete_by_closing_key(key, extra) || complete_after_one_of(key, extra, before);
}

bool WitnessSearch::complete_by_closing_key(const KeyFrame *key, const std::vector<std::string> &texts) {
  if (key->object()->control->simple) return false;
  for (const std::string &text : texts) {
    const size_t here = out_.size();
    const Frame *next = read(key, text);
    if (next) next = read(next, ":");
    const auto *value = as_if<ValueFrame>(next);
    next = value ? read_closing_value(value) : nullptr;
    if (next && complete_from(next)) return true;
    out_.resize(here);
    if (is_exhausted()) return false;
  }
  return false;
}

bool WitnessSearch::nth_extra_key(const KeyFrame *key, uint64_t i, std::string *text) {
  const ObjectFrame &object = *key->object();
  ObjectControl *control = object.control;
  *text = "\"";
  if (i == 0) return true;
  const Re re = automaton_.text().re(key->text);
  // One key of each class first, where patterns distinguish classes.
  if (key->length == 0 && !control->patterns.empty()) {
    const auto [it, is_new] = examples_.try_emplace(control);
    if (is_new) it->second = key->json->objects().undeclared_key_examples(control);
    if (i <= it->second.size()) {
      *text = escape_json(it->second[i - 1]) + '"';
      return true;
    }
    i -= it->second.size();
  }
  if (re == RegexSpace::ANY_TEXT) {
    // One more name than the object can have: one of them is free.
    const uint64_t count = object.key_count;
    if (i > count + control->universe->keys.size() + 1) return false;
    *text = nth_name(count + i) + '"';
    return true;
  }
  std::string rest;
  if (i > 1 || !unused_key(key, re, &rest)) return false;
  *text = escape_json(rest) + '"';
  return true;
}

// Follows the byte after which the object has the fewest keys, until it has none.
bool WitnessSearch::unused_key(const KeyFrame *key, Re re, std::string *rest) {
  const KeyTree *seen = key->seen_extra;
  std::string read(seen ? seen->key(key->length) : std::string_view());
  while (seen && !(space_.nullable(re) && !has_key(seen, read))) {
    charge(8);
    const KeyTree *fewest = seen;
    int with = -1;
    read += ' ';
    for (int k = 0; k < 256 && fewest; ++k) {
      const auto byte = static_cast<uint8_t>('a' + k);  // letters first, for readability
      const Re next = space_.row(re)[byte];
      if (next == RegexSpace::EMPTY || !space_.alive(next)) continue;
      charge();
      read.back() = static_cast<char>(byte);
      const KeyTree *there = keys_beginning_with(seen, read);
      if (there && with >= 0 && there->size >= fewest->size) continue;
      // Not all keys of the subtree need start with `read`: they are counted only where that may matter.
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
  *rest = read.substr(key->seen_extra ? key->length : 0);
  return seen || space_.witness(re, rest);
}

std::string WitnessSearch::nth_name(uint64_t i) {
  TextSpace &text = automaton_.text();
  if (letters_.empty()) {
    for (char c = 'a'; c <= 'z'; ++c)
      if (text.vocabulary().spellable().test(static_cast<size_t>(c))) letters_.emplace_back(1, c);
    std::string any;
    if (letters_.empty() && space_.witness(text.writable(space_.any_char()), &any)) letters_ = {escape_json(any)};
    if (letters_.empty()) letters_ = {"a"};
  }
  std::string out;
  for (; i > 0; i = (i - 1) / letters_.size()) out += letters_[(i - 1) % letters_.size()];
  return out;
}

}  // namespace structgen
