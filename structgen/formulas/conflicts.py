"""Find a trace that satisfies many formulas, or a few formulas that contradict each other.

Why: a search for a trace of all formulas explores the product of their automata. But most formulas hold anyway, and a
contradiction is mostly between two or three.
What: the search finds a shortest trace of some formulas. Of the formulas that this trace violates, a few are added,
until it violates none, or nothing satisfies the added ones. Before that, formulas that share atoms are tried in pairs
and small groups.
Invariant: if the traces of subsets are shortest, so is the trace of all formulas.
Source: Clarke, Grumberg, Jha, Lu and Veith 2000 (counterexample-guided refinement), applied to conjunctions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from .formula import Formula

__all__ = ["least_conflict", "trace_or_conflict"]

Step = TypeVar("Step")
_ONE_BY_ONE = 16
"""The number of rounds that add one formula each; later rounds add more."""
_PAIRS = 1_000
_NEIGHBOURS = 8
"""The most pairs, and the largest groups, that are tried first."""


def trace_or_conflict(
    formulas: Sequence[Formula],
    find_trace: Callable[[Sequence[Formula]], list[Step] | None],
    breaks: Callable[[list[Step]], Sequence[int]],
) -> tuple[list[Step] | None, list[int]]:
    """Return a trace of all formulas; or None, and the indices of some that no trace satisfies together.

    Args:
        formulas: The formulas.
        found: Returns a trace of some formulas, or None if none exists. It may raise LimitExceeded.
        breaks: Returns the indices of the formulas that a trace violates.
    """
    for close in _small_groups(formulas) if len(formulas) > 1 else ():
        if find_trace([formulas[index] for index in close]) is None:
            return None, list(close)
    chosen: set[int] = set()
    while True:
        listed = sorted(chosen)
        trace = find_trace([formulas[index] for index in listed])
        if trace is None:
            return None, listed
        broken = [index for index in breaks(trace) if index not in chosen]
        if not broken:
            return trace, listed
        chosen.update(broken[: max(1, len(chosen) // _ONE_BY_ONE)])


def least_conflict(formulas: Sequence[Formula], possible: Callable[[Sequence[Formula]], bool]) -> list[int]:
    """Return the indices of a minimal subset that is impossible together, given that all formulas are."""
    kept = list(range(len(formulas)))
    for index in range(len(formulas)):
        without = [other for other in kept if other != index]
        if not possible([formulas[other] for other in without]):
            kept = without
    return kept


def _small_groups(formulas: Sequence[Formula]) -> Iterator[tuple[int, ...]]:
    """Yield each formula, pairs that share an atom, and each formula with all that share its atoms, if few."""
    yield from ((index,) for index in range(len(formulas)))
    sharing: dict[str, list[int]] = {}
    for index, formula in enumerate(formulas):
        for name in formula.atoms:
            sharing.setdefault(name, []).append(index)
    pairs = (pair for places in sharing.values() for pair in itertools.combinations(places, 2))
    yield from dict.fromkeys(itertools.islice(pairs, _PAIRS))
    seen: set[tuple[int, ...]] = set()
    for formula in formulas:
        neighbours = tuple(sorted({index for name in formula.atoms for index in sharing[name]}))
        if 2 < len(neighbours) <= _NEIGHBOURS and neighbours not in seen:
            seen.add(neighbours)
            yield neighbours
