"""Questions about the texts of terminals, asked of the native regex engine.

Why: which keywords a name's pattern finds, and what a look-ahead can meet, are questions of emptiness.
Invariant: an answer is proven; where the engine's budget ends first, languages count as meeting one another and as
not including one another, which makes the callers refuse.
Cost: a compilation for each expression, remembered, and one search for each question. The number of queries
grows with the third power of the number of patterns that look ahead, so it has a limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from structgen.constraints.expressions import RE, complement, intersect, scope
from structgen.errors import LimitExceeded

__all__ = ["Languages"]

_Answer = TypeVar("_Answer")
_MAX_QUERIES = 100_000
"""For one grammar; so many take about a second. Grammars with a hundred terminals need a few thousand."""


class Languages:
    """One engine for the terminals of one grammar."""

    def __init__(self) -> None:
        from structgen import _core

        self._error = _core.LimitError
        self._space = _core.RegexSpace()
        self._known: dict[RE, int] = {}
        self._queries = 0

    def meet(self, one: RE, other: RE) -> bool:
        """May a text be in both?"""
        return self._ask(lambda: self._space.alive(self._compiled(intersect([scope(one), scope(other)]))))

    def includes(self, outer: RE, inner: RE) -> bool:
        """Is every text of `inner` surely in `outer`?"""
        return not self.meet(inner, complement(scope(outer)))

    def holds(self, language: RE, text: str) -> bool:
        """Is the text in the language?"""
        content = text.encode("utf-8", "surrogatepass")
        return self._ask(lambda: self._space.matches(self._compiled(scope(language)), content))

    def _compiled(self, expression: RE) -> int:
        if expression not in self._known:
            self._known[expression] = self._space.compile(expression)
        return self._known[expression]

    def _ask(self, question: Callable[[], _Answer]) -> _Answer:
        self._queries += 1
        if self._queries > _MAX_QUERIES:
            raise LimitExceeded(
                f"comparing the terminals of the grammar takes more than {_MAX_QUERIES:,} comparisons "
                "(limit terminal_comparisons)",
                limit="terminal_comparisons",
                hint="Use fewer patterns that look ahead, or fewer terminals that overlap.",
            )
        try:
            return question()
        except self._error as error:
            raise LimitExceeded(
                f"the terminals of the grammar are too large to compare: {error}",
                limit="terminal_nodes",
                hint="Use smaller counts in patterns, or make the larger terminals rules.",
            ) from None
