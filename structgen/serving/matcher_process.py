"""One matcher process, as the serving process sees it: a socket for queries, with limits on each.

Why: a large constraint is legitimate, but building its automaton holds the interpreter, and its masks keep a processor
busy. In a process that runs on idle processors it delays only the requests that use it.
Invariant: a query that takes more than `step_seconds` of CPU time ends the process, and all texts that use it.
Cost: a round trip through a socket for each query.
"""

from __future__ import annotations

import contextlib
import itertools
import pickle
import socket
import subprocess
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from structgen._sandbox.frames import read_frame, write_frame
from structgen._sandbox.handle import ProcessHandle
from structgen._sandbox.polling import is_readable, is_writable
from structgen._sandbox.priority import SlowWork
from structgen._sandbox.usage import CpuClock, wall_limit
from structgen.errors import LimitExceeded

from .limits import RequestLimits
from .matcher_answers import STARTED, AnswerReader, answer_reader
from .matcher_worker import MatcherQuery
from .temporary_errors import WorkerUnavailable
from .wire import Garbled, decode_error, unpack

__all__ = ["MatcherProcess", "Starved", "disconnected", "unavailable"]

_POLL_SECONDS = 0.02
_END_SECONDS = 0.2
"""Time in which a process that is about to end has ended."""


class Starved(Exception):
    """The process did not get its CPU time while it built the automaton."""

    def __init__(self, error: LimitExceeded) -> None:
        super().__init__(str(error))
        self.error = error


class MatcherProcess:
    """Runs the matchers of one constraint, which are numbered. Answers one query at a time, from any thread."""

    def __init__(
        self,
        connection: socket.socket,
        pid: int,
        size: int,
        limits: RequestLimits,
        slow_work: SlowWork,
        forker: subprocess.Popen[bytes] | None,
        queue_seconds: float = 0.0,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """Take over a process that was forked.

        Args:
            connection: The socket to it.
            pid: Its process id.
            size: Number of tokens of the vocabulary.
            limits: `compile_seconds` and `step_seconds` apply here.
            slow_work: Entered during each query.
            forker: The process that forked it.
            queue_seconds: Wall time in which a query must get its CPU time, if that is more than `wall_limit`.
            on_end: Called once or more when it is ended, from any thread and under any lock.
        """
        self._on_end = on_end
        self._queue_seconds = queue_seconds
        self.pid, self._connection, self._limits, self._slow_work = pid, connection, limits, slow_work
        self._size = size
        self._forker = forker
        self._lock = threading.Lock()
        self._released: deque[int] = deque()
        self._numbers = itertools.count()
        self._in_use: set[int] = set()
        self._in_use_lock = threading.Lock()
        self.has_ended = False
        self.was_closed = False
        """Ended together with all matcher processes, so the request is not at fault."""
        # Without a descriptor, the process ends when its socket is closed, at its next query.
        self._handle = ProcessHandle(pid)
        weakref.finalize(self, _release, connection, self._handle, on_end)

    def build(self, pickled: bytes, is_wanted: Callable[[], bool], is_last: bool = False) -> None:
        """Build the automaton.

        Args:
            pickled: The constraint.
            is_wanted: Called repeatedly meanwhile; False ends the process.
            is_last: No other attempt follows. The first one has half of the least wall time, the last one the rest.

        Raises:
            StructgenError: The constraint is refused.
            Starved: The process did not get its CPU time.
        """
        first = 0.5 * wall_limit(self._limits.compile_seconds)
        most = self._most_seconds("compile_seconds") - first if is_last else first
        try:
            self._exchange(pickled, "compile_seconds", "to build", is_wanted, STARTED, most)
        except LimitExceeded as error:
            if error.limit == "busy":
                raise Starved(error) from None
            raise

    def new_matcher(self) -> int | None:
        """Return the number of a new matcher; None if the process has ended."""
        with self._in_use_lock:
            if self.has_ended:
                return None
            number = next(self._numbers)
            self._in_use.add(number)
        return number

    def on_disconnect(self, number: int) -> None:
        """Stop waiting for answers about a matcher. The process ends if it has no other."""
        self._in_use.discard(number)
        if not self._is_in_use():
            self.kill()

    def _is_in_use(self) -> bool:
        """Return whether a matcher is in use. If not, the process takes no new one."""
        with self._in_use_lock:
            if not self._in_use:
                self.has_ended = True
            return bool(self._in_use)

    def release(self, number: int) -> None:
        """Release a matcher. The process learns of it with the next query."""
        self._in_use.discard(number)  # subtle: a finalizer calls this, in any thread and under any lock
        self._released.append(number)

    def query(
        self,
        number: int,
        rollback: int = 0,
        tokens: Sequence[int] = (),
        name: str = "view",
        arguments: tuple[Any, ...] = (),
    ) -> Any:
        """Send a query and return its answer; see `MatcherQuery`. Raises `StructgenError`."""
        with self._lock:
            if number not in self._in_use:  # its client disconnected while it waited for the lock
                raise disconnected()
            released = tuple(self._released.popleft() for _ in range(len(self._released)))
            query = MatcherQuery(number, released, rollback, tuple(tokens), name, arguments)
            return self._exchange(
                pickle.dumps(query, pickle.HIGHEST_PROTOCOL),
                "step_seconds",
                "for one token",
                self._is_in_use,
                answer_reader(name, arguments, self._size),
            )

    def kill(self) -> None:
        """Kill the process."""
        self.has_ended = True
        # subtle: nothing is closed while matchers refer to this object. Otherwise a thread that is about to read from
        # a descriptor could read from another file that has got the same number.
        _kill(self._connection, self._handle)
        self._on_end()

    def _exchange(
        self,
        data: bytes,
        limit: str,
        purpose: str,
        is_wanted: Callable[[], bool],
        reader: AnswerReader,
        most_seconds: float | None = None,
    ) -> Any:
        """Send a message and return the answer.

        Args:
            data: The message.
            limit: Name of the limit on CPU time.
            purpose: What the CPU time is for, in errors.
            is_wanted: Called repeatedly; False ends the process.
            reader: Reads the answer.
            most_seconds: Wall time to wait; None: all that goes with the limit.
        """
        seconds: float = getattr(self._limits, limit)
        if self.has_ended:
            raise self._ended()
        most = self._most_seconds(limit)
        try:
            with self._slow_work:
                self._connection.settimeout(most)
                wait = self._waiter(seconds, most_seconds or most, limit, purpose, is_wanted)
                write_frame(self._connection.send, data, lambda: wait(is_writable))
                frame = read_frame(self._connection.recv, reader.max_bytes, lambda: wait(is_readable))
        except TimeoutError:
            self.kill()
            raise LimitExceeded(
                f"the request's constraint did not get its CPU time {purpose} within {most:g} s",
                limit="busy",
                hint="Try again later.",
            ) from None
        except (OSError, ValueError):
            frame = None
        if frame is None:
            self.kill()
            raise self._ended()
        try:
            kind, content, tail = unpack(frame)
            if kind != "error":
                return reader.read(kind, content, tail)
            error = decode_error(content)
        except Garbled:
            self.kill()
            raise LimitExceeded(
                "the process of the request's constraint sent an invalid answer",
                limit="internal",
                hint="Please report it with the constraint.",
            ) from None
        try:
            raise error
        finally:
            del error  # otherwise this frame and the error would refer to each other

    def _most_seconds(self, limit: str) -> float:
        """Return the wall time in which the process must get the CPU time of a limit."""
        return max(wall_limit(getattr(self._limits, limit)), self._queue_seconds)

    def _waiter(
        self, seconds: float, most: float, limit: str, purpose: str, is_wanted: Callable[[], bool]
    ) -> Callable[[Callable[[socket.socket, float], bool]], None]:
        """Return a function that waits until `is_readable` or `is_writable` holds.

        It is called before each piece of a query and of an answer, and checks all limits each time. An answer that
        arrives byte by byte takes no longer than one that arrives at once, and a process that gets no CPU time to read
        a long query cannot hold up a client that has disconnected. It raises `LimitExceeded`, or `TimeoutError` after
        `most` seconds of wall time.
        """
        clock, deadline = CpuClock(self.pid), monotonic() + most

        def wait(condition: Callable[[socket.socket, float], bool]) -> None:
            is_there = False
            while not is_there:
                is_there = condition(self._connection, _POLL_SECONDS)
                if monotonic() > deadline:
                    raise TimeoutError
                if not is_wanted():
                    self.kill()
                    raise disconnected()
                if clock.used() > seconds:
                    self.kill()
                    raise LimitExceeded(
                        f"the request's constraint takes more than {seconds:g} s of CPU time {purpose}",
                        limit=limit,
                        hint=f"Send a smaller one; the operator of the server can raise {limit}.",
                    )

        return wait

    def _ended(self) -> LimitExceeded:
        """Return the error for a process that has ended."""
        if self.was_closed:
            return unavailable("closed")
        if self._forker is not None and _ends(self._forker):  # all matcher processes end with it
            return unavailable("worker", "the process that forks them has ended")
        return LimitExceeded(
            "the process of the request's constraint has ended, most likely for its memory or its time",
            limit="matcher_bytes",
            hint="Send a smaller one.",
        )


def _kill(connection: socket.socket, handle: ProcessHandle) -> None:
    handle.kill()
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for an answer


def _release(connection: socket.socket, handle: ProcessHandle, on_end: Callable[[], None]) -> None:
    _kill(connection, handle)
    connection.close()
    handle.close()
    on_end()


def _ends(process: subprocess.Popen[bytes]) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)
        return True
    return False


def disconnected() -> LimitExceeded:
    """Return the error for a text whose client has disconnected. It reaches no client."""
    return LimitExceeded("the client has disconnected", limit="disconnected", hint="Send the request again.")


def unavailable(limit: str, reason: str = "") -> LimitExceeded:
    """Return the error for a missing forker: `limit` is "closed" or "worker", and `reason` is for the operator."""
    message = "no matcher process can be started"
    if limit == "worker":
        return WorkerUnavailable(message, reason=reason)
    return LimitExceeded(message, limit=limit, hint="Try again later.")
