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
from time import monotonic
from typing import IO, Any

from structgen.errors import LimitExceeded, StructgenError
from structgen.vocabulary import Vocabulary

from .requests import Kind, RequestLimits
from .trial import Trial
from .worker import LENGTH, vocabulary_parts

__all__ = ["WorkerProcess"]

_START_SECONDS = 120.0
_MOST_ANSWER = 256 << 20
_COMMAND = [sys.executable, "-c", "from structgen.serving.worker import main; main()"]


class WorkerProcess:
    """One worker; used by one thread at a time."""

    def __init__(self, vocabulary: Vocabulary, limits: RequestLimits) -> None:
        self._hello = pickle.dumps((vocabulary_parts(vocabulary), limits), pickle.HIGHEST_PROTOCOL)
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self) -> None:
        """Starts the process if it does not run. Raises `LimitExceeded` where it does not get ready."""
        if self._process is not None and self._process.poll() is None:
            return
        self._process = subprocess.Popen(
            _COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=_environment()
        )
        self.starts += 1
        try:
            ready = self._exchange(self._hello, _START_SECONDS)
        except TimeoutError:
            ready = b""
        if ready != b"ready":
            self.kill()
            raise LimitExceeded("the process that compiles constraints does not start", limit="worker")

    def ask(self, kind: Kind, spec: Any) -> Trial:
        """The trial of a spec. Raises the error that it met, or `LimitExceeded` for time or memory."""
        self.start()
        try:
            answer = self._exchange(pickle.dumps((kind, spec)), self._limits.compile_seconds)
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

    def _exchange(self, data: bytes, seconds: float) -> bytes | None:
        """The answer to a frame; None if the process ended."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        deadline = monotonic() + seconds
        _write_all(self._process.stdin, LENGTH.pack(len(data)) + data)
        head = _read_exactly(self._process.stdout, LENGTH.size, deadline)
        if head is None:
            return None
        (length,) = LENGTH.unpack(head)
        if length > _MOST_ANSWER:
            return None
        return _read_exactly(self._process.stdout, length, deadline)


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
    poll = select.poll()
    poll.register(pipe.fileno(), select.POLLIN | select.POLLHUP)
    while len(parts) < length:
        left = deadline - monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise TimeoutError
        data = os.read(pipe.fileno(), min(1 << 20, length - len(parts)))
        if not data:
            return None
        parts += data
    return bytes(parts)
