"""Decide whether the empty trace satisfies a formula.

Why: by definition traces have at least one position. But a conversation may end before any tool is called, and that
must be accepted or rejected.
What: the formula is evaluated by its structure, as written. F, U, M and X require a position, so they are false. G, W,
R and N constrain existing positions only, so they are true. No atom holds. `last` is true, like the equivalent `N
false`.
Invariant: dualities hold (`!F f` and `G !f`). Not all other equivalences do: `f U f` is false for every `f`, so a
formula is evaluated before it is simplified.
"""

from __future__ import annotations

from .formula import Formula, Op, as_formula

__all__ = ["holds_on_empty"]

_FALSE_ON_EMPTY: frozenset[Op] = frozenset(["false", "atom", "F", "U", "M", "X"])
_TRUE_ON_EMPTY: frozenset[Op] = frozenset(["true", "last", "G", "W", "R", "N"])


def holds_on_empty(formula: Formula | str) -> bool:
    """Return whether the empty trace satisfies a formula."""
    given = as_formula(formula)
    if given.op in _TRUE_ON_EMPTY or given.op in _FALSE_ON_EMPTY:
        return given.op in _TRUE_ON_EMPTY
    values = [holds_on_empty(argument) for argument in given.args]
    match given.op:
        case "not":
            return not values[0]
        case "and":
            return all(values)
        case "or":
            return any(values)
        case "implies":
            return not values[0] or values[1]
    return values[0] == values[1]  # "iff"
