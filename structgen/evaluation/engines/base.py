"""The protocol of an engine, and the loop that reads a text.

`Engine` and `Session` are what an evaluation needs. `BenchmarkEngine` and `ReusableSession` add what benchmarks need:
grammars, sessions that are used again, and caches that can be cleared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["BenchmarkEngine", "Engine", "ReusableSession", "Session", "Words", "accepts", "has_token"]

Words = NDArray[np.int32]


class Session(Protocol):
    """A compiled schema on one sequence."""

    def mask(self) -> Words:
        """Return the tokens that may come next; good until the next call."""
        ...

    def accept(self, token: int) -> bool:
        """Read a token of the mask."""
        ...


class Engine(Protocol):
    """Made for one vocabulary."""

    def compile(self, schema: str) -> Any:
        """Return what `start` takes; raises where the schema is refused."""
        ...

    def start(self, program: Any) -> Session:
        """Return a new sequence, as a new request would have."""
        ...


class ReusableSession(Session, Protocol):
    """A session that reads one text after another with the same compiled constraint."""

    matcher: Any
    """The engine's own object, for its functions that fill the masks of a batch."""

    def is_accepting(self) -> bool:
        """Return whether the text may end here."""
        ...

    def reset(self) -> None:
        """Go back to the empty text."""
        ...

    def restart(self) -> None:
        """Start the next text as a new request would, with warm caches.

        This makes a new matcher, except where caches belong to the matcher: there it resets the old one.
        """
        ...


class BenchmarkEngine(Engine, Protocol):
    """An engine whose sessions are used again, and whose caches can be cleared."""

    name: str

    def open(self, schema: str) -> ReusableSession:
        """Compile a schema and start its first sequence, without the copy of a matcher that `start` may make."""
        ...

    def open_grammar(self, source: str, notation: str, **options: Any) -> ReusableSession:
        """Compile a grammar and start its first sequence.

        Args:
            source: The grammar's text.
            notation: ``"Lark"`` or ``"EBNF"``; an engine raises `ValueError` for one that it does not read.
            **options: The engine's own options for this notation.
        """
        ...

    def forget_programs(self) -> None:
        """Forget everything that was compiled; the tokenizer stays."""
        ...

    def clear_function_caches(self) -> None:
        """Clear what the engine's Python functions remember."""
        ...


def accepts(session: Session, tokens: Sequence[int], end: int) -> bool:
    """Return whether a text may be these tokens, each in the mask, and end there."""
    return all(has_token(session.mask(), token) and session.accept(token) for token in tokens) and has_token(
        session.mask(), end
    )


def has_token(words: Words, token: int) -> bool:
    """Return whether a token is in a mask."""
    return bool(int(words[token >> 5]) >> (token & 31) & 1)
