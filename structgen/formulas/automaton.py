"""The minimal deterministic automaton of a formula.

What: states are numbered from the start in the order of a breadth-first search. Two formulas over the same atoms and
the same alphabet are equivalent if and only if their automata are equal. The letters of the alphabets are:

    one-hot          one atom, or none of them: one action at each step
    propositional    any set of atoms

Rows of a one-hot automaton are lists, whose last entry is for "none of the atoms". Rows of a propositional automaton
are decision diagrams over the atoms, so the 2^atoms letters are never listed.
Cost: Moore's refinement, rounds times states times the size of a row; at most `most` states are built.
Source: Moore 1956; symbolic rows as in MONA (Henriksen et al. 1995).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

from structgen.argument_names import checks_names
from structgen.errors import LimitExceeded, OptionError

from . import drawing
from .formula import Formula, as_formula
from .progression import Progression

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Alphabet", "Automaton", "automaton", "check_alphabet", "letters_of"]

Alphabet = Literal["one-hot", "propositional"]
Letter = frozenset[str]
Branch = int
"""A state, or ``~k`` for the automaton's decision number `k`."""

MOST_STATES = 20_000


@dataclass(frozen=True)
class Automaton:
    """A minimal automaton; `automaton` builds it.

    State 0 is the start, before the first position. No trace ends there, since a trace has at least one position.
    """

    alphabet: Alphabet
    atoms: tuple[str, ...]
    accepting: tuple[bool, ...]
    rows: tuple[tuple[int, ...], ...]
    """For each state. One-hot: the state after each atom, and after none of them. Propositional: one branch."""
    decisions: tuple[tuple[int, Branch, Branch], ...] = ()
    """The index of an atom, the branch without it, and the branch with it."""

    start = 0

    def __len__(self) -> int:
        return len(self.accepting)

    def step(self, state: int, letter: Collection[str]) -> int:
        """Return the state after a position at which exactly the atoms of `letter` hold."""
        row = self.rows[state]
        if self.alphabet == "propositional":
            (branch,) = row
            while branch < 0:
                index, low, high = self.decisions[~branch]
                branch = high if self.atoms[index] in letter else low
            return branch
        return row[self._index(letter)]

    def accepts(self, trace: Iterable[Collection[str] | str]) -> bool:
        """Return whether a trace satisfies the formula. A position is a set of atoms, or one atom."""
        state = self.start
        for letter in trace:
            state = self.step(state, (letter,) if isinstance(letter, str) else letter)
        return self.accepting[state]

    @cached_property
    def distances(self) -> tuple[int | None, ...]:
        """For each state, the fewest further positions to acceptance; None if it accepts nothing."""
        before: list[list[int]] = [[] for _ in self.accepting]
        for state in range(len(self)):
            for _, target in self.edges(state):
                before[target].append(state)
        distances: list[int | None] = [0 if good else None for good in self.accepting]
        todo = deque(state for state, good in enumerate(self.accepting) if good)
        while todo:
            state = todo.popleft()
            for previous in before[state]:
                if distances[previous] is None:
                    distances[previous] = distances[state] + 1  # type: ignore[operator]
                    todo.append(previous)
        return tuple(distances)

    @property
    def is_empty(self) -> bool:
        """Whether no trace is accepted."""
        return self.distances[self.start] is None

    def edges(self, state: int) -> Iterator[tuple[Letter, int]]:
        """Yield each successor once, with a letter that leads there."""
        seen: set[int] = set()
        for letter, target in self._letters(state):
            if target not in seen:
                seen.add(target)
                yield letter, target

    def dot(self, *, dead: bool = False) -> str:
        """Return the automaton in Graphviz's language; with `dead`, including the state that accepts nothing."""
        return drawing.dot(self, dead=dead)

    def plot(self, axes: Axes | None = None, *, dead: bool = False) -> Axes:
        """Draw the automaton with matplotlib and return the axes; with `dead`, including the dead state."""
        return drawing.plot(self, axes, dead=dead)

    def _letters(self, state: int) -> Iterator[tuple[Letter, int]]:
        row = self.rows[state]
        if self.alphabet == "one-hot":
            for index, target in enumerate(row):
                yield frozenset(self.atoms[index : index + 1]), target
            return
        stack: list[tuple[Branch, Letter]] = [(row[0], frozenset())]
        seen: set[Branch] = set()
        while stack:
            branch, letter = stack.pop()
            if branch in seen:
                continue
            seen.add(branch)
            if branch >= 0:
                yield letter, branch
                continue
            index, low, high = self.decisions[~branch]
            stack += [(high, letter | {self.atoms[index]}), (low, letter)]

    @cached_property
    def _indices(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.atoms)}

    def _index(self, letter: Collection[str]) -> int:
        indices = [self._indices[name] for name in letter if name in self._indices]
        if len(indices) > 1:
            raise OptionError(
                f"a one-hot letter has one atom, not {', '.join(sorted(letter))}",
                hint='Use alphabet="propositional" for letters of several atoms.',
            )
        return indices[0] if indices else len(self.atoms)


@checks_names
def automaton(
    formula: Formula | str,
    *,
    alphabet: Alphabet = "one-hot",
    atoms: Sequence[str] | None = None,
    most: int = MOST_STATES,
) -> Automaton:
    """Return the minimal automaton of a formula.

    Args:
        formula: The formula, or its text.
        alphabet: The letters: one atom at each position ("one-hot"), or any set of atoms ("propositional").
        atoms: Further atoms that letters distinguish, besides those of the formula.
        most: The most states before minimisation.

    Raises:
        LimitExceeded: More than `most` states are needed. Plans and queries do not build the whole automaton.
    """
    progression = Progression(as_formula(formula))
    check_alphabet(alphabet)
    names = tuple(dict.fromkeys([*(atoms or ()), *progression.atoms]))
    explored = _explored(progression, alphabet, names, most)
    return _minimal(explored)


def letters_of(atoms: Sequence[str]) -> list[Letter]:
    """Return the one-hot letters: each atom alone, and none."""
    return [*(frozenset([name]) for name in atoms), frozenset()]


def check_alphabet(alphabet: str) -> None:
    """Raise an `OptionError` for an unknown alphabet."""
    if alphabet not in get_args(Alphabet):
        raise OptionError(f"alphabet is {alphabet!r:.40}; it must be one of {', '.join(get_args(Alphabet))}")


class _Branches:
    """The decisions of an automaton, each once."""

    def __init__(self) -> None:
        self.made: list[tuple[int, Branch, Branch]] = []
        self._unique: dict[tuple[int, Branch, Branch], Branch] = {}

    def node(self, index: int, low: Branch, high: Branch) -> Branch:
        if low == high:
            return low
        key = (index, low, high)
        decision = self._unique.get(key)
        if decision is None:
            decision = self._unique[key] = ~len(self.made)
            self.made.append(key)
        return decision


def _explored(progression: Progression, alphabet: Alphabet, atoms: tuple[str, ...], most: int) -> Automaton:
    """Return the automaton of all states that are reachable from the start."""
    numbers = {progression.start: 0}
    states = [progression.start]

    def number(state: int) -> int:
        state_number = numbers.get(state)
        if state_number is None:
            state_number = numbers[state] = len(states)
            states.append(state)
            if state_number >= most:
                raise LimitExceeded(
                    f"the automaton of {str(progression.formula)!r:.80} has more than {most} states",
                    limit="most",
                    hint="Pass a list of formulas instead of their conjunction, or a larger `most`.",
                )
        return state_number

    indices = [atoms.index(name) for name in progression.atoms]
    branches, rows, letters = _Branches(), [], letters_of(atoms)
    at = 0
    while at < len(states):
        state = states[at]
        at += 1
        if alphabet == "one-hot":
            rows.append(tuple(number(progression.step(state, letter)) for letter in letters))
        else:
            rows.append(
                (
                    progression.row(
                        state, number, lambda index, low, high: branches.node(indices[index], low, high)
                    ),
                )
            )
    accepting = tuple(progression.accepting(state) for state in states)
    return Automaton(alphabet, atoms, accepting, tuple(rows), tuple(branches.made))


def _minimal(given: Automaton) -> Automaton:
    """Merge equivalent states, and number them in the order of a search from the start."""
    classes = [int(good) for good in given.accepting]
    # subtle: the start is not accepting, but may be equivalent to a state that needs one more position.
    while True:
        branches = _Branches()
        signatures: dict[tuple[int, tuple[int, ...]], int] = {}
        found = [
            signatures.setdefault((class_number, _relabelled(given, row, classes, branches)), len(signatures))
            for class_number, row in zip(classes, given.rows, strict=True)
        ]
        if len(signatures) == len(set(classes)):
            break
        classes = found
    return _numbered(given, classes)


def _relabelled(
    given: Automaton, row: tuple[int, ...], classes: Sequence[int], branches: _Branches
) -> tuple[int, ...]:
    if given.alphabet == "one-hot":
        return tuple(classes[target] for target in row)
    known: dict[Branch, Branch] = {}

    def made(branch: Branch) -> Branch:
        if branch >= 0:
            return classes[branch]
        if branch not in known:
            index, low, high = given.decisions[~branch]
            known[branch] = branches.node(index, made(low), made(high))
        return known[branch]

    return (made(row[0]),)


def _numbered(given: Automaton, classes: Sequence[int]) -> Automaton:
    examples: dict[int, int] = {}
    for state, class_number in enumerate(classes):
        examples.setdefault(class_number, state)
    names: dict[int, int] = {}
    order: list[int] = []

    def number(class_number: int) -> int:
        if class_number not in names:
            names[class_number] = len(order)
            order.append(class_number)
        return names[class_number]

    number(classes[0])
    branches, rows, at = _Branches(), [], 0
    while at < len(order):
        row = given.rows[examples[order[at]]]
        at += 1
        if given.alphabet == "one-hot":
            rows.append(tuple(number(classes[target]) for target in row))
            continue
        # In two steps, since branches are identified by the numbers of the states that they lead to.
        for _, target in given.edges(examples[order[at - 1]]):
            number(classes[target])
        rows.append(
            _relabelled(given, row, [names.get(class_number, 0) for class_number in classes], branches)
        )
    accepting = tuple(given.accepting[examples[class_number]] for class_number in order)
    return Automaton(given.alphabet, given.atoms, accepting, tuple(rows), tuple(branches.made))
