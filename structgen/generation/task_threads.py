"""Short tasks on threads of their own, of which none keeps the others waiting.

Why: in a batch that serves strangers one row's mask may take a hundred times as long as all others, and the model must
not stand still for it.
What: `take` runs tasks one after the other on one thread, in order. A task that takes more than `patience` of CPU time
is left behind with its thread, another thread goes on with the rest, and `take` comes back without it. A task that just
waits (for the processor, the interpreter, another process) is waited for `WAITING` times as long: left behind it would
miss a pass, which costs its row more than the others win.
Invariant: every task is run once, by one thread; what is left behind is run to its end. `take` takes at most `WAITING`
times `patience` for each task that is left behind, and as long as they take for the others.
Cost: two thread switches a call, some ten microseconds.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["WAITING", "Turns"]

Task = Callable[[], None]
WAITING = 3.0
"""Times the patience by the clock on the wall, for tasks that did not use it up."""
_LOOK_AGAIN = 0.001


class _Lane:
    """What one thread is at."""

    def __init__(self) -> None:
        self.place: int | None = None
        self.since = 0.0
        self.is_left_behind = False
        self._clock: int | None = None
        self._used = 0.0

    def begin(self, place: int) -> None:
        """On its thread: a task is taken up."""
        self.place, self.since = place, time.perf_counter()
        self._clock = _own_clock()
        self._used = _read_clock(self._clock)

    def rest(self, patience: float) -> float:
        """Seconds after which to look again; 0 or less: its task has had enough."""
        if self.place is None:
            return patience
        waited = time.perf_counter() - self.since
        if waited < patience:
            return patience - waited
        if waited >= WAITING * patience:
            return 0.0
        left = patience - (_read_clock(self._clock) - self._used)
        return 0.0 if left <= 0 else min(max(left, _LOOK_AGAIN), WAITING * patience - waited)


def _own_clock() -> int | None:
    """The clock of this thread's CPU time, as other threads can read it; None where there is none."""
    clock_of = getattr(time, "pthread_getcpuclockid", None)
    with contextlib.suppress(OSError):
        return None if clock_of is None else int(clock_of(threading.get_ident()))
    return None


def _read_clock(clock: int | None) -> float:
    return time.perf_counter() if clock is None else time.clock_gettime(clock)


class Turns:
    """Made for at most `most` tasks that may be left behind at a time. Tasks do not raise."""

    def __init__(self, patience: float, most: int) -> None:
        self._patience = patience
        self._threads = ThreadPoolExecutor(most + 2, thread_name_prefix="structgen-turn")
        self._changed = threading.Condition()

    def take(self, tasks: Sequence[Task]) -> list[bool]:
        """Run the tasks; which of them are done."""
        if not tasks:
            return []
        left = deque(enumerate(tasks))
        done = [False] * len(tasks)
        open_tasks = len(tasks)
        lane = self._started(left, done)
        with self._changed:
            while sum(done) < open_tasks:
                rest = lane.rest(self._patience)
                if rest <= 0:
                    lane.is_left_behind = True
                    open_tasks -= 1
                    if left:
                        lane = self._started(left, done)
                    continue
                self._changed.wait(rest)
            return list(done)

    def start(self, task: Task) -> Future[None]:
        """Run a task beside the others."""
        return self._threads.submit(task)

    def close(self) -> None:
        """No more tasks; those that run are run to their end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _started(self, left: deque[tuple[int, Task]], done: list[bool]) -> _Lane:
        lane = _Lane()
        self._threads.submit(self._run, lane, left, done)
        return lane

    def _run(self, lane: _Lane, left: deque[tuple[int, Task]], done: list[bool]) -> None:
        while True:
            with self._changed:
                if lane.is_left_behind or not left:
                    return
                place, task = left.popleft()
                lane.begin(place)
            task()
            with self._changed:
                if lane.is_left_behind:
                    return
                done[place] = True
                lane.place = None
                if not left:
                    self._changed.notify_all()
