#include "canvas/lattice.h"

#include <algorithm>

namespace structgen {
namespace {

constexpr uint32_t NONE = CanvasArcs::NONE;
constexpr size_t MOST_LISTED = 4'000'000;  // the sum of the sizes of all `onward`
constexpr size_t ROW_BYTES = 512;          // an estimate, with links and index entries
using Kind = CanvasArcs::Kind;

}  // namespace

class CanvasLattice::Builder {
 public:
  Builder(CanvasLattice &out, CanvasArcs &arcs, const CanvasForm &form, const CanvasLimits &limits)
      : out_(out),
        arcs_(arcs),
        form_(form),
        limits_(limits),
        size_(static_cast<uint32_t>(form.cells.size())),
        words_(arcs.grammar().first.size()),
        positions_(size_ + 1) {}

  void build() {
    find_skips();
    find_ends();
    for (uint32_t q : positions_[0].onward) {
      nodes_[boundary(q, CanvasArcs::FREE, arcs_.grammar().first)].node.is_start = true;
      if (arcs_.grammar().accepts_empty && out_.ends_at[q]) out_.empty_from.push_back(q);
    }
    for (uint32_t p = 0; p <= size_; ++p) {
      Position &position = positions_[p];
      while (!position.nodes.empty() || !position.rows.empty()) {
        charge();
        if (!position.nodes.empty()) {
          const uint32_t n = position.nodes.back();
          position.nodes.pop_back();
          nodes_[n].queued = false;
          expand_node(n);
        } else {
          const uint32_t r = position.rows.back();
          position.rows.pop_back();
          if (p < size_) expand_row(r);
        }
      }
    }
    keep_live();
  }

 private:
  struct BuiltNode {
    Node node;
    std::vector<uint64_t> allowed, started;
    bool queued = false;
  };
  struct BuiltRow {
    uint32_t position, run;
    std::vector<Link> links;
  };
  struct Position {
    std::vector<uint32_t> onward;  // the position itself, and those that are reached from it without a token
    std::vector<uint32_t> node_of_boundary, node_of_rest, row_of_run;
    std::vector<uint32_t> nodes, rows;  // work list: those that are not expanded yet
  };

  void find_skips() {
    for (uint32_t p = size_ + 1; p-- > 0;) {
      std::vector<uint32_t> &onward = positions_[p].onward;
      onward.push_back(p);
      auto add = [&](uint32_t to) {
        onward.insert(onward.end(), positions_[to].onward.begin(), positions_[to].onward.end());
      };
      if (p < size_ && form_.cells[p].kind == CanvasCell::Gap) add(p + 1);
      for (const auto &[from, to] : form_.skips)
        if (from == p) add(to);
      std::sort(onward.begin(), onward.end());
      onward.erase(std::unique(onward.begin(), onward.end()), onward.end());
      listed_ += onward.size();
      if (listed_ > MOST_LISTED)
        throw LimitError(
            "a canvas has too many gaps and cells that may hold no token side by side (limit canvas_nodes)");
    }
  }

  void find_ends() {
    out_.ends_at.assign(size_ + 1, false);
    for (uint32_t p = size_ + 1; p-- > 0;) {
      out_.ends_at[p] = p == size_;
      if (p == size_) continue;
      const CanvasCell &cell = form_.cells[p];
      const bool may_close =
          std::any_of(form_.closing.begin(), form_.closing.end(), [&](uint32_t id) { return cell.allows(id); });
      out_.ends_at[p] = out_.ends_at[p + 1] && (may_close || cell.kind == CanvasCell::Gap);
    }
  }

  uint32_t next_position(uint32_t p) const { return form_.cells[p].kind == CanvasCell::Gap ? p : p + 1; }

  static uint32_t &slot(std::vector<uint32_t> &of, uint32_t i) {
    if (of.size() <= i) of.resize(i + 16, NONE);
    return of[i];
  }

  uint32_t new_node(uint32_t p, bool is_rest, uint32_t id) {
    if (nodes_.size() >= limits_.nodes)
      throw LimitError("a canvas has more than " + std::to_string(limits_.nodes) +
                       " positions where a terminal may begin (limit canvas_nodes)");
    BuiltNode made;
    made.node = {p, is_rest, id, false, !is_rest && out_.ends_at[p] != 0};
    if (!is_rest) made.allowed.resize(words_), made.started.resize(words_);
    nodes_.push_back(std::move(made));
    return static_cast<uint32_t>(nodes_.size() - 1);
  }

  uint32_t boundary(uint32_t p, uint32_t id, const std::vector<uint64_t> &allowed) {
    uint32_t &n = slot(positions_[p].node_of_boundary, id);
    if (n == NONE) n = new_node(p, false, id);
    BuiltNode &node = nodes_[n];
    bool grew = false;
    for (size_t w = 0; w < words_; ++w) {
      grew |= (allowed[w] & ~node.allowed[w]) != 0;
      node.allowed[w] |= allowed[w];
    }
    if (grew && !node.queued) {
      node.queued = true;
      positions_[p].nodes.push_back(n);
    }
    return n;
  }

  uint32_t rest(uint32_t p, uint32_t id) {
    uint32_t &n = slot(positions_[p].node_of_rest, id);
    if (n == NONE) {
      n = new_node(p, true, id);
      nodes_[n].queued = true;
      positions_[p].nodes.push_back(n);
    }
    return n;
  }

  uint32_t row(uint32_t p, uint32_t run) {
    uint32_t &r = slot(positions_[p].row_of_run, run);
    if (r == NONE) {
      if (rows_.size() * ROW_BYTES > limits_.bytes)
        throw LimitError("the runs of terminals through a canvas take more than " +
                         std::to_string(limits_.bytes >> 20) + " MiB (limit canvas_bytes)");
      r = static_cast<uint32_t>(rows_.size());
      rows_.push_back({p, run, {}});
      positions_[p].rows.push_back(r);
    }
    return r;
  }

  // Calls `to_row` or `to_node` with each row or node that a step leads to.
  template <class ToRow, class ToNode>
  void follow(uint32_t p, const CanvasArcs::Step &step, const ToRow &to_row, const ToNode &to_node) {
    if (step.kind == Kind::Rest) return to_node(rest(p, step.to));
    for (uint32_t q : positions_[next_position(p)].onward) {
      if (step.kind == Kind::Boundary) to_node(boundary(q, step.to, arcs_.grammar().follow[step.terminal]));
      else if (q < size_) to_row(row(q, step.to));
    }
  }

  void expand_node(uint32_t n) {
    const Node node = nodes_[n].node;
    const uint32_t p = node.position;
    if (p == size_) return;
    if (node.is_rest) {
      for (const CanvasArcs::Step &step : arcs_.steps_of_rest(node.id))
        follow(
            p, step, [&](uint32_t r) { begins_.push_back({n, r}); },
            [&](uint32_t to) { edges_.push_back({n, step.terminal, to, ALONE}); });
      return;
    }
    for (uint32_t t = 0; t < arcs_.grammar().terminal_count(); ++t) {
      const uint64_t bit = uint64_t{1} << t % 64;
      if (!(nodes_[n].allowed[t / 64] & ~nodes_[n].started[t / 64] & bit)) continue;
      nodes_[n].started[t / 64] |= bit;
      const BinaryGrammar::Terminal &terminal = arcs_.grammar().terminals[t];
      if (!terminal.tokens.empty()) {
        for (uint32_t token : terminal.tokens) {
          if (!form_.cells[p].allows(token)) continue;
          for (uint32_t q : positions_[next_position(p)].onward)
            edges_.push_back({n, t, boundary(q, CanvasArcs::FREE, arcs_.grammar().follow[t]), token});
        }
      } else if (const uint32_t run = arcs_.begin(node.id, t); run != NONE) {
        begins_.push_back({n, row(p, run)});
      }
    }
  }

  void expand_row(uint32_t r) {
    const uint32_t p = rows_[r].position, run = rows_[r].run;
    const CanvasCell &cell = form_.cells[p];
    auto link = [&](const CanvasArcs::Step &step, uint32_t arc) {
      follow(
          p, step, [&](uint32_t to) { rows_[r].links.push_back({true, to, arc}); },
          [&](uint32_t to) { rows_[r].links.push_back({false, to, arc}); });
    };
    if (cell.kind == CanvasCell::Fixed) {
      for (const CanvasArcs::Step &step : arcs_.steps(run, cell.token)) link(step, ALONE);
      return;
    }
    const std::vector<CanvasArcs::Arc> &arcs = arcs_.arcs(run);
    for (uint32_t i = 0; i < arcs.size(); ++i)
      if (cell.allowed.empty() || arcs[i].meets(cell.allowed.data())) link(arcs[i].step, i);
  }

  // For each node, then for each row: does a path lead from there to an end?
  std::vector<uint8_t> find_live() const {
    const auto n = static_cast<uint32_t>(nodes_.size()), all = n + static_cast<uint32_t>(rows_.size());
    std::vector<std::pair<uint32_t, uint32_t>> back;  // to, from
    for (uint32_t r = 0; r < rows_.size(); ++r)
      for (const Link &l : rows_[r].links) back.emplace_back(l.to_row ? n + l.to : l.to, n + r);
    for (const Begin &b : begins_) back.emplace_back(n + b.row, b.node);
    for (const Edge &e : edges_) back.emplace_back(e.to, e.from);
    std::vector<uint32_t> first(all + 1);
    for (const auto &[to, from] : back) ++first[to + 1];
    for (uint32_t i = 0; i < all; ++i) first[i + 1] += first[i];
    std::vector<uint32_t> from_of(back.size()), next(first.begin(), first.end() - 1);
    for (const auto &[to, from] : back) from_of[next[to]++] = from;
    std::vector<uint8_t> live(all);
    std::vector<uint32_t> work;
    for (uint32_t i = 0; i < n; ++i)
      if (nodes_[i].node.is_end) live[i] = true, work.push_back(i);
    while (!work.empty()) {
      charge();
      const uint32_t to = work.back();
      work.pop_back();
      for (uint32_t i = first[to]; i < first[to + 1]; ++i)
        if (!live[from_of[i]]) live[from_of[i]] = true, work.push_back(from_of[i]);
    }
    return live;
  }

  // Copies the live nodes and rows into the lattice, in the order of the text and with new numbers.
  void keep_live() {
    const auto n = static_cast<uint32_t>(nodes_.size()), all = n + static_cast<uint32_t>(rows_.size());
    const std::vector<uint8_t> live = find_live();
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < n; ++i)
      if (live[i]) order.push_back(i);
    // subtle: a rest leads to rests that were made before it.
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      const Node &x = nodes_[a].node, &y = nodes_[b].node;
      if (x.position != y.position) return x.position < y.position;
      if (x.is_rest != y.is_rest) return y.is_rest;
      return x.is_rest ? x.id > y.id : x.id < y.id;
    });
    std::vector<uint32_t> number(all, NONE);
    for (uint32_t i : order) {
      number[i] = static_cast<uint32_t>(out_.nodes.size());
      out_.nodes.push_back(nodes_[i].node);
    }
    std::vector<uint32_t> rows;
    for (uint32_t r = 0; r < rows_.size(); ++r)
      if (live[n + r]) rows.push_back(r);
    std::sort(rows.begin(), rows.end(), [&](uint32_t a, uint32_t b) {
      return rows_[a].position != rows_[b].position ? rows_[a].position < rows_[b].position : a < b;
    });
    for (uint32_t i = 0; i < rows.size(); ++i) number[n + rows[i]] = i;
    for (uint32_t r : rows) {
      Row made{rows_[r].position, rows_[r].run, static_cast<uint32_t>(out_.links.size()), 0};
      for (Link l : rows_[r].links)
        if (const uint32_t to = number[l.to_row ? n + l.to : l.to]; to != NONE)
          out_.links.push_back({l.to_row, to, l.arc});
      made.end = static_cast<uint32_t>(out_.links.size());
      out_.rows.push_back(made);
    }
    for (const Begin &b : begins_)
      if (number[b.node] != NONE && number[n + b.row] != NONE)
        out_.begins.push_back({number[b.node], number[n + b.row]});
    std::sort(out_.begins.begin(), out_.begins.end(), [](const Begin &a, const Begin &b) { return a.row < b.row; });
    for (const Edge &e : edges_)
      if (number[e.from] != NONE && number[e.to] != NONE)
        out_.edges.push_back({number[e.from], e.terminal, number[e.to], e.token});
  }

  CanvasLattice &out_;
  CanvasArcs &arcs_;
  const CanvasForm &form_;
  const CanvasLimits &limits_;
  size_t listed_ = 0;
  const uint32_t size_;
  const size_t words_;
  std::vector<Position> positions_;
  std::vector<BuiltNode> nodes_;
  std::vector<BuiltRow> rows_;
  std::vector<Begin> begins_;
  std::vector<Edge> edges_;
};

CanvasLattice::CanvasLattice(CanvasArcs &arcs, const CanvasForm &form, const CanvasLimits &limits) {
  Builder(*this, arcs, form, limits).build();
}

}  // namespace structgen
