"""Adapt a user's world to the search of `structgen.formulas.product`: steps by number, labels as sets, errors wrapped.

Cost: up to `_MOST_KEPT` results of the world are cached.
"""

from __future__ import annotations

from collections.abc import Sequence

from structgen.errors import OptionError, StructgenError
from structgen.formulas.automaton import Letter

from .actions import State, Step, World

__all__ = ["WorldSteps", "reachable_labels"]

_MOST_KEPT = 200_000


class WorldSteps:
    """A world with steps by number, as the protocol `structgen.formulas.product.WorldMoves` requires."""

    def __init__(self, world: World, steps: Sequence[Step]) -> None:
        self.start = world.start
        self.has_labels = world.labels is not None
        self._world = world
        self._steps = steps
        self._followed: dict[tuple[State, int], State] = {}
        self._labels_of: dict[State, Letter] = {}

    def follow(self, state: State, number: int) -> State:
        """Return the state after a step; None if the step is not possible."""
        key = (state, number)
        if key in self._followed:
            return self._followed[key]
        target = self._follow(state, self._steps[number])
        if len(self._followed) >= _MOST_KEPT:
            self._followed.clear()
        self._followed[key] = target
        return target

    def labels(self, state: State) -> Letter:
        """Return the atoms that hold in a state."""
        labels = self._labels_of.get(state)
        if labels is None:
            labels = self._labels(state)
            if len(self._labels_of) >= _MOST_KEPT:
                self._labels_of.clear()
            self._labels_of[state] = labels
        return labels

    def _follow(self, state: State, step: Step) -> State:
        try:
            target: State = self._world.follow(state, step)
            hash(target)
        except StructgenError:
            raise
        except Exception as error:
            raise OptionError(
                f"the environment failed at {step} in the state {state!r:.60}: {type(error).__name__}: {error}",
                hint="`follow` must return a hashable state, or None if the step is not possible.",
            ) from error
        return target

    def _labels(self, state: State) -> Letter:
        assert self._world.labels is not None
        try:
            labels = self._world.labels(state)
            if isinstance(labels, str):
                raise TypeError(f"one text, {labels!r:.40}, where several are expected")
            return frozenset(labels)
        except StructgenError:
            raise
        except Exception as error:
            raise OptionError(
                f"the labels of the state {state!r:.60} failed: {type(error).__name__}: {error}",
                hint="`labels` must return a list of names for each state; it may be empty.",
            ) from error


def reachable_labels(
    moves: WorldSteps, steps: int, wanted: frozenset[str], max_steps: int | None, tries: int
) -> frozenset[str]:
    """Return labels of the states nearest to the start, until the wanted ones are found or `most` steps are tried.

    Errors of the world are ignored here, since no plan requires these steps.
    """
    labels: set[str] = set()
    states, seen = [(moves.start, 0)], set()
    for state, depth in states if moves.has_labels else ():
        for number in range(steps) if max_steps is None or depth < max_steps else ():
            if wanted <= labels or tries <= 0:
                return frozenset(labels)
            tries -= 1
            try:
                target = moves.follow(state, number)
                if target is not None and target not in seen:
                    labels |= moves.labels(target)
                    seen.add(target)
                    states.append((target, depth + 1))
            except StructgenError:
                continue
    return frozenset(labels)
