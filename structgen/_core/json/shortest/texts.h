// The texts of a regular language in the order of how long they are when written in JSON.
//
// Best first over (text so far, derivative), with the least number of characters that are still owed as
// the estimate: a walk to the shortest text looks at little else. Escapes count as written, so a quote is
// two bytes and a control character six. Texts of one length come letters first.
// Cost: a queue entry for each byte that can follow each prefix taken; at most MAX_TAKEN prefixes.
#pragma once

#include <string>
#include <vector>

#include "regex/regex.h"

namespace structgen {

// The bytes of `text` inside a JSON string, canonically escaped.
uint64_t written_length(std::string_view text);

class ShortestTexts {
 public:
  ShortestTexts(RegexSpace &space, Re language);

  // The i-th text; null when there are no more, or when the search was given up (see `exhausted`).
  const std::string *get(size_t i);
  bool exhausted() const { return exhausted_; }

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
    bool operator<(const Entry &o) const {  // the queue gives the greatest
      if (estimate != o.estimate) return estimate > o.estimate;
      if (remaining != o.remaining) return remaining > o.remaining;
      if (rank != o.rank) return rank > o.rank;
      return order > o.order;
    }
  };
  struct Taken {
    uint32_t from;
    uint8_t byte;
  };
  void push(Re re, uint32_t from, uint8_t byte, uint64_t written);
  bool next();

  RegexSpace &space_;
  std::vector<Entry> queue_;
  std::vector<Taken> taken_;
  std::vector<std::string> texts_;
  uint32_t order_ = 0;
  bool exhausted_ = false;
};

}  // namespace structgen
