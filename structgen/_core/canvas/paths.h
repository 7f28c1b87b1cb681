// The most likely completion of a canvas, and completions drawn in proportion to how likely they are.
//
// Each cell has a probability for each token, independent of other cells, as a masked diffusion model gives them. Each
// useful span of the chart gets a weight: that of its best derivation, or the sum over all of its derivations. The
// completion is then read off, or drawn, from the start symbol down.
//
// Invariant: a chain of unit rules counts as one step of a derivation. If every text has one derivation, as in regular
// languages, the sums add up the texts. Otherwise a sampler counts the derivations of a completion and corrects for
// them
// (`Canvas::draw`).
// Source: Viterbi 1967, and Suresh et al. 2025 (arXiv 2505.23061, "DINGO") for regular languages; Goodman 1999
// ("Semiring parsing") for grammars. Cost: n^3 p for n nodes and p productions.
#pragma once

#include <limits>
#include <random>

#include "canvas/lattice.h"
#include "chart/chart.h"

namespace structgen {

class CanvasPaths {
 public:
  static size_t bytes(const BinaryGrammar &grammar, size_t nodes) {
    return 2 * sizeof(float) * grammar.size() * nodes * nodes;
  }
  enum class Of : uint8_t { Best, All };

  // `log_p`: a row of `stride` log probabilities for each cell; null: every token has weight one.
  CanvasPaths(CanvasArcs &arcs, const CanvasForm &form, const CanvasLattice &lattice, SpanChart &chart, Of of,
              const float *log_p, size_t stride);

  // The log of the weight of all completions (`Of::All`), or of the best one.
  double total() const { return total_; }
  // The tokens of the best completion (`chance` null), or of a drawn one; `closed` for cells without a token.
  std::vector<uint32_t> read(std::mt19937_64 *chance, uint32_t closed);

 private:
  struct Span {
    uint32_t symbol, from, to;
  };
  static constexpr float NEVER = -std::numeric_limits<float>::infinity();
  float sum(float a, float b) const;
  float &value(std::vector<float> &of, uint32_t symbol, uint32_t from, uint32_t to) const {
    return of[(size_t{symbol} * nodes_ + from) * nodes_ + to];
  }
  bool is_useful(uint32_t symbol, uint32_t from, uint32_t to) const {
    return chart_.useful(symbol, from)[to / 64] >> to % 64 & 1;
  }
  float weigh(size_t cell, uint32_t token) const;
  float weigh_link(const CanvasLattice::Row &row, const CanvasLattice::Link &link) const;
  template <class Visit>
  void each_token(const CanvasLattice::Row &row, const CanvasLattice::Link &link, const Visit &visit) const;
  float weigh_closing(size_t cell) const;
  void find_closures();
  void weigh_terminals(uint32_t from);
  void read_rows(uint32_t from, std::vector<float> &rows);
  void weigh_spans();
  uint32_t pick_closing(size_t cell, std::mt19937_64 *chance) const;
  void read_terminal(const Span &span, std::mt19937_64 *chance, std::vector<uint32_t> &out);

  CanvasArcs &arcs_;
  const CanvasForm &form_;
  const CanvasLattice &lattice_;
  SpanChart &chart_;
  const BinaryGrammar &g_;
  const Of of_;
  const float *log_p_;
  const size_t stride_, nodes_;
  std::vector<std::vector<uint32_t>> closures_, closures_into_;  // by symbol: those that unit rules lead to, or from
  std::vector<float> link_weights_;
  std::vector<float> core_, full_;                           // without and with unit rules at the top
  std::vector<std::vector<uint32_t>> begins_of_, edges_of_;  // by node
  struct End {
    uint32_t from, to;
    float weight;
  };
  std::vector<End> ends_;  // whole texts; `from` NONE: the empty one, closed from cell `to` on
  double total_ = -std::numeric_limits<double>::infinity();
};

}  // namespace structgen
