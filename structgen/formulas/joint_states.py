"""The states of many formulas' automata, represented together by one number.

Why: a step contains atoms of few formulas. A tuple of all states would be copied for every step that is tried, and its
bounds would be computed again.
What: a hash-consed tree with the state of one formula in each leaf, so subtrees that a step does not affect are shared.
Each node stores whether all its formulas accept, and a lower bound on the steps until they do. If no step serves both
sides of a node, their bounds add up; otherwise the larger bound counts.
Cost: a step that affects one of `n` formulas builds log n nodes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from .automaton import Letter
from .progression import Progression

__all__ = ["NEVER", "FormulaState", "JointStates"]

NEVER = 1 << 30
"""The distance of a state from which no end can be reached."""

NO_ATOMS: Letter = frozenset()


@dataclass(eq=False)
class FormulaState:
    """One formula's automaton, with caches of its moves and distances."""

    progression: Progression
    moves: dict[tuple[int, Letter], int] = field(default_factory=dict)
    distances: dict[int, int] = field(default_factory=dict)
    """The distances of states to acceptance, by the letters that occur; empty if unknown."""

    def move(self, state: int, letter: Letter) -> int:
        """Return the state after a letter."""
        target = self.moves.get((state, letter))
        if target is None:
            target = self.moves[state, letter] = self.progression.step(state, letter)
        return target

    def least(self, state: int) -> int:
        """Return a lower bound on the steps until the formula accepts (state 0 is the function "false")."""
        if self.progression.accepting(state):
            return 0
        if self.distances:
            return self.distances.get(state, NEVER)
        return 1 if state else NEVER


@dataclass(frozen=True)
class _Shape:
    """The formulas of a node: those from position `first` on; the right side begins at `middle`."""

    first: int
    middle: int
    adds: bool
    left: int = -1
    right: int = -1


class JointStates:
    """The joint states of many formulas.

    Args:
        parts: The formulas.
        groups: Groups of formulas, by index, such that no step serves formulas of two groups.
    """

    def __init__(self, parts: Sequence[FormulaState], groups: Sequence[Sequence[int]]) -> None:
        grouped = {number for group in groups for number in group}
        others = [number for number in range(len(parts)) if number not in grouped]
        order = [number for group in groups for number in group] + others
        self.least: list[int] = []
        """For each node, a lower bound on the steps until all its formulas accept."""
        self.ends: list[bool] = []
        """For each node, whether all its formulas accept."""
        self.position_of = {number: position for position, number in enumerate(order)}
        """The position of each formula; `after` takes letters by position."""
        self._order = order
        self._formulas = [parts[number] for number in order]
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
        """Return the node with these states, one for each formula."""
        return self._made(self._root, states)

    def after(self, node: int, letters: Sequence[tuple[int, Letter]]) -> int:
        """Return the node after a step with these letters for formulas, ordered by position, and no atoms of others."""
        return self._after(self._root, node, letters)

    def states(self, node: int) -> list[int]:
        """Return the state of each formula."""
        states = [0] * len(self._formulas)
        todo = [(self._root, node)]
        while todo:
            at, node = todo.pop()
            shape = self._shapes[at]
            if shape.left < 0:
                states[shape.first] = self._right[node]
            else:
                todo += [(shape.left, self._left[node]), (shape.right, self._right[node])]
        return [states[self.position_of[number]] for number in range(len(states))]

    def clear_nodes(self) -> None:
        """Delete all nodes. Those that are still needed must be built again with `of`."""
        self.least.clear()
        self.ends.clear()
        self._left.clear()
        self._right.clear()
        self._waited.clear()
        for known in self._unique:
            known.clear()

    # -- parts

    def _leaves(self, first: int, count: int) -> list[int]:
        letters = []
        for position in range(first, first + count):
            letters.append(len(self._shapes))
            self._shapes.append(_Shape(position, position, False))
        return letters

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
        position = self._shapes[at].first
        leaf = self._unique[at].get((position, state))
        if leaf is None:
            part = self._formulas[position]
            leaf = self._new(at, position, state, part.least(state), part.progression.accepting(state))
        return leaf

    def _node(self, at: int, left: int, right: int) -> int:
        node = self._unique[at].get((left, right))
        if node is None:
            one, other = self.least[left], self.least[right]
            least = min(NEVER, one + other) if self._shapes[at].adds else max(one, other)
            node = self._new(at, left, right, least, self.ends[left] and self.ends[right])
        return node

    def _new(self, at: int, left: int, right: int, least: int, ends: bool) -> int:
        number = self._unique[at][left, right] = len(self.least)
        self.least.append(least)
        self.ends.append(ends)
        self._left.append(left)
        self._right.append(right)
        return number

    def _after(self, at: int, node: int, letters: Sequence[tuple[int, Letter]]) -> int:
        if not letters:
            return self._idle(at, node)
        shape = self._shapes[at]
        if shape.left < 0:
            ((position, letter),) = letters
            return self._leaf(at, self._formulas[position].move(self._right[node], letter))
        left, right, middle = self._left[node], self._right[node], shape.middle
        if len(letters) == 1:
            if letters[0][0] < middle:
                return self._node(at, self._after(shape.left, left, letters), self._idle(shape.right, right))
            return self._node(at, self._idle(shape.left, left), self._after(shape.right, right, letters))
        half = bisect_left(letters, middle, key=_position)
        return self._node(
            at, self._after(shape.left, left, letters[:half]), self._after(shape.right, right, letters[half:])
        )

    def _idle(self, at: int, node: int) -> int:
        """Return the node after a step without atoms of its formulas."""
        waited = self._waited.get(node)
        if waited is None:
            shape = self._shapes[at]
            if shape.left < 0:
                waited = self._leaf(at, self._formulas[shape.first].move(self._right[node], NO_ATOMS))
            else:
                waited = self._node(
                    at, self._idle(shape.left, self._left[node]), self._idle(shape.right, self._right[node])
                )
            self._waited[node] = waited
        return waited


def _position(letter: tuple[int, Letter]) -> int:
    return letter[0]
