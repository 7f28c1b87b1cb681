"""The parent's side of `worker`: one process that tries specs out, killed when one takes too long.

Invariant: after `ask` the process is ready for the next spec or will be started anew; it never outlives its parent, as
it ends when its input is closed.
Cost: starting one takes about a second (the vocabulary is built again); a spec costs a pipe's round trip.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import subprocess
import sys
from collections.abc import Callable
from time import monotonic
from typing import IO, Any

from structgen.errors import LimitExceeded, StructgenError
from structgen.vocabulary import Vocabulary

from .requests import Kind, RequestLimits
from .trial import Trial
from .worker import LENGTH, vocabulary_parts

__all__ = ["Preempted", "WorkerProcess"]

_START_SECONDS = 120.0
_MOST_ANSWER = 256 << 20
_ASK_AGAIN = 0.02
_SLOW_NICENESS = 15
"""Of a process whose spec is not quick: it must not take the processor from those who serve."""
_NICENESS = os.getpriority(os.PRIO_PROCESS, 0)
_COMMAND = [sys.executable, "-c", "from structgen.serving.worker import main; main()"]


class Preempted(Exception):
    """A spec that was not quick had to make way; it may be tried again."""


class WorkerProcess:
    """One worker; used by one thread at a time, but for `close`."""

    def __init__(self, vocabulary: Vocabulary, limits: RequestLimits) -> None:
        self._hello = pickle.dumps((vocabulary_parts(vocabulary), limits), pickle.HIGHEST_PROTOCOL)
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._is_lowered = False
        self.starts = 0

    def start(self) -> None:
        """Starts the process if it does not run. Raises `LimitExceeded` where it does not get ready."""
        if self._is_lowered and self._process is not None and not _set_niceness(self._process.pid, _NICENESS):
            self.kill()  # without the right to raise a priority again, only a new process has it
        self._is_lowered = False
        if self._process is not None and self._process.poll() is None:
            return
        self.kill()
        if self._closed:
            raise LimitExceeded("the compiler was closed", limit="closed")
        self._process = subprocess.Popen(
            _COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=_environment()
        )
        self.starts += 1
        try:
            ready = self._exchange(self._hello, _START_SECONDS)
        except (TimeoutError, OSError):
            ready = None
        if ready != b"ready":
            self.kill()
            raise LimitExceeded("the process that compiles constraints does not start", limit="worker")

    def ask(self, kind: Kind, spec: Any, may_go_on: Callable[[], bool] = lambda: True) -> Trial:
        """The trial of a spec. Raises the error that it met, or `LimitExceeded` for time or memory.

        `may_go_on` is asked now and then once it has taken longer than `quick_seconds`; `Preempted` if it says no.
        """
        self.start()
        try:
            answer = self._exchange(pickle.dumps((kind, spec)), self._limits.compile_seconds, may_go_on)
        except Preempted:
            self.kill()
            raise
        except TimeoutError:
            self.kill()
            raise LimitExceeded(
                f"the request's constraint takes more than {self._limits.compile_seconds:g} seconds to compile",
                limit="compile_seconds",
                hint="Send a smaller one; whoever runs the server can raise compile_seconds.",
            ) from None
        except OSError:
            answer = None
        if answer is None:
            self.kill()
            raise LimitExceeded(
                "the request's constraint ended the process that compiled it, most likely for its memory",
                limit="compile_bytes",
                hint="Send a smaller one; whoever runs the server can raise compile_bytes.",
            )
        found = pickle.loads(answer)
        if isinstance(found, StructgenError):
            raise found
        assert isinstance(found, Trial)
        return found

    def close(self) -> None:
        """Ends the process for good, from any thread."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()

    def kill(self) -> None:
        """Ends the process, and waits until it is gone."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _exchange(
        self, data: bytes, seconds: float, may_go_on: Callable[[], bool] = lambda: True
    ) -> bytes | None:
        """The answer to a frame; None if the process ended."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        deadline = monotonic() + seconds
        _write_all(process.stdin, LENGTH.pack(len(data)) + data)
        pause = self._limits.quick_seconds
        while not _is_ready(process.stdout, min(pause, max(0.0, deadline - monotonic()))):
            if monotonic() >= deadline:
                raise TimeoutError
            if not may_go_on():
                raise Preempted
            _set_niceness(process.pid, _SLOW_NICENESS)
            self._is_lowered, pause = True, _ASK_AGAIN
        head = _read_exactly(process.stdout, LENGTH.size, deadline)
        if head is None:
            return None
        (length,) = LENGTH.unpack(head)
        if length > _MOST_ANSWER:
            return None
        return _read_exactly(process.stdout, length, deadline)


def _set_niceness(pid: int, niceness: int) -> bool:
    """Did the priority change?"""
    try:
        os.setpriority(os.PRIO_PROCESS, pid, niceness)
    except OSError:
        return False
    return True


def _is_ready(pipe: IO[bytes], seconds: float) -> bool:
    poll = select.poll()
    poll.register(pipe.fileno(), select.POLLIN | select.POLLHUP)
    return bool(poll.poll(seconds * 1000))


def _environment() -> dict[str, str]:
    """Where structgen is imported from here it is found there, too; one thread is enough."""
    paths = [path for path in sys.path if path]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _write_all(pipe: IO[bytes], data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(pipe.fileno(), view) :]


def _read_exactly(pipe: IO[bytes], length: int, deadline: float) -> bytes | None:
    parts = bytearray()
    while len(parts) < length:
        if not _is_ready(pipe, max(0.0, deadline - monotonic())):
            raise TimeoutError
        data = os.read(pipe.fileno(), min(1 << 20, length - len(parts)))
        if not data:
            return None
        parts += data
    return bytes(parts)
