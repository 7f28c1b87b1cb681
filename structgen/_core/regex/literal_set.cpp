#include "regex/literal_set.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "regex/regex.h"
#include "util/sorting.h"
#include "util/work.h"

namespace structgen {
namespace {

constexpr uint32_t FEW = 48;  // texts of a group, which is sorted when it is read
constexpr uint32_t TEXTS_PER_UNIT = 4;

}  // namespace

// Its texts are equal before `from`, where their words start.
struct LiteralSet::Group {
  uint32_t first, last, from;
};

LiteralSet::LiteralSet(size_t count, size_t characters) {
  constexpr size_t MOST = INT32_MAX;
  if (characters > MOST || count > MOST)
    throw LimitError("a set of literals has more than 2,147,483,647 bytes (limit literal_bytes)");
  characters_.reset(new char[characters]);  // not initialised, since it is written once
  texts_.reserve(count);
}

void LiteralSet::add(std::string_view text) {
  std::copy(text.begin(), text.end(), characters_.get() + characters_held_);
  texts_.push_back({0, characters_held_, static_cast<uint32_t>(text.size()) & INT32_MAX, 0});
  characters_held_ += static_cast<uint32_t>(text.size());
}

uint64_t LiteralSet::word_of(const Text &one, uint32_t from) const {
  if (from >= one.size) return 0;
  const char *at = characters_.get() + one.at + from;
  uint64_t word = 0;
  if (one.size - from >= WORD) std::memcpy(&word, at, WORD);
  else std::memcpy(&word, at, one.size - from);
  if constexpr (std::endian::native == std::endian::little) word = __builtin_bswap64(word);
  return word;
}

void LiteralSet::find_common() {
  if (texts_.empty()) return;
  const std::string_view first = text(texts_.front());
  common_ = texts_.front().size;
  for (const Text &one : texts_) {
    const std::string_view other = text(one);
    common_ = std::min<uint32_t>(common_, one.size);
    if (std::memcmp(first.data(), other.data(), common_) == 0) continue;
    common_ = static_cast<uint32_t>(std::mismatch(first.begin(), first.begin() + common_, other.begin()).first -
                                    first.begin());
  }
}

bool LiteralSet::is_before(const Text &a, const Text &b, uint32_t from) const {
  if (a.word != b.word) return a.word < b.word;
  return text(a).substr(std::min<uint32_t>(a.size, from)) < text(b).substr(std::min<uint32_t>(b.size, from));
}

void LiteralSet::sort() {
  find_common();
  charge(texts_.size() / TEXTS_PER_UNIT);
  for (Text &one : texts_) one.word = word_of(one, common_);
  const auto is_before_next = [&](const Text &a, const Text &b) { return is_before(a, b, common_); };
  if (std::is_sorted(texts_.begin(), texts_.end(), is_before_next)) {
    for (Text &one : texts_) one.is_sorted = 1;
    return;
  }
  std::vector<Group> open{{0, size(), common_}}, deep;
  while (!open.empty()) {
    const Group group = open.back();
    open.pop_back();
    charge(1 + (group.last - group.first) / TEXTS_PER_UNIT);
    uint64_t differ = 0;
    for (uint32_t i = group.first; i < group.last; ++i) differ |= texts_[i].word ^ texts_[group.first].word;
    if (differ != 0) {
      sort_by_byte(group, static_cast<int>(8 * (WORD - 1)) - (std::countl_zero(differ) & ~7), open);
      continue;
    }
    if (group.from == common_) deep.push_back(group);
    sort_next_word(group, open);
  }
  // While they were sorted, their words started later.
  for (const Group &group : deep) {
    charge((group.last - group.first) / TEXTS_PER_UNIT);
    for (uint32_t i = group.first; i < group.last; ++i) texts_[i].word = word_of(texts_[i], common_);
  }
}

void LiteralSet::sort_range(uint32_t first, uint32_t last) {
  if (last - first > FEW || texts_[first].is_sorted) return;
  if (last - first > 1) {
    // subtle: a copy, since a limit may end the sort and this set remains in use.
    std::vector<Text> sorted(texts_.begin() + first, texts_.begin() + last);
    sort_by_comparison(sorted, common_);
    std::ranges::copy(sorted, texts_.begin() + first);
  }
  for (uint32_t i = first; i < last; ++i) texts_[i].is_sorted = 1;
}

void LiteralSet::sort_by_comparison(std::span<Text> texts, uint32_t from) const {
  uint64_t compared = COMPARED_BYTES_PER_UNIT * texts.size() / TEXTS_PER_UNIT;
  const auto charge_compared = [&] {
    if (compared < COMPARED_BYTES_PER_UNIT) return;
    charge(compared / COMPARED_BYTES_PER_UNIT);
    compared %= COMPARED_BYTES_PER_UNIT;
  };
  charge_compared();
  std::sort(texts.begin(), texts.end(), [&](const Text &a, const Text &b) {
    if (a.word == b.word) compared += std::min<uint32_t>(a.size, b.size);
    charge_compared();
    return is_before(a, b, from);
  });
}

// Sorts by one byte of the words, before which they are equal, in place (American flag sort).
void LiteralSet::sort_by_byte(const Group &group, int shift, std::vector<Group> &open) {
  std::array<uint32_t, 256> next{}, end{};
  const auto byte_of = [shift](const Text &one) { return static_cast<uint8_t>(one.word >> shift); };
  for (uint32_t i = group.first; i < group.last; ++i) ++end[byte_of(texts_[i])];
  uint32_t total = group.first;
  for (size_t b = 0; b < end.size(); ++b) {
    next[b] = total;
    end[b] = total += end[b];
    if (end[b] - next[b] > FEW) open.push_back({next[b], end[b], group.from});
  }
  const uint32_t ended = end[0];
  for (size_t b = 0; b < end.size(); ++b)
    while (next[b] < end[b]) {
      Text one = texts_[next[b]];
      for (uint8_t to = byte_of(one); to != b; to = byte_of(one)) std::swap(one, texts_[next[to]++]);
      texts_[next[b]++] = one;
    }
  // Texts that end come before those that continue with a zero byte.
  if (ended - group.first > 1 && ended - group.first <= FEW)
    sort_by_comparison(std::span(texts_).subspan(group.first, ended - group.first), group.from);
}

// All words are equal. Texts that end inside them differ only in their length, and come first.
void LiteralSet::sort_next_word(const Group &group, std::vector<Group> &open) {
  const uint32_t from = group.from + WORD;
  const auto begin = texts_.begin() + group.first, end = texts_.begin() + group.last;
  const auto longer = std::partition(begin, end, [&](const Text &one) { return one.size <= from; });
  std::sort(begin, longer, [](const Text &a, const Text &b) { return a.size < b.size; });
  for (auto i = longer; i < end; ++i) i->word = word_of(*i, from);
  // subtle: few longer ones are sorted now, since they need not have a common byte that shorter ones lack.
  const Group rest{static_cast<uint32_t>(longer - texts_.begin()), group.last, from};
  if (end - longer > FEW) open.push_back(rest);
  else sort_by_comparison({longer, end}, from);
}

uint32_t LiteralSet::first_longer(uint32_t first, uint32_t last, uint32_t depth) const {
  if (first == last || texts_[first].size != depth) return first;
  const auto has_ended = [&](const Text &one) { return one.size == depth; };
  const auto end = std::partition_point(texts_.begin() + first, texts_.begin() + last, has_ended);
  return static_cast<uint32_t>(end - texts_.begin());
}

uint32_t LiteralSet::first_with(uint32_t first, uint32_t last, uint32_t depth, unsigned least) const {
  uint32_t step = 1;
  while (first < last && byte(first, depth) < least) {  // galloping search: the next one is mostly close
    const uint32_t reach = std::min(first + step, last);
    if (reach < last && byte(reach, depth) < least) {
      first = reach + 1;
      step *= 2;
      continue;
    }
    uint32_t low = first + 1, high = reach;  // `first` is below, and `reach` is not
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (byte(middle, depth) < least) low = middle + 1;
      else high = middle;
    }
    return low;
  }
  return first;
}

}  // namespace structgen
