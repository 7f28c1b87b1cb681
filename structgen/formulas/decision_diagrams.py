"""Reduced ordered binary decision diagrams: Boolean functions of numbered variables, each represented by one number.

Why: states of a formula's automaton are Boolean combinations of obligations. As diagrams, equivalent combinations are
the same number, so a formula has finitely many states.
What: hash-consed nodes in flat lists, and a memoised `ite`; 0 is false, 1 is true. All paths test variables in the
order of their numbers.
Invariant: the children of a node differ, and test later variables.
Cost: `ite` takes at most the product of the sizes; more than `most` nodes raise LimitExceeded.
Source: Bryant 1986; Brace, Rudell and Bryant 1990.
"""

from __future__ import annotations

from collections.abc import Callable

from structgen.errors import LimitExceeded

__all__ = ["Diagrams"]

_LEAF = 1 << 60


class Diagrams:
    """The functions that have been built so far."""

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
        """Return the function that is `high` if the variable holds, else `low`; both test only later variables."""
        if low == high:
            return low
        key = (variable, low, high)
        number = self._unique.get(key)
        if number is None:
            number = self._unique[key] = len(self.variable)
            if number >= self._most:
                raise LimitExceeded(
                    f"the automaton of a formula needs more than {self._most} nodes of decision diagrams",
                    limit="diagram_nodes",
                    hint="Split the formula into a list: each formula of a list has an automaton of its own.",
                )
            self.variable.append(variable)
            self.low.append(low)
            self.high.append(high)
        return number

    def ite(self, test: int, then: int, other: int) -> int:
        """Return the function "if `test` then `then` else `other`"."""
        if test < 2:
            return then if test else other
        if then == other:
            return then
        if then == 1 and other == 0:
            return test
        key = (test, then, other)
        result = self._memory.get(key)
        if result is not None:
            return result
        variable, low, high = self.variable, self.low, self.high
        first = min(variable[test], variable[then], variable[other])
        parts = [
            (low[function], high[function]) if variable[function] == first else (function, function)
            for function in (test, then, other)
        ]
        result = self.node(
            first, self.ite(*(part[0] for part in parts)), self.ite(*(part[1] for part in parts))
        )
        self._memory[key] = result
        return result

    def conjunction(self, first: int, second: int) -> int:
        """Return the conjunction of two functions."""
        return self.ite(first, second, 0)

    def disjunction(self, first: int, second: int) -> int:
        """Return the disjunction of two functions."""
        return self.ite(first, 1, second)

    def negation(self, function: int) -> int:
        """Return the negation of a function."""
        return self.ite(function, 0, 1)

    def at_nothing(self, function: int) -> bool:
        """Return the value of a function where no variable holds."""
        low = self.low
        while function > 1:
            function = low[function]
        return function == 1

    def replaced(self, function: int, by: Callable[[int], int], known: dict[int, int]) -> int:
        """Return a function with each variable replaced by a function. `known` is the cache of this replacement."""
        if function < 2:
            return function
        result = known.get(function)
        if result is None:
            result = known[function] = self.ite(
                by(self.variable[function]),
                self.replaced(self.high[function], by, known),
                self.replaced(self.low[function], by, known),
            )
        return result
