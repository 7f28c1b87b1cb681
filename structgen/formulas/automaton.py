"""The minimal automaton of a formula, and letters.

What: a deterministic automaton over letters, states numbered from the start in the order in which they are met. Two
formulas over the same atoms and letters mean the same if and only if their automata are equal.

    one-hot          a letter is one atom, or none of them: one action at each step
    propositional    a letter is any set of atoms

Rows of a one-hot automaton are lists, the last entry for "none of the atoms"; those of a propositional one are decision
diagrams over the atoms, so that 2^atoms letters are never listed.
Cost: Moore's refinement, rounds times states times the size of a row; at most `most` states are made.
Source: Moore 1956; symbolic rows as in MONA (Henriksen et al. 1995).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

from structgen.argument_names import checks_names
from structgen.errors import LimitExceeded, OptionError

from .formula import Formula, as_formula
from .progression import Progression

__all__ = ["Alphabet", "Automaton", "automaton", "check_alphabet", "letters_of"]

Alphabet = Literal["one-hot", "propositional"]
Letter = frozenset[str]
Branch = int
"""A state, or ``~k`` for the `k`-th of the automaton's decisions."""

MOST_STATES = 20_000


@dataclass(frozen=True)
class Automaton:
    """See the module's text. State 0 is the start, which no trace ends in: a trace has a position at least."""

    alphabet: Alphabet
    atoms: tuple[str, ...]
    accepting: tuple[bool, ...]
    rows: tuple[tuple[int, ...], ...]
    """One-hot: the state after each atom, and after none of them. Propositional: one branch."""
    decisions: tuple[tuple[int, Branch, Branch], ...] = ()
    """An atom's place, where to go without it, where with it."""

    start = 0

    def __len__(self) -> int:
        return len(self.accepting)

    def step(self, state: int, letter: Collection[str]) -> int:
        """The state after a position with the atoms of `letter` and no others."""
        row = self.rows[state]
        if self.alphabet == "propositional":
            (branch,) = row
            while branch < 0:
                place, low, high = self.decisions[~branch]
                branch = high if self.atoms[place] in letter else low
            return branch
        return row[self._place(letter)]

    def accepts(self, trace: Iterable[Collection[str] | str]) -> bool:
        """Whether the trace satisfies the formula; a position is a set of atoms, or one atom."""
        state = self.start
        for letter in trace:
            state = self.step(state, (letter,) if isinstance(letter, str) else letter)
        return self.accepting[state]

    @cached_property
    def distances(self) -> tuple[int | None, ...]:
        """Of each state: how many positions are needed at least to be accepted; None: it never is."""
        before: list[list[int]] = [[] for _ in self.accepting]
        for state in range(len(self)):
            for _, there in self.edges(state):
                before[there].append(state)
        found: list[int | None] = [0 if good else None for good in self.accepting]
        todo = deque(state for state, good in enumerate(self.accepting) if good)
        while todo:
            state = todo.popleft()
            for one in before[state]:
                if found[one] is None:
                    found[one] = found[state] + 1  # type: ignore[operator]
                    todo.append(one)
        return tuple(found)

    @property
    def is_empty(self) -> bool:
        """No trace is accepted."""
        return self.distances[self.start] is None

    def edges(self, state: int) -> Iterator[tuple[Letter, int]]:
        """Each successor once, with a letter that leads there."""
        seen: set[int] = set()
        for letter, there in self._letters(state):
            if there not in seen:
                seen.add(there)
                yield letter, there

    def dot(self, *, dead: bool = False) -> str:
        """For Graphviz; see `picture`."""
        from .drawing import dot

        return dot(self, dead=dead)

    def plot(self, axes: Any = None, *, dead: bool = False) -> Any:
        """With matplotlib; see `picture`."""
        from .drawing import plot

        return plot(self, axes, dead=dead)

    def _letters(self, state: int) -> Iterator[tuple[Letter, int]]:
        row = self.rows[state]
        if self.alphabet == "one-hot":
            for place, there in enumerate(row):
                yield frozenset(self.atoms[place : place + 1]), there
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
            place, low, high = self.decisions[~branch]
            stack += [(high, letter | {self.atoms[place]}), (low, letter)]

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.atoms)}

    def _place(self, letter: Collection[str]) -> int:
        found = [self._places[name] for name in letter if name in self._places]
        if len(found) > 1:
            raise OptionError(
                f"a one-hot letter has one atom, not {', '.join(sorted(letter))}",
                hint='alphabet="propositional" is for letters of several atoms.',
            )
        return found[0] if found else len(self.atoms)


@checks_names
def automaton(
    formula: Formula | str,
    *,
    alphabet: Alphabet = "one-hot",
    atoms: Sequence[str] | None = None,
    most: int = MOST_STATES,
) -> Automaton:
    """The minimal automaton of a formula. `atoms`: those that letters tell apart; all of the formula's are among them.

    Raises
    ------
    LimitExceeded
        Where more than `most` states are met. Plans and questions about formulas do without the whole automaton.
    """
    progression = Progression(as_formula(formula))
    check_alphabet(alphabet)
    names = tuple(dict.fromkeys([*(atoms or ()), *progression.atoms]))
    made = _explored(progression, alphabet, names, most)
    return _minimal(made)


def letters_of(atoms: Sequence[str]) -> list[Letter]:
    """The one-hot letters: each atom alone, and none."""
    return [*(frozenset([name]) for name in atoms), frozenset()]


def check_alphabet(alphabet: str) -> None:
    """An `OptionError` for what is none."""
    if alphabet not in get_args(Alphabet):
        raise OptionError(f"alphabet is {alphabet!r:.40}; it must be one of {', '.join(get_args(Alphabet))}")


class _Branches:
    """Decisions as they are collected, each once."""

    def __init__(self) -> None:
        self.made: list[tuple[int, Branch, Branch]] = []
        self._unique: dict[tuple[int, Branch, Branch], Branch] = {}

    def node(self, place: int, low: Branch, high: Branch) -> Branch:
        if low == high:
            return low
        key = (place, low, high)
        found = self._unique.get(key)
        if found is None:
            found = self._unique[key] = ~len(self.made)
            self.made.append(key)
        return found


def _explored(progression: Progression, alphabet: Alphabet, atoms: tuple[str, ...], most: int) -> Automaton:
    """All states that are met from the start."""
    numbers = {progression.start: 0}
    states = [progression.start]

    def number(state: int) -> int:
        found = numbers.get(state)
        if found is None:
            found = numbers[state] = len(states)
            states.append(state)
            if found >= most:
                raise LimitExceeded(
                    f"the automaton of {str(progression.formula)!r:.80} has more than {most} states",
                    limit="most",
                    hint="Give a list of formulas instead of their conjunction, or a greater `most`.",
                )
        return found

    places = [atoms.index(name) for name in progression.atoms]
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
                        state, number, lambda place, low, high: branches.node(places[place], low, high)
                    ),
                )
            )
    accepting = tuple(progression.accepting(state) for state in states)
    return Automaton(alphabet, atoms, accepting, tuple(rows), tuple(branches.made))


def _minimal(given: Automaton) -> Automaton:
    """States that accept the same are one; numbered as they are met from the start."""
    kinds = [int(good) for good in given.accepting]
    # subtle: the start accepts nothing yet may be like a state that owes one more position.
    while True:
        branches = _Branches()
        signatures: dict[tuple[int, tuple[int, ...]], int] = {}
        found = [
            signatures.setdefault((kind, _relabelled(given, row, kinds, branches)), len(signatures))
            for kind, row in zip(kinds, given.rows, strict=True)
        ]
        if len(signatures) == len(set(kinds)):
            break
        kinds = found
    return _numbered(given, kinds)


def _relabelled(
    given: Automaton, row: tuple[int, ...], kinds: Sequence[int], branches: _Branches
) -> tuple[int, ...]:
    if given.alphabet == "one-hot":
        return tuple(kinds[there] for there in row)
    known: dict[Branch, Branch] = {}

    def made(branch: Branch) -> Branch:
        if branch >= 0:
            return kinds[branch]
        if branch not in known:
            place, low, high = given.decisions[~branch]
            known[branch] = branches.node(place, made(low), made(high))
        return known[branch]

    return (made(row[0]),)


def _numbered(given: Automaton, kinds: Sequence[int]) -> Automaton:
    examples: dict[int, int] = {}
    for state, kind in enumerate(kinds):
        examples.setdefault(kind, state)
    names: dict[int, int] = {}
    order: list[int] = []

    def number(kind: int) -> int:
        if kind not in names:
            names[kind] = len(order)
            order.append(kind)
        return names[kind]

    number(kinds[0])
    branches, rows, at = _Branches(), [], 0
    while at < len(order):
        row = given.rows[examples[order[at]]]
        at += 1
        if given.alphabet == "one-hot":
            rows.append(tuple(number(kinds[there]) for there in row))
            continue
        # In two steps, since branches are numbered by what they lead to.
        for _, there in given.edges(examples[order[at - 1]]):
            number(kinds[there])
        rows.append(_relabelled(given, row, [names.get(kind, 0) for kind in kinds], branches))
    accepting = tuple(given.accepting[examples[kind]] for kind in order)
    return Automaton(given.alphabet, given.atoms, accepting, tuple(rows), tuple(branches.made))
