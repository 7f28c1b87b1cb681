#include "canvas/reading.h"

#include <algorithm>

#include "util/bits.h"

namespace structgen {

CanvasReading::CanvasReading(CanvasArcs &arcs, const CanvasForm &form, const CanvasLattice &lattice, size_t most_bytes)
    : arcs_(arcs), form_(form), lattice_(lattice), words_((lattice.nodes.size() + 63) / 64) {
  // The bits of rows are stored twice: masks need them from both directions.
  const size_t bytes =
      (2 * lattice.rows.size() + arcs.grammar().terminal_count() * lattice.nodes.size()) * words_ * sizeof(uint64_t);
  if (bytes > most_bytes)
    throw LimitError("reading a canvas takes " + std::to_string(bytes >> 20) + " MiB (limit canvas_bytes)");
  sources_.resize(lattice.rows.size() * words_);
  columns_.resize(arcs.grammar().terminal_count() * lattice.nodes.size() * words_);
  first_row_.resize(form.cells.size() + 2);
  for (const CanvasLattice::Row &r : lattice.rows) ++first_row_[r.position + 1];
  for (size_t p = 0; p + 1 < first_row_.size(); ++p) first_row_[p + 1] += first_row_[p];
}

uint64_t *CanvasReading::column(uint32_t terminal, uint32_t node) {
  return columns_.data() + (size_t{terminal} * lattice_.nodes.size() + node) * words_;
}

// Visits the rows of one position after the other. At a gap, rows lead to each other: they are visited again until
// `visit` returns false for all of them.
template <class Visit>
void CanvasReading::each_position(bool forward, const Visit &visit) const {
  const auto count = static_cast<uint32_t>(form_.cells.size());
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t p = forward ? i : count - 1 - i;
    const uint32_t first = first_row_[p], end = first_row_[p + 1];
    for (bool grew = true; grew;) {
      grew = false;
      for (uint32_t k = first; k < end; ++k) grew |= visit(forward ? k : end - 1 - (k - first));
      if (!is_loop(p)) break;
    }
  }
}

void CanvasReading::add_terminals(SpanChart &chart) {
  for (const CanvasLattice::Begin &b : lattice_.begins) row(sources_, b.row)[b.node / 64] |= uint64_t{1} << b.node % 64;
  each_position(true, [&](uint32_t k) {
    const CanvasLattice::Row &r = lattice_.rows[k];
    const uint64_t *from = row(sources_, k);
    bool grew = false;
    chart.count((r.end - r.first) * words_);
    for (uint32_t i = r.first; i < r.end; ++i) {
      const CanvasLattice::Link &l = lattice_.links[i];
      uint64_t *to = l.to_row ? row(sources_, l.to) : column(terminal_of(r), l.to);
      for (size_t w = 0; w < words_; ++w) {
        grew |= l.to_row && (from[w] & ~to[w]);
        to[w] |= from[w];
      }
    }
    return grew;
  });
  for (const CanvasLattice::Edge &e : lattice_.edges)
    column(e.terminal, e.to)[e.from / 64] |= uint64_t{1} << e.from % 64;
  chart.count(columns_.size());
  for (uint32_t t = 0; t < arcs_.grammar().terminal_count(); ++t)
    for (uint32_t v = 0; v < lattice_.nodes.size(); ++v) {
      each_bit(column(t, v), 0, words_, [&](uint32_t u) { chart.add(t, u, v); });
    }
}

void CanvasReading::fill_masks(SpanChart &chart, std::vector<std::vector<uint32_t>> &out) {
  // From here on, columns hold the nodes where useful spans begin.
  chart.count(columns_.size());
  std::fill(columns_.begin(), columns_.end(), 0);
  for (uint32_t t = 0; t < arcs_.grammar().terminal_count(); ++t)
    for (uint32_t u = 0; u < lattice_.nodes.size(); ++u) {
      // subtle: around a gap a terminal may end at a node before that at which it began.
      each_bit(chart.useful(t, u), 0, words_, [&](uint32_t v) { column(t, v)[u / 64] |= uint64_t{1} << u % 64; });
    }
  auto allow = [&](uint32_t p, uint32_t id) { out[p][id >> 5] |= 1u << (id & 31); };
  // For each row, the nodes where a run may have started that goes through the row to a useful end.
  std::vector<uint64_t> ends(sources_.size());
  std::vector<uint8_t> used(lattice_.links.size());
  each_position(false, [&](uint32_t k) {
    const CanvasLattice::Row &r = lattice_.rows[k];
    const uint64_t *from = row(sources_, k);
    uint64_t *mine = row(ends, k);
    bool grew = false;
    chart.count((r.end - r.first) * words_);
    for (uint32_t i = r.first; i < r.end; ++i) {
      const CanvasLattice::Link &l = lattice_.links[i];
      const uint64_t *to = l.to_row ? row(ends, l.to) : column(terminal_of(r), l.to);
      uint64_t any = 0, fresh = 0;
      for (size_t w = 0; w < words_; ++w) {
        const uint64_t both = from[w] & to[w];
        any |= both;
        fresh |= both & ~mine[w];
        mine[w] |= both;
      }
      grew |= fresh != 0;
      if (!any || used[i]) continue;
      used[i] = true;
      if (l.arc == CanvasLattice::ALONE) allow(r.position, form_.cells[r.position].token);
      else arcs_.arcs(r.run)[l.arc].add_to(out[r.position].data());
    }
    return grew;
  });
  for (const CanvasLattice::Edge &e : lattice_.edges)
    if (e.token != CanvasLattice::ALONE && (column(e.terminal, e.to)[e.from / 64] >> e.from % 64 & 1))
      allow(lattice_.nodes[e.from].position, e.token);
  for (size_t p = 0; p < out.size(); ++p)
    if (const auto &allowed = form_.cells[p].allowed; !allowed.empty())
      for (size_t w = 0; w < out[p].size(); ++w) out[p][w] &= allowed[w];
}

uint32_t CanvasReading::token_of(const CanvasLattice::Row &r, const CanvasLattice::Link &l,
                                 const std::vector<uint32_t> &preferred) const {
  const CanvasCell &cell = form_.cells[r.position];
  if (l.arc == CanvasLattice::ALONE) return cell.token;
  const CanvasArcs::Arc &arc = arcs_.arcs(r.run)[l.arc];
  if (r.position < preferred.size() && cell.allows(preferred[r.position]) && arc.has(preferred[r.position]))
    return preferred[r.position];
  for (uint32_t id : arc.ids)
    if (cell.allows(id)) return id;
  for (size_t w = 0; w < arc.bits.size(); ++w)
    for (uint32_t rest = arc.bits[w]; rest; rest &= rest - 1) {
      const auto id = static_cast<uint32_t>(w * 32 + static_cast<size_t>(std::countr_zero(rest)));
      if (cell.allows(id)) return id;
    }
  return UINT32_MAX;
}

void CanvasReading::write_tokens(uint32_t terminal, uint32_t from, uint32_t to, const std::vector<uint32_t> &preferred,
                                 std::vector<uint32_t> &out) {
  for (const CanvasLattice::Edge &e : lattice_.edges)
    if (e.from == from && e.terminal == terminal && e.to == to) {
      if (e.token != CanvasLattice::ALONE) out[lattice_.nodes[from].position] = e.token;
      return;
    }
  // Breadth-first search; it meets rows in the order of the text.
  struct Visit {
    uint32_t row, link, before;
  };
  std::vector<Visit> visits;
  std::vector<uint8_t> met(lattice_.rows.size());
  auto take = [&](uint32_t k, uint32_t link, uint32_t before) {
    if (met[k] || terminal_of(lattice_.rows[k]) != terminal) return;
    met[k] = true;
    visits.push_back({k, link, before});
  };
  for (const CanvasLattice::Begin &b : lattice_.begins)
    if (b.node == from) take(b.row, UINT32_MAX, UINT32_MAX);
  for (uint32_t i = 0; i < visits.size(); ++i) {
    const CanvasLattice::Row &r = lattice_.rows[visits[i].row];
    for (uint32_t n = r.first; n < r.end; ++n) {
      const CanvasLattice::Link &l = lattice_.links[n];
      if (l.to_row) {
        take(l.to, n, i);
        continue;
      }
      if (l.to != to) continue;
      uint32_t link = n;
      for (uint32_t at = i;; link = visits[at].link, at = visits[at].before) {
        const CanvasLattice::Row &read = lattice_.rows[visits[at].row];
        out[read.position] = token_of(read, lattice_.links[link], preferred);
        if (visits[at].before == UINT32_MAX) return;
      }
    }
  }
}

std::vector<std::pair<uint32_t, uint32_t>> CanvasReading::loops(const CanvasForm &form, const CanvasLattice &lattice) {
  std::vector<std::pair<uint32_t, uint32_t>> out;
  for (uint32_t u = 0; u < lattice.nodes.size();) {
    charge();
    uint32_t end = u + 1;
    const uint32_t p = lattice.nodes[u].position;
    while (end < lattice.nodes.size() && lattice.nodes[end].position == p) ++end;
    if (p < form.cells.size() && form.cells[p].kind == CanvasCell::Gap) out.emplace_back(u, end);
    u = end;
  }
  return out;
}

}  // namespace structgen
