"""The process of a server: started in its own group, its errors read, killed with all that it started.

Why: servers are often a script that starts the real program (npm's are), so killing the process alone leaves the
program; and a server that fills the pipe of its standard error stops for ever if no one reads it. Invariant: after
`kill` has been awaited there is neither a process of the group nor a zombie of ours; `last_words` is what a person
needs to see of standard error. Cost: one fork; one reading task.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["ServerProcess"]

_LINES = 8
_LINE_LENGTH = 300
_BUFFER = 2**20
"""Bytes of output that may wait to be read, before the server has to."""
_REAP_SECONDS = 2.0
_LOOK_SECONDS = 0.25


class ServerProcess:
    """A running server; made by `start`, in the event loop that uses it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self._process = process
        self.stdin = process.stdin
        self.stdout = process.stdout
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._errors = asyncio.create_task(self._drain(process.stderr))
        self._watch = asyncio.create_task(self._end_of_group())

    @classmethod
    async def start(
        cls, command: Sequence[str], folder: Path, environment: Mapping[str, str] | None
    ) -> ServerProcess:
        """Start a command in a folder.

        Raises:
            OSError: it cannot be started.
        """
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=folder,
            env=None if environment is None else {**os.environ, **environment},
            limit=_BUFFER,
            start_new_session=True,
        )
        return cls(process)

    @property
    def pid(self) -> int:
        """The process's number, which is also that of its group."""
        return self._process.pid

    async def wait(self, look: float = 0.01) -> int:
        """Wait for the end, polling every `look` seconds, and return the exit status; negative for a signal."""
        # subtle: asyncio's own `wait` waits for the pipes too in some versions of Python, which a child of the server
        # may hold open, and keeps references to those who waited
        while self._process.returncode is None:
            await asyncio.sleep(look)
        return self._process.returncode

    async def _end_of_group(self) -> None:
        """Kill what the server started when it ends, so that its output ends and the reader notices."""
        await self.wait(_LOOK_SECONDS)
        self.kill_now()

    async def kill(self) -> int:
        """End the whole group at once, wait for the process, and return its exit status."""
        self.kill_now()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REAP_SECONDS):
                await self.wait()
                await self._errors
        self._errors.cancel()
        self._watch.cancel()
        self.stdin.close()
        # subtle: a grandchild that left the group may hold the pipes open; the transport would wait for it
        self._process._transport.close()  # type: ignore[attr-defined]
        return self._process.returncode if self._process.returncode is not None else -signal.SIGTERM

    def kill_now(self) -> None:
        """Send the signal without waiting; what the process left in its group gets it too."""
        kill_group = getattr(os, "killpg", None)
        with contextlib.suppress(OSError):
            if kill_group is not None:
                # subtle: not `self._process.kill`, which may reap the process before asyncio does
                kill_group(self.pid, signal.SIGKILL)
            elif self._process.returncode is None:
                self._process.kill()

    async def _drain(self, stream: asyncio.StreamReader) -> None:
        rest = b""
        while data := await stream.read(2**14):
            *lines, rest = (rest + data).split(b"\n")
            rest = rest[-_LINE_LENGTH:]
            self._note(lines)
        self._note([rest])

    def _note(self, lines: Sequence[bytes]) -> None:
        shown = (line[:_LINE_LENGTH].decode("utf-8", "replace").rstrip() for line in lines)
        self._lines.extend(line for line in shown if line)

    def last_words(self) -> str:
        """Return the last lines of its standard error, for a message; empty if it wrote nothing."""
        return "\n".join(self._lines)
