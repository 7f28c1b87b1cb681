"""The meaning of a formula on a trace, straight from the definition: slow, obvious, and independent except for the
tree.

A trace is a list of sets of atoms. `holds` takes positions of it only; an empty stretch has none, and `on_stretch`
defines its meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Trace = Sequence[frozenset[str]]


def holds(formula: Any, trace: Trace, at: int = 0) -> bool:
    """Whether `formula` holds at position `at`."""
    rest = range(at, len(trace))
    args = formula.args

    def yes(part: Any, where: int) -> bool:
        return holds(part, trace, where)

    match formula.op:
        case "true":
            return True
        case "false":
            return False
        case "last":
            return at == len(trace) - 1
        case "atom":
            return formula.name in trace[at]
        case "not":
            return not yes(args[0], at)
        case "and":
            return all(yes(one, at) for one in args)
        case "or":
            return any(yes(one, at) for one in args)
        case "implies":
            return not yes(args[0], at) or yes(args[1], at)
        case "iff":
            return yes(args[0], at) == yes(args[1], at)
        case "X":
            return at + 1 < len(trace) and yes(args[0], at + 1)
        case "N":
            return at + 1 >= len(trace) or yes(args[0], at + 1)
        case "F":
            return any(yes(args[0], there) for there in rest)
        case "G":
            return all(yes(args[0], there) for there in rest)
        case "U":
            return any(
                yes(args[1], there) and all(yes(args[0], i) for i in range(at, there)) for there in rest
            )
        case "W":
            until = any(
                yes(args[1], there) and all(yes(args[0], i) for i in range(at, there)) for there in rest
            )
            return until or all(yes(args[0], there) for there in rest)
        case "R":
            released = any(
                yes(args[0], there) and all(yes(args[1], i) for i in range(at, there + 1)) for there in rest
            )
            return released or all(yes(args[1], there) for there in rest)
        case "M":
            return any(
                yes(args[0], there) and all(yes(args[1], i) for i in range(at, there + 1)) for there in rest
            )
    raise AssertionError(formula.op)


def on_stretch(formula: Any, trace: Trace) -> bool:
    """What `formula` says of a stretch that may be empty: nothing comes there, and everything there holds."""
    if trace:
        return holds(formula, trace)
    match formula.op:
        case "G" | "W" | "R" | "N" | "true" | "last":
            return True
        case "F" | "U" | "M" | "X" | "false" | "atom":
            return False
        case "and":
            return all(on_stretch(one, trace) for one in formula.args)
        case "or":
            return any(on_stretch(one, trace) for one in formula.args)
        case "not":
            return not on_stretch(formula.args[0], trace)
        case "implies":
            return not on_stretch(formula.args[0], trace) or on_stretch(formula.args[1], trace)
        case "iff":
            return on_stretch(formula.args[0], trace) == on_stretch(formula.args[1], trace)
    raise AssertionError(formula.op)
