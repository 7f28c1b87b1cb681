"""The automaton of a formula, built on demand by formula progression.

Why: the whole automaton may be doubly exponential, but a trace visits only a few of its states.
What: a state is a Boolean combination of *obligations*, as a decision diagram. An obligation is a formula that must
hold at the next position, which must exist (a strong next). A weak next is the negation of an obligation. A letter
replaces each obligation by its progression: `f U g` is "g now, or f now and `f U g` next". A trace is accepted if no
obligation requires another position, that is, if the state is true where no obligation holds.
Invariant: states that are equal as functions are equal as numbers. So there are finitely many, since obligations are
subformulas. (Normalising by associativity and commutativity only would not terminate for nested weak untils.)
Cost: a letter is one replacement in the state's diagram. For all letters at once (`successors`, `row`) the atoms are
variables as well, tested before the obligations. That may be exponential in the operands of a conjunction; one letter
is not.
Source: Brzozowski 1964; Bacchus and Kabanza 1998 (progression); De Giacomo and Vardi 2013 (LTLf).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from structgen.errors import LimitExceeded

from .decision_diagrams import Diagrams
from .formula import Formula

__all__ = ["Progression"]

_MOST_VARIABLES = 400
"""The most atoms and obligations of one formula, since diagrams are as deep as the number of variables."""

_Core = int
_Operands = None | str | _Core | tuple[_Core, ...]
_Row = TypeVar("_Row")
_TRUE, _FALSE = 0, 1


@dataclass
class _Reading:
    """The caches for one letter, or for all letters at once."""

    letter: frozenset[str] | None
    now: dict[_Core, int] = field(default_factory=dict)
    replaced: dict[int, int] = field(default_factory=dict)


class Progression:
    """The automaton of one formula. States are numbers, created when they are first reached."""

    def __init__(self, formula: Formula) -> None:
        self.formula = formula
        self.atoms = tuple(sorted(formula.atoms))
        """The atoms that letters distinguish; the variable of an atom is its index."""
        self._indices = {name: index for index, name in enumerate(self.atoms)}
        self._diagrams = Diagrams()
        self._cores = _Cores()
        first = len(self.atoms)
        self._check(first)
        self._another = self._diagrams.node(first, 0, 1)
        """The variable "there is another position"."""
        self._obliged: list[_Core] = []
        self._variables: dict[_Core, int] = {}
        self._any = _Reading(None)
        self._by_letter: dict[frozenset[str], _Reading] = {}
        self._later: dict[_Core, int] = {}
        self._first = first + 1
        self._successors: dict[int, int] = {}
        self.start = self._next(self._cores.of(formula))
        """The state before the first position; a trace has at least one."""

    def step(self, state: int, letter: Collection[str]) -> int:
        """Return the state after a position at which exactly the atoms of `letter` hold."""
        own = frozenset(letter) & self.formula.atoms
        reading = self._by_letter.get(own)
        if reading is None:
            reading = self._by_letter[own] = _Reading(own)
        return self._diagrams.replaced(
            state, lambda variable: self._read(variable, reading), reading.replaced
        )

    def accepting(self, state: int) -> bool:
        """Return whether a trace may end in a state."""
        return self._diagrams.at_nothing(state)

    def successors(self, state: int) -> Iterator[tuple[dict[str, bool], int]]:
        """Yield each successor once, with the atoms that a letter to it contains, and those that it does not."""
        diagrams, count = self._diagrams, len(self.atoms)
        seen: set[int] = set()
        stack: list[tuple[int, dict[str, bool]]] = [(self._row(state), {})]
        while stack:
            node, guard = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            variable = diagrams.variable[node]
            if variable >= count:
                yield guard, node
                continue
            name = self.atoms[variable]
            stack.append((diagrams.high[node], {**guard, name: True}))
            stack.append((diagrams.low[node], {**guard, name: False}))

    def row(self, state: int, leaf: Callable[[int], _Row], node: Callable[[int, _Row, _Row], _Row]) -> _Row:
        """Return the successors by all letters as ``node(index of an atom, low, high)`` and ``leaf(state)``."""
        diagrams, count = self._diagrams, len(self.atoms)
        known: dict[int, _Row] = {}

        def made(number: int) -> _Row:
            if number not in known:
                variable = diagrams.variable[number]
                known[number] = (
                    leaf(number)
                    if variable >= count
                    else node(variable, made(diagrams.low[number]), made(diagrams.high[number]))
                )
            return known[number]

        return made(self._row(state))

    # -- parts

    def _check(self, variables: int) -> None:
        if variables >= _MOST_VARIABLES:
            raise LimitExceeded(
                f"a formula has more than {_MOST_VARIABLES} atoms and temporal subformulas",
                limit="formula_variables",
                hint="Split the formula into a list: each formula of a list has an automaton of its own.",
            )

    def _row(self, state: int) -> int:
        successors = self._successors.get(state)
        if successors is None:
            successors = self._successors[state] = self._diagrams.replaced(
                state, lambda variable: self._read(variable, self._any), self._any.replaced
            )
        return successors

    def _read(self, variable: int, reading: _Reading) -> int:
        """Return the progression of a state's variable by a letter."""
        if variable == self._first - 1:
            return 1  # there was another position
        return self._at_once(self._obliged[variable - self._first], reading)

    def _at_once(self, core: _Core, reading: _Reading) -> int:
        """Return a formula at the current position as a function of obligations (and of atoms, for all letters)."""
        now = reading.now.get(core)
        if now is not None:
            return now
        diagrams = self._diagrams
        op, args = self._cores.nodes[core]
        if op == "true":
            now = 1
        elif op == "atom":
            known = reading.letter
            now = diagrams.node(self._indices[args], 0, 1) if known is None else int(args in known)
        elif op == "not":
            now = diagrams.negation(self._at_once(args, reading))
        elif op == "and":
            now = 1
            for arg in args:
                now = diagrams.conjunction(self._at_once(arg, reading), now)
        elif op == "X":
            now = self._next(args)
        else:
            held, goal = args
            goes_on = diagrams.conjunction(self._at_once(held, reading), self._next(core))
            now = diagrams.disjunction(self._at_once(goal, reading), goes_on)
        reading.now[core] = now
        return now

    def _next(self, core: _Core) -> int:
        """Return the function "there is another position, and the formula holds there"."""
        later = self._later.get(core)
        if later is not None:
            return later
        diagrams = self._diagrams
        op, args = self._cores.nodes[core]
        if op == "true":
            later = self._another
        elif op == "not":
            later = diagrams.conjunction(self._another, diagrams.negation(self._next(args)))
        elif op == "and":
            later = self._another
            for arg in args:
                later = diagrams.conjunction(self._next(arg), later)
        else:
            if core not in self._variables:
                self._check(self._first + len(self._obliged))
                self._variables[core] = self._first + len(self._obliged)
                self._obliged.append(core)
            later = diagrams.node(self._variables[core], 0, 1)
        self._later[core] = later
        return later


class _Cores:
    """Formulas reduced to few operators (true, atom, not, and, X, U), hash-consed and normalised."""

    def __init__(self) -> None:
        self.nodes: list[tuple[str, Any]] = []
        self._unique: dict[tuple[str, Any], _Core] = {}
        self._of: dict[Formula, _Core] = {}
        assert self._make("true", None) == _TRUE and self._make("not", _TRUE) == _FALSE

    def of(self, formula: Formula) -> _Core:
        core = self._of.get(formula)
        if core is None:
            core = self._of[formula] = self._read(formula)
        return core

    def _read(self, formula: Formula) -> _Core:
        op, args = formula.op, [self.of(arg) for arg in formula.args]
        no, both, until = self._not, self._and, self._until
        match op:
            case "true":
                return _TRUE
            case "false":
                return _FALSE
            case "last":
                return no(self._after(_TRUE))
            case "atom":
                return self._make("atom", formula.name)
            case "not":
                return no(args[0])
            case "and":
                return both(args)
            case "or":
                return no(both([no(part) for part in args]))
            case "implies":
                return no(both([args[0], no(args[1])]))
            case "iff":
                return both([no(both([args[0], no(args[1])])), no(both([args[1], no(args[0])]))])
            case "X":
                return self._after(args[0])
            case "N":
                return no(self._after(no(args[0])))
            case "F":
                return until(_TRUE, args[0])
            case "G":
                return no(until(_TRUE, no(args[0])))
            case "U":
                return until(args[0], args[1])
            case "W":  # the negation of: at some position neither holds, before the second one held
                return no(until(no(args[1]), both([no(args[0]), no(args[1])])))
            case "R":
                return no(until(no(args[0]), no(args[1])))
            case "M":
                return until(args[1], both([args[0], args[1]]))

    def _after(self, core: _Core) -> _Core:
        return _FALSE if core == _FALSE else self._make("X", core)

    def _until(self, held: _Core, goal: _Core) -> _Core:
        if goal in (_TRUE, _FALSE) or held in (_FALSE, goal):
            return goal
        return self._make("U", (held, goal))

    def _not(self, core: _Core) -> _Core:
        op, arg = self.nodes[core]
        return arg if op == "not" else self._make("not", core)

    def _and(self, parts: list[_Core]) -> _Core:
        flat: set[_Core] = set()
        for one in parts:
            op, args = self.nodes[one]
            flat.update(args if op == "and" else (one,))
        flat.discard(_TRUE)
        if _FALSE in flat or any(self._not(part) in flat for part in flat):
            return _FALSE
        if len(flat) < 2:
            return flat.pop() if flat else _TRUE
        return self._make("and", tuple(sorted(flat)))

    def _make(self, op: str, args: _Operands) -> _Core:
        key = (op, args)
        core = self._unique.get(key)
        if core is None:
            core = self._unique[key] = len(self.nodes)
            self.nodes.append(key)
        return core
