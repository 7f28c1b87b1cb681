"""The parent's side of `worker`: a process that tries specs out, killed when one takes too long.

Invariant: after `ask` there is a process for the next spec, or one will be started. No process outlives its parent.
Cost: the first one takes about a second, one that takes the place of another some milliseconds; a spec costs a pipe's
round trip.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import signal
import subprocess
from collections.abc import Callable
from time import monotonic
from typing import IO, Any

from structgen._sandbox.polling import is_readable, is_writable
from structgen._sandbox.priority import LOW, LOWEST, SlowWork, lower_priority, run_when_idle
from structgen._sandbox.spawn import child_environment, end_process, python_command
from structgen._sandbox.usage import CpuClock, is_child, wall_limit
from structgen.errors import LimitExceeded
from structgen.vocabulary import Vocabulary

from .probe import Trial
from .probe_worker import GOT, LENGTH, OUT_OF_MEMORY, READY, vocabulary_parts
from .requests import Kind, RequestLimits
from .wire import MOST_BYTES, Garbled, decode_error, unpack

__all__ = ["Preempted", "WorkerProcess"]

_START_SECONDS = 120.0
_RENEW_SECONDS = 10.0
_MOST_SPECS = 500
"""After so many a process is replaced, and with it what its caches hold."""
_FORGETTABLE = 0.005
"""CPU seconds of a spec; what took less cannot make another one look so much quicker than it is."""
_ASK_AGAIN = 0.02
_LEAST_PAUSE = 0.005
_BY_NUMBER = -1
_PIDS = 1 << 31
"""Above all numbers of processes."""
_SIGNALS = {one.value: one.name for one in signal.Signals}
_COMMAND = python_command("from structgen.serving.probe_worker import main; main()")


class Preempted(Exception):
    """A spec that was not quick had to make way; it may be tried again."""


class _Waited(Exception):
    """A spec did not get the processor for long."""


class _Died(Exception):
    """The process ended, or another one is in its place."""


class WorkerProcess:
    """One worker; used by one thread at a time, but for `close`.

    slow_work  of who pauses for what takes long: then such a spec runs only when others leave a processor idle. Without
               it, it has the lowest priority, since nobody would see to it that it ever runs on a busy machine.
    """

    def __init__(
        self, vocabulary: Vocabulary, limits: RequestLimits, slow_work: SlowWork | None = None
    ) -> None:
        self._hello = pickle.dumps((vocabulary_parts(vocabulary), limits), pickle.HIGHEST_PROTOCOL)
        self._limits = limits
        self._slow_work = slow_work
        self._most_seconds = wall_limit(limits.compile_seconds)
        self._process: subprocess.Popen[bytes] | None = None
        self._trying: int | None = None
        """The process that tries specs out, as a descriptor, so that its number can stand for no other one."""
        self._pid = 0
        self._asked = 0
        self._closed = False
        self.used = 0.0
        """CPU seconds of the last spec."""
        self.starts = 0
        """How many processes tried specs out, one after the other."""

    @property
    def tried_by(self) -> int:
        """The number of the process that tries specs out; 0 if there was none."""
        return self._pid

    def start(self) -> None:
        """Starts the process if it does not run. Raises `LimitExceeded` where it does not get ready."""
        if self._process is not None and self._process.poll() is None:
            self._take_over()
            if self._process is not None:
                return
        self.kill()
        if self._closed:
            raise LimitExceeded("the compiler was closed", limit="closed", hint="Try again later.")
        self._process = subprocess.Popen(
            _COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=child_environment()
        )
        if self._closed:  # subtle: by another thread, which saw no process to end
            self._process.kill()
        try:
            self._send(self._hello)
            self._meet(self._frame(monotonic() + _START_SECONDS))
        except (TimeoutError, OSError, _Died, _Waited):
            self.kill()
            raise LimitExceeded(
                "the process that compiles constraints does not start",
                limit="worker",
                hint="Try again later.",
            ) from None

    def ask(self, kind: Kind, spec: Any, may_go_on: Callable[[], bool] = lambda: True) -> Trial:
        """The trial of a spec. Raises the error that it met, or `LimitExceeded` for time or memory.

        `may_go_on` is asked now and then once it has taken more than `quick_seconds` of CPU time; `Preempted` if it
        says no.
        """
        self.start()
        self._asked += 1
        try:
            message, content, tail = unpack(self._exchange(pickle.dumps((kind, spec)), may_go_on))
            if message == "error":
                raise decode_error(content)
            if message != "trial":
                raise Garbled(f"a message of the kind {message!r:.40}")
            return Trial.unpacked(content, tail)
        except TimeoutError:
            raise LimitExceeded(
                f"the request's constraint takes more than {self._limits.compile_seconds:g} s of CPU time to compile",
                limit="compile_seconds",
                hint="Send a smaller one; the operator of the server can raise compile_seconds.",
            ) from None
        except _Waited:
            raise LimitExceeded(
                f"the request's constraint did not get its CPU time within {self._most_seconds:g} s",
                limit="busy",
                hint="Try again later.",
            ) from None
        except Garbled:
            self.kill()
            raise LimitExceeded(
                "the process that compiled the request's constraint answered nonsense",
                limit="internal",
                hint="Please report it with the constraint.",
            ) from None
        except (OSError, _Died):
            self.kill()
            raise LimitExceeded(
                "the request's constraint ended the process that compiled it, most likely for its memory",
                limit="compile_bytes",
                hint="Send a smaller one; the operator of the server can raise compile_bytes.",
            ) from None

    def forget(self) -> None:
        """What the last spec left in the process's caches is gone before the next one: it would look quicker than it is
        where nothing like it is known."""
        if self.used > _FORGETTABLE:
            self._asked = _MOST_SPECS

    def close(self) -> None:
        """Ends the process for good, from any thread."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()  # what it has forked dies with it

    def kill(self) -> None:
        """Ends the processes, and waits until the first is gone."""
        self._end_trying()
        process, self._process = self._process, None
        if process is not None:
            end_process(process)

    def _exchange(self, data: bytes, may_go_on: Callable[[], bool]) -> bytes:
        """The answer to a request. When this raises, the process is another one, or none."""
        with contextlib.ExitStack() as slow:
            return self._answer(data, may_go_on, slow)

    def _answer(
        self,
        data: bytes,
        may_go_on: Callable[[], bool],
        slow: contextlib.ExitStack,
        *,
        stands_by: bool = True,
    ) -> bytes:
        limits = self._limits
        self._send(data)
        if self._late_frame(monotonic() + self._most_seconds + _RENEW_SECONDS) != GOT:
            raise _Died
        clock, begin = CpuClock(self._pid), monotonic()
        deadline = begin + (self._most_seconds if stands_by else self._most_seconds / 2)
        self.used = 0.0  # where the process is another one afterwards
        pause, is_slow = limits.quick_seconds, False
        while not is_readable(self._output, pause):
            used = clock.used()
            pause = _ASK_AGAIN if is_slow else min(_ASK_AGAIN, max(_LEAST_PAUSE, limits.quick_seconds - used))
            if monotonic() < deadline and used < limits.quick_seconds:
                continue  # it has not had its turn
            late = used >= limits.compile_seconds
            waited = monotonic() >= deadline
            if late or waited or not may_go_on():
                self._renew()
                raise TimeoutError if late else _Waited if waited else Preempted
            is_starved = stands_by and is_slow and self._slow_work is not None
            if is_starved and monotonic() >= begin + self._most_seconds / 2:
                # The machine is never idle. Half of the time is left for it at a low priority, which this process may
                # not be given back by everyone, so it is another one.
                self._renew()
                return self._answer(data, may_go_on, slow, stands_by=False)
            if not is_slow:
                if self._slow_work is None:
                    lower_priority(LOWEST, self._pid)
                elif stands_by:
                    run_when_idle(self._pid)
                    slow.enter_context(self._slow_work)
                else:
                    lower_priority(LOW, self._pid)
                is_slow = True
        answer = self._late_frame(monotonic() + self._most_seconds)
        if answer.startswith(READY):  # it died, and the next one is there already
            raise self._ended(self._meet(answer))
        if is_slow:
            self._renew()  # not everybody may raise a priority again
        else:
            self.used = clock.used()
        return answer

    def _take_over(self) -> None:
        """Replaces a process that has done enough, and notices one that died since and has been replaced."""
        if self._asked >= _MOST_SPECS:
            self._renew()
        elif is_readable(self._output, 0):
            try:
                self._meet(self._frame(monotonic() + _RENEW_SECONDS))
            except (TimeoutError, OSError, _Died):
                self.kill()

    def _renew(self) -> None:
        """Kills the process that tries specs out, and waits for the next one; if none comes, there is none."""
        self._end_trying()
        try:
            self._meet(self._frame(monotonic() + _RENEW_SECONDS))
        except (TimeoutError, OSError, _Died):
            self.kill()

    def _ended(self, status: int) -> LimitExceeded:
        """Why the process that tried a spec out ended in the middle of it."""
        if status not in (OUT_OF_MEMORY, -signal.SIGKILL):
            reason = _SIGNALS.get(-status, f"status {status}")
            return LimitExceeded(
                f"an internal error ended the process that compiled the request's constraint ({reason})",
                limit="internal",
                hint="Please report it with the constraint.",
            )
        return LimitExceeded(
            f"the request's constraint takes more than {self._limits.compile_bytes >> 20} MiB to compile",
            limit="compile_bytes",
            hint="Send a smaller one; the operator of the server can raise compile_bytes.",
        )

    def _meet(self, frame: bytes) -> int:
        """Take the next process; how the one before it ended, as an exit code."""
        try:
            if not frame.startswith(READY):
                raise ValueError
            pid, ended = map(int, frame[len(READY) :].split())
            if not 0 < pid < _PIDS:
                raise ValueError
        except ValueError:
            raise _Died from None
        self._end_trying()
        self._pid = pid
        try:
            self._trying = os.pidfd_open(self._pid)
        except OverflowError:
            self._trying = None
        except (AttributeError, OSError) as error:
            # An old kernel has no descriptors of processes. A number that is no process must not be killed.
            is_process = getattr(error, "errno", None) not in (errno.EINVAL, errno.ESRCH)
            self._trying = _BY_NUMBER if is_process else None
        # subtle: after the descriptor was opened, which keeps the number from being given to another process.
        if self._process is not None and not is_child(pid, self._process.pid):
            self._drop_trying()
            raise _Died
        self._asked = 0
        self.starts += 1
        return ended

    def _drop_trying(self) -> None:
        """Close the descriptor of a process that is not ours. The process gets no signal."""
        trying, self._trying = self._trying, None
        if trying is not None and trying != _BY_NUMBER:
            os.close(trying)

    def _end_trying(self) -> None:
        trying, self._trying = self._trying, None
        if trying == _BY_NUMBER:
            with contextlib.suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)
        elif trying is not None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(trying, signal.SIGKILL)
            os.close(trying)

    @property
    def _output(self) -> IO[bytes]:
        process = self._process
        if process is None or process.stdout is None:
            raise _Died
        return process.stdout

    def _send(self, data: bytes) -> None:
        process = self._process
        if process is None or process.stdin is None:
            raise _Died
        view, pipe = memoryview(LENGTH.pack(len(data)) + data), process.stdin
        os.set_blocking(pipe.fileno(), False)
        deadline = monotonic() + self._most_seconds + _RENEW_SECONDS
        while view:
            if not is_writable(pipe, max(0.0, deadline - monotonic())):
                self.kill()
                raise _Waited
            view = view[os.write(pipe.fileno(), view) :]

    def _late_frame(self, deadline: float) -> bytes:
        """The next frame, of a process that may be starved. Raises `_Waited`, when it is gone, or `_Died`."""
        try:
            return self._frame(deadline)
        except TimeoutError:
            self.kill()  # half of it may have been read
            raise _Waited from None

    def _frame(self, deadline: float) -> bytes:
        """The next frame. Raises `TimeoutError`, or `_Died` where there is none."""
        (length,) = LENGTH.unpack(_read_exactly(self._output, LENGTH.size, deadline))
        if length > MOST_BYTES:
            raise _Died
        return _read_exactly(self._output, length, deadline)


def _read_exactly(pipe: IO[bytes], length: int, deadline: float) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        if not is_readable(pipe, max(0.0, deadline - monotonic())):
            raise TimeoutError
        data = os.read(pipe.fileno(), min(1 << 20, length - len(parts)))
        if not data:
            raise _Died
        parts += data
    return bytes(parts)
