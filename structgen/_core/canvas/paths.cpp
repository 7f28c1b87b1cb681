#include "canvas/paths.h"

#include <algorithm>
#include <cmath>

#include "util/bits.h"

namespace structgen {
namespace {

constexpr uint32_t NONE = CanvasArcs::NONE;

double uniform(std::mt19937_64 &chance) { return static_cast<double>(chance() >> 11) * 0x1p-53; }

// Chooses among options with log weights: the best one, or one drawn in proportion to its weight.
template <class Choice>
class Pick {
 public:
  explicit Pick(std::mt19937_64 *chance) : chance_(chance) {}
  void offer(const Choice &choice, float weight) {
    if (std::isinf(weight)) return;
    if (!chance_) {
      if (!any_ || weight > best_) best_ = weight, chosen_ = choice;
      any_ = true;
      return;
    }
    // Reservoir sampling. Weights are relative to the greatest weight so far.
    if (!any_ || weight > best_) {
      total_ = any_ ? total_ * std::exp(static_cast<double>(best_) - weight) : 0;
      best_ = weight;
    }
    const double mine = std::exp(static_cast<double>(weight) - best_);
    total_ += mine;
    if (uniform(*chance_) * total_ < mine || !any_) chosen_ = choice;
    any_ = true;
  }
  const Choice &chosen() const { return chosen_; }
  bool any() const { return any_; }

 private:
  std::mt19937_64 *chance_;
  bool any_ = false;
  float best_ = 0;
  double total_ = 0;
  Choice chosen_{};
};

}  // namespace

CanvasPaths::CanvasPaths(CanvasArcs &arcs, const CanvasForm &form, const CanvasLattice &lattice, SpanChart &chart,
                         Of of, const float *log_p, size_t stride)
    : arcs_(arcs),
      form_(form),
      lattice_(lattice),
      chart_(chart),
      g_(arcs.grammar()),
      of_(of),
      log_p_(log_p),
      stride_(stride),
      nodes_(lattice.nodes.size()),
      begins_of_(nodes_),
      edges_of_(nodes_) {
  find_closures();
  link_weights_.assign(lattice.links.size(), NEVER);
  for (const CanvasLattice::Row &row : lattice.rows)
    for (uint32_t i = row.first; i < row.end; ++i) link_weights_[i] = weigh_link(row, lattice.links[i]);
  for (uint32_t i = 0; i < lattice.begins.size(); ++i) begins_of_[lattice.begins[i].node].push_back(i);
  for (uint32_t i = 0; i < lattice.edges.size(); ++i) edges_of_[lattice.edges[i].from].push_back(i);
  core_.assign(g_.size() * nodes_ * nodes_, NEVER);
  full_.assign(g_.size() * nodes_ * nodes_, NEVER);
  weigh_spans();
  std::vector<float> tail(form.cells.size() + 1);
  for (size_t p = form.cells.size(); p-- > 0;) tail[p] = tail[p + 1] + weigh_closing(p);
  for (uint32_t u = 0; u < nodes_; ++u)
    if (lattice.nodes[u].is_start)
      each_bit(chart.useful(g_.start, u), 0, chart.words(), [&](uint32_t v) {
        if (lattice.nodes[v].is_end)
          ends_.push_back({u, v, value(full_, g_.start, u, v) + tail[lattice.nodes[v].position]});
      });
  for (uint32_t p : lattice.empty_from) ends_.push_back({NONE, p, tail[p]});
  for (const End &end : ends_) total_ = sum(static_cast<float>(total_), end.weight);
}

float CanvasPaths::sum(float a, float b) const {
  if (of_ == Of::Best || std::isinf(a) || std::isinf(b)) return std::max(a, b);
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

float CanvasPaths::weigh(size_t cell, uint32_t token) const {
  return log_p_ && form_.cells[cell].kind != CanvasCell::Fixed ? log_p_[cell * stride_ + token] : 0;
}

template <class Visit>
void CanvasPaths::each_token(const CanvasLattice::Row &row, const CanvasLattice::Link &link, const Visit &visit) const {
  const CanvasCell &cell = form_.cells[row.position];
  if (link.arc == CanvasLattice::ALONE) return visit(cell.token);
  const CanvasArcs::Arc &arc = arcs_.arcs(row.run)[link.arc];
  for (uint32_t id : arc.ids)
    if (cell.allows(id)) visit(id);
  each_bit(arc.bits.data(), 0, arc.bits.size(), [&](uint32_t id) {
    if (cell.allows(id)) visit(id);
  });
}

float CanvasPaths::weigh_link(const CanvasLattice::Row &row, const CanvasLattice::Link &link) const {
  float best = NEVER;
  each_token(row, link, [&](uint32_t id) { best = std::max(best, weigh(row.position, id)); });
  if (of_ == Of::Best || std::isinf(best)) return best;
  double total = 0;
  each_token(row, link, [&](uint32_t id) { total += std::exp(static_cast<double>(weigh(row.position, id)) - best); });
  return best + static_cast<float>(std::log(total));
}

float CanvasPaths::weigh_closing(size_t cell) const {
  float total = NEVER;
  for (uint32_t id : form_.closing)
    if (form_.cells[cell].allows(id)) total = sum(total, weigh(cell, id));
  return total;
}

void CanvasPaths::find_closures() {
  closures_.resize(g_.size());
  closures_into_.resize(g_.size());
  for (uint32_t s = 0; s < g_.size(); ++s) {
    std::vector<uint32_t> &all = closures_[s];
    all.push_back(s);
    for (size_t i = 0; i < all.size(); ++i)
      for (uint32_t unit : g_.units_of[all[i]])
        if (std::find(all.begin(), all.end(), unit) == all.end()) all.push_back(unit);
    for (uint32_t unit : all) closures_into_[unit].push_back(s);
  }
}

// Computes the weight of the paths from a node to each row, for the terminals that begin at the node.
void CanvasPaths::read_rows(uint32_t from, std::vector<float> &rows) {
  rows.assign(lattice_.rows.size(), NEVER);
  for (uint32_t b : begins_of_[from]) rows[lattice_.begins[b].row] = 0;
  for (uint32_t k = 0; k < rows.size(); ++k) {
    if (std::isinf(rows[k])) continue;
    const CanvasLattice::Row &row = lattice_.rows[k];
    for (uint32_t i = row.first; i < row.end; ++i)
      if (const CanvasLattice::Link &l = lattice_.links[i]; l.to_row)
        rows[l.to] = sum(rows[l.to], rows[k] + link_weights_[i]);
  }
}

void CanvasPaths::weigh_terminals(uint32_t from) {
  std::vector<float> rows;
  if (!begins_of_[from].empty()) read_rows(from, rows);
  for (uint32_t k = 0; k < rows.size(); ++k) {
    if (std::isinf(rows[k])) continue;
    const CanvasLattice::Row &row = lattice_.rows[k];
    const uint32_t t = arcs_.terminal_of(row.run);
    for (uint32_t i = row.first; i < row.end; ++i) {
      const CanvasLattice::Link &l = lattice_.links[i];
      if (l.to_row || !is_useful(t, from, l.to)) continue;
      float &known = value(core_, t, from, l.to);
      known = sum(known, rows[k] + link_weights_[i]);
    }
  }
  for (uint32_t i : edges_of_[from]) {
    const CanvasLattice::Edge &e = lattice_.edges[i];
    if (!is_useful(e.terminal, from, e.to)) continue;
    float &known = value(core_, e.terminal, from, e.to);
    known = sum(known, e.token == CanvasLattice::ALONE ? 0 : weigh(lattice_.nodes[from].position, e.token));
  }
}

void CanvasPaths::weigh_spans() {
  for (auto u = static_cast<uint32_t>(nodes_); u-- > 0;) {
    weigh_terminals(u);
    for (uint32_t k = u + 1; k < nodes_; ++k) {
      for (uint32_t s = 0; s < g_.size(); ++s)
        if (const float mine = value(core_, s, u, k); !std::isinf(mine))
          for (uint32_t head : closures_into_[s])
            if (is_useful(head, u, k)) {
              float &known = value(full_, head, u, k);
              known = sum(known, mine);
            }
      for (uint32_t left = 0; left < g_.size(); ++left) {
        const float mine = value(full_, left, u, k);
        if (std::isinf(mine)) continue;
        for (const BinaryGrammar::Into &into : g_.pairs_into[left]) {
          size_t looked_at = chart_.words();
          each_bit(chart_.useful(into.right, k), 0, chart_.words(), [&](uint32_t v) {
            ++looked_at;
            if (!is_useful(into.head, u, v)) return;
            float &known = value(core_, into.head, u, v);
            known = sum(known, mine + value(full_, into.right, k, v));
          });
          chart_.count(looked_at);
        }
      }
    }
  }
}

uint32_t CanvasPaths::pick_closing(size_t cell, std::mt19937_64 *chance) const {
  Pick<uint32_t> pick(chance);
  for (uint32_t id : form_.closing)
    if (form_.cells[cell].allows(id)) pick.offer(id, weigh(cell, id));
  return pick.chosen();
}

void CanvasPaths::read_terminal(const Span &span, std::mt19937_64 *chance, std::vector<uint32_t> &out) {
  struct LastStep {
    uint32_t row = NONE, link = NONE;  // NONE: inside one cell
    uint32_t token = NONE;
  };
  std::vector<float> rows;
  if (!begins_of_[span.from].empty()) read_rows(span.from, rows);
  Pick<LastStep> last(chance);
  for (uint32_t i : edges_of_[span.from])
    if (const CanvasLattice::Edge &e = lattice_.edges[i]; e.terminal == span.symbol && e.to == span.to)
      last.offer({NONE, NONE, e.token},
                 e.token == CanvasLattice::ALONE ? 0 : weigh(lattice_.nodes[span.from].position, e.token));
  for (uint32_t k = 0; k < rows.size(); ++k) {
    const CanvasLattice::Row &row = lattice_.rows[k];
    if (std::isinf(rows[k]) || arcs_.terminal_of(row.run) != span.symbol) continue;
    for (uint32_t i = row.first; i < row.end; ++i)
      if (const CanvasLattice::Link &l = lattice_.links[i]; !l.to_row && l.to == span.to)
        last.offer({k, i, NONE}, rows[k] + link_weights_[i]);
  }
  LastStep step = last.chosen();
  if (step.row == NONE) {
    if (step.token != CanvasLattice::ALONE) out[lattice_.nodes[span.from].position] = step.token;
    return;
  }
  std::vector<uint8_t> begins(rows.size());
  for (uint32_t b : begins_of_[span.from]) begins[lattice_.begins[b].row] = true;
  for (;;) {
    charge();
    const CanvasLattice::Row &row = lattice_.rows[step.row];
    Pick<uint32_t> token(chance);
    each_token(row, lattice_.links[step.link], [&](uint32_t id) { token.offer(id, weigh(row.position, id)); });
    out[row.position] = token.chosen();
    Pick<LastStep> before(chance);
    if (begins[step.row]) before.offer({}, 0);
    for (uint32_t k = 0; k < step.row; ++k) {
      if (std::isinf(rows[k])) continue;
      const CanvasLattice::Row &earlier = lattice_.rows[k];
      for (uint32_t i = earlier.first; i < earlier.end; ++i)
        if (const CanvasLattice::Link &l = lattice_.links[i]; l.to_row && l.to == step.row)
          before.offer({k, i, NONE}, rows[k] + link_weights_[i]);
    }
    step = before.chosen();
    if (step.row == NONE) return;
  }
}

std::vector<uint32_t> CanvasPaths::read(std::mt19937_64 *chance, uint32_t closed) {
  std::vector<uint32_t> out(form_.cells.size(), closed);
  Pick<uint32_t> whole(chance);
  for (uint32_t i = 0; i < ends_.size(); ++i) whole.offer(i, ends_[i].weight);
  const End end = ends_[whole.chosen()];
  const uint32_t closes = end.from == NONE ? end.to : lattice_.nodes[end.to].position;
  for (size_t p = closes; p < out.size(); ++p) out[p] = pick_closing(p, chance);
  if (end.from == NONE) return out;
  std::vector<Span> todo{{g_.start, end.from, end.to}};
  while (!todo.empty()) {
    charge();
    Span span = todo.back();
    todo.pop_back();
    Pick<uint32_t> unit(chance);
    for (uint32_t s : closures_[span.symbol]) unit.offer(s, value(core_, s, span.from, span.to));
    span.symbol = unit.chosen();
    if (span.symbol < g_.terminal_count()) {
      read_terminal(span, chance, out);
      continue;
    }
    struct Split {
      uint32_t left, right, middle;
    };
    Pick<Split> split(chance);
    for (const BinaryGrammar::Pair &pair : g_.pairs_of[span.symbol])
      for (uint32_t k = span.from + 1; k < span.to; ++k) {
        const float left = value(full_, pair.left, span.from, k), right = value(full_, pair.right, k, span.to);
        split.offer({pair.left, pair.right, k}, left + right);
      }
    const Split &chosen = split.chosen();
    todo.push_back({chosen.right, chosen.middle, span.to});
    todo.push_back({chosen.left, span.from, chosen.middle});
  }
  return out;
}

}  // namespace structgen
