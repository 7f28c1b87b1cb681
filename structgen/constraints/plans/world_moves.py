"""A user's world as the search for ends asks it: steps by number, labels as sets, failures as errors.

Cost: what a world said is kept, up to `_MOST_KEPT` answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structgen.errors import OptionError, StructgenError
from structgen.formulas.automaton import Letter

from .actions import Step, World

__all__ = ["WorldMoves", "labels_met"]

_MOST_KEPT = 200_000


class WorldMoves:
    """See `structgen.formulas.product.Moves`."""

    def __init__(self, world: World, steps: Sequence[Step]) -> None:
        self.start = world.start
        self.has_labels = world.labels is not None
        self._world = world
        self._steps = steps
        self._followed: dict[tuple[Any, int], Any] = {}
        self._told: dict[Any, Letter] = {}

    def follow(self, state: Any, number: int) -> Any:
        """Where a step leads; None where it is not possible."""
        key = (state, number)
        if key in self._followed:
            return self._followed[key]
        found = self._follow(state, self._steps[number])
        if len(self._followed) >= _MOST_KEPT:
            self._followed.clear()
        self._followed[key] = found
        return found

    def labels(self, state: Any) -> Letter:
        """The atoms that hold in a state."""
        found = self._told.get(state)
        if found is None:
            found = self._labels(state)
            if len(self._told) >= _MOST_KEPT:
                self._told.clear()
            self._told[state] = found
        return found

    def _follow(self, state: Any, step: Step) -> Any:
        try:
            there = self._world.follow(state, step)
            hash(there)
        except StructgenError:
            raise
        except Exception as error:
            raise OptionError(
                f"the environment failed at {step} in the state {state!r:.60}: {type(error).__name__}: {error}",
                hint="`follow` gives a hashable state, or None where the step is not possible.",
            ) from error
        return there

    def _labels(self, state: Any) -> Letter:
        assert self._world.labels is not None
        try:
            told = self._world.labels(state)
            if isinstance(told, str):
                raise TypeError(f"one text, {told!r:.40}, where several are expected")
            return frozenset(told)
        except StructgenError:
            raise
        except Exception as error:
            raise OptionError(
                f"the labels of the state {state!r:.60} failed: {type(error).__name__}: {error}",
                hint="`labels` gives a list of names for each state, empty where there are none.",
            ) from error


def labels_met(
    moves: WorldMoves, steps: int, wanted: frozenset[str], max_steps: int | None, most: int
) -> frozenset[str]:
    """Labels of the states nearest to the start, until those that are wanted were met or `most` steps were tried.

    What fails there was not asked for by a plan, so it counts as not met."""
    found: set[str] = set()
    states, met = [(moves.start, 0)], set()
    for state, depth in states if moves.has_labels else ():
        for number in range(steps) if max_steps is None or depth < max_steps else ():
            if wanted <= found or most <= 0:
                return frozenset(found)
            most -= 1
            try:
                there = moves.follow(state, number)
                if there is not None and there not in met:
                    found |= moves.labels(there)
                    met.add(there)
                    states.append((there, depth + 1))
            except StructgenError:
                continue
    return frozenset(found)
