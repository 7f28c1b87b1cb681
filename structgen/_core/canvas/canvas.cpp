#include "canvas/canvas.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "canvas/paths.h"
#include "canvas/reading.h"

namespace structgen {
namespace {

// Writes the tokens of a derivation into `out`. For canvases without gaps.
class Derivation {
 public:
  Derivation(const BinaryGrammar &g, const SpanChart &chart, CanvasReading &reading, size_t nodes,
             const std::vector<uint32_t> &preferred, std::vector<uint32_t> &out)
      : g_(g), chart_(chart), reading_(reading), nodes_(nodes), preferred_(preferred), out_(out) {}

  void write(uint32_t symbol, uint32_t from, uint32_t to) {
    struct Span {
      uint32_t symbol, from, to;
    };
    std::vector<Span> todo{{symbol, from, to}};
    while (!todo.empty()) {
      charge();
      const Span span = todo.back();
      todo.pop_back();
      // The symbols that unit rules lead to, each once, so that a cycle of unit rules ends.
      std::vector<uint32_t> same{span.symbol};
      for (size_t i = 0; i < same.size(); ++i) {
        charge();
        const uint32_t s = same[i];
        if (s < g_.terminal_count()) {
          reading_.write_tokens(s, span.from, span.to, preferred_, out_);
          break;
        }
        uint32_t middle = 0;
        const BinaryGrammar::Pair *pair = split(s, span.from, span.to, &middle);
        if (pair) {
          todo.push_back({pair->right, middle, span.to});
          todo.push_back({pair->left, span.from, middle});
          break;
        }
        for (uint32_t unit : g_.units_of[s])
          if (chart_.has(unit, span.from, span.to) && std::find(same.begin(), same.end(), unit) == same.end())
            same.push_back(unit);
      }
    }
  }

 private:
  const BinaryGrammar::Pair *split(uint32_t symbol, uint32_t from, uint32_t to, uint32_t *middle) const {
    for (const BinaryGrammar::Pair &pair : g_.pairs_of[symbol]) {
      const uint64_t *left = chart_.spans(pair.left, from);
      for (size_t w = from / 64; w <= to / 64; ++w)
        for (uint64_t rest = left[w]; rest; rest &= rest - 1) {
          *middle = static_cast<uint32_t>(w * 64 + static_cast<size_t>(std::countr_zero(rest)));
          if (*middle < nodes_ && chart_.has(pair.right, *middle, to)) return &pair;
        }
    }
    return nullptr;
  }

  const BinaryGrammar &g_;
  const SpanChart &chart_;
  CanvasReading &reading_;
  size_t nodes_;
  const std::vector<uint32_t> &preferred_;
  std::vector<uint32_t> &out_;
};

bool has_gap(const CanvasForm &form) {
  return std::any_of(form.cells.begin(), form.cells.end(),
                     [](const CanvasCell &c) { return c.kind == CanvasCell::Gap; });
}

}  // namespace

CanvasProgram::CanvasProgram(std::shared_ptr<Program> of) : program(std::move(of)) {
  Program::Turn turn(*program, Program::SEARCH);
  const Uncounted own;  // a canvas has limits of its own
  if (const std::string why = canvas_obstacle(program->automaton().plan(), program->space()); !why.empty())
    throw std::invalid_argument(why);
  arcs.emplace(program->automaton().plan(), program->space());
}

Canvas::Canvas(std::shared_ptr<CanvasProgram> program, CanvasForm form, CanvasLimits limits)
    : program_(std::move(program)), form_(std::move(form)), limits_(limits), masks_(form_.cells.size()) {}

// The graph of a form, and its chart.
struct Canvas::Filled {
  Filled(CanvasArcs &arcs, const CanvasForm &form, const CanvasLimits &limits)
      : lattice(arcs, form, limits),
        chart(arcs.grammar(), lattice.nodes.size(), CanvasReading::loops(form, lattice), limits.bytes, limits.words),
        reading(arcs, form, lattice, limits.bytes) {
    for (uint32_t i = 0; i < lattice.nodes.size(); ++i) {
      if (lattice.nodes[i].is_start) starts.push_back(i);
      if (lattice.nodes[i].is_end) ends.push_back(i);
    }
    reading.add_terminals(chart);
    has_text = chart.fill(starts, ends);
  }

  // The tokens of a text, with as many of `preferred` as are useful; CLOSED for cells after the text. For canvases
  // without gaps.
  std::vector<uint32_t> completion(const BinaryGrammar &g, const std::vector<uint32_t> &preferred,
                                   const CanvasForm &form) {
    const size_t cells = form.cells.size();
    std::vector<uint32_t> out(cells, CLOSED);
    // By the end of the text: the cells after it that should be closed, minus those that should not. Without
    // preferences the longest text is best, since it leaves most cells open to agreement.
    std::vector<int64_t> worth(cells + 1);
    for (size_t p = cells; p-- > 0;) {
      const bool closes = p < preferred.size() && form.closes_with(preferred[p]);
      worth[p] = worth[p + 1] + (closes ? 1 : -1);
    }
    uint32_t from = 0, to = 0;
    bool found = false;
    for (uint32_t u : starts)
      for (uint32_t v : ends) {
        if (!chart.has(g.start, u, v)) continue;
        if (found && worth[lattice.nodes[to].position] >= worth[lattice.nodes[v].position]) continue;
        from = u, to = v, found = true;
      }
    if (found) Derivation(g, chart, reading, lattice.nodes.size(), preferred, out).write(g.start, from, to);
    return out;
  }

  CanvasLattice lattice;
  SpanChart chart;
  CanvasReading reading;
  std::vector<uint32_t> starts, ends;
  bool has_text = false;  // other than the empty one
};

void Canvas::solve() {
  if (solved_) return;
  Program::Turn turn(*program_->program, Program::SEARCH);
  const Uncounted own;  // a canvas has limits of its own
  CanvasArcs &arcs = *program_->arcs;
  const BinaryGrammar &g = arcs.grammar();
  Filled filled(arcs, form_, limits_);
  const CanvasLattice &lattice = filled.lattice;
  nodes_ = lattice.nodes.size();
  ++charts_;
  known_ = false;  // for the case that a limit is reached below
  completable_ = filled.has_text || !lattice.empty_from.empty();
  for (auto &mask : masks_) mask.assign(arcs.vocabulary().words(), 0);
  auto closes = static_cast<uint32_t>(form_.cells.size());  // the first cell that a closing token may fill
  witness_.reset();
  if (completable_ && !has_gap(form_)) witness_ = filled.completion(g, preferred_, form_);
  if (filled.has_text) {
    filled.chart.find_useful();
    filled.reading.fill_masks(filled.chart, masks_);
    for (uint32_t u : filled.starts)
      for (uint32_t v : filled.ends)
        if (filled.chart.has(g.start, u, v)) closes = std::min(closes, lattice.nodes[v].position);
  }
  for (uint32_t p : lattice.empty_from) closes = std::min(closes, p);
  for (size_t p = closes; p < form_.cells.size() && completable_; ++p)
    for (uint32_t id : form_.closing)
      if (form_.cells[p].allows(id)) masks_[p][id >> 5] |= 1u << (id & 31);
  solved_ = known_ = true;
}

bool Canvas::completable() {
  solve();
  return completable_;
}

const std::vector<uint32_t> &Canvas::mask(size_t cell) {
  solve();
  return masks_[cell];
}

bool Canvas::may_be(size_t cell, uint32_t token) const { return masks_[cell][token >> 5] >> (token & 31) & 1; }

bool Canvas::commit(size_t cell, uint32_t token) {
  CanvasCell &at = form_.cells[cell];
  if (at.kind == CanvasCell::Fixed) return at.token == token;
  if (at.kind == CanvasCell::Gap)
    throw std::invalid_argument("a gap holds any number of tokens, so a single token cannot be put into it");
  if (!known_) solve();
  if (!completable_ || !may_be(cell, token)) return false;
  // After the text of the known completion, any closing token may fill a cell, unless some cells may be skipped.
  const bool agrees = witness_ && ((*witness_)[cell] == token ||
                                   ((*witness_)[cell] == CLOSED && form_.skips.empty() && form_.closes_with(token)));
  CanvasForm before;
  if (!agrees && !solved_) before = form_;
  at = {CanvasCell::Fixed, token, {}};
  std::erase_if(form_.skips, [&](const auto &skip) { return skip.first <= cell && cell < skip.second; });
  if (agrees || solved_) {  // masks of the current form are exact for one token
    if (!agrees) witness_.reset();
    solved_ = false;
    return true;
  }
  // subtle: deciding whether the canvas can be completed takes half a chart. The old masks stay: they allow too much,
  // which is good enough for the next commit.
  Program::Turn turn(*program_->program, Program::SEARCH);
  const Uncounted own;  // a canvas has limits of its own
  std::optional<std::vector<uint32_t>> completion;
  try {
    Filled filled(*program_->arcs, form_, limits_);
    ++charts_;
    if (!filled.has_text && filled.lattice.empty_from.empty()) {
      form_ = std::move(before);
      masks_[cell][token >> 5] &= ~(1u << (token & 31));
      return false;
    }
    if (!has_gap(form_)) completion = filled.completion(program_->arcs->grammar(), preferred_, form_);
  } catch (...) {  // a limit was reached: whether the token is allowed is unknown
    form_ = std::move(before);
    throw;
  }
  witness_ = std::move(completion);
  return true;
}

void Canvas::reopen(size_t cell) {
  CanvasCell &at = form_.cells[cell];
  if (at.kind != CanvasCell::Fixed) return;
  at = {};
  solved_ = known_ = false;  // subtle: the witness stays, since it still completes the canvas
}

std::optional<std::vector<uint32_t>> Canvas::completion(const std::vector<uint32_t> &preferred) {
  if (preferred != preferred_) {
    preferred_ = preferred;
    if (!witness_) solved_ = false;
  }
  if (!witness_) solve();
  return witness_;
}

void Canvas::prefer(std::vector<uint32_t> tokens) { preferred_ = std::move(tokens); }

void Canvas::check_weighable(size_t nodes) const {
  const size_t bytes = CanvasPaths::bytes(program_->arcs->grammar(), nodes);
  if (bytes > limits_.bytes)
    throw LimitError("the weights of a canvas take " + std::to_string(bytes >> 20) + " MiB (limit canvas_bytes)");
}

std::optional<Canvas::Weighed> Canvas::best(const float *log_p, size_t stride) {
  if (has_gap(form_)) throw std::invalid_argument("a canvas with a gap has no best completion");
  Program::Turn turn(*program_->program, Program::SEARCH);
  const Uncounted own;  // a canvas has limits of its own
  Filled filled(*program_->arcs, form_, limits_);
  if (!filled.has_text && filled.lattice.empty_from.empty()) return std::nullopt;
  check_weighable(filled.lattice.nodes.size());
  filled.chart.find_useful();
  CanvasPaths paths(*program_->arcs, form_, filled.lattice, filled.chart, CanvasPaths::Of::Best, log_p, stride);
  if (std::isinf(paths.total())) return std::nullopt;
  return Weighed{paths.read(nullptr, CLOSED), paths.total()};
}

std::optional<Canvas::Weighed> Canvas::draw(const float *log_p, size_t stride, std::mt19937_64 &chance, size_t tries) {
  if (has_gap(form_)) throw std::invalid_argument("a canvas with a gap has no best completion");
  Program::Turn turn(*program_->program, Program::SEARCH);
  const Uncounted own;  // a canvas has limits of its own
  CanvasArcs &arcs = *program_->arcs;
  Filled filled(arcs, form_, limits_);
  if (!filled.has_text && filled.lattice.empty_from.empty()) return std::nullopt;
  check_weighable(filled.lattice.nodes.size());
  filled.chart.find_useful();
  CanvasPaths paths(arcs, form_, filled.lattice, filled.chart, CanvasPaths::Of::All, log_p, stride);
  if (std::isinf(paths.total())) return std::nullopt;
  size_t words_left = filled.chart.words_left();  // shared by all tries
  for (size_t i = 0; i < tries; ++i) {
    std::vector<uint32_t> tokens = paths.read(&chance, CLOSED);
    CanvasForm fixed;
    for (size_t p = 0; p < tokens.size(); ++p) {
      const bool is_closing = std::find(form_.closing.begin(), form_.closing.end(), tokens[p]) != form_.closing.end();
      if (tokens[p] != CLOSED && !is_closing) fixed.cells.push_back({CanvasCell::Fixed, tokens[p], {}});
    }
    CanvasLimits rest = limits_;
    rest.words = words_left;
    Filled drawn(arcs, fixed, rest);
    drawn.chart.find_useful();
    const double log_derivations =
        CanvasPaths(arcs, fixed, drawn.lattice, drawn.chart, CanvasPaths::Of::All, nullptr, 0).total();
    words_left = drawn.chart.words_left();
    const double u = static_cast<double>(chance() >> 11) * 0x1p-53;
    if (u < std::exp(-log_derivations)) return Weighed{std::move(tokens), paths.total()};
  }
  throw LimitError("of " + std::to_string(tries) +
                   " drawn completions none was accepted, since texts of this grammar have very many derivations "
                   "(limit canvas_tries)");
}

}  // namespace structgen
