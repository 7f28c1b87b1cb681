// Derivatives, rows and emptiness of RegexSpace.
#include "regex_nodes.h"

namespace structgen {
namespace {
constexpr int MAX_DEPTH = 4'000;

void too_deep() { throw LimitError("a regular expression is nested more than 4000 deep"); }
}  // namespace

Re RegexSpace::Impl::raw(Re r, uint8_t b, int depth) {
  if (depth > MAX_DEPTH) too_deep();
  const ReNode n = nodes[r];
  if (n.looks && n.kind != ReKind::Intersect && n.kind != ReKind::Difference && n.kind != ReKind::Alternate)
    return consume(r, b, EPSILON, depth);
  switch (n.kind) {
    case ReKind::LookAhead:
    case ReKind::LookBehind:
    case ReKind::Empty:
    case ReKind::Epsilon: return EMPTY;
    case ReKind::Class: {
      if (!spellable.test(b)) return EMPTY;
      uint32_t lo, hi;
      uint8_t pending;
      if (n.pending > 0) {
        if ((b & 0xc0) != 0x80) return EMPTY;
        pending = n.pending - 1;
        lo = static_cast<uint32_t>(b & 0x3f) << (6 * pending);
        hi = lo + (1u << (6 * pending)) - 1;
      } else if (b < 0x80) {
        pending = 0;
        lo = hi = b;
      } else if (b < 0xc2 || b > 0xf4) {
        return EMPTY;
      } else {
        pending = b < 0xe0 ? 1 : b < 0xf0 ? 2 : 3;
        uint32_t bits = b & (b < 0xe0 ? 0x1f : b < 0xf0 ? 0x0f : 0x07);
        lo = bits << (6 * pending);
        hi = lo + (1u << (6 * pending)) - 1;
      }
      const uint32_t base = lo;
      // Overlong forms encode characters below these; the class must not see them.
      if (n.pending == 0 && pending == 2) lo = std::max(lo, 0x800u);
      if (n.pending == 0 && pending == 3) lo = std::max(lo, 0x10000u);
      std::vector<CodeRange> rest;
      for (CodeRange x : ranges[n.index]) {
        if (x.hi < lo || x.lo > hi) continue;
        rest.push_back({std::max(x.lo, lo) - base, std::min(x.hi, hi) - base});
      }
      if (rest.empty()) return EMPTY;
      return pending == 0 ? EPSILON : make_class(std::move(rest), pending);
    }
    case ReKind::Concat: {
      Re head = part(r, 0), tail = part(r, 1);
      Re first = concat(raw(head, b, depth + 1), tail);
      if (!nodes[head].nullable) return first;
      return alternate({first, raw(tail, b, depth + 1)});
    }
    case ReKind::Alternate: {
      std::vector<Re> xs;
      for (uint32_t i = 0; i < part_count(r); ++i) xs.push_back(raw(part(r, i), b, depth + 1));
      return alternate(std::move(xs));
    }
    case ReKind::Intersect: {
      std::vector<Re> xs;
      for (uint32_t i = 0; i < part_count(r); ++i) {
        Re d = raw(part(r, i), b, depth + 1);
        if (d == EMPTY) return EMPTY;
        xs.push_back(d);
      }
      return intersect(std::move(xs));
    }
    case ReKind::Difference: {
      Re all = raw(part(r, 0), b, depth + 1);
      return all == EMPTY ? EMPTY : difference(all, raw(part(r, 1), b, depth + 1));
    }
    case ReKind::Repeat: {
      Re d = raw(part(r, 0), b, depth + 1);
      if (d == EMPTY) return EMPTY;
      return concat(d, repeat(part(r, 0), n.lo > 0 ? n.lo - 1 : 0, n.hi < 0 ? -1 : n.hi - 1));
    }
    case ReKind::Literals:
      for (uint32_t i = 0; i < part_count(r); i += 2)
        if (part(r, i) == b) return part(r, i + 1);
      return EMPTY;
    case ReKind::Machine: {
      const structgen::Machine &m = *machines[n.index];
      uint64_t next = m.step(n.state, b);
      if (next == 0 || !m.alive(next)) return EMPTY;
      ReNode to{ReKind::Machine};
      to.index = n.index;
      to.state = next;
      to.nullable = m.accepts(next);
      return intern(to, {});
    }
  }
  return EMPTY;
}

// ---------------------------------------------------------------- look-arounds
//
// An expression with look-arounds is read together with all that follows it, so that a
// look-ahead, a demand on the rest of the text, can be put beside the rest as an
// intersection (the Boolean derivative of an alternating automaton). A look-behind carries
// the state of an automaton over the text so far, which every byte moves.

Re RegexSpace::Impl::passing(Re r, int depth) {
  if (depth > MAX_DEPTH) too_deep();
  const ReNode n = nodes[r];
  if (!n.looks) return n.nullable ? ANY_TEXT : EMPTY;
  switch (n.kind) {
    case ReKind::LookAhead: {
      Re rest = concat(part(r, 0), ANY_TEXT);
      return n.lo ? difference(ANY_TEXT, rest) : rest;
    }
    case ReKind::LookBehind: return n.nullable ? ANY_TEXT : EMPTY;
    case ReKind::Concat: return intersect({passing(part(r, 0), depth + 1), passing(part(r, 1), depth + 1)});
    case ReKind::Alternate: {
      std::vector<Re> xs;
      for (uint32_t i = 0; i < part_count(r); ++i) xs.push_back(passing(part(r, i), depth + 1));
      return alternate(std::move(xs));
    }
    case ReKind::Repeat: return n.lo == 0 ? ANY_TEXT : passing(part(r, 0), depth + 1);
    default: throw std::invalid_argument("a look-around inside an intersection or complement that something follows");
  }
}

Re RegexSpace::Impl::consume(Re r, uint8_t b, Re rest, int depth) {
  if (depth > MAX_DEPTH) too_deep();
  const ReNode n = nodes[r];
  if (!n.looks) {
    Re d = raw(r, b, depth + 1);
    return d == EMPTY ? EMPTY : concat(d, advanced(rest, b, depth + 1));
  }
  switch (n.kind) {
    case ReKind::LookAhead:
    case ReKind::LookBehind: return EMPTY;
    case ReKind::Concat: {
      Re head = part(r, 0), tail = part(r, 1);
      Re first = consume(head, b, concat(tail, rest), depth + 1);
      Re condition = passing(head, depth + 1);
      if (condition == EMPTY) return first;
      Re second = consume(tail, b, rest, depth + 1);
      if (second != EMPTY) second = intersect({raw(condition, b, depth + 1), second});
      return alternate({first, second});
    }
    case ReKind::Alternate: {
      std::vector<Re> xs;
      for (uint32_t i = 0; i < part_count(r); ++i) xs.push_back(consume(part(r, i), b, rest, depth + 1));
      return alternate(std::move(xs));
    }
    case ReKind::Repeat: {
      // A round that matches nothing may be left out, unless it is owed: then the others are optional.
      Re body = part(r, 0);
      Re after = concat(repeat(body, n.lo > 0 ? n.lo - 1 : 0, n.hi < 0 ? -1 : n.hi - 1), rest);
      Re first = consume(body, b, after, depth + 1);
      if (n.lo == 0) return first;
      Re condition = passing(body, depth + 1);
      if (condition == EMPTY) return first;
      Re second = consume(repeat(body, 0, n.hi), b, rest, depth + 1);
      return alternate({first, intersect({raw(condition, b, depth + 1), second})});
    }
    default: throw std::invalid_argument("a look-around inside an intersection or complement that something follows");
  }
}

Re RegexSpace::Impl::advanced(Re r, uint8_t b, int depth) {
  if (!nodes[r].looks) return r;
  if (depth > MAX_DEPTH) too_deep();
  const ReNode n = nodes[r];
  std::vector<Re> xs;
  if (n.kind != ReKind::LookBehind)
    for (uint32_t i = 0; i < part_count(r); ++i) xs.push_back(advanced(part(r, i), b, depth + 1));
  switch (n.kind) {
    case ReKind::LookBehind: return look_behind_state(raw(part(r, 0), b, depth + 1), n.lo != 0);
    case ReKind::LookAhead: {
      if (xs[0] == EMPTY) return n.lo ? EPSILON : EMPTY;
      ReNode m{ReKind::LookAhead};
      m.lo = n.lo;
      m.nullable = nodes[xs[0]].nullable != (n.lo != 0);
      m.looks = true;
      m.plain = false;
      return intern(m, xs);
    }
    case ReKind::Concat: return concat(xs[0], xs[1]);
    case ReKind::Alternate: return alternate(std::move(xs));
    case ReKind::Intersect: return intersect(std::move(xs));
    case ReKind::Difference: return difference(xs[0], xs[1]);
    case ReKind::Repeat: return repeat(xs[0], n.lo, n.hi);
    default: return r;
  }
}

void RegexSpace::Impl::boundaries(Re r, std::bitset<257> &starts, int depth) const {
  if (depth > MAX_DEPTH) too_deep();
  const ReNode &n = nodes[r];
  if (n.looks) {  // look-behinds anywhere in it see the byte
    for (uint32_t i = 0; i < part_count(r); ++i) boundaries(part(r, i), starts, depth + 1);
    return;
  }
  switch (n.kind) {
    case ReKind::LookAhead:
    case ReKind::LookBehind:
    case ReKind::Empty:
    case ReKind::Epsilon: return;
    case ReKind::Class: {
      if (n.pending > 0) {
        const uint32_t shift = 6 * (n.pending - 1u);
        starts.set(0xc0);
        starts.set(0x80);
        for (CodeRange x : ranges[n.index]) {
          // A continuation byte whose block is only partly in the class stands alone.
          for (uint32_t edge : {x.lo, x.hi + 1}) {
            uint32_t block = edge >> shift;
            if (block < 64) starts.set(0x80 + block);
            if (edge & ((1u << shift) - 1) && block + 1 < 64) starts.set(0x80 + block + 1);
          }
        }
        if (!continuations_complete)
          for (size_t b = 0x80; b < 0xc0; ++b) starts.set(b);
        return;
      }
      starts.set(0x80);
      bool beyond_ascii = false;
      for (CodeRange x : ranges[n.index]) {
        if (x.lo < 0x80) starts.set(x.lo);
        if (x.hi < 0x7f) starts.set(x.hi + 1);
        beyond_ascii |= x.hi >= 0x80;
      }
      if (beyond_ascii)
        for (size_t b = 0xc2; b <= 0xf5; ++b) starts.set(b);
      return;
    }
    case ReKind::Concat: {
      boundaries(part(r, 0), starts, depth + 1);
      if (nodes[part(r, 0)].nullable) boundaries(part(r, 1), starts, depth + 1);
      return;
    }
    case ReKind::Repeat: return boundaries(part(r, 0), starts, depth + 1);
    case ReKind::Alternate:
    case ReKind::Intersect:
    case ReKind::Difference:
      for (uint32_t i = 0; i < part_count(r); ++i) boundaries(part(r, i), starts, depth + 1);
      return;
    case ReKind::Literals:
      for (uint32_t i = 0; i < part_count(r); i += 2) {
        starts.set(part(r, i));
        starts.set(part(r, i) + 1);
      }
      return;
    case ReKind::Machine:
      for (size_t b = 0; b <= 0x80; ++b) starts.set(b);
      return;
  }
}

const Row &RegexSpace::Impl::raw_row(Re r) {
  auto &slot = raw_rows[r];
  if (slot) return *slot;
  auto made = std::make_unique<Row>();
  std::bitset<257> starts;
  boundaries(r, starts, 0);
  for (size_t b = 0; b < 256; ++b)
    if (!spellable.test(b)) {
      starts.set(b);
      starts.set(b + 1);
    }
  Re last = EMPTY;
  for (size_t b = 0; b < 256; ++b) {
    if (b == 0 || starts.test(b)) last = spellable.test(b) ? raw(r, static_cast<uint8_t>(b), 0) : EMPTY;
    (*made)[b] = last;
  }
  bytes += sizeof(Row) + 48;
  return *(raw_rows[r] = std::move(made));
}

const Row &RegexSpace::Impl::row(Re r) {
  if (rows[r]) return *rows[r];
  if (nodes[r].plain) {
    // No pruning needed: move the raw row over.
    raw_row(r);
    auto it = raw_rows.find(r);
    rows[r] = std::move(it->second);
    raw_rows.erase(it);
    return *rows[r];
  }
  auto made = std::make_unique<Row>(raw_row(r));
  Re last = EMPTY;
  bool last_alive = false;
  for (Re &to : *made) {
    if (to != last) {
      last = to;
      last_alive = is_alive(to);
    }
    if (!last_alive) to = EMPTY;
  }
  bytes += sizeof(Row);
  rows[r] = std::move(made);
  return *rows[r];
}

bool RegexSpace::Impl::is_alive(Re r) {
  if (r == EMPTY) return false;
  if (nodes[r].plain || nodes[r].nullable) return true;
  if (auto it = alive.find(r); it != alive.end()) return it->second;
  // Breadth-first for a state that accepts or is known to be alive.
  std::unordered_map<Re, Re> from{{r, r}};
  std::vector<Re> queue{r};
  for (size_t i = 0; i < queue.size(); ++i) {
    if (i >= limits.emptiness_budget) {
      ++unproven;
      return alive[r] = true;
    }
    Re at = queue[i], last = EMPTY;
    const Row &next = raw_row(at);
    for (Re to : next) {
      if (to == last || to == EMPTY) continue;
      last = to;
      bool good = nodes[to].plain || nodes[to].nullable;
      if (!good) {
        if (auto it = alive.find(to); it != alive.end()) {
          if (!it->second) continue;
          good = true;
        }
      }
      if (good) {
        alive[to] = true;
        for (Re back = at;; back = from[back]) {
          alive[back] = true;
          if (back == r) break;
        }
        return true;
      }
      if (from.emplace(to, at).second) queue.push_back(to);
    }
  }
  for (Re dead : queue) alive[dead] = false;  // the whole closure holds no accepting state
  return false;
}

Re RegexSpace::derivative(Re r, uint8_t byte) { return impl_->row(r)[byte]; }
const Row &RegexSpace::row(Re r) { return impl_->row(r); }
bool RegexSpace::alive(Re r) { return impl_->is_alive(r); }

bool RegexSpace::matches(Re r, std::string_view text) {
  for (unsigned char c : text) {
    if (r == EMPTY) return false;
    r = impl_->row(r)[c];
  }
  return nullable(r);
}

bool RegexSpace::witness(Re r, std::string *out) {
  if (!alive(r)) return false;
  struct Step {
    Re from;
    uint8_t byte;
  };
  std::unordered_map<Re, Step> seen{{r, {r, 0}}};
  std::vector<Re> queue{r};
  for (size_t i = 0; i < queue.size() && i < impl_->limits.emptiness_budget; ++i) {
    Re at = queue[i];
    if (nullable(at)) {
      std::string text;
      for (Re back = at; back != r;) {
        Step s = seen.at(back);
        text += static_cast<char>(s.byte);
        back = s.from;
      }
      out->append(text.rbegin(), text.rend());
      return true;
    }
    Re last = EMPTY;
    const Row &next = impl_->row(at);
    for (int k = 0; k < 256; ++k) {
      // Printable letters first: a witness is read by people.
      int b = (k + 'a') & 255;
      Re to = next[static_cast<size_t>(b)];
      if (to == EMPTY || to == last) continue;
      last = to;
      if (seen.emplace(to, Step{at, static_cast<uint8_t>(b)}).second) queue.push_back(to);
    }
  }
  return false;
}

namespace {
// The states after one more character: all ways through its bytes.
void after_character(RegexSpace &space, Re r, std::vector<Re> &out, int depth = 0) {
  const Row &row = space.row(r);
  Re last = RegexSpace::EMPTY;
  for (int b = depth == 0 ? 0 : 0x80; b < (depth == 0 ? 256 : 0xc0); ++b) {
    Re to = row[static_cast<size_t>(b)];
    if (to == RegexSpace::EMPTY) continue;
    const bool lead = depth == 0 && b >= 0xc0;
    if (to == last && !lead) continue;
    last = to;
    int more = depth == 0 ? (b < 0x80 ? 0 : b < 0xe0 ? 1 : b < 0xf0 ? 2 : 3) : depth - 1;
    if (more == 0) out.push_back(to);
    else after_character(space, to, out, more);
  }
}

// A state inside a character: its first byte was read and counted.
int pending_bytes(RegexSpace &space, Re r) {
  int depth = 0;
  while (depth < 3) {
    const Row &row = space.row(r);
    auto it = std::find_if(row.begin() + 0x80, row.begin() + 0xc0, [](Re x) { return x != RegexSpace::EMPTY; });
    if (it == row.begin() + 0xc0) break;
    ++depth;
    r = *it;
  }
  return depth;
}
}  // namespace

bool RegexSpace::has_length(Re r, int64_t lo, int64_t hi) {
  if (r == EMPTY || (hi >= 0 && hi < lo)) return false;
  if (r == ANY_TEXT) return true;
  if (lo <= 0 && hi < 0) return alive(r);
  Hash128 key = extend(extend(Hash128{r, 3}, static_cast<uint64_t>(lo)), static_cast<uint64_t>(hi));
  if (auto it = impl_->lengths.find(key); it != impl_->lengths.end()) return it->second;
  // Sets of states after exactly n characters; the sequence of sets is ultimately periodic.
  std::vector<Re> now{r};
  if (int pending = pending_bytes(*this, r)) {
    now.clear();
    after_character(*this, r, now, pending);
  }
  std::unordered_map<Hash128, int64_t, HashOf128> met;
  bool found = false;
  size_t work = 0;
  for (int64_t n = 0; !now.empty(); ++n) {
    std::sort(now.begin(), now.end());
    now.erase(std::unique(now.begin(), now.end()), now.end());
    if (n >= lo && std::any_of(now.begin(), now.end(), [&](Re x) { return nullable(x); })) {
      found = true;
      break;
    }
    if (hi >= 0 && n >= hi) break;
    work += now.size();
    if (work > impl_->limits.emptiness_budget) {
      ++impl_->unproven;
      found = true;
      break;
    }
    Hash128 h{1, 1};
    for (Re x : now) h = extend(h, x);
    auto [it, fresh] = met.emplace(h, n);
    if (!fresh) {
      int64_t period = n - it->second;
      if (n >= lo) break;  // a whole period within bounds held no accepting set
      // Jump ahead by whole periods, staying below lo.
      int64_t jumps = (lo - n) / period;
      n += jumps * period;
      met.clear();
      if (n >= lo && std::any_of(now.begin(), now.end(), [&](Re x) { return nullable(x); })) {
        found = true;
        break;
      }
      if (hi >= 0 && n >= hi) break;
    }
    std::vector<Re> next;
    for (Re x : now) after_character(*this, x, next);
    now = std::move(next);
  }
  if (impl_->lengths.size() > 200'000) impl_->lengths.clear();
  return impl_->lengths[key] = found;
}

int64_t RegexSpace::min_length(Re r) {
  if (!alive(r)) return -1;
  if (auto it = impl_->min_lengths.find(r); it != impl_->min_lengths.end()) return it->second;
  std::vector<Re> now{r};
  std::unordered_set<Re> seen{r};
  int64_t n = 0, result = -1;
  if (int pending = pending_bytes(*this, r)) {
    now.clear();
    after_character(*this, r, now, pending);
  }
  for (; !now.empty() && seen.size() < impl_->limits.emptiness_budget; ++n) {
    if (std::any_of(now.begin(), now.end(), [&](Re x) { return nullable(x); })) {
      result = n;
      break;
    }
    std::vector<Re> next, found;
    for (Re x : now) after_character(*this, x, found);
    for (Re x : found)
      if (seen.insert(x).second) next.push_back(x);
    now = std::move(next);
  }
  return impl_->min_lengths[r] = result;
}

std::string RegexSpace::describe(Re r, size_t limit) const {
  const Impl &s = *impl_;
  std::string out;
  auto put = [&](auto &self, Re x) -> void {
    if (out.size() > limit) return;
    const ReNode &n = s.nodes[x];
    auto list = [&](const char *between) {
      out += '(';
      for (uint32_t i = 0; i < s.part_count(x); ++i) {
        if (i) out += between;
        self(self, s.part(x, i));
      }
      out += ')';
    };
    switch (n.kind) {
      case ReKind::Empty: out += "[]"; break;
      case ReKind::Epsilon: out += "()"; break;
      case ReKind::Class: out += n.pending ? "[...]" : "[" + std::to_string(s.ranges[n.index].size()) + "]"; break;
      case ReKind::Concat: list(""); break;
      case ReKind::Alternate: list("|"); break;
      case ReKind::Intersect: list("&"); break;
      case ReKind::Difference: list("-"); break;
      case ReKind::Repeat:
        if (x == ANY_TEXT) {
          out += ".*";
          break;
        }
        list("");
        out += "{" + std::to_string(n.lo) + "," + (n.hi < 0 ? "" : std::to_string(n.hi)) + "}";
        break;
      case ReKind::Literals: out += "literals"; break;
      case ReKind::LookAhead: list(n.lo ? "?!" : "?="); break;
      case ReKind::LookBehind: list(n.lo ? "?<!" : "?<="); break;
      case ReKind::Machine: out += "machine#" + std::to_string(n.state); break;
    }
  };
  put(put, r);
  if (out.size() > limit) out.resize(limit), out += "...";
  return out;
}

}  // namespace structgen
