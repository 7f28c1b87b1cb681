"""The matcher processes of one server: at most `max_matcher_processes`, one for each isolated constraint in use.

What: one process, the forker (`matcher_worker`), forks them; a thread starts it, and starts it again if it has ended.
Invariant: no process outlives the serving process.
Cost: a fork, some milliseconds, and the automaton for each process.
"""

from __future__ import annotations

import contextlib
import pickle
import socket
import subprocess
import threading
import weakref
from collections.abc import Callable

from structgen._sandbox.frames import read_exactly, write_frame
from structgen._sandbox.priority import SlowWork
from structgen._sandbox.spawn import child_environment, python_command
from structgen.errors import LimitExceeded
from structgen.vocabulary import Vocabulary

from .limits import RequestLimits
from .matcher_process import MatcherProcess, Starved, unavailable
from .matcher_worker import AT_LOW_PRIORITY, PID, READY, WHEN_IDLE
from .probe_worker import vocabulary_parts

__all__ = ["MatcherProcesses"]

_COMMAND = python_command("from structgen.serving.matcher_worker import main; main()")
_START_SECONDS = 120.0
_FORK_SECONDS = 10.0


class MatcherProcesses:
    """Starts matcher processes for one vocabulary. Safe to use from any thread."""

    def __init__(self, vocabulary: Vocabulary, limits: RequestLimits, slow_work: SlowWork) -> None:
        """Start the thread that starts the forker.

        Args:
            vocabulary: The vocabulary of all constraints.
            limits: `max_matcher_processes`, `matcher_bytes`, `compile_seconds` and `step_seconds` apply here.
            slow_work: Entered while a matcher process works.
        """
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
        self.starts = 0
        """Processes that were started so far."""
        # subtle: the forker dies with the *thread* that started it, so that thread must not end.
        self._thread = threading.Thread(target=self._keep_forker, name="structgen-matchers", daemon=True)
        self._thread.start()

    @property
    def running(self) -> int:
        """The number of matcher processes that run."""
        return sum(not process.has_ended for process in self._all())

    def _all(self) -> list[MatcherProcess]:
        with self._started_lock:  # not `_changed`, which is held during a fork
            return list(self._started)

    def start(self, pickled: bytes, is_wanted: Callable[[], bool] = lambda: True) -> MatcherProcess:
        """Start a process for a pickled constraint, and have the automaton built.

        Args:
            pickled: The constraint.
            is_wanted: Called repeatedly while the automaton is built; False ends the process.

        Raises:
            StructgenError: The constraint is refused, or no process can be started.
        """
        try:
            return self._start(pickled, is_wanted, WHEN_IDLE)
        except Starved:
            # The machine is never idle. Half of the time is left for a new process at a low priority: an unprivileged
            # process cannot raise its priority again.
            pass
        try:
            return self._start(pickled, is_wanted, AT_LOW_PRIORITY)
        except Starved as starved:
            raise starved.error from None

    def _start(self, pickled: bytes, is_wanted: Callable[[], bool], priority: bytes) -> MatcherProcess:
        process = self._fork(priority)
        try:
            process.build(pickled, is_wanted)
        except BaseException:
            process.kill()
            raise
        return process

    def _fork(self, priority: bytes) -> MatcherProcess:
        """Return a new process, which has built nothing yet."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._to_forker is not None, _START_SECONDS)
            if self._is_closed or self._to_forker is None:
                raise unavailable("closed" if self._is_closed else "worker")
            if self.running >= self._limits.max_matcher_processes:
                raise LimitExceeded(
                    f"all {self._limits.max_matcher_processes} matcher processes are in use",
                    limit="max_matcher_processes",
                    hint="Try again later.",
                )
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
                raise unavailable("worker") from None
            process = MatcherProcess(
                ours, PID.unpack(answer)[0], self._size, self._limits, self._slow_work, self._forker
            )
            with self._started_lock:
                self._started.add(process)
            self.starts += 1
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
                ours, theirs = socket.socketpair()
                with theirs:
                    forker = subprocess.Popen(_COMMAND, stdin=theirs.fileno(), env=child_environment())
            except OSError:  # a resource of the machine is used up, perhaps only for a moment
                with self._changed:
                    self._changed.wait(1.0)
                continue
            with contextlib.suppress(OSError):
                ours.settimeout(_START_SECONDS)
                write_frame(ours.send, self._hello)
                if read_exactly(ours.recv, 1) == READY:
                    ours.settimeout(_FORK_SECONDS)
                    with self._changed:
                        self._to_forker, self._forker = ours, forker
                        self._changed.notify_all()
                        while not (self._is_closed or self._to_forker is None or forker.poll() is not None):
                            self._changed.wait(1.0)
                        self._to_forker = None
            forker.kill()
            forker.wait()
            ours.close()
            with self._changed:
                if not self._is_closed:
                    self._changed.wait(1.0)
