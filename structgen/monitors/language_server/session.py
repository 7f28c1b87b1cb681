"""A server from its start to its end: initialised, restarted when it crashes, closed politely.

Why: a query should not have to know whether the server runs yet, or again.
Invariant: at most one process at a time; after a crash the next start waits (0.1 s, then twice as long each time), and
after `restarts` starts beyond the first the server is given up, which answers everything with "unknown"; 100 answers
earn one of them again. Faults go into `health`. Used in the background loop only.
Cost: the start of a server is milliseconds (ty, zuban), 70 ms (tsgo) to seconds (pyright); the first answer of each is
slower than the next, since it reads the project.
Spec: Language Server Protocol 3.17, "Server lifecycle".
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from structgen.monitors.language_server.capabilities import initialize_parameters, replies
from structgen.monitors.language_server.connection import Connection, Ended, Refused
from structgen.monitors.language_server.documents import Documents, sync_kind
from structgen.monitors.language_server.health import Health
from structgen.monitors.language_server.positions import ENCODINGS, Encoding
from structgen.monitors.language_server.process import ServerProcess
from structgen.monitors.language_server.pushes import Pushes

__all__ = ["Ready", "Session", "Start"]

_BACK_OFF_SECONDS = 0.1
_EARNED_BY = 100
_INITIALIZE_SECONDS = 120.0
_POLITE_SECONDS = 0.5
"""Seconds for `shutdown`, and again for `exit`, before the server is killed."""


@dataclass(frozen=True, slots=True)
class Start:
    """How a server is started."""

    command: Sequence[str]
    project: Path
    environment: Mapping[str, str] | None = None
    options: Any = None
    """``initializationOptions``."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What it gets when it requests its configuration, by section."""
    restarts: int = 3


class Ready:
    """An initialised server: its connection, and the capabilities of both sides."""

    def __init__(self, connection: Connection, capabilities: Mapping[str, Any], pushes: Pushes) -> None:
        encoding = capabilities.get("positionEncoding", "utf-16")
        if encoding not in ENCODINGS:
            raise ValueError(f"chose the position encoding {encoding!r:.40}, which was not offered")
        self.connection = connection
        self.capabilities = capabilities
        self.encoding: Encoding = encoding
        self.documents = Documents(connection, encoding, sync_kind(capabilities.get("textDocumentSync")))
        self.pushes = pushes
        self.is_warm = False
        """Whether it has answered a query about a document."""
        self.missed = 0
        """Missed deadlines in a row without any message."""
        self.received_before = 0

    def can(self, capability: str) -> bool:
        """Return whether the server has a provider: "completionProvider"."""
        return self.capabilities.get(capability) not in (None, False)


class Session:
    """The server, whether it runs or not; `ready` gives it once it does."""

    def __init__(self, start: Start, health: Health) -> None:
        self.start = start
        self.health = health
        self._connection: Connection | None = None
        self._ready: asyncio.Future[Ready] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._left = start.restarts
        self._answers = 0
        self._failures = 0
        self.is_closed = False

    def begin(self) -> None:
        """Start the server in the background, unless that has been done."""
        if self._starting is None and not self.is_closed:
            self._ready = asyncio.get_running_loop().create_future()
            self._starting = asyncio.create_task(self._run())

    async def ready(self) -> Ready:
        """Return the initialised server, as soon as it is.

        Raises:
            Ended: The server has ended, and no further one will start.
        """
        self.begin()
        if self._ready is None:
            raise Ended("closed", "queried after it was closed")
        while True:
            ready = await asyncio.shield(self._ready)
            if ready.connection.end is None:
                return ready
            await ready.connection.wait_until_ended()
            if self._ready.done() and not self._ready.exception() and self._ready.result() is ready:
                raise ready.connection.end  # closed: nothing comes after it

    @property
    def is_warm(self) -> bool:
        """Whether the server runs and has answered a query."""
        ready = self._ready
        return ready is not None and ready.done() and ready.exception() is None and ready.result().is_warm

    def files_changed(self, paths: Sequence[Path]) -> None:
        """Notify the server of changed files; a server that does not run yet reads them when it starts."""
        changes = []
        for path in paths:
            # an existing file is reported as created and as changed, since the server may or may not know it
            changes += [{"uri": path.as_uri(), "type": kind} for kind in ((1, 2) if path.exists() else (3,))]
        if self._connection is not None and self._ready is not None and self._ready.done():
            with contextlib.suppress(Ended):
                self._connection.notify("workspace/didChangeWatchedFiles", {"changes": changes})

    def earn(self) -> None:
        """Count an answer; enough of them earn a restart."""
        self._answers += 1
        self._failures = 0
        if self._answers % _EARNED_BY == 0:
            self._left = min(self._left + 1, self.start.restarts)

    async def _run(self) -> None:
        """Start the server until it works or no more starts are allowed."""
        assert self._ready is not None
        waiting = self._ready
        while True:
            try:
                waiting.set_result(await self._start_once())
            except Ended as end:
                self._record(end)
            except (OSError, Refused, KeyError, TypeError, ValueError, AttributeError) as error:
                self._record(Ended("start", f"{' '.join(self.start.command)}: {error}"))
            else:
                return
            if not self._may_restart():
                last = Ended("given up", f"started {self.start.restarts + 1} times, the last in vain")
                self._record(last)
                waiting.set_exception(last)
                waiting.exception()  # there may be no waiter
                return
            await asyncio.sleep(_BACK_OFF_SECONDS * 2 ** min(self._failures, 6))
            self._failures += 1
            self.health.restart()

    async def _start_once(self) -> Ready:
        process = await ServerProcess.start(self.start.command, self.start.project, self.start.environment)
        pushes = Pushes()
        connection = Connection(
            process, replies(self.start.project, self.start.settings), pushes.on_notification, self._ended
        )
        self._connection = connection
        parameters = initialize_parameters(self.start.project, self.start.options, os.getpid())
        try:
            async with asyncio.timeout(_INITIALIZE_SECONDS):
                result = await connection.request("initialize", parameters)
            capabilities = result["capabilities"]
            ready = Ready(connection, capabilities, pushes)
            connection.notify("initialized", {})
            if self.start.settings:
                connection.notify("workspace/didChangeConfiguration", {"settings": self.start.settings})
        except BaseException as error:
            self._connection = None
            await connection.close()
            if isinstance(error, TimeoutError):
                raise Ended("hang", f"was not initialised within {_INITIALIZE_SECONDS:.0f} s") from None
            raise
        return ready

    def _may_restart(self) -> bool:
        self._left -= 1
        return self._left >= 0 and not self.is_closed

    async def _ended(self, end: Ended) -> None:
        """Handle the end of a connection: after a crash the next start begins at once, so that it is soon warm."""
        if self.is_closed or self._connection is None or self._ready is None or not self._ready.done():
            return  # closed, or it ended in `_start_once`, which reports it
        self._connection = None
        self._record(end)
        self._ready = asyncio.get_running_loop().create_future()
        if self._may_restart():
            self._starting = asyncio.create_task(self._again())
        else:
            last = Ended("given up", f"ended {self.start.restarts + 1} times")
            self._record(last)
            self._ready.set_exception(last)
            self._ready.exception()

    async def _again(self) -> None:
        await asyncio.sleep(_BACK_OFF_SECONDS * 2 ** min(self._failures, 6))
        self._failures += 1
        self.health.restart()
        await self._run()

    def _record(self, end: Ended) -> None:
        self.health.fault(end.reason, str(end))

    async def close(self, politely: bool = True) -> None:
        """Shut the server down; kill it if it does not end, or at once unless `politely`."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._starting
        connection, self._connection = self._connection, None
        if connection is not None and politely:
            with contextlib.suppress(Ended, Refused, TimeoutError):
                async with asyncio.timeout(_POLITE_SECONDS):
                    await connection.request("shutdown")
                connection.notify("exit")
                async with asyncio.timeout(_POLITE_SECONDS):
                    await connection.process.wait()
        if connection is not None:
            await connection.close()
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(Ended("closed", "was closed"))
            self._ready.exception()
