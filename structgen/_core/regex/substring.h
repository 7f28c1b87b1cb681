// Every run of neighbouring pieces of a text, as a machine for regular languages.
//
// A text of pieces (its characters, words, lines) has as many runs as pairs of pieces. The machine uses the sorted
// suffixes that begin at a piece: the text so far is the common beginning of a range of suffixes, and the next byte
// narrows the range. A range of one suffix is a position of the text. A state is made when it is reached, so compiling
// takes linear time and memory: five bytes for each byte of the text, and about 70 for each reached state with several
// continuations.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "regex/regex.h"
#include "util/hashing.h"

namespace structgen {

class SubstringMachine final : public Machine {
 public:
  // `ends`: the ends of the pieces, ascending; the start of the text may be omitted. `characters`: the pieces are all
  // characters of the text.
  SubstringMachine(std::string text, const std::vector<uint32_t> &ends, bool characters);

  // `start` accepts the empty run, `start_of_some` does not.
  uint64_t start() const override { return START; }
  uint64_t start_of_some() const { return suffixes_.empty() ? DEAD : START_OF_SOME; }

  uint64_t step(uint64_t state, uint8_t byte) const override;
  bool accepts(uint64_t state) const override;
  bool alive(uint64_t state) const override { return state != DEAD; }
  std::string_view alphabet() const override { return alphabet_; }
  void edges(uint64_t state, std::vector<std::pair<uint8_t, uint64_t>> &out) const override;
  bool lists_edges() const override { return true; }
  // Is this the machine of the text with these ends?
  bool is_of(std::string_view text, const std::vector<uint32_t> &ends) const;
  size_t size() const { return ranges_.size(); }  // reached states of several suffixes

 private:
  static constexpr uint64_t DEAD = 0, START = 1, START_OF_SOME = 2, FIRST = 3;

  // Suffixes [from, to) begin with the same `depth` bytes, the text so far.
  struct Range {
    uint32_t from, to, depth;
    bool accepts;
  };

  Range range(uint64_t state) const;
  uint64_t state(uint32_t from, uint32_t to, uint32_t depth) const;
  bool ends_some(uint32_t from, uint32_t to, uint32_t depth) const;
  // The first suffix of the range, from `from` on, whose byte at `depth` is greater than `byte`.
  uint32_t after(uint32_t from, uint32_t to, uint32_t depth, uint8_t byte) const;

  std::string text_;
  std::string alphabet_;
  std::vector<bool> is_end_;        // by position, up to the end of the text
  std::vector<uint32_t> suffixes_;  // that begin at a piece, in order
  bool characters_;
  mutable std::vector<Range> ranges_;
  mutable std::unordered_map<Hash128, uint32_t, HashOf128> known_;
};

// The runs of pieces as a leaf of the space; pieces end at `ends`. `empty`: the empty run is included.
Re substring_language(RegexSpace &space, std::string text, const std::vector<uint32_t> &ends, bool characters,
                      bool empty);

}  // namespace structgen
