"""One event loop in one daemon thread, shared by all language servers of the process.

Why: generation is synchronous code or runs in the user's own event loop; talking to servers needs one that is always
running and is never theirs. Invariant: at the end of the interpreter, and when the last reference to a server is gone,
its processes are killed before the loop stops; a forked child has no loop, no servers and touches none of its
parent's. Cost: one thread, made when the first server is.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["at_end", "call", "has_ended", "is_background", "not_at_end", "submit"]

T = TypeVar("T")

_END_SECONDS = 2.0
"""What the end of the interpreter waits for, at most."""


class _State:
    """The loop and what is to be closed with it; made again in a forked child."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread: threading.Thread | None = None
        self.has_ended = False
        self.closers: dict[int, Callable[[], Coroutine[Any, Any, None]]] = {}


_state = _State()


def _loop() -> asyncio.AbstractEventLoop:
    with _state.lock:
        if _state.loop is None:
            _state.loop = asyncio.new_event_loop()
            _state.thread = threading.Thread(
                target=_run, args=(_state.loop,), name="structgen language servers", daemon=True
            )
            _state.thread.start()
        return _state.loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()


def submit(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Run a coroutine in the background; cancelling the future cancels it."""
    return asyncio.run_coroutine_threadsafe(work, _loop())


def call(action: Callable[[], object]) -> None:
    """Call something in the background soon; nothing if the loop has ended."""
    with contextlib.suppress(RuntimeError):
        _loop().call_soon_threadsafe(action)


def is_background() -> bool:
    """Return whether this is the background thread, which must not wait for itself."""
    return threading.current_thread() is _state.thread


def has_ended() -> bool:
    """Return whether the interpreter ends and nothing runs any more."""
    return _state.has_ended


def at_end(key: int, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Await ``close()`` in the background at the end of the interpreter, unless `not_at_end` comes before."""
    with _state.lock:
        _state.closers[key] = close


def not_at_end(key: int) -> None:
    """Cancel `at_end`."""
    with _state.lock:
        _state.closers.pop(key, None)


@atexit.register
def _end() -> None:
    _state.has_ended = True
    loop, thread = _state.loop, _state.thread
    if loop is None or thread is None or not thread.is_alive():
        return
    with contextlib.suppress(Exception):
        asyncio.run_coroutine_threadsafe(_close_all(), loop).result(_END_SECONDS)
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(loop.stop)
    thread.join(_END_SECONDS)


async def _close_all() -> None:
    with _state.lock:
        closers = list(_state.closers.values())
    await asyncio.gather(*(close() for close in closers), return_exceptions=True)


def _after_fork() -> None:
    global _state
    _state = _State()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
