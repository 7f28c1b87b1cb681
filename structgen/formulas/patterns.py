"""The property specification patterns of Dwyer et al., as formulas.

What: occurrence and order patterns, each in one of five scopes. Arguments are atoms or formulas about one position;
strings are parsed.

    absence(p)                      p never holds
    existence(p)                    p holds at some position
    universality(p)                 p holds at every position
    bounded_existence(p, 2)         p starts to hold at most 2 times
    precedence(s, p)                p does not hold before s has held (both at the same position is allowed)
    response(p, s)                  whenever p holds, s holds at that position or later
    precedence_by_chain(s, t, p)    p does not hold before s, and after it t, have held
    precedence_of_chain(s, p, t)    no p that a t follows holds before s has held
    response_by_chain(p, s, t)      whenever p holds, s holds at that position or later, and t after it
    response_to_chain(p, q, s)      whenever p holds and a q follows, s holds at such a q or later
    constrained_chain(p, s, t, z)   response_by_chain without a z from s up to t

    within()             everywhere (the default)
    before(r)            up to the first r, exclusive; no requirement if r never holds
    after(q)             from the first q on, inclusive; no requirement if q never holds
    between(q, r)        from each q, inclusive, to the next r, exclusive; no requirement if no r follows
    after_until(q, r)    the same, or to the end if no r follows

How: a pattern is written for a whole trace. For a scope with an end it is *relativised*: each operator only sees the
positions before the end.
Source: Dwyer, Avrunin and Corbett 1999 (Patterns in property specifications for finite-state verification).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from structgen.errors import OptionError

from .formula import Formula, as_formula, make

__all__ = [
    "Scope",
    "absence",
    "after",
    "after_until",
    "before",
    "between",
    "bounded_existence",
    "constrained_chain",
    "existence",
    "precedence",
    "precedence_by_chain",
    "precedence_of_chain",
    "response",
    "response_by_chain",
    "response_to_chain",
    "universality",
    "within",
]

Holds = Formula | str

_MOST_STRETCHES = 50


@dataclass(frozen=True)
class Scope:
    """The scope of a pattern; `within`, `before`, `after`, `between` and `after_until` build it."""

    kind: Literal["within", "before", "after", "between", "after_until"]
    begin: Formula | None = None
    end: Formula | None = None


def within() -> Scope:
    """Return the scope of the whole trace."""
    return Scope("within")


def before(r: Holds) -> Scope:
    """Return the scope up to the first `r`, exclusive. There is no requirement if `r` never holds."""
    return Scope("before", end=as_formula(r))


def after(q: Holds) -> Scope:
    """Return the scope from the first `q` on. There is no requirement if `q` never holds."""
    return Scope("after", begin=as_formula(q))


def between(q: Holds, r: Holds) -> Scope:
    """Return the scope from each `q` to the next `r`, exclusive. There is no requirement if no `r` follows."""
    return Scope("between", as_formula(q), as_formula(r))


def after_until(q: Holds, r: Holds) -> Scope:
    """Return the scope from each `q` to the next `r`, exclusive, or to the end."""
    return Scope("after_until", as_formula(q), as_formula(r))


def absence(p: Holds, scope: Scope | None = None) -> Formula:
    """Return the formula "`p` never holds"."""
    return _in(_always(~as_formula(p)), scope)


def existence(p: Holds, scope: Scope | None = None) -> Formula:
    """Return the formula "`p` holds at some position"."""
    return _in(_eventually(as_formula(p)), scope)


def universality(p: Holds, scope: Scope | None = None) -> Formula:
    """Return the formula "`p` holds at every position"."""
    return _in(_always(as_formula(p)), scope)


def bounded_existence(p: Holds, most: int, scope: Scope | None = None) -> Formula:
    """Return the formula "`p` starts to hold at most `most` times"; consecutive positions count once."""
    if isinstance(most, bool) or not isinstance(most, int) or not 0 <= most <= _MOST_STRETCHES:
        raise OptionError(f"most is {most!r:.40}; it must be a whole number from 0 to {_MOST_STRETCHES}")
    held = as_formula(p)
    formula = _always(~held)
    for _ in range(most):
        formula = make("W", ~held, make("W", held, formula))
    return _in(formula, scope)


def precedence(s: Holds, p: Holds, scope: Scope | None = None) -> Formula:
    """Return the formula "`p` does not hold before `s` has held"; both at the same position is allowed."""
    return _in(make("W", ~as_formula(p), as_formula(s)), scope)


def response(p: Holds, s: Holds, scope: Scope | None = None) -> Formula:
    """Return the formula "whenever `p` holds, `s` holds at that position or later"."""
    return _in(_always(as_formula(p) >> _eventually(as_formula(s))), scope)


def precedence_by_chain(s: Holds, t: Holds, p: Holds, scope: Scope | None = None) -> Formula:
    """Return the formula "`p` does not hold before `s`, and after it `t`, have held"; `t` may hold with `p`."""
    first, second, effect = map(as_formula, (s, t, p))
    then = make("X", make("U", ~effect, second))
    return _in(_eventually(effect) >> make("U", ~effect, first & ~effect & then), scope)


def precedence_of_chain(s: Holds, p: Holds, t: Holds, scope: Scope | None = None) -> Formula:
    """Return the formula "no `p` that a `t` follows holds before `s` has held"."""
    cause, first, second = map(as_formula, (s, p, t))
    chain = _eventually(first & make("X", _eventually(second)))
    return _in(chain >> make("U", ~first, cause), scope)


def response_by_chain(p: Holds, s: Holds, t: Holds, scope: Scope | None = None) -> Formula:
    """Return the formula "whenever `p` holds, `s` holds at that position or later, and `t` after it"."""
    cause, first, second = map(as_formula, (p, s, t))
    return _in(_always(cause >> _eventually(first & make("X", _eventually(second)))), scope)


def response_to_chain(p: Holds, q: Holds, s: Holds, scope: Scope | None = None) -> Formula:
    """Return the formula "whenever `p` holds and a `q` follows, `s` holds at such a `q` or later"."""
    first, second, effect = map(as_formula, (p, q, s))
    chain = first & make("X", _eventually(second))
    return _in(_always(chain >> make("X", _eventually(second & _eventually(effect)))), scope)


def constrained_chain(p: Holds, s: Holds, t: Holds, z: Holds, scope: Scope | None = None) -> Formula:
    """Return `response_by_chain` with the condition that no `z` holds from `s` up to `t`."""
    cause, first, second, never = map(as_formula, (p, s, t, z))
    then = make("X", make("U", ~never, second))
    return _in(_always(cause >> _eventually(first & ~never & then)), scope)


# -- scopes


def _in(pattern: Formula, scope: Scope | None) -> Formula:
    if scope is not None and not isinstance(scope, Scope):
        raise OptionError(
            f"scope is {scope!r:.60}", hint='Use within(), before("r"), after("q"), between("q", "r"), ...'
        )
    begin, end = (None, None) if scope is None else (scope.begin, scope.end)
    inside = pattern if end is None else _relativised(pattern, end, {})
    if begin is None:
        return inside if end is None else _eventually(end) >> inside
    if end is None:
        return make("W", ~begin, begin & inside)
    assert scope is not None
    starts = begin & ~end & _eventually(end) if scope.kind == "between" else begin & ~end
    return _always(starts >> inside)


def _relativised(formula: Formula, end: Formula, known: dict[Formula, Formula]) -> Formula:
    """Return the formula on the positions before the first `end`, as if the trace ended there.

    At the position of `end` itself it has its value on the empty trace: F is false, G is true.
    """
    if formula not in known:
        args = [_relativised(argument, end, known) for argument in formula.args]
        known[formula] = _bounded(formula, args, end)
    return known[formula]


def _bounded(formula: Formula, args: list[Formula], end: Formula) -> Formula:
    match formula.op:
        case "last":
            return make("N", end)
        case "X":
            return make("X", ~end & args[0])
        case "N":
            return make("N", end | args[0])
        case "F":
            return make("U", ~end, ~end & args[0])
        case "G":
            return make("W", args[0], end)
        case "U":
            return make("U", ~end & args[0], ~end & args[1])
        case "W":
            return make("W", args[0], end | args[1])
        case "R":
            return make("W", args[1], end | (args[0] & args[1]))
        case "M":
            return make("U", ~end & args[1], ~end & args[0] & args[1])
    return make(formula.op, *args) if args else formula


def _eventually(formula: Formula) -> Formula:
    return make("F", formula)


def _always(formula: Formula) -> Formula:
    return make("G", formula)


PATTERNS: dict[str, Callable[..., Formula]] = {
    one.__name__: one
    for one in (
        absence,
        existence,
        universality,
        bounded_existence,
        precedence,
        response,
        precedence_by_chain,
        precedence_of_chain,
        response_by_chain,
        response_to_chain,
        constrained_chain,
    )
}
