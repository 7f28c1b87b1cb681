"""A queue that gives each client the same share.

Source: start-time fair queueing (Goyal, Vin and Cheng, 1997).
"""

from __future__ import annotations

import heapq
import itertools
from typing import Generic, TypeVar

__all__ = ["FairQueue"]

T = TypeVar("T")


class FairQueue(Generic[T]):
    """A queue that gives each client the same share. Not thread-safe."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._ends: dict[str, float] = {}
        self._now = 0.0
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._heap)

    def put(self, client: str, size: float, what: T) -> None:
        """Add an item of a client; `size` is its cost."""
        start = max(self._now, self._ends.get(client, 0.0))
        self._ends[client] = start + size
        heapq.heappush(self._heap, (start, next(self._numbers), what))

    def clear(self) -> None:
        """Remove all items."""
        self._heap.clear()
        self._ends.clear()

    def take(self) -> T:
        """Remove and return the next item."""
        self._now, _, what = heapq.heappop(self._heap)
        # A client that has used no more than the others starts with them anyway.
        self._ends = {client: end for client, end in self._ends.items() if end > self._now and self._heap}
        return what
