#include "vocabulary/token_sets.h"

#include <algorithm>
#include <limits>

#include "util/bits.h"
#include "util/work.h"

namespace structgen {

TokenSet::TokenSet(std::vector<uint32_t> ids, const Vocabulary &vocabulary) : size_(ids.size()) {
  size_t shortest = std::numeric_limits<size_t>::max();
  for (uint32_t id : ids) {
    const size_t length = vocabulary.is_eos(id) ? 0 : vocabulary.token(id).size();
    has_text_ |= length > 0;
    // A token without text represents the set only if there is no other.
    const size_t rank = length > 0 ? length : std::numeric_limits<size_t>::max() - 1;
    if (rank < shortest) shortest = rank, sample_ = id;
  }
  if (ids.size() <= vocabulary.many()) {
    ids.shrink_to_fit();
    ids_ = std::move(ids);
    return;
  }
  bits_.resize(vocabulary.words());
  for (uint32_t id : ids) bits_[id >> 5] |= 1u << (id & 31);
}

bool TokenSet::has(uint32_t token) const {
  if (bits_.empty()) return std::binary_search(ids_.begin(), ids_.end(), token);
  return (token >> 5) < bits_.size() && (bits_[token >> 5] >> (token & 31) & 1);
}

std::vector<uint32_t> TokenSet::ids() const {
  std::vector<uint32_t> out = ids_;
  each_bit(bits_.data(), 0, bits_.size(), [&](uint32_t id) { out.push_back(id); });
  return out;
}

void TokenSet::add_to(uint32_t *mask) const {
  for (uint32_t id : ids_) mask[id >> 5] |= 1u << (id & 31);
  for (size_t w = 0; w < bits_.size(); ++w) mask[w] |= bits_[w];
}

uint32_t TokenSets::add(std::vector<uint32_t> ids) {
  charge(1 + ids.size() / 8);
  std::vector<uint32_t> ranges;
  for (uint32_t id : ids) {
    if (!ranges.empty() && ranges.back() + 1 == id) ranges.back() = id;
    else ranges.insert(ranges.end(), {id, id});
  }
  const auto [it, fresh] = numbers_.try_emplace(std::move(ranges), static_cast<uint32_t>(sets_.size()));
  if (fresh) sets_.emplace_back(std::move(ids), vocabulary_);
  return it->second;
}

std::vector<uint32_t> tokens_with_text(const Vocabulary &vocabulary, const std::string &text) {
  if (const auto id = vocabulary.special(text)) return {*id};
  if (text.empty()) return {};
  Vocabulary::Node node = Vocabulary::ROOT;
  for (unsigned char c : text) {
    charge();
    node = vocabulary.child(node, c);
    if (node == Vocabulary::NONE) return {};
  }
  const std::span<const uint32_t> ids = vocabulary.ids(node);
  return {ids.begin(), ids.end()};
}

namespace {

std::string shown(const TokenRange &range) {
  const std::string first = std::to_string(range.first);
  return range.first == range.last ? "the token " + first + " is"
                                   : "the tokens " + first + " to " + std::to_string(range.last) + " are";
}

// Sorted, and none overlaps another.
std::vector<TokenRange> merged(std::vector<TokenRange> ranges) {
  charge(1 + ranges.size());
  std::sort(ranges.begin(), ranges.end(), [](const TokenRange &a, const TokenRange &b) { return a.first < b.first; });
  std::vector<TokenRange> out;
  for (const TokenRange &range : ranges) {
    if (!out.empty() && range.first <= out.back().last) out.back().last = std::max(out.back().last, range.last);
    else out.push_back(range);
  }
  return out;
}

void add_texts(const std::vector<std::string> &texts, const Vocabulary &vocabulary, std::vector<TokenRange> &to) {
  for (const std::string &text : texts) {
    const std::vector<uint32_t> ids = tokens_with_text(vocabulary, text);
    if (ids.empty()) throw NoSuchToken{"no token of the vocabulary has the text \"" + text + "\""};
    for (uint32_t id : ids) to.push_back({id, id});
  }
}

}  // namespace

std::vector<uint32_t> tokens_of(const TokenSetParts &parts, const Vocabulary &vocabulary) {
  const uint32_t size = vocabulary.size();
  std::vector<TokenRange> ranges = parts.ranges, excluded = parts.excluded;
  for (const TokenRange &range : ranges)
    if (range.first >= size)
      throw NoSuchToken{shown(range) + " not in the vocabulary, which has " + std::to_string(size) + " tokens"};
  add_texts(parts.texts, vocabulary, ranges);
  add_texts(parts.excluded_texts, vocabulary, excluded);
  std::vector<uint32_t> alone;  // named by themselves
  for (const TokenRange &range : ranges)
    if (range.first == range.last) alone.push_back(range.first);
  std::sort(alone.begin(), alone.end());
  if (parts.is_any) ranges.push_back({0, size - 1});
  ranges = merged(std::move(ranges));
  excluded = merged(std::move(excluded));
  std::vector<uint32_t> out;
  size_t next = 0;  // of the excluded ranges
  for (const TokenRange &range : ranges)
    for (uint32_t id = range.first; id <= std::min(range.last, size - 1); ++id) {
      charge();
      while (next < excluded.size() && excluded[next].last < id) ++next;
      if (next < excluded.size() && excluded[next].first <= id) continue;
      if (vocabulary.is_eos(id) && !std::binary_search(alone.begin(), alone.end(), id)) continue;
      if (parts.is_any && vocabulary.token(id).empty() && !vocabulary.is_named(id)) continue;
      out.push_back(id);
    }
  return out;
}

}  // namespace structgen
