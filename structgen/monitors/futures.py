"""Futures of values that are computed from the results of other futures."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

__all__ = ["then"]


def then(future: Future[Any], make: Callable[[Any], Any]) -> Future[Any]:
    """Return the future of ``make(result)``; cancelling it cancels the first one."""
    made: Future[Any] = Future()

    def finish(done: Future[Any]) -> None:
        if not made.set_running_or_notify_cancel():
            return
        try:
            made.set_result(make(done.result()))
        except CancelledError:
            made.set_result(None)
        except Exception as error:  # noqa: BLE001 — the future carries the error to the caller
            made.set_exception(error)

    def cancelled(done: Future[Any]) -> None:
        if done.cancelled():
            future.cancel()

    made.add_done_callback(cancelled)
    future.add_done_callback(finish)
    return made
