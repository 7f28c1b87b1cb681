#include "chart/chart.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "util/bits.h"

namespace structgen {
namespace {

bool any_bit(const uint64_t *row, size_t from, size_t words) {
  for (size_t w = from; w < words; ++w)
    if (row[w]) return true;
  return false;
}

}  // namespace

SpanChart::SpanChart(const BinaryGrammar &grammar, size_t nodes, std::vector<std::pair<uint32_t, uint32_t>> loops,
                     size_t most_bytes, size_t most_words)
    : g_(grammar),
      nodes_(nodes),
      words_((nodes + 63) / 64),
      loops_(std::move(loops)),
      budget_(most_bytes),
      words_left_(most_words),
      inside_(words_, &budget_),
      outside_(words_, &budget_) {
  inside_.reset(g_.size() * nodes_);
  any_.resize(g_.size() * nodes_);
  pending_.resize(g_.size() * words_);
  delta_.resize(words_);
  queued_.resize(g_.size());
}

void SpanChart::throw_limit() {
  throw LimitError(
      "the chart of a canvas takes more work than it may, since texts can be read in very many ways there "
      "(limit canvas_words)");
}

bool SpanChart::fill(std::span<const uint32_t> starts, std::span<const uint32_t> ends) {
  auto loop = loops_.size();
  for (auto u = static_cast<uint32_t>(nodes_); u-- > 0;) {
    if (loop > 0 && u + 1 == loops_[loop - 1].second) {
      const auto [first, end] = loops_[--loop];
      fill_inside_loop(first, end);
      for (u = end; u-- > first;) finish(u);
      u = first;
      continue;
    }
    fill_inside(u);
    // Charts without loops belong to canvases, which are small and must be fast.
    if (!loops_.empty()) finish(u);
  }
  texts_.clear();
  for (uint32_t u : starts)
    for (uint32_t v : ends)
      if (has(g_.start, u, v)) texts_.emplace_back(u, v);
  return !texts_.empty();
}

void SpanChart::finish(uint32_t u) {
  for (uint32_t symbol = 0; symbol < g_.size(); ++symbol) inside_.finish(size_t{symbol} * nodes_ + u);
}

void SpanChart::find_useful() {
  outside_.reset(g_.size() * nodes_);
  for (const auto &[u, v] : texts_) outside(g_.start, u)[v / 64] |= uint64_t{1} << v % 64;
  size_t loop = 0;
  for (uint32_t u = 0; u < nodes_; ++u) {
    if (loop < loops_.size() && u == loops_[loop].first) {
      const auto [first, end] = loops_[loop++];
      while (fill_outside_loop(first, end)) {
        charge();
      }
      u = end - 1;
      continue;
    }
    fill_outside(u);
  }
}

void SpanChart::expect(uint32_t symbol) {
  if (queued_[symbol]) return;
  queued_[symbol] = true;
  queue_.push_back(symbol);
}

void SpanChart::fill_inside(uint32_t u) {
  const size_t low = u / 64;
  // A pending span is not inside yet, and a span inside is not pending.
  auto add = [&](uint32_t head, const uint64_t *bits, size_t from) {
    count(words_ - from);
    uint64_t *to = pending_.data() + head * words_;
    const uint64_t *known = spans(head, u);
    uint64_t fresh = 0;
    for (size_t w = from; w < words_; ++w) {
      const uint64_t more = bits[w] & ~known[w];
      fresh |= more & ~to[w];
      to[w] |= more;
    }
    if (fresh) expect(head);
  };
  for (uint32_t t = 0; t < g_.terminal_count(); ++t) {
    if (!any_bit(spans(t, u), low, words_)) continue;
    uint64_t *row = inside(t, u);
    for (size_t w = low; w < words_; ++w) {
      pending_[t * words_ + w] = row[w];
      row[w] = 0;
    }
    expect(t);
  }
  while (!queue_.empty()) {
    charge();
    const uint32_t symbol = queue_.back();
    queue_.pop_back();
    queued_[symbol] = false;
    uint64_t *fresh = pending_.data() + symbol * words_, *row = inside(symbol, u);
    for (size_t w = low; w < words_; ++w) {
      delta_[w] = fresh[w];
      row[w] |= fresh[w];
      fresh[w] = 0;
    }
    any_[symbol * nodes_ + u] = true;
    for (uint32_t head : g_.units_into[symbol]) add(head, delta_.data(), low);
    for (const BinaryGrammar::Into &into : g_.pairs_into[symbol])
      each_bit(delta_.data(), low, words_, [&](uint32_t k) {
        // subtle: around a gap a span may end at a node before that at which it begins.
        if (any_[into.right * nodes_ + k]) add(into.head, spans(into.right, k), loops_.empty() ? k / 64 : low);
      });
  }
}

// Nodes where the rows of a symbol are equal, with that row.
struct SpanChart::EqualRows {
  std::vector<uint64_t> nodes, row;
};

// subtle: the rows are copies, since the originals grow while they are read.
std::vector<SpanChart::EqualRows> SpanChart::equal_rows(uint32_t symbol, uint32_t first) const {
  std::unordered_map<Hash128, uint32_t, HashOf128> known;
  std::vector<EqualRows> found;
  for (uint32_t u = first; u < nodes_; ++u) {
    const uint64_t *row = spans(symbol, u);
    if (!any_bit(row, 0, words_)) continue;
    Hash128 name = hash_words(words_);
    for (size_t w = 0; w < words_; ++w) name = extend(name, row[w]);
    const auto [it, is_new] = known.try_emplace(name, static_cast<uint32_t>(found.size()));
    if (is_new) found.push_back({std::vector<uint64_t>(words_), std::vector<uint64_t>(row, row + words_)});
    found[it->second].nodes[u / 64] |= uint64_t{1} << u % 64;
  }
  return found;
}

// Processes symbols until no row grows any more. A symbol has equal rows at most nodes of a loop, so rows are joined
// once for all nodes with equal rows.
// NOLINTNEXTLINE(readability-function-size): a worklist, whose steps share its queue and its classes of rows
void SpanChart::fill_inside_loop(uint32_t first, uint32_t end) {
  struct Production {
    uint32_t left, head;
  };
  std::vector<std::vector<Production>> by_right(g_.size());
  for (uint32_t left = 0; left < g_.size(); ++left)
    for (const BinaryGrammar::Into &into : g_.pairs_into[left]) by_right[into.right].push_back({left, into.head});
  std::vector<std::vector<EqualRows>> classes(g_.size());
  std::vector<uint8_t> is_known(g_.size());
  std::deque<uint32_t> queue;
  std::vector<uint8_t> queued(g_.size());
  auto expect = [&](uint32_t symbol) {
    is_known[symbol] = false;
    if (queued[symbol]) return;
    queued[symbol] = true;
    queue.push_back(symbol);
  };
  auto classes_of = [&](uint32_t symbol) -> const std::vector<EqualRows> & {
    if (!is_known[symbol]) classes[symbol] = equal_rows(symbol, first);
    is_known[symbol] = true;
    return classes[symbol];
  };
  // subtle: nodes after the loop are complete, and none leads back from there.
  auto add = [&](uint32_t head, const std::vector<uint64_t> &nodes, const std::vector<uint64_t> &bits) {
    bool grew = false;
    each_bit(nodes.data(), 0, words_, [&](uint32_t u) {
      if (u >= end) return;
      count(words_);
      const uint64_t *known = spans(head, u);
      uint64_t more = 0;
      for (size_t w = 0; w < words_; ++w) more |= bits[w] & ~known[w];
      if (more) grew = merge_bits(inside(head, u), bits.data(), 0, words_);
    });
    if (grew) expect(head);
  };
  auto join = [&](uint32_t head, const EqualRows &left, const std::vector<EqualRows> &right) {
    std::fill(delta_.begin(), delta_.end(), 0);
    count(right.size() * words_);
    for (const EqualRows &one : right) {
      uint64_t meets = 0;
      for (size_t w = 0; w < words_; ++w) meets |= left.row[w] & one.nodes[w];
      if (meets) merge_bits(delta_.data(), one.row.data(), 0, words_);
    }
    add(head, left.nodes, delta_);
  };
  for (uint32_t symbol = 0; symbol < g_.size(); ++symbol)
    for (uint32_t u = first; u < end; ++u)
      if (any_bit(spans(symbol, u), 0, words_)) {
        expect(symbol);
        break;
      }
  while (!queue.empty()) {
    charge();
    const uint32_t symbol = queue.front();
    queue.pop_front();
    queued[symbol] = false;
    const std::vector<EqualRows> &mine = classes_of(symbol);
    for (const EqualRows &one : mine) {
      for (uint32_t head : g_.units_into[symbol]) add(head, one.nodes, one.row);
      for (const BinaryGrammar::Into &into : g_.pairs_into[symbol])
        join(into.head, one, into.right == symbol ? mine : classes_of(into.right));
    }
    for (const Production &made : by_right[symbol])
      if (made.left != symbol)
        for (const EqualRows &one : classes_of(made.left)) join(made.head, one, mine);
  }
  for (uint32_t symbol = 0; symbol < g_.size(); ++symbol)
    for (uint32_t u = first; u < end; ++u) any_[symbol * nodes_ + u] = any_bit(spans(symbol, u), 0, words_);
}

void SpanChart::fill_outside(uint32_t u) {
  const size_t low = u / 64;
  for (uint32_t symbol = 0; symbol < g_.size(); ++symbol) {
    if (!any_[symbol * nodes_ + u] || !any_bit(useful(symbol, u), low, words_)) continue;
    uint64_t *row = outside(symbol, u);
    for (size_t w = low; w < words_; ++w) {
      pending_[symbol * words_ + w] = row[w];
      row[w] = 0;
    }
    expect(symbol);
  }
  // Adds those of `bits` that the symbol can span.
  auto add = [&](uint32_t symbol, const uint64_t *bits) {
    uint64_t *to = pending_.data() + symbol * words_;
    const uint64_t *known = useful(symbol, u), *in = spans(symbol, u);
    uint64_t fresh = 0;
    for (size_t w = low; w < words_; ++w) {
      const uint64_t more = bits[w] & in[w] & ~known[w];
      fresh |= more & ~to[w];
      to[w] |= more;
    }
    if (fresh) expect(symbol);
  };
  std::vector<uint64_t> middle(words_);
  while (!queue_.empty()) {
    charge();
    const uint32_t symbol = queue_.back();
    queue_.pop_back();
    queued_[symbol] = false;
    uint64_t *fresh = pending_.data() + symbol * words_, *row = outside(symbol, u);
    for (size_t w = low; w < words_; ++w) {
      delta_[w] = fresh[w];
      row[w] |= fresh[w];
      fresh[w] = 0;
    }
    for (uint32_t unit : g_.units_of[symbol]) add(unit, delta_.data());
    for (const BinaryGrammar::Pair &pair : g_.pairs_of[symbol]) {
      if (!any_[pair.left * nodes_ + u]) continue;
      bool found = false;
      std::fill(middle.begin(), middle.end(), 0);
      each_bit(spans(pair.left, u), low, words_, [&](uint32_t k) {
        if (!any_[pair.right * nodes_ + k]) return;
        const uint64_t *in = spans(pair.right, k);
        const size_t from = loops_.empty() ? k / 64 : low;
        count(words_ - from);
        uint64_t meets = 0;
        for (size_t w = from; w < words_; ++w) meets |= in[w] & delta_[w];
        if (!meets) return;
        uint64_t *out = outside(pair.right, k);
        for (size_t w = from; w < words_; ++w) out[w] |= in[w] & delta_[w];
        middle[k / 64] |= uint64_t{1} << k % 64;
        found = true;
      });
      if (found) add(pair.left, middle.data());
    }
  }
}

bool SpanChart::fill_outside_loop(uint32_t first, uint32_t end) {
  bool grew = false;
  std::vector<uint64_t> bits(words_);
  for (uint32_t u = first; u < end; ++u)
    for (uint32_t symbol = 0; symbol < g_.size(); ++symbol) {
      if (!any_bit(useful(symbol, u), 0, words_)) continue;
      std::copy(useful(symbol, u), useful(symbol, u) + words_, delta_.begin());
      for (uint32_t unit : g_.units_of[symbol]) {
        const uint64_t *in = spans(unit, u);
        uint64_t meets = 0;
        for (size_t w = 0; w < words_; ++w) meets |= bits[w] = delta_[w] & in[w];
        if (meets) grew |= merge_bits(outside(unit, u), bits.data(), 0, words_);
      }
      for (const BinaryGrammar::Pair &pair : g_.pairs_of[symbol])
        each_bit(spans(pair.left, u), 0, words_, [&](uint32_t k) {
          count(words_);
          const uint64_t *in = spans(pair.right, k);
          uint64_t meets = 0;
          for (size_t w = 0; w < words_; ++w) meets |= bits[w] = in[w] & delta_[w];
          if (!meets) return;
          grew |= merge_bits(outside(pair.right, k), bits.data(), 0, words_);
          uint64_t &left = outside(pair.left, u)[k / 64];
          const uint64_t bit = uint64_t{1} << k % 64;
          grew |= !(left & bit);
          left |= bit;
        });
    }
  return grew;
}

}  // namespace structgen
