"""A queue that gives each client the same share.

Source: start-time fair queueing (Goyal, Vin and Cheng, 1997).
Invariant: a client is charged for what is taken, so an item that is removed costs it nothing.
Cost: an item takes memory only while it waits; `take` looks at the first item of each client.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["FairQueue", "Queued"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Queued(Generic[T]):
    """An item, as it was put into the queue."""

    client: str
    size: float
    """Its cost."""
    what: T
    arrived: float
    """Where the queue was when the item arrived."""
    number: int


class FairQueue(Generic[T]):
    """A queue that gives each client the same share. Not thread-safe."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[int, Queued[T]]] = {}
        """The items of each client that has any, in order, by their numbers."""
        self._ends: dict[str, float] = {}
        """Where the next item of a client starts at the earliest, if it has any or had more than the others."""
        self._now = 0.0
        self._numbers = itertools.count()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def put(self, client: str, size: float, what: T) -> Queued[T]:
        """Add an item of a client; `size` is its cost. Returns its entry for `remove`."""
        entry = Queued(client, size, what, self._now, next(self._numbers))
        self._waiting.setdefault(client, {})[entry.number] = entry
        self._length += 1
        return entry

    def remove(self, entry: Queued[T]) -> bool:
        """Remove an item that waits; its client is not charged. Returns False if it was taken already."""
        its = self._waiting.get(entry.client, {})
        if its.pop(entry.number, None) is None:
            return False
        self._length -= 1
        if not its:
            del self._waiting[entry.client]
        self._forget()
        return True

    def refund(self, entry: Queued[T]) -> None:
        """Give the charge of an item back that was taken in vain."""
        if entry.client in self._ends:
            self._ends[entry.client] -= entry.size

    def put_back(self, entry: Queued[T]) -> None:
        """Add an item again that was taken in vain, at the place that it had."""
        self.refund(entry)
        its = self._waiting.get(entry.client, {})
        self._waiting[entry.client] = dict(sorted({**its, entry.number: entry}.items()))
        self._length += 1

    def clear(self) -> None:
        """Remove all items."""
        self._waiting.clear()
        self._ends.clear()
        self._length = 0

    def take(self) -> T:
        """Remove and return the next item."""
        heads = (next(iter(its.values())) for its in self._waiting.values())
        start, _, entry = min(
            ((self._start(head), head.number, head) for head in heads), key=lambda one: one[:2]
        )
        self._now = max(self._now, start)
        self._ends[entry.client] = start + entry.size
        its = self._waiting[entry.client]
        del its[entry.number]
        if not its:
            del self._waiting[entry.client]
        self._length -= 1
        self._forget()
        return entry.what

    def _start(self, entry: Queued[T]) -> float:
        return max(entry.arrived, self._ends.get(entry.client, 0.0))

    def _forget(self) -> None:
        """Forget clients without items that had no more than the others: they start with them anyway."""
        self._ends = {
            client: end
            for client, end in self._ends.items()
            if self._length and (end > self._now or client in self._waiting)
        }
