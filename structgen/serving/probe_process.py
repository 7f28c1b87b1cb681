"""The parent's side of `probe_worker`: a worker that compiles specs, killed when one takes too long.

Invariant: after `probe` there is a worker for the next spec, or one will be started. No process outlives its parent.
Cost: the first worker takes about a second, a replacement some milliseconds; a spec costs a round trip through a pipe.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import IO, Any

from structgen._sandbox.frames import MOST_BYTES, read_frame, write_frame
from structgen._sandbox.handle import ProcessHandle
from structgen._sandbox.polling import is_readable, is_writable
from structgen._sandbox.priority import LOW, LOWEST, SlowWork, lower_priority, run_when_idle
from structgen._sandbox.spawn import end_process, python_command, start_failure, start_python
from structgen._sandbox.usage import CpuClock, is_child, wall_limit
from structgen.errors import LimitExceeded
from structgen.vocabulary import Vocabulary

from .limits import RequestLimits
from .probe import ProbeResult
from .probe_worker import GOT, OUT_OF_MEMORY, READY, vocabulary_parts
from .requests import Kind
from .temporary_errors import WorkerUnavailable
from .wire import Garbled, decode_error, unpack

__all__ = ["Preempted", "ProbeProcess"]

_START_SECONDS = 120.0
_RENEW_SECONDS = 10.0
_MOST_SPECS = 500
"""A worker is replaced after so many specs, which also releases its caches."""
_NEGLIGIBLE_SECONDS = 0.005
"""CPU time of a spec that cannot warm the caches enough to make another spec look much quicker than it is."""
_POLL_SECONDS = 0.02
_LEAST_POLL_SECONDS = 0.005
_MOST_PID = 1 << 31
_SIGNALS = {one.value: one.name for one in signal.Signals}
_COMMAND = python_command("from structgen.serving.probe_worker import main; main()")


def _not_started(reason: str) -> WorkerUnavailable:
    return WorkerUnavailable("the process that compiles constraints does not start", reason=reason)


class Preempted(Exception):
    """A slow spec had to make way for others. It may be probed again."""


class _Starved(Exception):
    """The worker did not get its CPU time."""


class _Died(Exception):
    """The worker ended, or another one has taken its place."""


class ProbeProcess:
    """One worker and its forker. Used by one thread at a time, except for `close`."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        limits: RequestLimits,
        slow_work: SlowWork | None = None,
        queue_seconds: float = 0.0,
    ) -> None:
        """Prepare the processes; `start` starts them.

        Args:
            vocabulary: The vocabulary to compile for.
            limits: `compile_seconds`, `quick_seconds` and `compile_bytes` apply here.
            slow_work: Entered while a slow spec is probed, for a model thread that pauses then. Such a spec runs only
                on an idle processor. With None it runs at the lowest priority, since no one would ever pause for it.
            queue_seconds: Wall time in which a spec must get its CPU time, if that is more than `wall_limit`.
        """
        self._hello = pickle.dumps((vocabulary_parts(vocabulary), limits), pickle.HIGHEST_PROTOCOL)
        self._limits = limits
        self._slow_work = slow_work
        least = wall_limit(limits.compile_seconds)
        self._idle_seconds = least / 2
        """Wall time of a slow spec on idle processors, before it competes for CPU time at a low priority."""
        self._wall_seconds = max(least, queue_seconds)
        self._forker: subprocess.Popen[bytes] | None = None
        self._worker: ProcessHandle | None = None
        self._pid = 0
        self._specs = 0
        """Specs that this worker has probed."""
        self._is_closed = False
        self.cpu_seconds = 0.0
        """CPU time of the last spec; 0 if its worker has been replaced."""
        self.starts = 0
        """Workers so far, one after the other."""

    @property
    def worker_pid(self) -> int:
        """The process id of the worker; 0 before the first one."""
        return self._pid

    def start(self) -> None:
        """Start the processes if they do not run. Raises `WorkerUnavailable` if they do not become ready."""
        if self._forker is not None and self._forker.poll() is None:
            self._check_worker()
            if self._forker is not None:
                return
        self.kill()
        if self._is_closed:
            raise LimitExceeded("the compiler was closed", limit="closed", hint="Try again later.")
        try:
            forker, errors = start_python(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            raise _not_started(start_failure(error)) from None
        self._forker = forker
        if self._is_closed:  # subtle: by another thread, before there was a process to kill
            forker.kill()
        try:
            self._send(self._hello)
            self._adopt(self._receive(monotonic() + _START_SECONDS))
        except (TimeoutError, OSError, _Died, _Starved) as error:
            reason = start_failure(error, forker, errors)
            self.kill()
            raise _not_started(reason) from None

    def probe(self, kind: Kind, spec: Any, may_continue: Callable[[], bool] = lambda: True) -> ProbeResult:
        """Probe a spec.

        Args:
            kind: The kind of the spec.
            spec: The spec.
            may_continue: Called repeatedly once the spec has taken more than `quick_seconds` of CPU time.

        Raises:
            Preempted: `may_continue` returned False.
            StructgenError: The spec is refused, or exceeds a limit.
        """
        self.start()
        self._specs += 1
        try:
            message, content, tail = unpack(self._exchange(pickle.dumps((kind, spec)), may_continue))
            if message == "error":
                raise decode_error(content)
            if message != "probe":
                raise Garbled(f"a message of the kind {message!r:.40}")
            return ProbeResult.unpacked(content, tail)
        except TimeoutError:
            raise LimitExceeded(
                f"the request's constraint takes more than {self._limits.compile_seconds:g} s of CPU time to compile",
                limit="compile_seconds",
                hint="Send a smaller one; the operator of the server can raise compile_seconds.",
            ) from None
        except _Starved:
            raise LimitExceeded(
                f"the request's constraint did not get its CPU time within {self._wall_seconds:g} s",
                limit="busy",
                hint="Try again later.",
            ) from None
        except Garbled:
            self.kill()
            raise LimitExceeded(
                "the process that compiled the request's constraint sent an invalid answer",
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

    def drop_warm_caches(self) -> None:
        """Replace the worker before the next spec, unless the last one was negligible.

        What the last spec left in the worker's caches would make the next one look quicker than it is in the serving
        process, which has not compiled the last one.
        """
        if self.cpu_seconds > _NEGLIGIBLE_SECONDS:
            self._specs = _MOST_SPECS

    def close(self) -> None:
        """End the processes for good, from any thread."""
        self._is_closed = True
        forker = self._forker
        if forker is not None:
            forker.kill()  # its worker dies with it

    def kill(self) -> None:
        """End the processes, and wait until the forker has ended."""
        self._kill_worker()
        forker, self._forker = self._forker, None
        if forker is not None:
            end_process(forker)

    def _exchange(self, data: bytes, may_continue: Callable[[], bool]) -> bytes:
        """Return the answer to a request. After an exception, the worker has been replaced or killed."""
        with contextlib.ExitStack() as slow:
            return self._answer(data, may_continue, slow)

    def _answer(
        self,
        data: bytes,
        may_continue: Callable[[], bool],
        slow: contextlib.ExitStack,
        *,
        when_idle: bool = True,
    ) -> bytes:
        limits = self._limits
        self._send(data)
        if self._receive_late(monotonic() + self._wall_seconds + _RENEW_SECONDS) != GOT:
            raise _Died
        clock, begin = CpuClock(self._pid), monotonic()
        deadline = begin + self._wall_seconds - (0.0 if when_idle else self._idle_seconds)
        self.cpu_seconds = 0.0  # in case the worker is replaced
        pause, is_slow = limits.quick_seconds, False
        while not is_readable(self._output, pause):
            used = clock.used()
            pause = (
                _POLL_SECONDS
                if is_slow
                else min(_POLL_SECONDS, max(_LEAST_POLL_SECONDS, limits.quick_seconds - used))
            )
            if monotonic() < deadline and used < limits.quick_seconds:
                continue
            is_late = used >= limits.compile_seconds
            is_starved = monotonic() >= deadline
            if is_late or is_starved or not may_continue():
                self._renew()
                raise TimeoutError if is_late else _Starved if is_starved else Preempted
            waits_for_idle = when_idle and is_slow and self._slow_work is not None
            if waits_for_idle and monotonic() >= begin + self._idle_seconds:
                # The machine is never idle. The rest of the time is left to try again at a low priority. An
                # unprivileged process cannot raise its priority again, so a new worker does that.
                self._renew()
                return self._answer(data, may_continue, slow, when_idle=False)
            if not is_slow:
                self._slow_down(slow, when_idle=when_idle)
                is_slow = True
        answer = self._receive_late(monotonic() + self._wall_seconds)
        if answer.startswith(READY):  # the worker died, and the next one is already there
            raise self._crash(self._adopt(answer))
        if is_slow:
            self._renew()  # an unprivileged process cannot raise its priority again
        else:
            self.cpu_seconds = clock.used()
        return answer

    def _slow_down(self, slow: contextlib.ExitStack, *, when_idle: bool) -> None:
        """Lower the priority of a worker whose spec is not quick."""
        if self._slow_work is None:
            lower_priority(LOWEST, self._pid)
        elif when_idle:
            run_when_idle(self._pid)
            slow.enter_context(self._slow_work)
        else:
            lower_priority(LOW, self._pid)

    def _check_worker(self) -> None:
        """Replace a worker that has probed enough specs, and notice one that has died and was replaced."""
        if self._specs >= _MOST_SPECS:
            self._renew()
        elif is_readable(self._output, 0):
            try:
                self._adopt(self._receive(monotonic() + _RENEW_SECONDS))
            except (TimeoutError, OSError, _Died):
                self.kill()

    def _renew(self) -> None:
        """Kill the worker and wait for the next one. If none comes, kill the forker, too."""
        self._kill_worker()
        try:
            self._adopt(self._receive(monotonic() + _RENEW_SECONDS))
        except (TimeoutError, OSError, _Died):
            self.kill()

    def _crash(self, status: int) -> LimitExceeded:
        """Return the error for a worker that ended while it compiled a spec."""
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

    def _adopt(self, frame: bytes) -> int:
        """Take over the next worker, and return the exit code of the one before it.

        Args:
            frame: The message that says that it is ready. It may come from a worker that hostile input has taken over.
        """
        try:
            if not frame.startswith(READY):
                raise ValueError
            pid, ended = map(int, frame[len(READY) :].split())
            if not 0 < pid < _MOST_PID:
                raise ValueError
        except ValueError:
            raise _Died from None
        self._kill_worker()
        self._pid = pid
        self._worker = ProcessHandle(pid, by_pid=True)
        # subtle: after the handle was opened, which keeps the id from being given to another process.
        if self._forker is not None and not is_child(pid, self._forker.pid):
            self._worker.close()
            self._worker = None
            raise _Died
        self._specs = 0
        self.starts += 1
        return ended

    def _kill_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.kill()
            worker.close()

    @property
    def _output(self) -> IO[bytes]:
        forker = self._forker
        if forker is None or forker.stdout is None:
            raise _Died
        return forker.stdout

    def _send(self, data: bytes) -> None:
        forker = self._forker
        if forker is None or forker.stdin is None:
            raise _Died
        pipe = forker.stdin
        os.set_blocking(pipe.fileno(), False)
        deadline = monotonic() + self._wall_seconds + _RENEW_SECONDS

        def wait() -> None:
            if not is_writable(pipe, max(0.0, deadline - monotonic())):
                self.kill()
                raise _Starved

        write_frame(partial(os.write, pipe.fileno()), data, wait)

    def _receive_late(self, deadline: float) -> bytes:
        """Read the next frame of a worker that may get no CPU time. Raises `_Starved` and kills it, or `_Died`."""
        try:
            return self._receive(deadline)
        except TimeoutError:
            self.kill()  # half of the frame may have been read
            raise _Starved from None

    def _receive(self, deadline: float) -> bytes:
        """Read the next frame. Raises `TimeoutError`, or `_Died` if the output has ended."""
        output = self._output

        def wait() -> None:
            if not is_readable(output, max(0.0, deadline - monotonic())):
                raise TimeoutError

        frame = read_frame(partial(os.read, output.fileno()), MOST_BYTES, wait)
        if frame is None:
            raise _Died
        return frame
