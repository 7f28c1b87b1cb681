"""A child process that exchanges lines of JSON with its parent over its standard input and output.

Why: evaluation, fuzzing and benchmarks run engines that may crash, hang or use up all memory. Each of them watches its
worker by its own limits; starting, talking, measuring and ending the worker is the same for all, and lives here.
Invariant: the child's standard error goes to a temporary file, so a child that writes much never blocks.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import IO, Any

from .polling import is_readable
from .spawn import end_process
from .usage import ProcessUsage, read_usage

__all__ = ["LineProcess", "describe_exit"]

_READ_BYTES = 1 << 20


class LineProcess:
    """One child process at a time; used by one thread, except for `interrupt`."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        own_session: bool = False,
        most_bytes: int | None = None,
    ) -> None:
        """Describe the child; `start` starts it.

        Args:
            command: The program and its arguments.
            environment: The child's environment variables; None is the parent's.
            folder: The child's working directory.
            own_session: Start the child in a session of its own, so that Ctrl-C reaches only the parent.
            most_bytes: Upper bound of the bytes of unread output; more counts as the end of the output.
        """
        self._command, self._environment, self._folder = list(command), environment, folder
        self._own_session, self._most_bytes = own_session, most_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._unread = bytearray()

    @property
    def is_started(self) -> bool:
        """Whether there is a child that has not been ended by `kill` or `close`. It may have ended by itself."""
        return self._process is not None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the child. The previous one must have been ended."""
        if self._errors is None:
            self._errors = tempfile.TemporaryFile("ab+")  # noqa: SIM115  (`close` closes it)
        self._unread.clear()
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
            cwd=self._folder,
            env=None if self._environment is None else dict(self._environment),
            start_new_session=self._own_session,
        )

    def send(self, line: str) -> None:
        """Write one line. Raises `OSError` if the child has ended."""
        pipe = self._child.stdin
        assert pipe is not None
        view = memoryview(line.encode() + b"\n")
        while view:
            view = view[os.write(pipe.fileno(), view) :]

    def next_line(self, seconds: float) -> dict[str, Any] | None:
        """Return the next line that the child writes, as the JSON object that it holds.

        Args:
            seconds: How long to wait for output.

        Returns:
            The object; None if no whole line has come in that time.

        Raises:
            EOFError: The child has closed its output, or has written more than `most_bytes` without a line's end.
        """
        deadline = monotonic() + seconds
        line = self._unread_line()
        while line is None:
            pipe = self._child.stdout
            assert pipe is not None
            if not is_readable(pipe, max(0.0, deadline - monotonic())):
                return None
            data = os.read(pipe.fileno(), _READ_BYTES)
            self._unread += data
            if not data or (self._most_bytes is not None and len(self._unread) > self._most_bytes):
                raise EOFError
            line = self._unread_line()
            if line is None and monotonic() > deadline:  # a child that never ends its line
                return None
        content = json.loads(line)
        assert isinstance(content, dict)
        return content

    def usage(self) -> ProcessUsage:
        """Return the CPU time, memory and state of the child."""
        return ProcessUsage() if self._process is None else read_usage(self._process.pid)

    def wait(self, seconds: float | None = None) -> int:
        """Wait until the child has ended, and return its exit code. Raises `subprocess.TimeoutExpired`."""
        return self._child.wait(seconds)

    def error_output(self, most_bytes: int) -> str:
        """Return the end of what the child wrote to its standard error."""
        if self._errors is None:
            return ""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - most_bytes))
        return self._errors.read(most_bytes).decode("utf-8", "replace")

    def clear_error_output(self) -> None:
        """Forget what the child has written to its standard error so far."""
        if self._errors is not None:
            self._errors.truncate(0)

    def send_signal(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    def interrupt(self) -> None:
        """Kill the child, from any thread. Its output then ends."""
        process = self._process
        if process is not None:
            process.kill()

    def kill(self) -> None:
        """Kill the child, and wait until it has ended."""
        process, self._process = self._process, None
        if process is not None:
            end_process(process)

    def close(self) -> None:
        """Kill the child and discard its error output."""
        self.kill()
        errors, self._errors = self._errors, None
        if errors is not None:
            errors.close()

    @property
    def _child(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def _unread_line(self) -> bytes | None:
        end = self._unread.find(b"\n")
        if end < 0:
            return None
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        return line


def describe_exit(code: int) -> str:
    """Return how a process with this exit code ended: the signal's name, or its exit status."""
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"
