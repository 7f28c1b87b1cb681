// The graph of a canvas: where terminals may begin, and how cells lead from one such position to another.
//
// A *node* is a position where a terminal may begin: a boundary between two cells, or the rest of a cell's token. A
// *row* is a run that has reached a position between two cells. Only nodes on some path from the beginning to the end
// are stored; paths are checked for pairs of terminals that may follow each other.
// Invariant: nodes are in the order of the text, but for those around one gap, which lead to each other.
#pragma once

#include <string>
#include <vector>

#include "canvas/arcs.h"
#include "canvas/form.h"

namespace structgen {

struct CanvasLattice {
  struct Node {
    uint32_t position = 0;
    bool is_rest = false;
    uint32_t id = 0;  // of the boundary or the rest
    bool is_start = false, is_end = false;
  };
  struct Row {
    uint32_t position, run;
    uint32_t first, end;  // its links
  };
  struct Link {  // by a token of the cell after the row
    bool to_row;
    uint32_t to;
    uint32_t arc;  // of the run; ALONE: there is one token only
  };
  static constexpr uint32_t ALONE = UINT32_MAX;
  struct Begin {  // a terminal begins at a node: its run comes to a row
    uint32_t node, row;
  };
  struct Edge {  // a terminal that stands between two nodes inside one cell
    uint32_t from, terminal, to;
    uint32_t token;  // one of a set of tokens; otherwise ALONE
  };

  CanvasLattice(CanvasArcs &arcs, const CanvasForm &form, const CanvasLimits &limits);

  std::vector<Node> nodes;
  std::vector<Row> rows;  // by position
  std::vector<Link> links;
  std::vector<Begin> begins;  // by row
  std::vector<Edge> edges;
  std::vector<uint8_t> ends_at;      // by position: may the text end there?
  std::vector<uint32_t> empty_from;  // where closing tokens may begin after the empty text; empty: it is not a text

 private:
  class Builder;
};

}  // namespace structgen
