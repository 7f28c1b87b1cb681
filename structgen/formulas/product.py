"""Formulas side by side, and a world if there is one, made as they are met, and how far it is to the end.

Why: a trace must satisfy all formulas, each step of it must be possible in the world, and it must be known at every
step whether it can still be finished. All of the product would be the size of the world times that of all automata; a
trace meets few of its states. What: a *place* is a state of the world with what each formula wants there. How far a
place is from the end is found by following a way that is known from elsewhere, or else by A*; lower bounds that a
search has proved make the next one faster (Adaptive A*).
Invariant: `Place.least` is never above the true distance and `Place.most` never below it; `most` places are left by
following `Place.way`. `fewest` is exact, or None where it is not known.
Cost: an answer tries at most `budget` steps; beyond that it is "unknown", which callers count. Places that were met
are kept, up to `_MOST_KEPT`.
Source: Hart, Nilsson and Raphael 1968; Koenig and Likhachev 2005 (Adaptive A*).
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .automaton import Letter
from .formula import TRUE, Formula
from .joint_states import NEVER, NOTHING, Ledger, Part
from .progression import Progression

__all__ = ["NEVER", "Moves", "Place", "Product"]

_MOST_STATES = 2_000
_MOST_MOVES = 20_000
"""Of one formula's automaton that are looked at to know distances in it."""
_MOST_KEPT = 1_000_000
"""Places, what leads on from them, and what formulas want there; a hundred bytes or two each."""


class Moves(Protocol):
    """A world: which step is possible where. States are hashable."""

    @property
    def start(self) -> Any:
        """The state before the first step."""

    @property
    def has_labels(self) -> bool:
        """Whether `labels` says anything."""

    def follow(self, state: Any, number: int) -> Any:
        """Where a step leads; None where it is not possible."""

    def labels(self, state: Any) -> Letter:
        """The atoms that hold in a state, besides those of the step that leads there."""


@dataclass(frozen=True)
class _Nowhere:
    """A world of one state, in which each step is possible."""

    start: tuple[()] = ()
    has_labels: bool = False

    def follow(self, state: Any, number: int) -> Any:
        return state

    def labels(self, state: Any) -> Letter:
        return NOTHING


@dataclass(eq=False, slots=True)
class Place:
    """A state of the product."""

    world: Any
    owed: int
    ends: bool
    """A trace may end here."""
    least: int
    most: int
    way: tuple[int, Place] | None = None
    """A step, by its number, and where it leads, of a way to the end."""
    after: list[tuple[int, Place]] | None = None
    """Each possible step, by its number, with where it leads."""


class Product:
    """See the module's text.

    Parameters
    ----------
    letters
        Of each step the atoms that hold at it.
    lookahead
        Whether the automaton of each formula is explored for distances in it; one formula alone does without.
    """

    def __init__(
        self,
        letters: Sequence[Letter],
        formulas: Sequence[Formula],
        world: Moves | None = None,
        *,
        budget: int,
        lookahead: bool = True,
    ) -> None:
        self.budget = budget
        self.tried = 0
        """Steps whose outcome was found out."""
        self.expanded = 0
        """Places from which all steps were tried."""
        self._letters = letters
        self._world: Moves = world or _Nowhere()
        # A trace has a position at least, whatever else is said of it.
        self._parts = [Part(Progression(formula)) for formula in (formulas or [TRUE])]
        own = [[letter & part.progression.formula.atoms for letter in letters] for part in self._parts]
        groups = []
        if lookahead and not self._world.has_labels:
            for part, known in zip(self._parts, own, strict=True):
                part.distances = _distances(part, {*known, NOTHING})
            groups = _groups_apart(self._parts, own)
        self._ledger = Ledger(self._parts, groups)
        self._said: dict[tuple[int, Letter], list[tuple[int, Letter]]] = {}
        self._places: dict[tuple[Any, int], Place] = {}
        self._successors = 0
        states = [part.progression.start for part in self._parts]
        self.start = self._place(self._world.start, self._ledger.of(states))
        # The first step serves all formulas: it is the position that each needs at least.
        if self.start.least < NEVER:
            self.start.least = max(part.least(state) for part, state in zip(self._parts, states, strict=True))

    def after(self, place: Place) -> list[tuple[int, Place]]:
        """Each step that is possible here and after which the formulas can be satisfied one by one."""
        if place.after is None:
            self.expanded += 1
            found = ((number, self.step(place, number)) for number in range(len(self._letters)))
            place.after = [(number, there) for number, there in found if there is not None]
            self._successors += len(place.after)
        return place.after

    def step(self, place: Place, number: int) -> Place | None:
        """Where one step leads; None where it is not possible, or breaks a formula."""
        self.tried += 1
        there = self._world.follow(place.world, number)
        if there is None:
            return None
        labels = self._world.labels(there) if self._world.has_labels else NOTHING
        owed = self._ledger.after(place.owed, self._said_by(number, labels))
        if self._ledger.least[owed] >= NEVER:
            return None
        found = self._place(there, owed)
        return found if found.least < NEVER else None

    def fewest(self, place: Place) -> int | None:
        """How many steps are needed to finish from here; `NEVER`: it cannot be done; None: not known."""
        if place.least < place.most:
            self._search(place, NEVER - 1, self.tried + self.budget, is_exact=True)
        return place.least if place.least == place.most or place.least >= NEVER else None

    def within(self, place: Place, steps: int) -> bool | None:
        """Whether a trace can be finished in so many steps from here; None: not known."""
        return self._within(place, steps, (), self.tried + self.budget)

    def finishing(self, place: Place, steps: int) -> tuple[list[tuple[int, Place]], int]:
        """The steps after which a trace can be finished in `steps` more, and of how many of them it is not known.

        One budget is for all of them.
        """
        until = self.tried + self.budget
        guide = _known_way(place)
        found, unknown = [], 0
        for number, there in self.after(place):
            can = self._within(there, steps, guide, until)
            unknown += can is None
            if can is not False:
                found.append((number, there))
        return found, unknown

    def completion(self, place: Place) -> list[int] | None:
        """The numbers of the steps of a shortest way to finish; None where there is none, or it is not known."""
        if self.fewest(place) in (None, NEVER):
            return None
        return _known_way(place)

    def some_way(self, place: Place) -> list[int] | None:
        """The numbers of the steps of a way to finish, a shortest or not; None where none is known."""
        return _known_way(place) if self.within(place, NEVER - 1) else None

    def forget(self, kept: Iterable[Place]) -> None:
        """All but these places and the start, if much has been met."""
        if len(self._places) + self._successors + len(self._ledger) + len(self._said) < _MOST_KEPT:
            return
        places = dict.fromkeys([self.start, *kept])
        states = {place: self._ledger.states(place.owed) for place in places}
        self._ledger.forget()
        self._places.clear()
        self._said.clear()
        self._successors = 0
        for place in places:
            place.owed = self._ledger.of(states[place])
            place.after = place.way = None
            place.most = 0 if place.ends else NEVER
            self._places[place.world, place.owed] = place

    # -- parts

    def _said_by(self, number: int, labels: Letter) -> list[tuple[int, Letter]]:
        """What a step that leads to these labels says to formulas, by place in order."""
        found = self._said.get((number, labels))
        if found is None:
            letter = self._letters[number] | labels
            said = [
                (self._ledger.place_of[part], own)
                for part, one in enumerate(self._parts)
                if (own := letter & one.progression.formula.atoms)
            ]
            found = self._said[number, labels] = sorted(said, key=lambda one: one[0])
        return found

    def _place(self, world: Any, owed: int) -> Place:
        key = (world, owed)
        found = self._places.get(key)
        if found is None:
            ends = self._ledger.ends[owed]
            found = self._places[key] = Place(
                world, owed, ends, self._ledger.least[owed], 0 if ends else NEVER
            )
        return found

    def _within(self, place: Place, steps: int, guide: Sequence[int], until: int) -> bool | None:
        if place.least > steps:
            return False
        if place.most <= steps:
            return True
        for is_strict in (True, False):
            if guide and self.tried < until and self._follow_guide(place, guide, is_strict) <= steps:
                return True
        if self.tried < until and self._follow_guide(place, range(len(self._letters)), True) <= steps:
            return True
        return self._search(place, steps, until, is_exact=False)

    def _follow_guide(self, place: Place, guide: Sequence[int], is_strict: bool) -> int:
        """How far it is to the end at most, by the steps of a way from elsewhere.

        Steps that are not possible here are left out; if `is_strict`, also those that bring no formula nearer.
        """
        here, steps, least = place, [], self._ledger.least
        for number in guide:
            if here.most < NEVER:
                break
            there = self.step(here, number)
            if there is not None and (least[there.owed] < least[here.owed] or not is_strict):
                steps.append((here, number, there))
                here = there
        _reached(steps)
        return place.most

    def _search(self, start: Place, most: int, until: int, *, is_exact: bool) -> bool | None:
        """Is there a way of at most `most` steps? All that is met learns better bounds.

        `is_exact`: a shortest one is found. Where neither that nor `most` asks for a short one, places come first that
        seem near the end.
        """
        is_short = is_exact or most < NEVER - 1
        tie = itertools.count()
        cost: dict[Place, int] = {start: 0}
        came: dict[Place, tuple[Place, int, Place]] = {}
        waiting = [(start.least, next(tie), start)]
        closed: list[Place] = []
        while waiting:
            total, _, place = heapq.heappop(waiting)
            steps = cost[place]
            if place.least >= NEVER or (is_short and total > steps + place.least):
                continue  # known to lead nowhere by now, or met again on a shorter way
            if total > most:
                _learn(closed, cost, total)
                return False
            if steps + place.most <= (total if is_exact else most):
                if is_short:
                    _learn(closed, cost, total)
                _reached(_path(place, came))
                return True
            if self.tried >= until:
                if is_short:
                    _learn(closed, cost, total)
                return None
            closed.append(place)
            for number, there in self.after(place):
                if steps + 1 < cost.get(there, NEVER) and (is_short or there not in cost):
                    cost[there] = steps + 1
                    came[there] = place, number, there
                    if there.least < NEVER:
                        hoped = there.least + (steps + 1 if is_short else 0)
                        heapq.heappush(waiting, (hoped, -next(tie), there))
        for place in closed:  # all that can be reached was met
            place.least = NEVER
        return False


def _known_way(place: Place) -> list[int]:
    """The steps of the way that is known from here; none where there is no such."""
    found = []
    while place.way is not None and place.most:
        number, place = place.way
        found.append(number)
    return found


def _path(place: Place, came: dict[Place, tuple[Place, int, Place]]) -> list[tuple[Place, int, Place]]:
    steps = []
    while place in came:
        steps.append(came[place])
        place = steps[-1][0]
    return steps[::-1]


def _reached(steps: Sequence[tuple[Place, int, Place]]) -> None:
    """What is known of the way to the end from where these steps lead is known of where they begin."""
    for before, number, there in reversed(steps):
        if there.most + 1 < before.most:
            before.most, before.way = there.most + 1, (number, there)


def _learn(closed: Sequence[Place], cost: dict[Place, int], total: int) -> None:
    """What was expanded is at least so far from the end that no way through it is shorter than `total`."""
    for place in closed:
        place.least = min(place.most, max(place.least, total - cost[place]))


def _groups_apart(parts: Sequence[Part], letters: Sequence[Sequence[Letter]]) -> list[list[int]]:
    """Groups of formulas that no step serves two of: what they need adds up.

    Left out are formulas that a step may bring nearer to their end without saying anything to them (`X X a`).
    """
    group_of: dict[int, int] = {}  # of each step
    groups: dict[int, list[int]] = {}
    steps_of: dict[int, list[int]] = {}
    for number, part in enumerate(parts):
        if not _waits(part):
            continue
        serving = [step for step, letter in enumerate(letters[number]) if letter]
        joined = {group_of[step] for step in serving if step in group_of}
        members, steps = [number], list(serving)
        for group in joined:
            members += groups.pop(group)
            steps += steps_of.pop(group)
        groups[number], steps_of[number] = members, steps
        group_of.update(dict.fromkeys(steps, number))
    return list(groups.values())


def _waits(part: Part) -> bool:
    """A letter without an atom of the formula never brings it nearer to acceptance, but for the first of a trace."""
    first = part.progression.start
    comes_again = first in part.moves.values()  # as of `F !b` after a `b`
    return bool(part.distances) and all(
        part.distances[part.move(state, NOTHING)] >= distance
        for state, distance in part.distances.items()
        if comes_again or state != first
    )


def _distances(part: Part, letters: set[Letter]) -> dict[int, int]:
    """How many letters each state is from acceptance; nothing where the states are too many."""
    before: dict[int, list[int]] = {}
    states = [part.progression.start]
    seen = set(states)
    for state in states:
        for letter in letters:
            there = part.move(state, letter)
            before.setdefault(there, []).append(state)
            if there not in seen:
                if len(seen) >= _MOST_STATES or len(seen) * len(letters) > _MOST_MOVES:
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
