"""Worlds and formulas side by side, made as they are met, and how far it is to the end.

Why: a plan must be possible in the world and satisfy the formulas, and it must be known at every step whether it can
still be finished. All of the product would be the size of the world times that of all automata; a plan meets few of
its states. What: a *place* is a state of the world with one state of each formula. How many steps a place is from the
end is found by A*; lower bounds that a search has proved make the next one faster (Adaptive A*).
Invariant: `Place.least` never exceeds the true distance; where `Place.exact` it is the distance, and then `Place.way`
leads towards the end. `fewest` is exact, or None where no plan can be finished from here.
Cost: a search expands at most `budget` places; beyond that the answer is "unknown", which callers count.
Source: Hart, Nilsson and Raphael 1968; Koenig and Likhachev 2005 (Adaptive A*).
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from structgen.constraints.ltl import TRUE, Formula
from structgen.constraints.ltl.automaton import Letter
from structgen.constraints.ltl.progression import Progression
from structgen.errors import OptionError, StructgenError

from .actions import Step, World

__all__ = ["NEVER", "Place", "Product"]

NEVER = 1 << 30
"""A distance: no plan can be finished from here."""

_NOTHING: Letter = frozenset()
_MOST_STATES = 2_000
"""Of one formula's automaton that are looked at to know distances in it."""


@dataclass(eq=False, slots=True)
class Place:
    """A state of the product."""

    world: Any
    owed: tuple[int, ...]
    ends: bool
    """A plan may end here."""
    least: int
    exact: bool = False
    way: Place | None = None
    after: list[tuple[int, Place]] | None = None
    """Each possible step, by its number, with where it leads."""


@dataclass(eq=False)
class _Part:
    """One formula."""

    progression: Progression
    letters: list[Letter]
    """What each step is to this formula, as far as the step alone tells."""
    moves: dict[tuple[int, Letter], int] = field(default_factory=dict)
    distances: dict[int, int] = field(default_factory=dict)
    """Of states to acceptance by letters that there are; empty where they are too many, or worlds have labels."""
    waits: bool = False
    """A letter without an atom of the formula never brings it nearer to acceptance, but for the first."""

    def move(self, state: int, letter: Letter) -> int:
        found = self.moves.get((state, letter))
        if found is None:
            found = self.moves[state, letter] = self.progression.step(state, letter)
        return found

    def distance(self, state: int) -> int:
        """A lower bound on the steps until the formula is content."""
        if self.progression.accepting(state):
            return 0
        return self.distances.get(state, NEVER) if self.distances else 1


class Product:
    """See the module's text."""

    def __init__(
        self, steps: Sequence[Step], formulas: Sequence[Formula], world: World, *, budget: int = 20_000
    ) -> None:
        self.steps = list(steps)
        self.expanded = 0
        """Places whose successors were made."""
        self._world = world
        self.budget = budget
        self._known_labels: dict[Any, frozenset[str]] = {}
        # A trace has a position at least, whatever else is said of it.
        self._parts = [self._part(formula) for formula in (formulas or [TRUE])]
        self._concerned = [
            [part for part, one in enumerate(self._parts) if one.letters[number]]
            for number in range(len(steps))
        ]
        """Of each step the formulas that it says something to."""
        self._groups = self._groups_apart()
        self._places: dict[tuple[Any, tuple[int, ...]], Place] = {}
        owed = tuple(part.progression.start for part in self._parts)
        self.start = self._place(world.start, owed, is_start=True)

    def after(self, place: Place) -> list[tuple[int, Place]]:
        """Each step that is possible here and after which the formulas can be satisfied one by one."""
        if place.after is None:
            place.after = self._successors(place)
        return place.after

    def fewest(self, place: Place) -> int | None:
        """How many steps are needed to finish from here; `NEVER`: it cannot be done; None: not known."""
        if not place.exact and place.least < NEVER:
            self._search(place, NEVER - 1)
        return place.least if place.exact or place.least >= NEVER else None

    def within(self, place: Place, steps: int) -> bool | None:
        """Whether a plan can be finished in so many steps from here; None: not known."""
        if place.least > steps:
            return False
        if place.exact:
            return True
        return self._search(place, steps)

    def completion(self, place: Place) -> list[int] | None:
        """The numbers of the steps of a shortest way to finish; None where there is none, or it is not known."""
        if self.fewest(place) in (None, NEVER):
            return None
        found = []
        while place.least:
            there = place.way
            assert there is not None
            found.append(next(number for number, one in self.after(place) if one is there))
            place = there
        return found

    # -- parts

    def _part(self, formula: Formula) -> _Part:
        progression = Progression(formula)
        atoms = formula.atoms
        letters = [frozenset({step.text, step.name} & atoms) for step in self.steps]
        part = _Part(progression, letters)
        if self._world.labels is None:
            part.distances = _distances(part, {*letters, _NOTHING})
            part.waits = bool(part.distances) and all(
                part.distances[part.move(state, _NOTHING)] >= distance
                for state, distance in part.distances.items()
                if state != progression.start
            )
        return part

    def _groups_apart(self) -> list[list[int]]:
        """Groups of formulas that no step serves two of: what they need adds up.

        Left out are formulas that a step may bring nearer to their end without saying anything to them (`X X a`).
        """
        groups: list[tuple[set[int], list[int]]] = []
        for number, part in enumerate(self._parts):
            if not part.waits:
                continue
            serving = {place for place, letter in enumerate(part.letters) if letter}
            members, kept = [number], []
            for steps, others in groups:
                if steps & serving:
                    serving |= steps
                    members += others
                else:
                    kept.append((steps, others))
            groups = [*kept, (serving, members)]
        return [members for _, members in groups]

    def _place(self, world: Any, owed: tuple[int, ...], *, is_start: bool = False) -> Place:
        key = (world, owed)
        found = self._places.get(key)
        if found is None:
            parts = zip(self._parts, owed, strict=True)
            ends = all(part.progression.accepting(state) for part, state in parts)
            found = self._places[key] = Place(world, owed, ends, self._bound(owed, is_start), exact=ends)
        return found

    def _bound(self, owed: tuple[int, ...], is_start: bool) -> int:
        each = [part.distance(state) for part, state in zip(self._parts, owed, strict=True)]
        longest = max(each)
        if longest >= NEVER:
            return NEVER
        if is_start:  # the first step serves all formulas: it is the position that each needs at least
            return longest
        return max(longest, sum(max(each[number] for number in group) for group in self._groups))

    def _successors(self, place: Place) -> list[tuple[int, Place]]:
        self.expanded += 1
        found = []
        untouched = [part.move(state, _NOTHING) for part, state in zip(self._parts, place.owed, strict=True)]
        for number, step in enumerate(self.steps):
            there = self._follow(place.world, step)
            if there is None:
                continue
            owed = self._owed(place, number, untouched, self._labels(there))
            if owed is None:
                continue
            one = self._place(there, owed)
            if one.least < NEVER:
                found.append((number, one))
        return found

    def _owed(
        self, place: Place, number: int, untouched: Sequence[int], labels: frozenset[str]
    ) -> tuple[int, ...] | None:
        """What the formulas want after a step; None where one of them is broken by it."""
        owed = list(untouched)
        if labels:
            for part, one in enumerate(self._parts):
                letter = one.letters[number] | (labels & one.progression.formula.atoms)
                owed[part] = one.move(place.owed[part], letter)
        else:
            for part in self._concerned[number]:
                one = self._parts[part]
                owed[part] = one.move(place.owed[part], one.letters[number])
        return tuple(owed) if all(owed) else None

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

    def _labels(self, state: Any) -> frozenset[str]:
        if self._world.labels is None:
            return _NOTHING
        found = self._known_labels.get(state)
        if found is None:
            found = self._known_labels[state] = self._told(state)
        return found

    def _told(self, state: Any) -> frozenset[str]:
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

    def _search(self, start: Place, most: int) -> bool | None:
        """Is there a way of at most `most` steps? All that is met learns better bounds."""
        tie = itertools.count()
        cost: dict[Place, int] = {start: 0}
        came: dict[Place, Place] = {}
        waiting = [(start.least, next(tie), start)]
        closed: list[Place] = []
        budget = self.budget
        while waiting:
            total, _, place = heapq.heappop(waiting)
            steps = cost[place]
            if total > steps + place.least or place.least >= NEVER:
                continue  # met again on a shorter way, or known to lead nowhere by now
            if total > most:
                self._learn(closed, cost, total)
                return False
            if place.exact:
                self._learn(closed, cost, total)
                self._reached(place, came)
                return True
            if not budget:
                self._learn(closed, cost, total)
                return None
            budget -= 1
            closed.append(place)
            for _, there in self.after(place):
                if steps + 1 < cost.get(there, NEVER):
                    cost[there] = steps + 1
                    came[there] = place
                    if there.least < NEVER:
                        heapq.heappush(waiting, (steps + 1 + there.least, -next(tie), there))
        for place in closed:  # all that can be reached was met
            place.least = NEVER
        return False

    def _learn(self, closed: Sequence[Place], cost: dict[Place, int], total: int) -> None:
        """What was expanded is at least so far from the end that no way through it is shorter than `total`."""
        for place in closed:
            if not place.exact:
                place.least = max(place.least, total - cost[place])

    def _reached(self, place: Place, came: dict[Place, Place]) -> None:
        """The places on the way are as far from the end as the way is long."""
        while place in came:
            before = came[place]
            before.least, before.exact, before.way = place.least + 1, True, place
            place = before


def _distances(part: _Part, letters: set[Letter]) -> dict[int, int]:
    """How many letters each state is from acceptance; nothing where the states are too many."""
    before: dict[int, list[int]] = {}
    states = [part.progression.start]
    seen = set(states)
    for state in states:
        for letter in letters:
            there = part.move(state, letter)
            before.setdefault(there, []).append(state)
            if there not in seen:
                if len(seen) >= _MOST_STATES:
                    return {}
                seen.add(there)
                states.append(there)
    found = {state: 0 for state in states if part.progression.accepting(state)}
    todo = list(found)
    for state in todo:
        for one in before.get(state, ()):
            if one not in found:
                found[one] = found[state] + 1
                todo.append(one)
    return {state: found.get(state, NEVER) for state in states}
