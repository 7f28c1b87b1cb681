"""The common patterns of properties, as formulas.

What: occurrence and order patterns, each in one of five scopes. Arguments are atoms or formulas about one position; a
string is parsed.

    absence(p)                      p never holds
    existence(p)                    p holds at some position
    universality(p)                 p holds at every position
    bounded_existence(p, 2)         p begins to hold at most so many times
    precedence(s, p)                p does not hold before s has held (both at once will do)
    response(p, s)                  after each p, or with it, s holds
    precedence_by_chain(s, t, p)    p does not hold before s has held, and after that t
    precedence_of_chain(s, p, t)    no p with a t after it before s has held
    response_by_chain(p, s, t)      after each p, or with it, s holds, and after that t
    response_to_chain(p, q, s)      after each p that a q comes after, s holds with such a q or later
    constrained_chain(p, s, t, z)   response_by_chain without a z from s up to t

    within()             everywhere (the default)
    before(r)            up to the first r, not with it; nothing is said where r never comes
    after(q)             from the first q on, with it; nothing is said where q never comes
    between(q, r)        from each q up to the next r, with q and not with r; nothing is said where no r comes
    after_until(q, r)    the same, or to the end where no r comes

How: a pattern is written for a whole trace. For a scope that ends it is *relativised*: each operator is made to look no
further than the position before the end.
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
    """Where a pattern has to hold; made by `within`, `before`, `after`, `between`, `after_until`."""

    kind: Literal["within", "before", "after", "between", "after_until"]
    begin: Formula | None = None
    end: Formula | None = None


def within() -> Scope:
    """The whole trace."""
    return Scope("within")


def before(r: Holds) -> Scope:
    """Up to the first `r`, not with it. Where `r` never holds nothing is said."""
    return Scope("before", end=as_formula(r))


def after(q: Holds) -> Scope:
    """From the first `q` on. Where `q` never holds nothing is said."""
    return Scope("after", begin=as_formula(q))


def between(q: Holds, r: Holds) -> Scope:
    """From each `q` up to the next `r`, not with it. Where no `r` comes nothing is said."""
    return Scope("between", as_formula(q), as_formula(r))


def after_until(q: Holds, r: Holds) -> Scope:
    """From each `q` up to the next `r`, not with it, or to the end."""
    return Scope("after_until", as_formula(q), as_formula(r))


def absence(p: Holds, scope: Scope | None = None) -> Formula:
    """`p` never holds."""
    return _in(_always(~as_formula(p)), scope)


def existence(p: Holds, scope: Scope | None = None) -> Formula:
    """`p` holds at some position."""
    return _in(_eventually(as_formula(p)), scope)


def universality(p: Holds, scope: Scope | None = None) -> Formula:
    """`p` holds at every position."""
    return _in(_always(as_formula(p)), scope)


def bounded_existence(p: Holds, most: int, scope: Scope | None = None) -> Formula:
    """`p` begins to hold at most `most` times: positions in a row count once."""
    if isinstance(most, bool) or not isinstance(most, int) or not 0 <= most <= _MOST_STRETCHES:
        raise OptionError(f"most is {most!r:.40}; it must be a whole number from 0 to {_MOST_STRETCHES}")
    held = as_formula(p)
    found = _always(~held)
    for _ in range(most):
        found = make("W", ~held, make("W", held, found))
    return _in(found, scope)


def precedence(s: Holds, p: Holds, scope: Scope | None = None) -> Formula:
    """`p` does not hold before `s` has held; both at once will do."""
    return _in(make("W", ~as_formula(p), as_formula(s)), scope)


def response(p: Holds, s: Holds, scope: Scope | None = None) -> Formula:
    """Where `p` holds, `s` holds with it or later."""
    return _in(_always(as_formula(p) >> _eventually(as_formula(s))), scope)


def precedence_by_chain(s: Holds, t: Holds, p: Holds, scope: Scope | None = None) -> Formula:
    """`p` does not hold before `s` has held and, after that, `t`; the last of them may hold with `p`."""
    first, second, effect = map(as_formula, (s, t, p))
    then = make("X", make("U", ~effect, second))
    return _in(_eventually(effect) >> make("U", ~effect, first & ~effect & then), scope)


def precedence_of_chain(s: Holds, p: Holds, t: Holds, scope: Scope | None = None) -> Formula:
    """A `p` with a `t` after it does not come before `s` has held."""
    cause, first, second = map(as_formula, (s, p, t))
    chain = _eventually(first & make("X", _eventually(second)))
    return _in(chain >> make("U", ~first, cause), scope)


def response_by_chain(p: Holds, s: Holds, t: Holds, scope: Scope | None = None) -> Formula:
    """Where `p` holds, `s` holds with it or later, and `t` after that."""
    cause, first, second = map(as_formula, (p, s, t))
    return _in(_always(cause >> _eventually(first & make("X", _eventually(second)))), scope)


def response_to_chain(p: Holds, q: Holds, s: Holds, scope: Scope | None = None) -> Formula:
    """Where `p` holds and a `q` after it, `s` holds with such a `q` or later."""
    first, second, effect = map(as_formula, (p, q, s))
    chain = first & make("X", _eventually(second))
    return _in(_always(chain >> make("X", _eventually(second & _eventually(effect)))), scope)


def constrained_chain(p: Holds, s: Holds, t: Holds, z: Holds, scope: Scope | None = None) -> Formula:
    """Where `p` holds, `s` holds with it or later, and `t` after that, without a `z` from `s` up to `t`."""
    cause, first, second, never = map(as_formula, (p, s, t, z))
    then = make("X", make("U", ~never, second))
    return _in(_always(cause >> _eventually(first & ~never & then)), scope)


# -- scopes


def _in(pattern: Formula, scope: Scope | None) -> Formula:
    if scope is not None and not isinstance(scope, Scope):
        raise OptionError(
            f"scope is {scope!r:.60}", hint='It is within(), before("r"), after("q"), between("q", "r"), ...'
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
    """What `formula` says of the positions before the first `end`, as if the trace ended there.

    At a position of `end` itself it is what the formula says of no position at all: F is false, G is true.
    """
    if formula not in known:
        args = [_relativised(one, end, known) for one in formula.args]
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
