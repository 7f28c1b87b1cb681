"""A trace that satisfies many formulas, or a few of them that contradict each other.

Why: a search for a trace of all formulas at once meets the product of what they want, though most of them hold anyway,
and a contradiction is mostly between two or three. What: a shortest trace of some formulas is found; of those that it
breaks a few join them, until it breaks none, or nothing satisfies those that were joined. Before that, formulas that
share atoms are looked at in pairs and in small groups.
Invariant: a trace that is found is a shortest one of all formulas, if it is a shortest one of some.
Source: Clarke, Grumberg, Jha, Lu and Veith 2000 (refinement by counterexamples), here of conjunctions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from .formula import Formula

__all__ = ["least_conflict", "trace_or_conflict"]

Step = TypeVar("Step")
_ONE_BY_ONE = 16
"""Formulas that join alone; later ones in larger groups."""
_PAIRS = 1_000
_NEIGHBOURS = 8
"""What is looked at first."""


def trace_or_conflict(
    formulas: Sequence[Formula],
    found: Callable[[Sequence[Formula]], list[Step] | None],
    breaks: Callable[[list[Step]], Sequence[int]],
) -> tuple[list[Step] | None, list[int]]:
    """A trace of all formulas; or None, and the places of some that no trace satisfies together.

    Parameters
    ----------
    found
        A trace of some formulas; None if there is none. It may raise LimitExceeded.
    breaks
        The places of the formulas that a trace breaks.
    """
    for close in _close(formulas) if len(formulas) > 1 else ():
        if found([formulas[place] for place in close]) is None:
            return None, list(close)
    chosen: set[int] = set()
    while True:
        listed = sorted(chosen)
        trace = found([formulas[place] for place in listed])
        if trace is None:
            return None, listed
        broken = [place for place in breaks(trace) if place not in chosen]
        if not broken:
            return trace, listed
        chosen.update(broken[: max(1, len(chosen) // _ONE_BY_ONE)])


def least_conflict(formulas: Sequence[Formula], possible: Callable[[Sequence[Formula]], bool]) -> list[int]:
    """The places of formulas that are impossible together, where all of them are; without any one they are possible."""
    kept = list(range(len(formulas)))
    for place in range(len(formulas)):
        without = [one for one in kept if one != place]
        if not possible([formulas[one] for one in without]):
            kept = without
    return kept


def _close(formulas: Sequence[Formula]) -> Iterator[tuple[int, ...]]:
    """Each formula, pairs that share an atom, and each with all that it shares atoms with, where they are few."""
    yield from ((place,) for place in range(len(formulas)))
    sharing: dict[str, list[int]] = {}
    for place, formula in enumerate(formulas):
        for name in formula.atoms:
            sharing.setdefault(name, []).append(place)
    pairs = (pair for places in sharing.values() for pair in itertools.combinations(places, 2))
    yield from dict.fromkeys(itertools.islice(pairs, _PAIRS))
    seen: set[tuple[int, ...]] = set()
    for formula in formulas:
        near = tuple(sorted({place for name in formula.atoms for place in sharing[name]}))
        if 2 < len(near) <= _NEIGHBOURS and near not in seen:
            seen.add(near)
            yield near
