"""Priorities of processes: work that takes long must not slow down requests that are running."""

from __future__ import annotations

import contextlib
import os
import threading

__all__ = ["LOW", "LOWEST", "SlowWork", "lower_priority", "run_when_idle"]

LOWEST = 19
"""Niceness steps for `lower_priority`: the lowest priority there is."""
LOW = 10
"""Niceness steps for work that found no idle processor: it gets about a tenth of one next to other work."""


class SlowWork:
    """Counts the work in progress in processes that `run_when_idle`. Enter it with `with`, from any thread.

    Why: such a process gets hardly any CPU time while a model keeps all processors busy. The thread that runs the model
    pauses while this counter is not zero.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1


def run_when_idle(pid: int = 0) -> None:
    """Let a process run only when a processor is otherwise idle. An unprivileged process cannot undo this.

    Why not just the lowest priority: a processor that runs such a process counts as busy. The scheduler then keeps two
    threads of a model on one processor and that process alone on the other, for a tenth of a second at a time.

    Args:
        pid: The process; 0 is the calling one.
    """
    lower_priority(LOWEST, pid)
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))


def lower_priority(by: int, pid: int = 0) -> None:
    """Raise the niceness of a process (0: the calling one) by `by`. An unprivileged process cannot undo this."""
    with contextlib.suppress(OSError, AttributeError):
        has = os.getpriority(os.PRIO_PROCESS, pid)
        os.setpriority(os.PRIO_PROCESS, pid, min(LOWEST, has + by))
