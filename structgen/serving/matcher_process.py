"""Constraints that take long have a lane of their own: a process in which their matchers live, asked over a socket.

Why: a large constraint is no fault, but building its automaton holds the interpreter, and its masks the processor. In
a process that runs when others leave a processor idle it delays nobody but those who asked for it.
What: `Lanes` keeps a process that forks (`lane_process`); a `Lane` is one that it forked, for one constraint and as
long as somebody has a matcher of it. `LaneMatcher` is as much of `structgen.matcher.Matcher` as drawing needs; it asks
once a token, since what was told at one place answers all questions about it.
Invariants: at most `max_lanes` lanes, each within `lane_bytes`; a question that takes more than `step_seconds` of CPU
time ends its lane, and all who use it. Nothing outlives the process that made it.
Cost: a fork, some milliseconds, and the automaton for each lane; a socket's round trip a token.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import signal
import socket
import subprocess
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen._sandbox.polling import is_readable, is_writable
from structgen._sandbox.priority import SlowWork
from structgen._sandbox.spawn import child_environment, python_command
from structgen._sandbox.usage import CpuClock, wall_limit
from structgen.errors import LimitExceeded
from structgen.protocols import TokenMatcher
from structgen.vocabulary import Vocabulary

from .matcher_answers import STARTED, AnswerReader, View, answer_reader
from .matcher_worker import NUMBER, READY, STANDS_BY, STEPS_ASIDE, Question, receive, send
from .probe_worker import vocabulary_parts
from .requests import RequestLimits
from .wire import Garbled, decode_error, unpack

__all__ = ["Lane", "LaneMatcher", "Lanes", "left"]

_COMMAND = python_command("from structgen.serving.matcher_worker import main; main()")
_START_SECONDS = 120.0
_ANSWER_SECONDS = 10.0
_ASK_AGAIN = 0.02
_MOMENT = 0.2
"""Seconds in which a process that is about to end does."""


class _Starved(Exception):
    """A process did not get the processor for long."""

    def __init__(self, error: LimitExceeded) -> None:
        super().__init__(str(error))
        self.error = error


class Lanes:
    """Of one vocabulary; safe to use from any thread."""

    def __init__(self, vocabulary: Vocabulary, limits: RequestLimits, slow_work: SlowWork) -> None:
        self._slow_work = slow_work
        self._hello = pickle.dumps((vocabulary_parts(vocabulary), limits), pickle.HIGHEST_PROTOCOL)
        self._limits = limits
        self._size = vocabulary.size
        self._changed = threading.Condition()
        self._door: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._open: weakref.WeakSet[Lane] = weakref.WeakSet()
        self._open_lock = threading.Lock()
        self.starts = 0
        """Lanes that were opened so far."""
        # subtle: the process dies with the *thread* that started it, so that is one that stays.
        self._thread = threading.Thread(target=self._keep, name="structgen-lanes", daemon=True)
        self._thread.start()

    @property
    def open_lanes(self) -> int:
        return sum(not lane.is_over for lane in self._all())

    def _all(self) -> list[Lane]:
        with self._open_lock:  # not the other one, which is held while a lane is forked
            return list(self._open)

    def lane(self, pickled: bytes, wanted: Callable[[], bool] = lambda: True) -> Lane:
        """A new lane for a pickled constraint. Raises `StructgenError` where there is none.

        `wanted` is asked now and then while the automaton is built; that ends if it says no.
        """
        try:
            return self._built(pickled, wanted, STANDS_BY)
        except _Starved:
            # The machine is never idle. Half of the time is left for a new process at a low priority: an unprivileged
            # one cannot raise its priority again.
            pass
        try:
            return self._built(pickled, wanted, STEPS_ASIDE)
        except _Starved as starved:
            raise starved.error from None

    def _built(self, pickled: bytes, wanted: Callable[[], bool], priority: bytes) -> Lane:
        lane = self._opened(priority)
        try:
            lane.begin(pickled, wanted)
        except BaseException:
            lane.end()
            raise
        return lane

    def _opened(self, priority: bytes) -> Lane:
        """A fresh process, which builds nothing yet."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._door is not None, _START_SECONDS)
            if self._closed or self._door is None:
                raise _not_there("closed" if self._closed else "worker")
            if self.open_lanes >= self._limits.max_lanes:
                raise LimitExceeded(
                    f"{self._limits.max_lanes} constraints that take long are in use, and more are refused",
                    limit="max_lanes",
                    hint="Try again later.",
                )
            mine, theirs = socket.socketpair()
            try:
                with theirs:
                    socket.send_fds(self._door, [priority], [theirs.fileno()])
                    number = NUMBER.unpack(_exactly(self._door, NUMBER.size))[0]
            except (OSError, EOFError):
                mine.close()
                self._door.close()
                self._door = None
                self._changed.notify_all()
                raise _not_there("worker") from None
            lane = Lane(mine, number, self._size, self._limits, self._slow_work, self._process)
            with self._open_lock:
                self._open.add(lane)
            self.starts += 1
        return lane

    def close(self) -> None:
        """Ends all processes."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for lane in self._all():
            lane.was_closed = True
            lane.end()
        self._thread.join(5.0)

    def _keep(self) -> None:
        """The thread that starts the process, and starts it again if it has ended."""
        while not self._closed:
            try:
                mine, theirs = socket.socketpair()
                with theirs:
                    process = subprocess.Popen(_COMMAND, stdin=theirs.fileno(), env=child_environment())
            except OSError:  # the machine has no more of something; a moment later it may
                with self._changed:
                    self._changed.wait(1.0)
                continue
            with contextlib.suppress(OSError, EOFError):
                mine.settimeout(_START_SECONDS)
                send(mine, self._hello)
                if _exactly(mine, 1) == READY:
                    mine.settimeout(_ANSWER_SECONDS)
                    with self._changed:
                        self._door, self._process = mine, process
                        self._changed.notify_all()
                        while not (self._closed or self._door is None or process.poll() is not None):
                            self._changed.wait(1.0)
                        self._door = None
            process.kill()
            process.wait()
            mine.close()
            with self._changed:
                if not self._closed:
                    self._changed.wait(1.0)


class Lane:
    """One process; its matchers are asked one at a time."""

    def __init__(
        self,
        line: socket.socket,
        pid: int,
        size: int,
        limits: RequestLimits,
        slow_work: SlowWork,
        parent: subprocess.Popen[bytes] | None,
    ) -> None:
        self.pid, self._line, self._limits, self._slow_work = pid, line, limits, slow_work
        self._size = size
        self._parent = parent
        self._lock = threading.Lock()
        self._gone: deque[int] = deque()
        self._numbers = itertools.count()
        self._users: set[int] = set()
        self._users_lock = threading.Lock()
        self.is_over = False
        self.was_closed = False
        """By who ends all lanes, so it is not the request's fault."""
        try:
            self._handle: int | None = os.pidfd_open(pid)
        except (AttributeError, OSError, OverflowError):
            self._handle = None  # it ends when its socket does, at its next question
        weakref.finalize(self, _end, line, self._handle)

    def begin(self, pickled: bytes, wanted: Callable[[], bool]) -> None:
        """Have the automaton built, as long as it is wanted.

        Raises:
            StructgenError: There is none.
            _Starved: The process did not get its CPU time within half of the time that there is.
        """
        try:
            self._exchange(pickled, "compile_seconds", "to build", wanted, STARTED, share=0.5)
        except LimitExceeded as error:
            if error.limit == "busy":
                raise _Starved(error) from None
            raise

    def matcher(self) -> LaneMatcher | None:
        """A fresh one; None where the process has ended."""
        with self._users_lock:
            if self.is_over:
                return None
            number = next(self._numbers)
            self._users.add(number)
        return LaneMatcher(self, number)

    def leave(self, number: int) -> None:
        """Nobody waits for what is asked of a matcher; the process ends if it has no other."""
        self._users.discard(number)
        if not self._goes_on():
            self.end()

    def _goes_on(self) -> bool:
        """Has it a matcher? If not it takes no other."""
        with self._users_lock:
            if not self._users:
                self.is_over = True
            return bool(self._users)

    def forget(self, number: int) -> None:
        """A matcher is not needed any more; told with the next question."""
        self._users.discard(number)  # subtle: a finalizer calls this, in any thread and under any lock
        self._gone.append(number)

    def ask(
        self,
        number: int,
        back: int = 0,
        tokens: Sequence[int] = (),
        name: str = "view",
        arguments: tuple[Any, ...] = (),
    ) -> Any:
        """See `Question`. Raises `StructgenError`."""
        with self._lock:
            if number not in self._users:  # it left while it waited for others
                raise left()
            gone = tuple(self._gone.popleft() for _ in range(len(self._gone)))
            asked = Question(number, gone, back, tuple(tokens), name, arguments)
            return self._exchange(
                pickle.dumps(asked, pickle.HIGHEST_PROTOCOL),
                "step_seconds",
                "for one token",
                self._goes_on,
                answer_reader(name, arguments, self._size),
            )

    def end(self) -> None:
        """Kill the process."""
        self.is_over = True
        # subtle: nothing is closed before the last user is gone; a number that another thread is about to read from
        # may have been given to another file by then.
        _kill(self._line, self._handle)

    def _exchange(
        self,
        what: bytes,
        limit: str,
        purpose: str,
        wanted: Callable[[], bool],
        answer: AnswerReader,
        share: float = 1.0,
    ) -> Any:
        """The answer, within the limit of that name and that share of its wall time, as long as it is wanted."""
        seconds: float = getattr(self._limits, limit)
        if self.is_over:
            raise self._lost()
        most = wall_limit(seconds)
        try:
            with self._slow_work:
                self._line.settimeout(most)
                wait = self._waiter(seconds, share * most, limit, purpose, wanted)
                send(self._line, what, lambda: wait(is_writable))
                frame = receive(self._line, answer.most_bytes, lambda: wait(is_readable))
        except TimeoutError:
            self.end()
            raise LimitExceeded(
                f"the request's constraint did not get its CPU time {purpose} within {most:g} s",
                limit="busy",
                hint="Try again later.",
            ) from None
        except (OSError, ValueError):
            frame = None
        if frame is None:
            self.end()
            raise self._lost()
        try:
            kind, content, tail = unpack(frame)
            if kind != "error":
                return answer.read(kind, content, tail)
            error = decode_error(content)
        except Garbled:
            self.end()
            raise LimitExceeded(
                "the process of the request's constraint answered nonsense",
                limit="internal",
                hint="Please report it with the constraint.",
            ) from None
        try:
            raise error
        finally:
            del error  # else its frame, which it holds, would hold it

    def _waiter(
        self, seconds: float, most: float, limit: str, purpose: str, wanted: Callable[[], bool]
    ) -> Callable[[Callable[[socket.socket, float], bool]], None]:
        """Return a function that waits until `is_readable` or `is_writable` holds.

        It is called before each piece of a question and of an answer, and checks all limits each time: an answer that
        comes byte by byte takes no longer than one that comes at once, and a process that gets no CPU time to read a
        long question cannot hold up a client that has disconnected. It raises `LimitExceeded`, or `TimeoutError` after
        `most` seconds of wall time.
        """
        clock, deadline = CpuClock(self.pid), monotonic() + most

        def wait(condition: Callable[[socket.socket, float], bool]) -> None:
            is_there = False
            while not is_there:
                is_there = condition(self._line, _ASK_AGAIN)
                if monotonic() > deadline:
                    raise TimeoutError
                if not wanted():
                    self.end()
                    raise left()
                if clock.used() > seconds:
                    self.end()
                    raise LimitExceeded(
                        f"the request's constraint takes more than {seconds:g} s of CPU time {purpose}",
                        limit=limit,
                        hint=f"Send a smaller one; the operator of the server can raise {limit}.",
                    )

        return wait

    def _lost(self) -> LimitExceeded:
        if self.was_closed:
            return _not_there("closed")
        if self._parent is not None and _has_ended(self._parent):  # which all lanes end with
            return _not_there("worker")
        return LimitExceeded(
            "the process of the request's constraint has ended, most likely for its memory or its time",
            limit="lane_bytes",
            hint="Send a smaller one.",
        )


class LaneMatcher(TokenMatcher):
    """What `structgen.generation.row.Row` needs of a matcher."""

    def __init__(self, lane: Lane, number: int) -> None:
        self._lane = lane
        self._number = number
        self._back = 0
        self._tokens: list[int] = []
        """Read here, and not told yet."""
        self._told: list[int] = []
        """Read there."""
        self._known: View | None = None
        self._sure: list[int] = []
        """Tokens that are the only choice from here on."""
        self._search_failure: str | None = None
        """Why the last search for a completion found none."""
        weakref.finalize(self, lane.forget, self._number)

    @property
    def tokens(self) -> list[int]:
        """The tokens read so far."""
        return [*self._told, *self._tokens]

    def mask(self) -> NDArray[np.int32]:
        return np.frombuffer(self._view().mask, dtype=np.int32)

    def advance(self, token_id: int) -> bool:
        """Read a token; False, and nothing changed, if the mask does not allow it."""
        if self._known is None and self._sure and self._sure[0] == token_id:
            del self._sure[0]
        else:
            mask = self.mask().view(np.uint32)
            if not (0 <= token_id < 32 * len(mask) and mask[token_id >> 5] >> np.uint32(token_id & 31) & 1):
                return False
            forced = self._view().forced
            self._sure = list(forced[1:]) if forced and forced[0] == token_id else []
        self._tokens.append(token_id)
        self._known = None
        return True

    def replay(self, tokens: Sequence[int]) -> None:
        """Read tokens of which it is known that they can follow each other."""
        self._tokens += tokens
        self._known, self._sure = None, []

    def rollback(self, n: int) -> None:
        here = min(n, len(self._tokens))
        if n > here + len(self._told):
            raise ValueError(f"cannot roll back {n} tokens: {len(self.tokens)} were read")
        if here:
            del self._tokens[len(self._tokens) - here :]
        if n > here:
            del self._told[len(self._told) - (n - here) :]
            self._back += n - here
        if n:
            self._known, self._sure = None, []

    def allowed_count(self) -> int:
        return self._view().allowed

    def is_complete(self) -> bool:
        return self._view().is_complete

    @property
    def must_stop(self) -> bool:
        return self._view().must_stop

    sets_temperature = True
    """It may: a view says so, which is there wherever a token is drawn."""

    @property
    def temperature(self) -> float | None:
        return self._view().temperature

    def forced(self, most: int = 256) -> list[int]:
        return list(self._view().forced[:most])

    def on_disconnect(self) -> None:
        """No one needs it any more. May be called from any thread, while another one waits for an answer."""
        self._lane.leave(self._number)

    def forced_bytes(self, most: int = 4096) -> bytes:
        found: bytes = self._ask("forced_bytes", most)
        return found

    def witness(self, max_tokens: int | None = None) -> list[int] | None:
        found: list[int] | None = self._ask("witness_tokens")
        self._search_failure = self._ask("search_failure") if found is None else None
        return None if found is None or (max_tokens is not None and len(found) > max_tokens) else found

    @property
    def search_failure(self) -> str | None:
        return self._search_failure

    def least_tokens(self, room: int) -> int | None:
        found: int | None = self._ask("least_tokens", room)
        return found

    def _view(self) -> View:
        if self._known is None:
            self._known = self._ask("view")
            assert self._known is not None
            self._sure = []
        return self._known

    def _ask(self, name: str, *arguments: Any) -> Any:
        answer = self._lane.ask(self._number, self._back, self._tokens, name, arguments)
        self._told += self._tokens
        self._back, self._tokens = 0, []
        return answer


def _kill(line: socket.socket, handle: int | None) -> None:
    if handle is not None:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)  # whoever waits for an answer is told


def _end(line: socket.socket, handle: int | None) -> None:
    _kill(line, handle)
    line.close()
    if handle is not None:
        os.close(handle)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_MOMENT)
        return True
    return False


def left() -> LimitExceeded:
    """For a text that nobody waits for any more; it reaches no one."""
    return LimitExceeded("nobody waits for this text any more", limit="left", hint="Send the request again.")


def _not_there(limit: str) -> LimitExceeded:
    return LimitExceeded(
        "the process for constraints that take long is not there", limit=limit, hint="Try again later."
    )


def _exactly(line: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = line.recv(length - len(data))
        if not more:
            raise EOFError
        data += more
    return data
