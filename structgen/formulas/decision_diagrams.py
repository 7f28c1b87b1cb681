"""Binary decision diagrams: Boolean functions of numbered variables, each function one number.

Why: states of a formula's automaton are Boolean combinations of what is still owed. As diagrams two combinations that
mean the same are the same number, so that a finite formula has finitely many states.
What: nodes in flat lists, hash-consed, `ite` with a memory; 0 is false, 1 is true. Variables are tested in the order of
their numbers on every path.
Invariant: a node's children are tested later than it is, and differ.
Cost: `ite` takes the product of the sizes at most; `most` nodes are made, then LimitExceeded.
Source: Bryant 1986; Brace, Rudell and Bryant 1990.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from structgen.errors import LimitExceeded

__all__ = ["Diagrams"]

_LEAF = 1 << 60


class Diagrams:
    """The functions that were made so far."""

    def __init__(self, most: int = 1_000_000) -> None:
        self.variable = [_LEAF, _LEAF]
        self.low = [0, 1]
        self.high = [0, 1]
        self._most = most
        self._unique: dict[tuple[int, int, int], int] = {}
        self._memory: dict[tuple[int, int, int], int] = {}

    def __len__(self) -> int:
        return len(self.variable)

    def node(self, variable: int, low: int, high: int) -> int:
        """If the variable holds, `high`, else `low`; both test later variables only."""
        if low == high:
            return low
        key = (variable, low, high)
        found = self._unique.get(key)
        if found is None:
            found = self._unique[key] = len(self.variable)
            if found >= self._most:
                raise LimitExceeded(
                    f"the automaton of a formula takes more than {self._most} nodes of decision diagrams",
                    limit="diagram_nodes",
                    hint="Split the formula: each formula of a list has an automaton of its own.",
                )
            self.variable.append(variable)
            self.low.append(low)
            self.high.append(high)
        return found

    def ite(self, test: int, then: int, other: int) -> int:
        """If `test` then `then` else `other`."""
        if test < 2:
            return then if test else other
        if then == other:
            return then
        if then == 1 and other == 0:
            return test
        key = (test, then, other)
        found = self._memory.get(key)
        if found is not None:
            return found
        variable, low, high = self.variable, self.low, self.high
        first = min(variable[test], variable[then], variable[other])
        parts = [
            (low[one], high[one]) if variable[one] == first else (one, one) for one in (test, then, other)
        ]
        found = self.node(
            first, self.ite(*(part[0] for part in parts)), self.ite(*(part[1] for part in parts))
        )
        self._memory[key] = found
        return found

    def conjunction(self, one: int, other: int) -> int:
        """Both."""
        return self.ite(one, other, 0)

    def disjunction(self, one: int, other: int) -> int:
        """One of them at least."""
        return self.ite(one, 1, other)

    def negation(self, one: int) -> int:
        """Not it."""
        return self.ite(one, 0, 1)

    def at_nothing(self, function: int) -> bool:
        """Its value where no variable holds."""
        low = self.low
        while function > 1:
            function = low[function]
        return function == 1

    def replaced(self, function: int, by: Callable[[int], int], known: dict[int, int]) -> int:
        """The function where each variable is replaced by a function of it. `known`: what was found out before."""
        if function < 2:
            return function
        found = known.get(function)
        if found is None:
            found = known[function] = self.ite(
                by(self.variable[function]),
                self.replaced(self.high[function], by, known),
                self.replaced(self.low[function], by, known),
            )
        return found


class Decisions:
    """Decision trees with shared branches over anything: ``(variable, low, high)`` or a leaf, each one object."""

    def __init__(self) -> None:
        self._unique: dict[Hashable, tuple[int, object, object]] = {}

    def node(self, variable: int, low: object, high: object) -> object:
        """See `Diagrams.node`."""
        if low is high or low == high:
            return low
        return self._unique.setdefault((variable, _identity(low), _identity(high)), (variable, low, high))


def _identity(branch: object) -> Hashable:
    return branch if isinstance(branch, int) else ("node", id(branch))
