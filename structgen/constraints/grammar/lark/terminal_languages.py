"""Queries about the languages of terminals, decided by the core's regular expressions.

Why: which keywords a pattern of names matches, and what a look-ahead can meet, are emptiness queries.
Invariant: a result is proven. If the engine's budget ends first, languages count as overlapping and as not including
one another, so callers refuse the grammar.
Cost: one compilation per expression, cached, and one search per query. Terminals that begin with different bytes, as
most keywords do, are distinguished without a search (`apart`). The number of queries is cubic in the number of patterns
with look-ahead and a common beginning, so it has a limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from structgen import _core
from structgen.constraints.expressions import RE, TEXT, concat, scope
from structgen.errors import LimitExceeded

__all__ = ["Languages"]

_Result = TypeVar("_Result")
_MAX_QUERIES = 100_000
"""The most queries for one grammar; they take about three seconds. The ready grammars need up to 2,408."""
_BEGINNING = 8
"""The most first bytes that `apart` compares."""
_STATES = 8
"""The most states after these bytes; with more, `apart` stops comparing."""


class Languages:
    """One engine for the terminals of one grammar."""

    def __init__(self) -> None:
        self._error = _core.LimitError
        self._space = _core.RegexSpace()
        self._known: dict[int, tuple[RE, int]] = {}
        """Compiled expressions by `id`, since hashing an expression takes as long as compiling it. The expressions are
        kept alive, so that no `id` is reused."""
        self._followed: dict[int, RE] = {}
        self._beginnings: dict[int, tuple[int, ...]] = {}
        self._queries = 0
        self.subject: str | None = None
        """The terminal that is being checked, for errors."""

    def meet(self, first: RE, second: RE) -> bool:
        """Return whether a text may be in both languages."""
        return self._intersects(self._compiled(first), self._compiled(second))

    def includes(self, outer: RE, inner: RE) -> bool:
        """Return whether every text of `inner` is proven to be in `outer`."""
        rest = self._compiled(outer)
        return not self._intersects(
            self._compiled(inner), self._guarded(lambda: self._space.complement(rest))
        )

    def holds(self, language: RE, text: str) -> bool:
        """Return whether a text is in the language."""
        content = text.encode("utf-8", "surrogatepass")
        self._count()
        return self._guarded(lambda: self._space.matches(self._compiled(language), content))

    def followed(self, language: RE) -> RE:
        """Return the texts that begin with a text of `language`."""
        self._compiled(language)  # keeps `language` alive, so that its `id` is not reused
        if id(language) not in self._followed:
            self._followed[id(language)] = concat([language, TEXT])
        return self._followed[id(language)]

    def apart(self, first: RE, second: RE) -> bool:
        """Return whether the first bytes prove that no text begins with a text of each. False proves nothing."""
        return any(not a & b for a, b in zip(self._beginning(first), self._beginning(second), strict=False))

    def _beginning(self, language: RE) -> tuple[int, ...]:
        """Return the possible bytes at each of the first offsets of all texts, as bit sets."""
        start = self._compiled(language)
        if id(language) not in self._beginnings:
            self._beginnings[id(language)] = self._guarded(lambda: self._first_bytes(start))
        return self._beginnings[id(language)]

    def _first_bytes(self, start: int) -> tuple[int, ...]:
        space = self._space
        found: list[int] = []
        states = {start}
        while len(found) < _BEGINNING and len(states) <= _STATES and not any(map(space.nullable, states)):
            after: set[int] = set()
            bits = 0
            for state in states:
                for byte, to in enumerate(space.row(state)):
                    if to != space.EMPTY:
                        bits |= 1 << byte
                        after.add(to)
            found.append(bits)
            states = after
        return tuple(found)

    def _compiled(self, expression: RE) -> int:
        known = self._known.get(id(expression))
        if known is None:
            number = self._guarded(lambda: self._space.compile(scope(expression)))
            known = self._known[id(expression)] = expression, number
        return known[1]

    def _intersects(self, first: int, second: int) -> bool:
        self._count()
        return self._guarded(lambda: self._space.alive(self._space.intersect(first, second)))

    def _count(self) -> None:
        self._queries += 1
        if self._queries > _MAX_QUERIES:
            raise LimitExceeded(
                f"comparing the terminals of the grammar takes more than {_MAX_QUERIES:,} comparisons "
                "(limit terminal_comparisons)",
                limit="terminal_comparisons",
                where=self.subject,
                hint="Use fewer patterns that look ahead, or fewer terminals that overlap.",
            )

    def _guarded(self, question: Callable[[], _Result]) -> _Result:
        try:
            return question()
        except self._error as error:
            raise LimitExceeded(
                f"the terminals of the grammar are too large to compare: {error}",
                limit="terminal_nodes",
                where=self.subject,
                hint="Use smaller counts in patterns, or turn the larger terminals into rules.",
            ) from None
