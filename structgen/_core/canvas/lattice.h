// The graph of a canvas: where terminals may begin, and how cells lead from one such position to another.
//
// A *node* is a position where a terminal may begin: a boundary between two cells, or the rest of a cell's token. A
// *row* is a run that has reached a position between two cells. Only nodes on some path from the beginning to the end
// are stored. On each path, consecutive terminals may follow each other.
// Invariant: nodes are in the order of the text, except for the nodes around one gap, which lead to each other.
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
  struct Link {  // an edge from a row, by a token of the cell after it
    bool to_row;
    uint32_t to;
    uint32_t arc;  // the index of the run's arc with the tokens; ALONE: the cell has one token only
  };
  static constexpr uint32_t ALONE = UINT32_MAX;
  struct Begin {  // a terminal begins at a node: its run starts in a row
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
  std::vector<uint32_t> empty_from;  // if the empty text is allowed: positions where closing tokens may begin after it

 private:
  class Builder;
};

}  // namespace structgen
