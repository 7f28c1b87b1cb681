"""What a formula says of the trace without a position.

Why: traces have a position at least, by definition; but a conversation may end before any tool was called, and then it
must be said whether that was right.
What: judged by structure, on the formula as it is written. Nothing comes there, so F, U, M and X are false; nothing
there is wrong, so G, W, R and N are true; no atom holds; `last` is `N false`, which it means everywhere else.
Invariant: what is dual stays dual (`!F f` and `G !f`). Not all laws of other traces hold: `f U f` is false here,
whatever `f` is, so a formula is judged before it is simplified.
"""

from __future__ import annotations

from .formula import Formula, Op, as_formula

__all__ = ["holds_on_empty"]

_WRONG: frozenset[Op] = frozenset(["false", "atom", "F", "U", "M", "X"])
_RIGHT: frozenset[Op] = frozenset(["true", "last", "G", "W", "R", "N"])


def holds_on_empty(formula: Formula | str) -> bool:
    """Whether the trace without a position is right."""
    given = as_formula(formula)
    if given.op in _RIGHT or given.op in _WRONG:
        return given.op in _RIGHT
    verdicts = [holds_on_empty(one) for one in given.args]
    match given.op:
        case "not":
            return not verdicts[0]
        case "and":
            return all(verdicts)
        case "or":
            return any(verdicts)
        case "implies":
            return not verdicts[0] or verdicts[1]
    return verdicts[0] == verdicts[1]  # "iff"
