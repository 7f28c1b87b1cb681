"""The matcher processes of one server: at most `max_matcher_processes`, one for each isolated constraint in use.

What: one process, the forker (`matcher_worker`), forks them; a thread starts it, and starts it again if it has ended.
Invariant: no process outlives the serving process.
Cost: a fork, some milliseconds, and the automaton for each process.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
import subprocess
import threading
import weakref
from collections.abc import Callable
from time import monotonic

from structgen._sandbox.frames import read_exactly, write_frame
from structgen._sandbox.priority import SlowWork
from structgen._sandbox.spawn import end_process, python_command, start_failure, start_python
from structgen.errors import LimitExceeded
from structgen.vocabulary import Vocabulary

from .limits import RequestLimits
from .matcher_process import MatcherProcess, Starved, disconnected, unavailable
from .matcher_worker import AT_LOW_PRIORITY, PID, READY, WHEN_IDLE
from .probe_worker import vocabulary_parts

__all__ = ["MatcherProcesses"]

logger = logging.getLogger(__name__)

_COMMAND = python_command("from structgen.serving.matcher_worker import main; main()")
_START_SECONDS = 120.0
_FORK_SECONDS = 10.0
_POLL_SECONDS = 0.05
_RESERVED_SHARE = 4
"""One in so many matcher processes is left to texts that have started. A text that waited for a process which new
requests hold, while these wait for its row of the batch, would wait in vain."""


def _nothing() -> None:
    pass


class MatcherProcesses:
    """Starts matcher processes for one vocabulary. Safe to use from any thread."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        limits: RequestLimits,
        slow_work: SlowWork,
        queue_seconds: float = 0.0,
    ) -> None:
        """Start the thread that starts the forker.

        Args:
            vocabulary: The vocabulary of all constraints.
            limits: `max_matcher_processes`, `matcher_bytes`, `compile_seconds` and `step_seconds` apply here.
            slow_work: Entered while a matcher process works.
            queue_seconds: How long a text that has started waits until a process is free, and any request until the
                forker has started again; see also `MatcherProcess`. With 0 no request waits, and no process is left
                for texts that have started.
        """
        self._queue_seconds = queue_seconds
        self._reserved = limits.max_matcher_processes // _RESERVED_SHARE if queue_seconds else 0
        self._failure = ""
        """Why the forker did not start the last time; "" if it did, or has not been started yet."""
        self._slow_work = slow_work
        self._hello = pickle.dumps((vocabulary_parts(vocabulary), limits), pickle.HIGHEST_PROTOCOL)
        self._limits = limits
        self._size = vocabulary.size
        self._changed = threading.Condition()
        self._to_forker: socket.socket | None = None
        self._forker: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self._started: weakref.WeakSet[MatcherProcess] = weakref.WeakSet()
        self._started_lock = threading.Lock()
        self.on_start: Callable[[], None] = _nothing
        """Called when a process has started, from any thread."""
        self.on_end: Callable[[], None] = _nothing
        """Called when a process has ended, from any thread and under any lock."""
        self.starts = 0
        """Processes that were started so far."""
        # subtle: the forker dies with the *thread* that started it, so that thread must not end.
        self._thread = threading.Thread(target=self._keep_forker, name="structgen-matchers", daemon=True)
        self._thread.start()

    @property
    def running(self) -> int:
        """The number of matcher processes that run."""
        return sum(not process.has_ended for process in self._all())

    @property
    def free(self) -> int:
        """The number of processes that new requests may start."""
        return max(0, self._most(has_started=False) - self.running)

    def check(self, pickled: bytes) -> None:
        """Start a process for a constraint, and end it.

        Args:
            pickled: The constraint.

        Raises:
            LimitExceeded: A process does not start (`WorkerUnavailable`), or meets its limits.
        """
        self._start_at_a_priority(pickled, lambda: True, has_started=True, when_idle=False).kill()

    def full(self) -> LimitExceeded:
        """Return the error for a request that no process is free for."""
        return LimitExceeded(
            f"all {self._limits.max_matcher_processes} matcher processes are in use",
            limit="max_matcher_processes",
            hint="Try again later.",
        )

    def _most(self, *, has_started: bool) -> int:
        most = self._limits.max_matcher_processes
        return most if has_started else max(1, most - self._reserved)

    def _all(self) -> list[MatcherProcess]:
        with self._started_lock:  # not `_changed`, which is held during a fork
            return list(self._started)

    def start(
        self,
        pickled: bytes,
        is_wanted: Callable[[], bool] = lambda: True,
        *,
        has_started: bool = False,
    ) -> MatcherProcess:
        """Start a process for a pickled constraint, and have the automaton built.

        Args:
            pickled: The constraint.
            is_wanted: Called repeatedly meanwhile; False ends the process.
            has_started: The text has started, so it waits until a process is free. Other requests wait before they
                call this, since they would occupy a thread here.

        Raises:
            StructgenError: The constraint is refused, or no process can be started.
        """
        deadline = monotonic() + self._queue_seconds
        while True:
            try:
                return self._start_at_a_priority(pickled, is_wanted, has_started=has_started)
            except LimitExceeded as error:
                waits = error.limit == "worker" or (has_started and error.limit == "max_matcher_processes")
                if not waits or monotonic() >= deadline:
                    raise
            if not is_wanted():
                raise disconnected()
            with self._changed:
                self._changed.wait(_POLL_SECONDS)

    def _start_at_a_priority(
        self,
        pickled: bytes,
        is_wanted: Callable[[], bool],
        *,
        has_started: bool,
        when_idle: bool = True,
    ) -> MatcherProcess:
        """Start a process that runs on idle processors only, unless these are rare."""
        try:
            if when_idle:
                return self._start(pickled, is_wanted, WHEN_IDLE, has_started)
        except Starved:
            # The machine is never idle. The rest of the time is left for a new process at a low priority: an
            # unprivileged process cannot raise its priority again.
            pass
        try:
            return self._start(pickled, is_wanted, AT_LOW_PRIORITY, has_started)
        except Starved as starved:
            raise starved.error from None

    def _start(
        self, pickled: bytes, is_wanted: Callable[[], bool], priority: bytes, has_started: bool
    ) -> MatcherProcess:
        process = self._fork(priority, has_started)
        try:
            process.build(pickled, is_wanted, priority == AT_LOW_PRIORITY)
        except BaseException:
            process.kill()
            raise
        return process

    def _fork(self, priority: bytes, has_started: bool) -> MatcherProcess:
        """Return a new process, which has built nothing yet."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_closed or self._to_forker is not None or self._failure, _START_SECONDS
            )
            if self._is_closed or self._to_forker is None:
                raise unavailable("closed" if self._is_closed else "worker", self._failure)
            if self.running >= self._most(has_started=has_started):
                raise self.full()
            ours, theirs = socket.socketpair()
            try:
                with theirs:
                    socket.send_fds(self._to_forker, [priority], [theirs.fileno()])
                    answer = read_exactly(self._to_forker.recv, PID.size)
                if answer is None:
                    raise EOFError
            except (OSError, EOFError):
                ours.close()
                self._to_forker.close()
                self._to_forker = None
                self._changed.notify_all()
                raise unavailable("worker", "the process that forks them has ended") from None
            (pid,) = PID.unpack(answer)
            if pid < 0:
                ours.close()
                reason = start_failure(OSError(-pid, os.strerror(-pid)))
                logger.warning("a matcher process was not started: %s", reason)
                raise unavailable("worker", reason)
            process = MatcherProcess(
                ours,
                pid,
                self._size,
                self._limits,
                self._slow_work,
                self._forker,
                self._queue_seconds,
                lambda: self.on_end(),  # subtle: it is set later
            )
            with self._started_lock:
                self._started.add(process)
            self.starts += 1
        self.on_start()
        return process

    def close(self) -> None:
        """End all processes."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for process in self._all():
            process.was_closed = True
            process.kill()
        self._thread.join(5.0)

    def _keep_forker(self) -> None:
        """Start the forker, and start it again whenever it has ended."""
        while not self._is_closed:
            try:
                failure = self._run_forker()
            except OSError as error:  # a resource of the machine is used up, perhaps only for a moment
                failure = start_failure(error)
            with self._changed:
                if not self._is_closed:
                    if failure and failure != self._failure:
                        logger.warning("the process that forks matcher processes does not start: %s", failure)
                    self._failure = failure
                    self._changed.notify_all()
                    self._changed.wait(1.0)

    def _run_forker(self) -> str:
        """Start the forker, and wait until it has ended. Return why it did not start; "" if it did."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                forker, errors = start_python(_COMMAND, stdin=theirs.fileno())
            try:
                ours.settimeout(_START_SECONDS)
                write_frame(ours.send, self._hello)
                if read_exactly(ours.recv, 1) != READY:
                    raise EOFError
                ours.settimeout(_FORK_SECONDS)
                self._use(ours, forker)
                return ""
            except (OSError, EOFError) as error:
                return start_failure(error, forker, errors)
            finally:
                end_process(forker)

    def _use(self, ours: socket.socket, forker: subprocess.Popen[bytes]) -> None:
        """Let requests use a forker that has started, until it has ended."""
        with self._changed:
            self._to_forker, self._forker, self._failure = ours, forker, ""
            self._changed.notify_all()
            while not (self._is_closed or self._to_forker is None or forker.poll() is not None):
                self._changed.wait(1.0)
            self._to_forker = None
