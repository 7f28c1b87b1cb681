"""What each of many formulas still wants, all of it as one number.

Why: a step says something to few formulas. A tuple with the state of each would be copied for every step that is
looked at, and what the whole is worth would be computed anew.
What: a tree with a formula's state in each leaf; equal trees are one number, so that what a step does not concern is
shared. Each node knows whether all in it are content, and how many steps they need at least: below a node of a sum
no step serves both sides, so what they need adds up; elsewhere it is what the greater one needs.
Cost: a step that concerns one of `n` formulas makes log n nodes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from .automaton import Letter
from .progression import Progression

__all__ = ["NEVER", "Ledger", "Part"]

NEVER = 1 << 30
"""A distance: no end is reached from here."""

NOTHING: Letter = frozenset()


@dataclass(eq=False)
class Part:
    """One formula."""

    progression: Progression
    moves: dict[tuple[int, Letter], int] = field(default_factory=dict)
    distances: dict[int, int] = field(default_factory=dict)
    """Of states to acceptance by letters that there are; empty where that is not known."""

    def move(self, state: int, letter: Letter) -> int:
        """The state after a letter."""
        found = self.moves.get((state, letter))
        if found is None:
            found = self.moves[state, letter] = self.progression.step(state, letter)
        return found

    def least(self, state: int) -> int:
        """A lower bound on the steps until the formula is content; (state 0 is the function that is false)."""
        if self.progression.accepting(state):
            return 0
        if self.distances:
            return self.distances.get(state, NEVER)
        return 1 if state else NEVER


@dataclass(frozen=True)
class _Shape:
    """Which formulas a node is about: those at the places from `first` on; the right side begins at `middle`."""

    first: int
    middle: int
    adds: bool
    left: int = -1
    right: int = -1


class Ledger:
    """See the module's text. `groups`: formulas, by number, that no step serves two groups of."""

    def __init__(self, parts: Sequence[Part], groups: Sequence[Sequence[int]]) -> None:
        grouped = {number for group in groups for number in group}
        others = [number for number in range(len(parts)) if number not in grouped]
        order = [number for group in groups for number in group] + others
        self.least: list[int] = []
        """Of each node, a lower bound on the steps until all in it are content."""
        self.ends: list[bool] = []
        """Of each node, whether all in it are content."""
        self.place_of = {number: place for place, number in enumerate(order)}
        """Letters of `after` are given by place."""
        self._order = order
        self._parts = [parts[number] for number in order]
        self._left: list[int] = []
        self._right: list[int] = []
        self._waited: dict[int, int] = {}
        self._shapes: list[_Shape] = []
        trees, first = [], 0
        for group in groups:
            trees.append(self._balanced(self._leaves(first, len(group)), adds=False))
            first += len(group)
        whole = [self._balanced(trees, adds=True)] if trees else []
        if others:
            whole.append(self._balanced(self._leaves(first, len(others)), adds=False))
        self._root = self._balanced(whole, adds=False)
        self._unique: list[dict[tuple[int, int], int]] = [{} for _ in self._shapes]

    def __len__(self) -> int:
        return len(self.least)

    def of(self, states: Sequence[int]) -> int:
        """The node with these states, one of each formula."""
        return self._made(self._root, states)

    def after(self, node: int, letters: Sequence[tuple[int, Letter]]) -> int:
        """What is left after a step that says these letters to formulas, by place in order, and nothing to others."""
        return self._after(self._root, node, letters)

    def states(self, node: int) -> list[int]:
        """The state of each formula."""
        found = [0] * len(self._parts)
        todo = [(self._root, node)]
        while todo:
            at, node = todo.pop()
            shape = self._shapes[at]
            if shape.left < 0:
                found[shape.first] = self._right[node]
            else:
                todo += [(shape.left, self._left[node]), (shape.right, self._right[node])]
        return [found[self.place_of[number]] for number in range(len(found))]

    def forget(self) -> None:
        """All nodes; what is still needed has to be made anew, by `of`."""
        self.least.clear()
        self.ends.clear()
        self._left.clear()
        self._right.clear()
        self._waited.clear()
        for known in self._unique:
            known.clear()

    # -- parts

    def _leaves(self, first: int, count: int) -> list[int]:
        found = []
        for place in range(first, first + count):
            found.append(len(self._shapes))
            self._shapes.append(_Shape(place, place, False))
        return found

    def _balanced(self, trees: Sequence[int], *, adds: bool) -> int:
        if len(trees) == 1:
            return trees[0]
        half = len(trees) // 2
        left, right = self._balanced(trees[:half], adds=adds), self._balanced(trees[half:], adds=adds)
        first, middle = self._shapes[left].first, self._shapes[right].first
        self._shapes.append(_Shape(first, middle, adds, left, right))
        return len(self._shapes) - 1

    def _made(self, at: int, states: Sequence[int]) -> int:
        shape = self._shapes[at]
        if shape.left < 0:
            return self._leaf(at, states[self._order[shape.first]])
        return self._node(at, self._made(shape.left, states), self._made(shape.right, states))

    def _leaf(self, at: int, state: int) -> int:
        place = self._shapes[at].first
        found = self._unique[at].get((place, state))
        if found is None:
            part = self._parts[place]
            found = self._new(at, place, state, part.least(state), part.progression.accepting(state))
        return found

    def _node(self, at: int, left: int, right: int) -> int:
        found = self._unique[at].get((left, right))
        if found is None:
            one, other = self.least[left], self.least[right]
            least = min(NEVER, one + other) if self._shapes[at].adds else max(one, other)
            found = self._new(at, left, right, least, self.ends[left] and self.ends[right])
        return found

    def _new(self, at: int, left: int, right: int, least: int, ends: bool) -> int:
        found = self._unique[at][left, right] = len(self.least)
        self.least.append(least)
        self.ends.append(ends)
        self._left.append(left)
        self._right.append(right)
        return found

    def _after(self, at: int, node: int, letters: Sequence[tuple[int, Letter]]) -> int:
        if not letters:
            return self._idle(at, node)
        shape = self._shapes[at]
        if shape.left < 0:
            ((place, letter),) = letters
            return self._leaf(at, self._parts[place].move(self._right[node], letter))
        left, right, middle = self._left[node], self._right[node], shape.middle
        if len(letters) == 1:
            if letters[0][0] < middle:
                return self._node(at, self._after(shape.left, left, letters), self._idle(shape.right, right))
            return self._node(at, self._idle(shape.left, left), self._after(shape.right, right, letters))
        half = bisect_left(letters, middle, key=_place)
        return self._node(
            at, self._after(shape.left, left, letters[:half]), self._after(shape.right, right, letters[half:])
        )

    def _idle(self, at: int, node: int) -> int:
        """After a step that says nothing to any of them."""
        found = self._waited.get(node)
        if found is None:
            shape = self._shapes[at]
            if shape.left < 0:
                found = self._leaf(at, self._parts[shape.first].move(self._right[node], NOTHING))
            else:
                found = self._node(
                    at, self._idle(shape.left, self._left[node]), self._idle(shape.right, self._right[node])
                )
            self._waited[node] = found
        return found


def _place(letter: tuple[int, Letter]) -> int:
    return letter[0]
