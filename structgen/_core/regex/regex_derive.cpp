// Derivatives: what is left of an expression after each byte, for all bytes at once.
//
// `steps(r)` are the derivatives of `r` by class of bytes. The classes of an expression are those of its parts, cut
// finer. Steps are made from the steps of the parts in one sweep over the bytes, parts first, on an explicit stack.
// `row` is the same for walks over a vocabulary: 256 entries, with EMPTY for dead states (regex/regex_emptiness.cpp).
//
// `advance(r)` is not a derivative: the text moves on by a byte while `r` waits for its turn, so only the look-behinds
// in `r` change.
//
// Cost: the number of classes of the parts; for a class with many ranges, the number of ranges.
#include <array>
#include <cstring>

#include "regex/regex_nodes.h"

namespace structgen {
namespace {

constexpr Step NOWHERE[] = {{RegexSpace::EMPTY, 0}};
constexpr size_t STEPS_PER_CHUNK = 8'192;
constexpr size_t UNITED_PER_ROW = 256;  // visited operands of unions that count as one more state

// Steps under construction, on the stack: derivatives are made so often that allocations would be noticeable.
class StepList {
 public:
  // `from` rises from call to call.
  void put(size_t from, Re to) {
    if (size_ == 0 || steps_[size_ - 1].to != to) steps_[size_++] = {to, static_cast<uint8_t>(from)};
  }
  void clear() { size_ = 0; }
  operator Steps() const { return {steps_.data(), size_}; }

 private:
  std::array<Step, 256> steps_;  // at most one for each byte
  size_t size_ = 0;
};

// Calls `target(targets)` for each run of bytes on which no part changes. Consumes `parts`.
template <class Target>
StepList sweep(std::span<Steps> parts, Target target) {
  std::vector<Re> targets(parts.size());
  StepList out;
  for (size_t from = 0; from < 256;) {
    size_t next = 256;
    for (size_t i = 0; i < parts.size(); ++i) {
      Steps &s = parts[i];
      while (s.size() > 1 && s[1].from <= from) s = s.subspan(1);
      targets[i] = s[0].to;
      if (s.size() > 1) next = std::min<size_t>(next, s[1].from);
    }
    charge(1 + parts.size());
    out.put(from, target(targets));
    from = next;
  }
  return out;
}

}  // namespace

Steps RegexSpace::Impl::keep(Steps made) {
  if (step_chunks.empty() || step_chunk_used + made.size() > STEPS_PER_CHUNK) {
    step_chunks.emplace_back(new Step[STEPS_PER_CHUNK]);
    step_chunk_used = 0;
    bytes += STEPS_PER_CHUNK * sizeof(Step);
  }
  Step *to = step_chunks.back().get() + step_chunk_used;
  std::copy(made.begin(), made.end(), to);
  step_chunk_used += made.size();
  return {to, made.size()};
}

Steps RegexSpace::Impl::class_steps(Re r) {
  const uint8_t pending = nodes[r].pending;
  // By reference: a deque's elements stay where they are while new ranges are interned.
  const std::vector<CodeRange> &all = ranges[nodes[r].index];
  StepList out;
  size_t at = 0;  // ranges before it are below the current block
  auto block = [&](uint32_t lo, uint32_t hi, uint32_t base, uint8_t more) {
    while (at < all.size() && all[at].hi < lo) ++at;
    charge();
    std::vector<CodeRange> inside;
    for (size_t i = at; i < all.size() && all[i].lo <= hi; ++i)
      inside.push_back({std::max(all[i].lo, lo) - base, std::min(all[i].hi, hi) - base});
    if (inside.empty()) return EMPTY;
    return more == 0 ? EPSILON : make_class(std::move(inside), more);
  };
  if (pending > 0) {
    const uint8_t more = pending - 1;
    const uint32_t size = 1u << (6 * more);
    out.put(0, EMPTY);
    for (uint32_t b = 0x80; b < 0xc0; ++b) {
      const uint32_t lo = (b & 0x3f) * size;
      out.put(b, spellable.test(b) ? block(lo, lo + size - 1, lo, more) : EMPTY);
    }
    out.put(0xc0, EMPTY);
    return keep(out);
  }
  // The class holds spellable first bytes only. ASCII: the edges of the ranges.
  out.put(0, EMPTY);
  for (; at < all.size() && all[at].lo < 0x80; ++at) {
    charge();
    if (all[at].lo == 0) out.clear();
    out.put(all[at].lo, EPSILON);
    if (all[at].hi >= 0x80) break;
    out.put(all[at].hi + 1, EMPTY);
  }
  out.put(0x80, EMPTY);
  if (!all.empty() && all.back().hi >= 0x80) {
    for (uint32_t b = 0xc2; b < 0xe0; ++b)
      out.put(b, block((b & 0x1f) << 6, (b & 0x1f) << 6 | 0x3f, (b & 0x1f) << 6, 1));
    for (uint32_t b = 0xe0; b < 0xf0; ++b) {
      const uint32_t base = (b & 0x0f) << 12;
      // Below these bounds an encoding would be overlong.
      out.put(b, block(std::max(base, 0x800u), base | 0xfff, base, 2));
    }
    for (uint32_t b = 0xf0; b < 0xf5; ++b) {
      const uint32_t base = (b & 7) << 18;
      out.put(b, block(std::max(base, 0x10000u), base | 0x3ffff, base, 3));
    }
    out.put(0xf5, EMPTY);
  }
  return keep(out);
}

Steps RegexSpace::Impl::machine_steps(Re r) {
  const uint32_t index = nodes[r].index;
  const auto state = static_cast<uint64_t>(nodes[r].lo);
  const structgen::Machine &m = *machines[index];
  if (m.lists_edges()) {
    std::vector<std::pair<uint8_t, uint64_t>> edges;
    m.edges(state, edges);
    charge(8 * (1 + edges.size()));
    StepList out;
    size_t next = 0;
    for (auto [byte, after] : edges) {
      if (byte != next) out.put(next, EMPTY);
      out.put(byte, spellable.test(byte) ? machine_leaf(index, after) : EMPTY);
      next = byte + size_t{1};
    }
    if (next < 256) out.put(next, EMPTY);
    return keep(out);
  }
  Re to[128] = {};
  auto step = [&](size_t b) {
    charge(8);  // the machine decides whether the next state is alive
    if (spellable.test(b)) to[b] = machine_leaf(index, m.step(state, static_cast<uint8_t>(b)));
  };
  if (const std::string_view alphabet = m.alphabet(); !alphabet.empty()) {
    for (char c : alphabet) step(static_cast<uint8_t>(c) & 0x7f);
  } else {
    for (size_t b = 0; b < 128; ++b) step(b);
  }
  StepList out;
  for (size_t b = 0; b < 128; ++b) out.put(b, to[b]);
  out.put(128, EMPTY);
  return keep(out);
}

Steps RegexSpace::Impl::literal_steps(Re r) {
  const ReNode n = nodes[r];
  StepList out;
  size_t next = 0;
  for (uint32_t i = 0; i < n.count; i += 2) {
    const Re byte = part(r, i);
    if (byte != next) out.put(next, EMPTY);
    out.put(byte, part(r, i + 1));
    next = byte + 1;
  }
  if (next < 256) out.put(next, EMPTY);
  return keep(out);
}

Steps RegexSpace::Impl::concat_steps(Re r) {
  const Re head = part(r, 0), tail = part(r, 1);
  Steps from[3] = {steps(head)};
  size_t count = 1;
  const bool moves = nodes[tail].has_look_behind, skips = nodes[head].nullable;
  if (moves) from[count++] = advance(tail);
  if (skips) from[count++] = steps(tail);
  return keep(sweep({from, count}, [&](const std::vector<Re> &to) {
    const Re whole = concat(to[0], moves ? to[1] : tail);
    if (!skips || to.back() == EMPTY) return whole;
    return whole == EMPTY ? to.back() : alternate({whole, to.back()});
  }));
}

Steps RegexSpace::Impl::boolean_steps(Re r) {
  const ReNode n = nodes[r];
  std::vector<Steps> from(n.count);
  for (uint32_t i = 0; i < n.count; ++i) from[i] = steps(part(r, i));
  return keep(sweep(from, [&](const std::vector<Re> &to) {
    work += to.size();
    if (n.kind == ReKind::Alternate) return alternate(to);
    return n.kind == ReKind::Intersect ? intersect(to) : difference(to[0], to[1]);
  }));
}

Steps RegexSpace::Impl::repeat_steps(Re r) {
  const ReNode n = nodes[r];
  const Re body = part(r, 0);
  const bool moves = nodes[body].has_look_behind;
  // A body that is nullable now can be repeated here as often as the lower bound requires.
  const int64_t lo = n.lo == 0 || nodes[body].nullable ? 0 : n.lo - 1, hi = n.hi < 0 ? -1 : n.hi - 1;
  const Re rest = moves ? EMPTY : repeat(body, lo, hi);
  Steps from[2] = {steps(body)};
  if (moves) from[1] = advance(body);
  return keep(sweep({from, moves ? size_t{2} : 1}, [&](const std::vector<Re> &to) {
    return to[0] == EMPTY ? EMPTY : concat(to[0], moves ? repeat(to[1], lo, hi) : rest);
  }));
}

Steps RegexSpace::Impl::derive(Re r) {
  expand(r);
  switch (nodes[r].kind) {
    case ReKind::Empty:
    case ReKind::Epsilon:
    case ReKind::LookAhead:
    case ReKind::LookBehind:
    case ReKind::Mark: return NOWHERE;
    case ReKind::Class: return class_steps(r);
    case ReKind::Machine: return machine_steps(r);
    case ReKind::Literals: return literal_steps(r);
    case ReKind::Concat: return concat_steps(r);
    case ReKind::Alternate:
    case ReKind::Intersect:
    case ReKind::Difference: return boolean_steps(r);
    case ReKind::Repeat: return repeat_steps(r);
    case ReKind::Loop:
    case ReKind::Guard:
    case ReKind::Source: return steps(unrolled.at(r));
    case ReKind::Scope: {
      Steps from = steps(part(r, 0));
      return keep(sweep({&from, 1}, [&](const std::vector<Re> &to) { return scope(to[0]); }));
    }
  }
  return NOWHERE;
}

Steps RegexSpace::Impl::moved(Re r) {
  const ReNode n = nodes[r];
  std::vector<Steps> from;
  const bool state_first = n.kind == ReKind::LookBehind || n.kind == ReKind::Guard;
  // A part without look-behinds stays as it is.
  const std::vector<Re> unmoved = all_parts(r);
  std::vector<Step> stays;
  for (Re p : unmoved) stays.push_back({p, 0});
  for (size_t i = 0; i < unmoved.size(); ++i) {
    if (state_first && i == 0) from.push_back(steps(unmoved[i]));
    else if (nodes[unmoved[i]].has_look_behind) from.push_back(advanced.at(unmoved[i]));
    else from.push_back({&stays[i], 1});
  }
  return keep(sweep(from, [&](const std::vector<Re> &to) {
    switch (n.kind) {
      case ReKind::Concat: return concat(to[0], to[1]);
      case ReKind::Alternate: return alternate(to);
      case ReKind::Intersect: return intersect(to);
      case ReKind::Difference: return difference(to[0], to[1]);
      case ReKind::Repeat: return repeat(to[0], n.lo, n.hi);
      case ReKind::LookAhead: return look_ahead(to[0], n.index != 0);
      case ReKind::LookBehind: return look_behind(to[0], n.index != 0);
      case ReKind::Loop: return loop(to[0], n.lo, n.hi, to[1]);
      case ReKind::Guard: return guard(to[0], n.index != 0, to[1]);
      default: return r;
    }
  }));
}

bool RegexSpace::Impl::has_steps(Re r, bool advancing) const {
  return advancing ? !nodes[r].has_look_behind || advanced.contains(r) : nodes[r].steps != nullptr;
}

// Calls `need(part, advancing)` for what the steps of `r` are made from.
template <class Need>
void RegexSpace::Impl::visit_needed(Re r, bool advancing, const Need &need) {
  const ReNode n = nodes[r];
  if (advancing) {
    const bool state_first = n.kind == ReKind::LookBehind || n.kind == ReKind::Guard;
    for (uint32_t i = 0; i < n.count; ++i) need(part(r, i), !(state_first && i == 0));
    return;
  }
  switch (n.kind) {
    case ReKind::Concat:
      need(part(r, 0), false);
      if (nodes[part(r, 0)].nullable) need(part(r, 1), false);
      need(part(r, 1), true);
      break;
    case ReKind::Repeat:
      need(part(r, 0), false);
      need(part(r, 0), true);
      break;
    case ReKind::Alternate:
    case ReKind::Intersect:
    case ReKind::Difference:
    case ReKind::Scope:
      for (uint32_t i = 0; i < n.count; ++i) need(part(r, i), false);
      break;
    case ReKind::Loop:
    case ReKind::Guard:
    case ReKind::Source: {
      auto it = unrolled.find(r);
      const Re once = it == unrolled.end() ? unroll(r) : it->second;
      unrolled.emplace(r, once);
      need(once, false);
      break;
    }
    default: break;
  }
}

// Makes the steps of `root`, those of its parts first. `root_advancing`: the steps of `advance`.
void RegexSpace::Impl::make_steps(Re root, bool root_advancing) {
  struct Task {
    Re r;
    bool advancing;
  };
  std::vector<Task> stack{{root, root_advancing}};
  while (!stack.empty()) {
    charge();
    const auto [r, advancing] = stack.back();
    if (has_steps(r, advancing)) {
      stack.pop_back();
      continue;
    }
    const size_t before = stack.size();
    visit_needed(r, advancing, [&](Re needed, bool needed_advancing) {
      if (!has_steps(needed, needed_advancing)) stack.push_back({needed, needed_advancing});
    });
    if (stack.size() > before) continue;
    stack.pop_back();
    const Steps made = advancing ? moved(r) : derive(r);
    work += made.size();
    if (advancing) {
      advanced[r] = made;
    } else {
      nodes[r].steps = made.data();
      nodes[r].step_count = static_cast<uint16_t>(made.size());
    }
  }
}

Steps RegexSpace::Impl::steps(Re r) {
  if (!nodes[r].steps) {
    // A state of a walk or search. The parts of expressions are not counted.
    if (rows_made >= rows_allowed)
      throw LimitError("the automaton of this constraint has too many states (limit automaton_states)");
    const uint64_t before = united;
    make_steps(r, false);
    // subtle: a union of thousands of terms counts as several states; otherwise the limit would take minutes to reach.
    rows_made += 1 + (united - before) / UNITED_PER_ROW;
  }
  return {nodes[r].steps, nodes[r].step_count};
}

Steps RegexSpace::Impl::advance(Re r) {
  if (!advanced.contains(r)) make_steps(r, true);
  return advanced.at(r);
}

const Row &RegexSpace::Impl::row(Re r) {
  if (rows[r]) {
    if (!assumed_rows.empty())
      if (auto it = assumed_rows.find(r); it != assumed_rows.end()) rely_on(it->second);
    return *rows[r];
  }
  const Steps all = steps(r);
  charge(16 + all.size());
  auto made = std::make_unique<Row>();
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t end = i + 1 < all.size() ? all[i + 1].from : 256;
    const Life life = life_of(all[i].to);
    if (life == Life::Assumed) assumed_rows.emplace(r, assumed.at(all[i].to));
    const Re to = life == Life::Dead ? EMPTY : all[i].to;
    std::fill(made->begin() + all[i].from, made->begin() + static_cast<std::ptrdiff_t>(end), to);
  }
  if (auto it = assumed_rows.find(r); it != assumed_rows.end()) rely_on(it->second);
  bytes += sizeof(Row);
  rows[r] = std::move(made);
  return *rows[r];
}

Re RegexSpace::derivative(Re r, uint8_t byte) { return row(r)[byte]; }
const Row &RegexSpace::row(Re r) { return impl_->row(impl_->closed_form(r)); }

void RegexSpace::release_row(Re r) {
  Impl &s = *impl_;
  if (r >= s.rows.size() || !s.rows[r] || s.nodes[r].kind != ReKind::Literals) return;
  s.rows[r].reset();
  s.bytes -= sizeof(Row);
}

bool RegexSpace::matches(Re r, std::string_view text) {
  r = impl_->closed_form(r);
  for (unsigned char c : text) {
    charge();
    // Steps may lead to dead states. The verdict is the same, and no search is needed.
    Steps all = impl_->steps(r);
    size_t i = 0;
    while (i + 1 < all.size() && all[i + 1].from <= c) ++i;
    r = all[i].to;
    if (r == EMPTY) return false;
  }
  return impl_->nodes[r].nullable;
}

}  // namespace structgen
