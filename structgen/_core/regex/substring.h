// Every run of neighbouring pieces of a text, as a machine of regular languages.
//
// A text of pieces (its characters, words, lines) has as many runs as pairs of pieces. The machine finds its way among
// them in the sorted suffixes that begin at a piece: what has been read is the beginning of a range of them, and the
// next byte narrows the range. A range of one suffix is a position of the text. Nothing is made for a state before it
// is reached, so compiling is linear in the text, and so is the memory: five bytes for each of its bytes, and about 70 for
// each state that was reached where the text may go on in several ways.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "util/hashing.h"
#include "regex/regex.h"

namespace structgen {

class SubstringMachine final : public Machine {
 public:
  // `ends`: where pieces of the text end, ascending; the beginning of the text may be left out. With `characters`
  // these are all its characters.
  SubstringMachine(std::string text, const std::vector<uint32_t> &ends, bool characters);

  // The empty run is accepted in the one, not in the other.
  uint64_t start() const override { return START; }
  uint64_t start_of_some() const { return suffixes_.empty() ? DEAD : START_OF_SOME; }

  uint64_t step(uint64_t state, uint8_t byte) const override;
  bool accepts(uint64_t state) const override;
  bool alive(uint64_t state) const override { return state != DEAD; }
  std::string_view alphabet() const override { return alphabet_; }
  void edges(uint64_t state, std::vector<std::pair<uint8_t, uint64_t>> &out) const override;
  bool lists_edges() const override { return true; }
  // Is it the machine of this text and these ends?
  bool is_of(std::string_view text, const std::vector<uint32_t> &ends) const;
  size_t size() const { return ranges_.size(); }  // states of several suffixes that were reached

 private:
  static constexpr uint64_t DEAD = 0, START = 1, START_OF_SOME = 2, FIRST = 3;

  // Suffixes from `from` to before `to` begin with the same `depth` bytes, which are what was read.
  struct Range {
    uint32_t from, to, depth;
    bool accepts;
  };

  Range range(uint64_t state) const;
  uint64_t state(uint32_t from, uint32_t to, uint32_t depth) const;
  bool ends_some(uint32_t from, uint32_t to, uint32_t depth) const;
  // The first suffix of the range, from `from` on, whose byte at `depth` is larger than `byte`.
  uint32_t after(uint32_t from, uint32_t to, uint32_t depth, uint8_t byte) const;

  std::string text_;
  std::string alphabet_;
  std::vector<bool> is_end_;        // by position, up to the end of the text
  std::vector<uint32_t> suffixes_;  // that begin at a piece, in order
  bool characters_;
  mutable std::vector<Range> ranges_;
  mutable std::unordered_map<Hash128, uint32_t, HashOf128> known_;
};

// The runs of the pieces as a leaf of the space: texts that end at `ends`; the empty run only where `empty`.
Re substring_language(RegexSpace &space, std::string text, const std::vector<uint32_t> &ends, bool characters,
                      bool empty);

}  // namespace structgen
