// The texts of a regular language, ordered by their length when written in JSON.
//
// Best-first search over (text so far, derivative). The estimate is the least number of characters that must follow, so
// the search for the shortest text visits little else. Escapes count as written: a quote is two bytes, a control
// character six. Among texts of one length, letters come first.
// Cost: a queue entry for each byte that can follow each visited prefix; at most MAX_VISITED prefixes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "regex/regex.h"

namespace structgen {

// The bytes of `text` inside a JSON string, canonically escaped.
uint64_t written_length(std::string_view text);

class ShortestTexts {
 public:
  ShortestTexts(RegexSpace &space, Re language);

  // The i-th text; null when there are no more, or when the search gave up (see `gave_up`).
  const std::string *get(size_t i);
  bool gave_up() const { return gave_up_; }

 private:
  struct Entry {
    uint64_t estimate;
    uint32_t remaining;
    uint8_t rank;
    uint32_t order;
    Re re;
    uint32_t from;
    uint8_t byte;
    uint64_t written;
    bool operator<(const Entry &o) const {  // the queue returns the greatest
      if (estimate != o.estimate) return estimate > o.estimate;
      if (remaining != o.remaining) return remaining > o.remaining;
      if (rank != o.rank) return rank > o.rank;
      return order > o.order;
    }
  };
  struct Visited {
    uint32_t from;
    uint8_t byte;
  };
  void push(Re re, uint32_t from, uint8_t byte, uint64_t written);
  bool find_next();
  std::string text_to(uint32_t visited) const;

  RegexSpace &space_;
  std::vector<Entry> queue_;
  std::vector<Visited> visited_;
  std::vector<std::string> texts_;
  uint32_t order_ = 0;
  bool gave_up_ = false;
};

}  // namespace structgen
