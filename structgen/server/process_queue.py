"""Requests that wait until a matcher process is free, in fair order of their clients.

Why: a request that finds all matcher processes in use would be answered if it waited. It waits on the event loop, since
on a thread it would hold up requests whose matcher process runs already.
Invariants: only the event loop uses the queue. A request leaves it with its turn, at its deadline, or when its client
disconnects. Clients take turns, so one that sends many requests does not delay the first one of another.
Cost: while requests wait, one look at the number of processes each `_POLL_SECONDS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from structgen.serving.fair_queue import FairQueue

__all__ = ["ProcessQueue"]

_POLL_SECONDS = 0.05


class ProcessQueue:
    """The queue of one server."""

    def __init__(self, has_room: Callable[[], bool]) -> None:
        """Make an empty queue.

        Args:
            has_room: Returns whether a request may start a matcher process.
        """
        self._has_room = has_room
        self._queue: FairQueue[asyncio.Future[None]] = FairQueue()
        self._waiting: set[asyncio.Future[None]] = set()
        self._serving: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    async def turn(self, client: str, seconds: float) -> None:
        """Wait for the turn of a request.

        Args:
            client: Who sent it.
            seconds: How long it waits.

        Raises:
            TimeoutError: Its turn did not come in time.
        """
        loop = asyncio.get_running_loop()
        mine = loop.create_future()
        self._waiting.add(mine)
        self._queue.put(client, 1.0, mine)
        if self._serving is None or self._serving.done():
            self._serving = loop.create_task(self._serve())
        try:
            async with asyncio.timeout(seconds):
                await mine
        finally:
            self._waiting.discard(mine)
            mine.cancel()

    async def _serve(self) -> None:
        """Give turns, one at a time: the next request sees the process that the one before it has started."""
        while self._waiting:
            if self._has_room():
                while self._queue:
                    if not (first := self._queue.take()).done():
                        first.set_result(None)
                        break
            await asyncio.sleep(_POLL_SECONDS)
        self._queue.clear()
