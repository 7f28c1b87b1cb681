"""A queue of slow specs, of which those that have used little CPU time go first.

Why: whether a spec is harmless is known only after its probe. One that needs twice `quick_seconds` must not wait for
hostile ones, each of which needs all of `compile_seconds`.
What: a multilevel feedback queue. A turn at level n has `GROWTH`^n times `quick_seconds` of CPU time. After it, a spec
makes way for specs at lower levels, and is probed from its start later, at a higher level. Clients have equal shares of
the CPU time; a lower level goes first among the specs of one client.
Invariant: a turn continues while no spec waits for which it would have to end.
Cost: turns that end in vain. A spec takes up to 7/3 of the CPU time that it needs, if others wait.
Source: Corbató, Merwin-Daggett and Daley, "An experimental time-sharing system", 1962.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from .fair_queue import FairQueue, Queued

__all__ = ["GROWTH", "WALL_FACTOR", "FeedbackQueue"]

GROWTH = 4
"""How many times as long as a turn that of the next level is."""
WALL_FACTOR = 12
"""A turn has so many times its CPU time by the clock; then it ends for specs of a lower level than its own. On a busy
machine, a hostile spec at a low priority would take all of its waiting time for a few seconds of CPU time."""

T = TypeVar("T")


class FeedbackQueue(Generic[T]):
    """Specs that wait for a turn. Not thread-safe."""

    def __init__(self, quick_seconds: float) -> None:
        """Start empty.

        Args:
            quick_seconds: CPU time of a turn at level 0, which a spec has before it comes here.
        """
        self._quick_seconds = quick_seconds
        self._queue: FairQueue[T] = FairQueue()

    def __len__(self) -> int:
        return len(self._queue)

    def turn_seconds(self, level: int) -> float:
        """Return the CPU time of a turn."""
        return self._quick_seconds * float(GROWTH**level)

    def level_after(self, level: int, used: float) -> int:
        """Return the level of the turn that follows one which has used so much CPU time: it has more."""
        level += 1
        while self.turn_seconds(level) <= used:
            level += 1
        return level

    def may_continue(self, level: int, used: float, seconds: float, *, others_wait: bool = False) -> bool:
        """Return whether a turn may go on.

        Args:
            level: The level of the turn.
            used: The CPU time that it has used.
            seconds: How long it has been running by the clock.
            others_wait: Specs that have had no turn wait for the same worker.
        """
        most = self.turn_seconds(level)
        if used < most and seconds < WALL_FACTOR * most:
            return True
        return not (others_wait or self._queue.has_below(level + (used >= most)))

    def put(self, client: str, level: int, what: T) -> Queued[T]:
        """Add a spec of a client that waits for a turn at a level. Return its entry for `remove`."""
        return self._queue.put(client, self.turn_seconds(level), what, level)

    def remove(self, entry: Queued[T]) -> bool:
        """Remove a spec that waits; its client is not charged. Return False if it was taken already."""
        return self._queue.remove(entry)

    def take(self) -> T:
        """Remove and return the spec that has the next turn."""
        return self._queue.take()

    def clear(self) -> None:
        """Remove all specs."""
        self._queue.clear()
