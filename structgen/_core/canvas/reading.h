// How terminals are read along the cells of a canvas, for all nodes where they begin at once.
#pragma once

#include <vector>

#include "canvas/lattice.h"
#include "chart/chart.h"

namespace structgen {

class CanvasReading {
 public:
  // Throws LimitError if it needs more than `most_bytes`.
  CanvasReading(CanvasArcs &arcs, const CanvasForm &form, const CanvasLattice &lattice, size_t most_bytes);

  // Adds the spans of all terminals to the chart.
  void add_terminals(SpanChart &chart);
  // Adds the tokens of each cell that are on a path of some useful span to its mask in `out`.
  void fill_masks(SpanChart &chart, std::vector<std::vector<uint32_t>> &out);
  // Writes the tokens of a terminal between two nodes into `out`, by cell.
  void write_tokens(uint32_t terminal, uint32_t from, uint32_t to, const std::vector<uint32_t> &preferred,
                    std::vector<uint32_t> &out);

  static std::vector<std::pair<uint32_t, uint32_t>> loops(const CanvasForm &form, const CanvasLattice &lattice);

 private:
  bool is_loop(uint32_t position) const {
    return position < form_.cells.size() && form_.cells[position].kind == CanvasCell::Gap;
  }
  uint64_t *row(std::vector<uint64_t> &of, size_t i) const { return of.data() + i * words_; }
  uint64_t *column(uint32_t terminal, uint32_t node);
  uint32_t terminal_of(const CanvasLattice::Row &r) const { return arcs_.terminal_of(r.run); }
  template <class Visit>
  void each_position(bool forward, const Visit &visit) const;
  uint32_t token_of(const CanvasLattice::Row &r, const CanvasLattice::Link &l,
                    const std::vector<uint32_t> &preferred) const;

  CanvasArcs &arcs_;
  const CanvasForm &form_;
  const CanvasLattice &lattice_;
  size_t words_;
  std::vector<uint64_t> sources_;    // of each row
  std::vector<uint64_t> columns_;    // of each terminal and node where it may end: the nodes where it may begin
  std::vector<uint32_t> first_row_;  // by position
};

}  // namespace structgen
