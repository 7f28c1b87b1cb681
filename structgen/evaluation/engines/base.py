"""The protocol of an engine, and the loop that reads a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Engine", "Session", "Words", "accepts"]

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


def accepts(session: Session, tokens: Sequence[int], end: int) -> bool:
    """Return whether a text may be these tokens, each in the mask, and end there."""
    return all(_has(session.mask(), token) and session.accept(token) for token in tokens) and _has(
        session.mask(), end
    )


def _has(words: Words, token: int) -> bool:
    return bool(int(words[token >> 5]) >> (token & 31) & 1)
