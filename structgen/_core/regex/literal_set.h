// A large set of texts, sorted by bytes.
//
// Each text stores eight of its bytes as a number: those after the common beginning of all texts of the set. Most
// comparisons in sorting and searching read only these numbers.
//
// Cost: the texts are copied once, and radix-sorted into groups of a few dozen. A group is sorted when it is read; most
// of a long enum is never read that far. Memory: 16 bytes and the characters of each text.
//
// Invariant: a range of texts with a common beginning is in order up to groups that are completely inside or outside of
// it. Only `sort_range` sorts groups. It is called for each range on the path from the whole set to a longer beginning,
// so a range is sorted as a whole if its first text is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace structgen {

class LiteralSet {
 public:
  // Reserves space for `count` texts of `characters` bytes in total.
  LiteralSet(size_t count, size_t characters);
  void add(std::string_view text);
  // Once, after the last text.
  void sort();
  // Sorts the groups of texts [first, last), which have a common beginning and are read further.
  void sort_range(uint32_t first, uint32_t last);

  uint32_t size() const { return static_cast<uint32_t>(texts_.size()); }
  size_t memory() const { return characters_held_ + texts_.size() * sizeof(Text); }
  uint32_t length(uint32_t i) const { return texts_[i].size; }
  std::string_view text(uint32_t i) const { return text(texts_[i]); }
  // Only of a text that is longer than `depth`.
  uint8_t byte(uint32_t i, uint32_t depth) const {
    const uint32_t place = depth - common_;
    if (place < WORD) return static_cast<uint8_t>(texts_[i].word >> (8 * (WORD - 1 - place)));
    return static_cast<uint8_t>(characters_[texts_[i].at + depth]);
  }
  // Of texts [first, last), which are equal up to `depth`: the first that is longer. Texts that end there come first.
  uint32_t first_longer(uint32_t first, uint32_t last, uint32_t depth) const;
  // Of texts [first, last), which are equal up to `depth` and longer: the first whose byte there is at least `least`.
  uint32_t first_with(uint32_t first, uint32_t last, uint32_t depth, unsigned least) const;

 private:
  static constexpr uint32_t WORD = 8;
  struct Text {
    uint64_t word;  // eight bytes from some position on, big-endian; zeros after the end
    uint32_t at;
    uint32_t size : 31;
    uint32_t is_sorted : 1;
  };
  struct Group;  // texts that are sorted among themselves
  std::string_view text(const Text &one) const { return {characters_.get() + one.at, one.size}; }
  uint64_t word_of(const Text &one, uint32_t from) const;
  void find_common();
  bool is_before(const Text &a, const Text &b, uint32_t from) const;
  void sort_by_comparison(std::span<Text> texts, uint32_t from) const;
  void sort_by_byte(const Group &group, int shift, std::vector<Group> &open);
  void sort_next_word(const Group &group, std::vector<Group> &open);

  std::unique_ptr<char[]> characters_;
  uint32_t characters_held_ = 0;
  uint32_t common_ = 0;  // bytes of the common beginning
  std::vector<Text> texts_;
};

}  // namespace structgen
