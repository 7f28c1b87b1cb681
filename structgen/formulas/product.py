"""The product of several formulas' automata and a world, built on demand, with distances to the end of a trace.

Why: a trace must satisfy all formulas, and each of its steps must be possible in the world. At every step it must be
known whether the trace can still be finished. The whole product is the size of the world times that of all automata,
but a trace visits few of its states.
What: a state is a state of the world together with the states of the formulas. Its distance to the end is found by
following a completion that is known from another state, or by A*. Lower bounds proved by one search speed up the next
(Adaptive A*).
Invariant: `ProductState.least` is never above the true distance, and `ProductState.most` never below it. Following
`ProductState.next_step` takes `most` steps. `fewest` is exact, or None if it is unknown.
Cost: a query tries at most `budget` steps. Beyond that the result is "unknown", which callers count. Up to `_MOST_KEPT`
states are kept.
Source: Hart, Nilsson and Raphael 1968; Koenig and Likhachev 2005 (Adaptive A*).
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from .automaton import Letter
from .formula import TRUE, Formula
from .joint_states import NEVER, NO_ATOMS, FormulaState, JointStates
from .progression import Progression

__all__ = ["NEVER", "Product", "ProductState", "WorldMoves"]

_MOST_FORMULA_STATES = 2_000
_MOST_MOVES = 20_000
"""The most states and moves of one formula's automaton that are explored to know its distances."""
_MOST_KEPT = 1_000_000
"""The most states, successors and formula states that are kept; one or two hundred bytes each."""


WorldState = TypeVar("WorldState", bound=Hashable)


class WorldMoves(Protocol[WorldState]):
    """A world: which steps are possible in a state."""

    @property
    def start(self) -> WorldState:
        """The state before the first step."""

    @property
    def has_labels(self) -> bool:
        """Whether states have labels."""

    def follow(self, state: WorldState, number: int) -> WorldState | None:
        """Return the state after a step; None if the step is not possible."""

    def labels(self, state: WorldState) -> Letter:
        """Return the atoms that hold in a state, besides those of the step that leads there."""


@dataclass(frozen=True)
class _TrivialWorld:
    """A world of one state in which every step is possible."""

    start: tuple[()] = ()
    has_labels: bool = False

    def follow(self, state: tuple[()], number: int) -> tuple[()]:
        return state

    def labels(self, state: tuple[()]) -> Letter:
        return NO_ATOMS


@dataclass(eq=False, slots=True)
class ProductState:
    """A state of the product."""

    world: Hashable
    formulas_state: int
    ends: bool
    """Whether a trace may end here."""
    least: int
    """A lower bound on the number of steps to the end."""
    most: int
    """An upper bound on the number of steps to the end."""
    next_step: tuple[int, ProductState] | None = None
    """The first step of a known completion: its number and the state after it."""
    after: list[tuple[int, ProductState]] | None = None
    """The possible steps: their numbers and the states after them."""


class Product:
    """The product of formulas and a world.

    Args:
        letters: The atoms that hold at each step.
        formulas: The formulas, all of which must hold.
        world: The world; None: every step is always possible.
        budget: The most steps that a query tries.
        lookahead: Whether the automaton of each formula is explored for distances. A single formula does not need it.
    """

    def __init__(
        self,
        letters: Sequence[Letter],
        formulas: Sequence[Formula],
        world: WorldMoves[Any] | None = None,
        *,
        budget: int,
        lookahead: bool = True,
    ) -> None:
        self.budget = budget
        self.tried = 0
        """The number of steps that were tried."""
        self.expanded = 0
        """The number of states from which all steps were tried."""
        self._letters = letters
        self._world: WorldMoves[Any] = world or _TrivialWorld()
        # Without formulas, the trace must still have at least one position.
        self._formulas = [FormulaState(Progression(formula)) for formula in (formulas or [TRUE])]
        own = [[letter & part.progression.formula.atoms for letter in letters] for part in self._formulas]
        groups = []
        if lookahead and not self._world.has_labels:
            for part, known in zip(self._formulas, own, strict=True):
                part.distances = _distances(part, {*known, NO_ATOMS})
            groups = _groups_apart(self._formulas, own)
        self._joint = JointStates(self._formulas, groups)
        self._letter_cache: dict[tuple[int, Letter], list[tuple[int, Letter]]] = {}
        self._states: dict[tuple[Hashable, int], ProductState] = {}
        self._successors = 0
        states = [part.progression.start for part in self._formulas]
        self.start = self._state(self._world.start, self._joint.of(states))
        # The first step serves all formulas, since each needs at least one position.
        if self.start.least < NEVER:
            self.start.least = max(
                part.least(state) for part, state in zip(self._formulas, states, strict=True)
            )

    def after(self, state: ProductState) -> list[tuple[int, ProductState]]:
        """Return the possible steps after which each formula, taken alone, can be satisfied."""
        if state.after is None:
            self.expanded += 1
            targets = ((number, self.step(state, number)) for number in range(len(self._letters)))
            state.after = [(number, target) for number, target in targets if target is not None]
            self._successors += len(state.after)
        return state.after

    def step(self, state: ProductState, number: int) -> ProductState | None:
        """Return the state after a step; None if the step is not possible or violates a formula."""
        self.tried += 1
        target = self._world.follow(state.world, number)
        if target is None:
            return None
        labels = self._world.labels(target) if self._world.has_labels else NO_ATOMS
        formulas_state = self._joint.after(state.formulas_state, self._letters_by_formula(number, labels))
        if self._joint.least[formulas_state] >= NEVER:
            return None
        product_state = self._state(target, formulas_state)
        return product_state if product_state.least < NEVER else None

    def fewest(self, state: ProductState) -> int | None:
        """Return the fewest steps to finish from a state; `NEVER` if it cannot be done, None if unknown."""
        if state.least < state.most:
            self._search(state, NEVER - 1, self.tried + self.budget, is_exact=True)
        return state.least if state.least == state.most or state.least >= NEVER else None

    def can_finish(self, state: ProductState, steps: int) -> bool | None:
        """Return whether a trace can be finished in at most `steps` steps from a state; None if unknown."""
        return self._can_finish(state, steps, (), self.tried + self.budget)

    def finishable_steps(self, state: ProductState, steps: int) -> tuple[list[tuple[int, ProductState]], int]:
        """Return the steps after which a trace can be finished in `steps` more, and for how many that is unknown.

        All of them share one budget.
        """
        until = self.tried + self.budget
        guide = _known_completion(state)
        moves, unknown = [], 0
        for number, target in self.after(state):
            can = self._can_finish(target, steps, guide, until)
            unknown += can is None
            if can is not False:
                moves.append((number, target))
        return moves, unknown

    def shortest_completion(self, state: ProductState) -> list[int] | None:
        """Return the step numbers of a shortest completion; None if none exists or it is unknown."""
        if self.fewest(state) in (None, NEVER):
            return None
        return _known_completion(state)

    def find_completion(self, state: ProductState) -> list[int] | None:
        """Return the step numbers of some completion, shortest or not; None if none is known."""
        return _known_completion(state) if self.can_finish(state, NEVER - 1) else None

    def evict(self, kept: Iterable[ProductState]) -> None:
        """Evict all states but these and the start, if many are kept."""
        if len(self._states) + self._successors + len(self._joint) + len(self._letter_cache) < _MOST_KEPT:
            return
        places = dict.fromkeys([self.start, *kept])
        states = {state: self._joint.states(state.formulas_state) for state in places}
        self._joint.clear_nodes()
        self._states.clear()
        self._letter_cache.clear()
        self._successors = 0
        for state in places:
            state.formulas_state = self._joint.of(states[state])
            state.after = state.next_step = None
            state.most = 0 if state.ends else NEVER
            self._states[state.world, state.formulas_state] = state

    # -- parts

    def _letters_by_formula(self, number: int, labels: Letter) -> list[tuple[int, Letter]]:
        """Return the letters of a step with these labels for the formulas that it concerns, ordered by position."""
        letters = self._letter_cache.get((number, labels))
        if letters is None:
            letter = self._letters[number] | labels
            listed = [
                (self._joint.position_of[part], own)
                for part, formula in enumerate(self._formulas)
                if (own := letter & formula.progression.formula.atoms)
            ]
            letters = self._letter_cache[number, labels] = sorted(listed, key=lambda pair: pair[0])
        return letters

    def _state(self, world: Hashable, formulas_state: int) -> ProductState:
        key = (world, formulas_state)
        state = self._states.get(key)
        if state is None:
            ends = self._joint.ends[formulas_state]
            state = self._states[key] = ProductState(
                world, formulas_state, ends, self._joint.least[formulas_state], 0 if ends else NEVER
            )
        return state

    def _can_finish(self, state: ProductState, steps: int, guide: Sequence[int], until: int) -> bool | None:
        if state.least > steps:
            return False
        if state.most <= steps:
            return True
        for is_strict in (True, False):
            if guide and self.tried < until and self._follow_guide(state, guide, is_strict) <= steps:
                return True
        if self.tried < until and self._follow_guide(state, range(len(self._letters)), True) <= steps:
            return True
        return self._search(state, steps, until, is_exact=False)

    def _follow_guide(self, state: ProductState, guide: Sequence[int], is_strict: bool) -> int:
        """Return an upper bound on the distance to the end, by following the steps of another state's completion.

        Steps that are not possible here are skipped; with `is_strict`, so are those that improve no formula.
        """
        here, steps, least = state, [], self._joint.least
        for number in guide:
            if here.most < NEVER:
                break
            target = self.step(here, number)
            if target is not None and (
                least[target.formulas_state] < least[here.formulas_state] or not is_strict
            ):
                steps.append((here, number, target))
                here = target
        _improve_upper_bounds(steps)
        return state.most

    def _search(self, start: ProductState, most: int, until: int, *, is_exact: bool) -> bool | None:
        """Search for a completion of at most `most` steps, and improve the bounds of all visited states.

        With `is_exact`, the search finds a shortest one. If neither that nor `most` requires a short one, it is
        greedy: states that seem near the end come first.
        """
        is_short = is_exact or most < NEVER - 1
        tie = itertools.count()
        cost: dict[ProductState, int] = {start: 0}
        came: dict[ProductState, tuple[ProductState, int, ProductState]] = {}
        waiting = [(start.least, next(tie), start)]
        closed: list[ProductState] = []
        while waiting:
            total, _, state = heapq.heappop(waiting)
            steps = cost[state]
            if state.least >= NEVER or (is_short and total > steps + state.least):
                continue  # it is dead by now, or was reached again by a shorter path
            if total > most:
                _improve_lower_bounds(closed, cost, total)
                return False
            if steps + state.most <= (total if is_exact else most):
                if is_short:
                    _improve_lower_bounds(closed, cost, total)
                _improve_upper_bounds(_path(state, came))
                return True
            if self.tried >= until:
                if is_short:
                    _improve_lower_bounds(closed, cost, total)
                return None
            closed.append(state)
            for number, target in self.after(state):
                if steps + 1 < cost.get(target, NEVER) and (is_short or target not in cost):
                    cost[target] = steps + 1
                    came[target] = state, number, target
                    if target.least < NEVER:
                        hoped = target.least + (steps + 1 if is_short else 0)
                        heapq.heappush(waiting, (hoped, -next(tie), target))
        for state in closed:  # the search visited all that can be reached
            state.least = NEVER
        return False


def _known_completion(state: ProductState) -> list[int]:
    """Return the step numbers of the completion that is known from a state; empty if none is known."""
    groups = []
    while state.next_step is not None and state.most:
        number, state = state.next_step
        groups.append(number)
    return groups


def _path(
    state: ProductState, came: dict[ProductState, tuple[ProductState, int, ProductState]]
) -> list[tuple[ProductState, int, ProductState]]:
    steps = []
    while state in came:
        steps.append(came[state])
        state = steps[-1][0]
    return steps[::-1]


def _improve_upper_bounds(steps: Sequence[tuple[ProductState, int, ProductState]]) -> None:
    """Improve the upper bounds along a path by the bound of its end."""
    for before, number, target in reversed(steps):
        if target.most + 1 < before.most:
            before.most, before.next_step = target.most + 1, (number, target)


def _improve_lower_bounds(closed: Sequence[ProductState], cost: dict[ProductState, int], total: int) -> None:
    """Improve the lower bounds of expanded states: no completion through them is shorter than `total`."""
    for state in closed:
        state.least = min(state.most, max(state.least, total - cost[state]))


def _groups_apart(parts: Sequence[FormulaState], letters: Sequence[Sequence[Letter]]) -> list[list[int]]:
    """Return groups of formulas such that no step serves two groups, so that their bounds add up.

    Formulas that a step without their atoms may bring nearer to acceptance (`X X a`) are in no group.
    """
    group_of: dict[int, int] = {}  # by step
    groups: dict[int, list[int]] = {}
    steps_of: dict[int, list[int]] = {}
    for number, part in enumerate(parts):
        if not _needs_its_atoms(part):
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


def _needs_its_atoms(part: FormulaState) -> bool:
    """Return whether letters without atoms of the formula never bring it nearer to acceptance, after the first one."""
    first = part.progression.start
    comes_again = first in part.moves.values()  # for example `F !b` after a `b`
    return bool(part.distances) and all(
        part.distances[part.move(state, NO_ATOMS)] >= distance
        for state, distance in part.distances.items()
        if comes_again or state != first
    )


def _distances(part: FormulaState, letters: set[Letter]) -> dict[int, int]:
    """Return the distance of each state to acceptance; empty if the automaton has too many states."""
    before: dict[int, list[int]] = {}
    states = [part.progression.start]
    seen = set(states)
    for state in states:
        for letter in letters:
            target = part.move(state, letter)
            before.setdefault(target, []).append(state)
            if target not in seen:
                if len(seen) >= _MOST_FORMULA_STATES or len(seen) * len(letters) > _MOST_MOVES:
                    return {}
                seen.add(target)
                states.append(target)
    distances = {state: 0 for state in states if part.progression.accepting(state)}
    todo = list(distances)
    for state in todo:
        for previous in before.get(state, ()):
            if previous not in distances:
                distances[previous] = distances[state] + 1
                todo.append(previous)
    return {state: distances.get(state, NEVER) for state in states}
