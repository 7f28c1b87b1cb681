// How terminals are read along the cells of a canvas, for all nodes where they begin at once.
#pragma once

#include <vector>

#include "canvas/lattice.h"
#include "chart/chart.h"

namespace structgen {

class CanvasReading {
 public:
  // Throws LimitError where it takes more than `most_bytes`.
  CanvasReading(CanvasArcs &arcs, const CanvasForm &form, const CanvasLattice &lattice, size_t most_bytes);

  // Which terminals stand between which nodes.
  void tell(SpanChart &chart);
  // The tokens of each cell that some useful span leads through.
  void masks(SpanChart &chart, std::vector<std::vector<uint32_t>> &out);
  // The tokens of a terminal that stands between two nodes, by cell.
  void tokens(uint32_t terminal, uint32_t from, uint32_t to, const std::vector<uint32_t> &preferred,
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
