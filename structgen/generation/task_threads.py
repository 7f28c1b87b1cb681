"""Threads for short tasks that must not delay one another.

Why: in a batch that serves untrusted constraints, one row's mask may take a hundred times as long as all others. The
model must not wait for it.
What: `run` runs tasks one after the other on one thread, in order. A task that takes more than `patience` of CPU time
is detached together with its thread; another thread runs the remaining tasks, and `run` returns without it. A task that
only waits (for the processor, the interpreter or another process) gets `WALL_FACTOR` times as long on the wall clock:
if it were detached, its row would miss a forward pass, which costs that row more than the others gain.
Invariant: every task runs once, on one thread, to its end. `run` takes at most ``WALL_FACTOR * patience`` for each
detached task, plus the time of the others.
Cost: two thread switches per call, about ten microseconds.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["WALL_FACTOR", "TaskThreads"]

Task = Callable[[], None]
WALL_FACTOR = 3.0
"""How many times `patience` a task may take on the wall clock if it uses less CPU time than `patience`."""
_MIN_WAIT = 0.001
"""The shortest time in seconds between two looks at the CPU time of a task."""


class _Worker:
    """The state of one thread and its current task."""

    def __init__(self) -> None:
        self.index: int | None = None
        self.since = 0.0
        self.is_detached = False
        self._clock: int | None = None
        self._used = 0.0

    def start_task(self, index: int) -> None:
        """Note that the thread, which calls this, starts a task."""
        self.index, self.since = index, time.perf_counter()
        self._clock = _own_clock()
        self._used = _read_clock(self._clock)

    def remaining(self, patience: float) -> float:
        """Return the seconds after which to check again; 0 or less if the task has used up its time."""
        if self.index is None:
            return patience
        waited = time.perf_counter() - self.since
        if waited < patience:
            return patience - waited
        if waited >= WALL_FACTOR * patience:
            return 0.0
        left = patience - (_read_clock(self._clock) - self._used)
        return 0.0 if left <= 0 else min(max(left, _MIN_WAIT), WALL_FACTOR * patience - waited)


def _own_clock() -> int | None:
    """Return the clock of this thread's CPU time, which other threads can read; None if the system has none."""
    clock_of = getattr(time, "pthread_getcpuclockid", None)
    with contextlib.suppress(OSError):
        return None if clock_of is None else int(clock_of(threading.get_ident()))
    return None


def _read_clock(clock: int | None) -> float:
    return time.perf_counter() if clock is None else time.clock_gettime(clock)


class TaskThreads:
    """Runs tasks that do not raise.

    Args:
        patience: Seconds of CPU time after which a task is detached.
        most: The largest number of detached tasks at a time.
    """

    def __init__(self, patience: float, most: int) -> None:
        self._patience = patience
        self._threads = ThreadPoolExecutor(most + 2, thread_name_prefix="structgen-turn")
        self._changed = threading.Condition()

    def run(self, tasks: Sequence[Task]) -> list[bool]:
        """Run the tasks; return for each whether it has ended. The others were detached."""
        if not tasks:
            return []
        left = deque(enumerate(tasks))
        done = [False] * len(tasks)
        open_tasks = len(tasks)
        worker = self._started(left, done)
        with self._changed:
            while sum(done) < open_tasks:
                remaining = worker.remaining(self._patience)
                if remaining <= 0:
                    worker.is_detached = True
                    open_tasks -= 1
                    if left:
                        worker = self._started(left, done)
                    continue
                self._changed.wait(remaining)
            return list(done)

    def start(self, task: Task) -> Future[None]:
        """Run a task on a thread of its own."""
        return self._threads.submit(task)

    def close(self) -> None:
        """Accept no more tasks. Running tasks run to their end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _started(self, left: deque[tuple[int, Task]], done: list[bool]) -> _Worker:
        worker = _Worker()
        self._threads.submit(self._run, worker, left, done)
        return worker

    def _run(self, worker: _Worker, left: deque[tuple[int, Task]], done: list[bool]) -> None:
        while True:
            with self._changed:
                if worker.is_detached or not left:
                    return
                index, task = left.popleft()
                worker.start_task(index)
            task()
            with self._changed:
                if worker.is_detached:
                    return
                done[index] = True
                worker.index = None
                if not left:
                    self._changed.notify_all()
