// A chart of spans: between which nodes of a graph each symbol can stand, and which of these spans are part of a whole
// text.
//
// A row of bits belongs to a symbol and the node where it begins, and has the nodes where it may end. So a production
// is applied to all ends at once. Invariant: `useful` are exactly the spans of derivations of the start symbol from a
// start node to an end node.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "chart/binary_grammar.h"
#include "chart/span_rows.h"
#include "util/work.h"

namespace structgen {

class SpanChart {
 public:
  // `loops`: ranges of nodes, from the first to before the last, that may lead back to each other. The chart throws
  // LimitError when it takes more than `most_bytes`, or reads more than `most_words`.
  SpanChart(const BinaryGrammar &grammar, size_t nodes, std::vector<std::pair<uint32_t, uint32_t>> loops,
            size_t most_bytes, size_t most_words);

  size_t words() const { return words_; }
  // Counts work for the chart, in words that are read. Throws LimitError.
  void count(size_t words) {
    if (words > words_left_) throw_limit();
    words_left_ -= words;
    charge(1 + words / 4);
  }
  size_t words_left() const { return words_left_; }
  // Adds a span of a terminal.
  void add(uint32_t terminal, uint32_t from, uint32_t to) { inside(terminal, from)[to / 64] |= uint64_t{1} << to % 64; }
  // Finds all spans. False: there is no text from a start to an end.
  bool fill(std::span<const uint32_t> starts, std::span<const uint32_t> ends);
  // Finds the useful spans. The chart must have a text.
  void find_useful();

  const uint64_t *spans(uint32_t symbol, uint32_t from) const { return inside_.at(size_t{symbol} * nodes_ + from); }
  const uint64_t *useful(uint32_t symbol, uint32_t from) const { return outside_.at(size_t{symbol} * nodes_ + from); }
  bool has(uint32_t symbol, uint32_t from, uint32_t to) const { return spans(symbol, from)[to / 64] >> to % 64 & 1; }

 private:
  uint64_t *inside(uint32_t symbol, uint32_t from) { return inside_.make(size_t{symbol} * nodes_ + from); }
  uint64_t *outside(uint32_t symbol, uint32_t from) { return outside_.make(size_t{symbol} * nodes_ + from); }
  [[noreturn]] static void throw_limit();
  void expect(uint32_t symbol);  // puts it into the queue
  void fill_inside(uint32_t from);
  void finish(uint32_t from);  // marks the spans that begin there as final
  void fill_outside(uint32_t from);
  struct EqualRows;
  std::vector<EqualRows> equal_rows(uint32_t symbol, uint32_t first) const;
  void fill_inside_loop(uint32_t first, uint32_t end);
  bool fill_outside_loop(uint32_t first, uint32_t end);

  const BinaryGrammar &g_;
  size_t nodes_, words_;
  std::vector<std::pair<uint32_t, uint32_t>> loops_;
  size_t budget_, words_left_;
  SpanRows inside_, outside_;
  std::vector<std::pair<uint32_t, uint32_t>> texts_;  // from a start to an end
  std::vector<uint8_t> any_;                          // by symbol and node: does some span begin there?
  // Of one node, while it is filled.
  std::vector<uint64_t> pending_, delta_;
  std::vector<uint32_t> queue_;
  std::vector<uint8_t> queued_;
};

}  // namespace structgen
