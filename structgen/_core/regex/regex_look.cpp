// Look-arounds in a language of whole texts.
//
// A look-ahead is a condition on everything that follows it, so it takes what follows as an operand:
//     close((?=a) , k) = (a·.*) & k        close((?!a), k) = ~(a·.*) & k
// `close` walks an *open* expression (one with look-aheads) from the right; `k` is the closed expression of the rest of
// the text. A loop over an open body is a node of its own, {body, count, rest}, which is unrolled once when it is
// derived. Its Boolean combinations are the states of an alternating automaton. `condition` is what a body can do
// without reading anything, `nonempty` what it can do otherwise. So an unrolled loop reads a byte before it comes back
// to itself.
// Source: Miyazaki and Minamide, "Derivatives of regular expressions with lookahead", JIP 27 (2019).
//
// A look-behind carries the state of the automaton of `.*a` over the text so far, wherever it is in the expression. It
// reads nothing and is nullable while that state accepts. With look-aheads inside (`(?<=\bx)`), the automaton ends in
// the Mark, which stands for the current position. The state is then a condition on what follows (`now`), and the
// look-behind is open as well.
//
// Cost: proportional to the open part of the expression for each unrolling. The number of states can be doubly
// exponential in pathological expressions; max_nodes bounds it.
#include "regex/regex_nodes.h"
#include "util/stack.h"

namespace structgen {
namespace {

constexpr size_t BYTES_REMEMBERED = 48;  // of one memoised result
constexpr char TOO_DEEP[] = "look-arounds are nested too deeply";

uint64_t pair_of(Re a, Re b) { return static_cast<uint64_t>(a) << 32 | b; }

}  // namespace

Re RegexSpace::look_ahead(Re a, bool negative) { return impl_->look_ahead(a, negative); }

Re RegexSpace::look_behind(Re a, bool negative) {
  Impl &s = *impl_;
  if (s.nodes[a].nullable && !s.nodes[a].has_look_behind && !s.nodes[a].open) return negative ? EMPTY : EPSILON;
  const Re any_then = s.concat(ANY_TEXT, a);
  return s.look_behind(s.nodes[a].open ? s.close(any_then, s.mark) : any_then, negative);
}

Re RegexSpace::Impl::look_ahead(Re body, bool negative) {
  if (body == EMPTY) return negative ? EPSILON : EMPTY;
  const ReNode &n = nodes[body];
  if (n.nullable && !n.has_look_behind && !n.open) return negative ? EMPTY : EPSILON;
  return intern({.kind = ReKind::LookAhead, .index = negative}, std::span<const Re>(&body, 1));
}

Re RegexSpace::Impl::look_behind(Re rest, bool negative) {
  if (rest == EMPTY) return negative ? EPSILON : EMPTY;
  if (rest == ANY_TEXT) return negative ? EMPTY : EPSILON;
  ReNode n{.kind = ReKind::LookBehind, .index = negative};
  // With a Mark the result depends on what follows; see `condition`.
  n.nullable = !nodes[rest].marked && nodes[rest].nullable != negative;
  return intern(n, std::span<const Re>(&rest, 1));
}

Re RegexSpace::Impl::loop(Re body, int64_t lo, int64_t hi, Re after) {
  if (after == EMPTY || (hi >= 0 && hi < lo)) return EMPTY;
  if (hi == 0) return after;
  lo = std::max<int64_t>(lo, 0);
  if (!nodes[body].open) return concat(repeat(body, lo, hi), after);
  ReNode n{.kind = ReKind::Loop, .lo = lo, .hi = hi < 0 ? -1 : hi};
  n.nullable = nodes[after].nullable && (lo == 0 || nodes[condition(body)].nullable);
  const Re both[] = {body, after};
  return intern(n, both);
}

Re RegexSpace::Impl::guard(Re rest, bool negative, Re after) {
  if (after == EMPTY || (rest == EMPTY && !negative)) return EMPTY;
  if (rest == EMPTY) return after;
  const Re holds = negative ? complement(now(rest)) : now(rest);
  ReNode n{.kind = ReKind::Guard, .nullable = nodes[holds].nullable && nodes[after].nullable, .index = negative};
  const Re both[] = {rest, after};
  return intern(n, both);
}

Re RegexSpace::Impl::scope(Re r) {
  r = closed_form(r);
  if (!nodes[r].has_look_behind) return r;
  return intern({.kind = ReKind::Scope, .nullable = nodes[r].nullable}, std::span<const Re>(&r, 1));
}

// The texts that begin with a match of `r` and whose rest is in `after`. The look-behinds know what precedes. `after`
// and the result are closed.
Re RegexSpace::Impl::close(Re r, Re after) {
  if (after == EMPTY) return EMPTY;
  if (!nodes[r].open) return concat(r, after);
  if (auto it = closed.find(pair_of(r, after)); it != closed.end()) return it->second;
  check_stack(TOO_DEEP);
  const Re made = make_closed(r, after);
  bytes += BYTES_REMEMBERED;
  return closed[pair_of(r, after)] = made;
}

Re RegexSpace::Impl::make_closed(Re r, Re after) {
  switch (nodes[r].kind) {
    case ReKind::Concat: {
      std::vector<Re> sequence;
      Re tail = r;
      for (; nodes[tail].kind == ReKind::Concat && nodes[tail].open; tail = part(tail, 1))
        sequence.push_back(part(tail, 0));
      for (after = close(tail, after); !sequence.empty(); sequence.pop_back()) after = close(sequence.back(), after);
      return after;
    }
    case ReKind::Alternate: {
      std::vector<Re> all = all_parts(r);
      for (Re &x : all) x = close(x, after);
      return alternate(all);
    }
    case ReKind::Repeat: return loop(part(r, 0), nodes[r].lo, nodes[r].hi, after);
    case ReKind::LookAhead: return intersect({condition(r), after});
    case ReKind::LookBehind: return guard(part(r, 0), nodes[r].index != 0, after);
    default: return EMPTY;  // no other kind is open
  }
}

// The condition on the rest of the text under which `r` matches the empty text at this position. Closed.
Re RegexSpace::Impl::condition(Re r) {
  if (!nodes[r].open) return nodes[r].nullable ? ANY_TEXT : EMPTY;
  if (auto it = conditions.find(r); it != conditions.end()) return it->second;
  check_stack(TOO_DEEP);
  const Re made = make_condition(r);
  bytes += BYTES_REMEMBERED;
  return conditions[r] = made;
}

Re RegexSpace::Impl::make_condition(Re r) {
  switch (nodes[r].kind) {
    case ReKind::Concat: {
      std::vector<Re> all;
      for (; nodes[r].kind == ReKind::Concat && nodes[r].open; r = part(r, 1)) all.push_back(condition(part(r, 0)));
      all.push_back(condition(r));
      return intersect(all);
    }
    case ReKind::Alternate: {
      std::vector<Re> all = all_parts(r);
      for (Re &x : all) x = condition(x);
      return alternate(all);
    }
    case ReKind::Repeat: return nodes[r].lo == 0 ? ANY_TEXT : condition(part(r, 0));
    case ReKind::LookAhead: {
      const Re ahead = close(part(r, 0), ANY_TEXT);
      return nodes[r].index ? complement(ahead) : ahead;
    }
    case ReKind::LookBehind: {
      const Re holds = now(part(r, 0));
      return nodes[r].index ? complement(holds) : holds;
    }
    default: return EMPTY;
  }
}

// close(r, after) for the matches of `r` at this position that read at least one byte.
Re RegexSpace::Impl::nonempty(Re r, Re after) {
  if (after == EMPTY) return EMPTY;
  if (!nodes[r].open && !nodes[r].nullable) return concat(r, after);
  if (auto it = read_some.find(pair_of(r, after)); it != read_some.end()) return it->second;
  check_stack(TOO_DEEP);
  const Re made = make_nonempty(r, after);
  bytes += BYTES_REMEMBERED;
  return read_some[pair_of(r, after)] = made;
}

Re RegexSpace::Impl::make_nonempty(Re r, Re after) {
  const ReNode n = nodes[r];
  switch (n.kind) {
    case ReKind::Epsilon:
    case ReKind::LookAhead:
    case ReKind::LookBehind: return EMPTY;
    case ReKind::Concat: {
      // Each element may be the first that reads a byte, if all elements before it can match the empty text.
      std::vector<Re> some;
      Re before = ANY_TEXT, rest = r;
      while (before != EMPTY) {
        charge();
        const bool last = nodes[rest].kind != ReKind::Concat;
        const Re element = last ? rest : part(rest, 0);
        some.push_back(intersect({before, nonempty(element, last ? after : close(part(rest, 1), after))}));
        if (last) break;
        before = intersect({before, condition(element)});
        rest = part(rest, 1);
      }
      return alternate(some);
    }
    case ReKind::Alternate: {
      std::vector<Re> all = all_parts(r);
      for (Re &x : all) x = nonempty(x, after);
      return alternate(all);
    }
    case ReKind::Repeat: {
      const Re body = part(r, 0);
      const int64_t hi = n.hi < 0 ? -1 : n.hi - 1;
      const Re once = nonempty(body, loop(body, std::max<int64_t>(n.lo - 1, 0), hi, after));
      if (n.lo <= 1) return once;
      // One iteration that reads nothing can stand for all those that the lower bound requires.
      return alternate({once, intersect({condition(body), nonempty(body, loop(body, 0, hi, after))})});
    }
    default: return concat(intersect({r, concat(any_character, ANY_TEXT)}), after);
  }
}

// A Loop, a Guard or a Source at this position, written out such that the loop itself occurs only after a byte.
Re RegexSpace::Impl::unroll(Re r) {
  const ReNode n = nodes[r];
  if (n.kind == ReKind::Source) return unfold(r);
  const Re first = part(r, 0), after = part(r, 1);
  if (n.kind == ReKind::Guard) {
    const Re holds = now(first);
    return intersect({n.index ? complement(holds) : holds, after});
  }
  const int64_t hi = n.hi < 0 ? -1 : n.hi - 1;
  const Re more = nonempty(first, loop(first, std::max<int64_t>(n.lo - 1, 0), hi, after));
  if (n.lo == 0) return alternate({after, more});
  // lo = 1 requires the body once: if it reads nothing, what follows need not be the body.
  const Re idle = condition(first);
  const Re rest = alternate({after, nonempty(first, loop(first, 0, hi, after))});
  return alternate({more, intersect({idle, rest})});
}

// The condition on the rest of the text under which the Mark in `r` is at this position.
Re RegexSpace::Impl::now(Re r) {
  if (r == mark) return ANY_TEXT;
  if (!nodes[r].marked) return r;
  if (auto it = marks.find(r); it != marks.end()) return it->second;
  check_stack(TOO_DEEP);
  const Re made = make_now(r);
  bytes += BYTES_REMEMBERED;
  return marks[r] = made;
}

Re RegexSpace::Impl::make_now(Re r) {
  switch (nodes[r].kind) {
    case ReKind::Concat:
      for (; nodes[r].kind == ReKind::Concat && nodes[r].marked; r = part(r, 1))
        if (!nodes[part(r, 0)].nullable) return EMPTY;
      return now(r);
    case ReKind::Alternate:
    case ReKind::Intersect: {
      const bool either = nodes[r].kind == ReKind::Alternate;
      std::vector<Re> all = all_parts(r);
      for (Re &x : all) x = now(x);
      return either ? alternate(all) : intersect(all);
    }
    case ReKind::Loop: {
      const Re after = now(part(r, 1));
      return nodes[r].lo == 0 ? after : intersect({condition(part(r, 0)), after});
    }
    case ReKind::Guard: {
      const Re holds = now(part(r, 0));
      return intersect({nodes[r].index ? complement(holds) : holds, now(part(r, 1))});
    }
    default: return EMPTY;
  }
}

}  // namespace structgen
