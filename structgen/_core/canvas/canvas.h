// A text with holes, against a constraint: can it be completed, and which tokens can stand in each cell?
//
// What: the graph of the canvas (canvas/lattice.h), the chart of its spans (chart/chart.h), and the terminals between
// them. A row has the set of nodes at which its run may have started. So one pass finds for all nodes where a terminal
// ends, and which tokens lead to a useful end.
// Invariant: a token is in the mask of a cell if and only if the canvas with that token in that cell can be completed.
// Masks only shrink as cells are filled. So a token that an older mask lacks is refused without work, and a token that
// agrees with a known completion is allowed without work.
// Cost: for n nodes and p productions about p n^3 / 64 at worst; a canvas that is mostly fixed has few spans.
// Source: Bar-Hillel, Perles and Shamir 1961 (a grammar on a graph); Lange and Leiss 2009 (the chart without normal
// form).
#pragma once

#include <memory>
#include <optional>
#include <random>

#include "canvas/lattice.h"
#include "chart/chart.h"
#include "matcher/matcher.h"
#include "util/exclusive_use.h"

namespace structgen {

// What canvases of one constraint share. Used by one thread at a time.
struct CanvasProgram {
  explicit CanvasProgram(std::shared_ptr<Program> of);
  CanvasProgram(const CanvasProgram &) = delete;
  CanvasProgram &operator=(const CanvasProgram &) = delete;
  std::shared_ptr<Program> program;
  std::optional<CanvasArcs> arcs;
};

class Canvas {
 public:
  Canvas(std::shared_ptr<CanvasProgram> program, CanvasForm form, CanvasLimits limits);

  UseFlag &in_use() { return in_use_; }
  bool completable();
  // One bit for each id; all zero if the canvas cannot be completed.
  const std::vector<uint32_t> &mask(size_t cell);
  // Puts a token into an open cell, which can then not be skipped. Returns false and changes nothing if the canvas
  // could not be completed with that token.
  bool commit(size_t cell, uint32_t token);
  // Makes a fixed cell open again.
  void reopen(size_t cell);
  // The tokens of some completion, by cell. A cell gets its `preferred` token if that is easy to do. CLOSED: a closing
  // token, or none. Nullopt if there is no completion, or if the canvas has a gap.
  static constexpr uint32_t CLOSED = UINT32_MAX;
  std::optional<std::vector<uint32_t>> completion(const std::vector<uint32_t> &preferred);
  // Sets the preferred tokens of later completions, so that these agree with commits to come.
  void prefer(std::vector<uint32_t> tokens);
  // The best completion, given a probability of each token in each cell, and the log of its probability; nullopt if
  // there is no completion. `log_p`: a row of `stride` numbers for each cell. For canvases without gaps.
  struct Weighed {
    std::vector<uint32_t> tokens;
    double log_weight;
  };
  std::optional<Weighed> best(const float *log_p, size_t stride);
  // A completion drawn in proportion to its probability, with the log of the sum over all derivations. A text with n
  // derivations is drawn n times too often, so a draw of it is accepted with probability 1/n. At most `tries` draws.
  std::optional<Weighed> draw(const float *log_p, size_t stride, std::mt19937_64 &chance, size_t tries);
  const CanvasForm &form() const { return form_; }
  const std::shared_ptr<CanvasProgram> &program() const { return program_; }
  size_t nodes() const { return nodes_; }
  size_t charts() const { return charts_; }  // that were filled

 private:
  struct Filled;
  void solve();
  void check_weighable(size_t nodes) const;
  bool may_be(size_t cell, uint32_t token) const;

  std::shared_ptr<CanvasProgram> program_;
  CanvasForm form_;
  CanvasLimits limits_;
  bool solved_ = false, completable_ = false;  // `solved_`: masks and `completable_` are those of the current form
  bool known_ = false;                         // masks are those of the current form or an earlier one
  std::vector<std::vector<uint32_t>> masks_;
  std::optional<std::vector<uint32_t>> witness_;
  std::vector<uint32_t> preferred_;
  size_t nodes_ = 0, charts_ = 0;
  UseFlag in_use_{
      "this canvas is in use by another thread. Give each thread a canvas of its own: canvas.fork() makes one in the "
      "same "
      "state"};
};

}  // namespace structgen
