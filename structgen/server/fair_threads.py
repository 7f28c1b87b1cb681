"""Threads that work for clients in fair order, and forget the work of clients that have disconnected.

Why: the queue of a `ThreadPoolExecutor` keeps work that was cancelled, with the request that it belongs to, until a
thread is free. So clients that send requests and disconnect could fill the memory of a server whose threads are busy.
What: work waits in a `FairQueue`. Cancelled work leaves it at once and costs its client nothing.
Invariants: at most `count` threads run. Every future gets a result or an error, or is cancelled, at `close` at the
latest; work that runs then is completed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from structgen.serving.fair_queue import FairQueue, Queued

from .errors import ShuttingDown

__all__ = ["FairThreads"]

T = TypeVar("T")


@dataclass(eq=False)
class _Work:
    function: Callable[[], Any] | None
    """None after it was called, or cancelled, so that nothing keeps what it holds."""
    future: Future[Any] | None
    """None like `function`. The future refers to its work, and a cycle would keep the result."""
    entry: Queued[_Work] | None = None
    """Its place in the queue while it waits."""


class FairThreads:
    """Threads, which start when they are needed.

    Args:
        count: The largest number of threads.
        name: Their name.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._changed = threading.Condition()
        self._queue: FairQueue[_Work] = FairQueue()
        self._started = self._idle = 0
        self._closed = False

    def __len__(self) -> int:
        """Return how much work waits for a thread."""
        return len(self._queue)

    async def run(self, client: str, function: Callable[[], T], size: float = 1.0) -> T:
        """Call a function on a thread when it is the client's turn, and return what it returns or raises.

        Args:
            client: Who needs the result.
            function: What to call. It is not called if the caller is cancelled before its turn.
            size: What it costs, in a unit of these threads.
        """
        return await asyncio.wrap_future(self._submit(client, function, size))

    def close(self) -> None:
        """Stop each thread after its current work, and cancel the rest."""
        with self._changed:
            self._closed = True
            waiting = [self._queue.take().future for _ in range(len(self._queue))]
            self._changed.notify_all()
        for future in waiting:
            if future is not None:
                future.cancel()

    def _submit(self, client: str, function: Callable[[], T], size: float) -> Future[T]:
        future: Future[T] = Future()
        work = _Work(function, future)
        with self._changed:
            if self._closed:
                raise ShuttingDown("the server is shutting down")
            work.entry = self._queue.put(client, size, work)
            if len(self._queue) > self._idle and self._started < self._count:
                self._start_thread(work)
            self._changed.notify()
        future.add_done_callback(lambda done: self._forget(work) if done.cancelled() else None)
        return future

    def _start_thread(self, work: _Work) -> None:
        """Start one more thread. If the system has none and there is no other, the work fails."""
        self._started += 1
        try:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        except RuntimeError:
            self._started -= 1
            if not self._started:
                assert work.entry is not None
                self._queue.remove(work.entry)
                raise

    def _forget(self, work: _Work) -> None:
        """Remove cancelled work from the queue, unless a thread has taken it in this moment."""
        with self._changed:
            entry, work.entry, work.function, work.future = work.entry, None, None, None
            if entry is not None:
                self._queue.remove(entry)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                self._changed.wait_for(lambda: self._closed or self._queue)
                self._idle -= 1
                if self._closed:
                    return
                work = self._queue.take()
                entry, work.entry = work.entry, None
                function, work.function = work.function, None
                future, work.future = work.future, None
                assert entry is not None and function is not None and future is not None
                if not future.set_running_or_notify_cancel():
                    self._queue.refund(entry)  # its client has disconnected in this moment
                    function = None
            if function is not None:
                _call(function, future)
            del work, entry, function, future


def _call(function: Callable[[], Any], future: Future[Any]) -> None:
    try:
        future.set_result(function())
    except BaseException as error:  # noqa: BLE001 — the caller gets it, and the thread serves the next one
        future.set_exception(error)
    finally:
        del function, future  # the error's traceback refers to this frame
