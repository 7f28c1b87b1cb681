"""Requests that wait until a matcher process is free, in fair order of their clients.

Why: a request that finds all matcher processes in use would be answered if it waited. It waits on the event loop, since
on a thread it would hold up requests whose matcher process runs already.
Invariants: only the event loop uses the queue, except for `on_start` and `on_end`. A request leaves it with its turn,
at its deadline, or when its client disconnects; then it costs its client nothing. There are no more turns in use than
processes may be started. Clients take turns, so one that sends many requests does not delay the first one of another.
Cost: a look at the number of processes whenever one starts or ends. Nothing polls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from structgen.serving.fair_queue import FairQueue, Queued

__all__ = ["ProcessPlace", "ProcessQueue"]


class ProcessPlace:
    """The place of one request in the queue."""

    def __init__(self, queue: ProcessQueue, client: str) -> None:
        self._queue, self._client = queue, client
        self._entry: Queued[ProcessPlace] | None = None
        self._turn: asyncio.Future[None] | None = None

    async def turn(self, seconds: float) -> None:
        """Wait for the turn of the request. After a turn in vain, it waits at the place that it had.

        Args:
            seconds: How long it waits.

        Raises:
            TimeoutError: Its turn did not come in time.
        """
        self._turn = asyncio.get_running_loop().create_future()
        self._entry = self._queue.enter(self, self._client, self._entry)
        try:
            async with asyncio.timeout(seconds):
                await self._turn
        except BaseException:
            self._queue.withdraw(self, self._entry)
            self._entry = None
            raise

    def call(self) -> bool:
        """Give the request its turn. Return False if it no longer waits."""
        if self._turn is None or self._turn.done():
            return False
        self._turn.set_result(None)
        return True


class ProcessQueue:
    """The queue of one server."""

    def __init__(self, free: Callable[[], int]) -> None:
        """Make an empty queue.

        Args:
            free: Returns how many matcher processes requests may start now.
        """
        self._free = free
        self._queue: FairQueue[ProcessPlace] = FairQueue()
        self._turns: dict[ProcessPlace, None] = {}
        """Requests that had their turn and whose process has not started yet, oldest first."""
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self._queue)

    @contextmanager
    def place(self, client: str) -> Iterator[ProcessPlace]:
        """Return the place of a request of a client, which is free again after the context."""
        place = ProcessPlace(self, client)
        try:
            yield place
        finally:
            self._settle(place)

    def on_start(self) -> None:
        """Called, from any thread, when a matcher process has started."""
        self._call_soon(self._settle_oldest)

    def on_end(self) -> None:
        """Called, from any thread and under any lock, when a matcher process has ended."""
        self._call_soon(self._serve)

    def enter(
        self, place: ProcessPlace, client: str, lost: Queued[ProcessPlace] | None
    ) -> Queued[ProcessPlace]:
        """Add a request, or put it back if its turn was in vain."""
        self._loop = asyncio.get_running_loop()
        if lost is None:
            lost = self._queue.put(client, 1.0, place)
        else:
            self._queue.put_back(lost)
        self._settle(place)
        return lost

    def withdraw(self, place: ProcessPlace, entry: Queued[ProcessPlace]) -> None:
        """Remove a request that no longer waits, and return its charge."""
        if not self._queue.remove(entry):  # it ended at the moment of its turn
            self._queue.refund(entry)
        self._settle(place)

    def _call_soon(self, function: Callable[[], None]) -> None:
        loop = self._loop
        if loop is None:
            return
        try:
            loop.call_soon_threadsafe(function)
        except RuntimeError:
            return  # the loop has ended

    def _settle(self, place: ProcessPlace) -> None:
        self._turns.pop(place, None)
        self._serve()

    def _settle_oldest(self) -> None:
        # subtle: it may be another one's process. Then a turn too many is given, at worst, and is in vain.
        if self._turns:
            del self._turns[next(iter(self._turns))]
        self._serve()

    def _serve(self) -> None:
        """Give as many turns as processes may be started. The number includes those that start later."""
        while self._queue and len(self._turns) < self._free():
            place = self._queue.take()
            if place.call():
                self._turns[place] = None
