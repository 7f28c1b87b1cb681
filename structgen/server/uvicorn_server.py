"""The application under uvicorn, until it is told to stop.

The first SIGTERM or SIGINT drains: new requests get the status 503, `/health` says so, and running ones are answered;
when none is left the server ends. Those that are not answered within `drain_seconds` are told so with the status 503,
or as the last event of their stream. A second signal ends the process at once. So does the time: what does not end
within `_END_SECONDS` after that, for whatever fault, is ended by the system.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

from structgen._sandbox.child import freeze_heap
from structgen.errors import ModelError, StructgenError
from structgen.extras import needed

from .app import make_app
from .connections import guarded
from .service import Service

with needed("the server", extra="server"):
    import uvicorn

__all__ = ["config_of", "serve", "wait_until_ready"]

_KEEP_ALIVE = 30
_LOOK = 0.05
_TELL_SECONDS = 5.0
"""For telling those who are not answered in time."""
_END_SECONDS = 30.0
"""For all threads to end, once everybody has been answered or told."""


def serve(
    service: Service,
    sockets: list[socket.socket],
    *,
    say: Callable[[str], None] = lambda text: None,
    log_level: str = "warning",
) -> int:
    """Answer until a signal comes; the exit status. Raises `ModelError` where no constraint could be compiled."""
    wait_until_ready(service)
    _Server(config_of(service, log_level), service, say).run(sockets)
    return 0


def wait_until_ready(service: Service) -> None:
    """Wait for a process that compiles constraints. Raises `ModelError` where none starts, and closes the service."""
    try:
        service.compiler.wait_until_ready()
    except (StructgenError, OSError) as error:
        service.close()
        raise ModelError(
            f"the server cannot start: {getattr(error, 'message', error)}",
            hint="What the process wrote above says why. `structgen doctor` checks the installation.",
        ) from error


def config_of(service: Service, log_level: str = "warning") -> uvicorn.Config:
    """How uvicorn serves the application."""
    return uvicorn.Config(
        make_app(service),
        http=guarded(service.settings),
        ws="none",
        log_level=log_level,
        access_log=log_level in ("info", "debug", "trace"),
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=int(service.settings.drain_seconds) + 1,
        server_header=False,
    )


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, service: Service, say: Callable[[str], None]) -> None:
        super().__init__(config)
        self._service, self._say = service, say
        self._draining: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Instead of uvicorn's, which would close the door before anybody could be told."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        freeze_heap()
        if not self.should_exit:
            self._say("ready")

    def _stop(self) -> None:
        if self._draining is not None:
            self._say("stopped at once")
            os._exit(1)
        self._service.is_draining = True
        running = self._service.open
        self._say(
            f"draining: {running} requests are being answered, for {self._service.settings.drain_seconds:g} s at most; "
            "another signal ends at once"
            if running
            else "stopping"
        )
        # subtle: a thread of C, which needs neither the interpreter nor the event loop.
        with contextlib.suppress(RuntimeError, OSError, ValueError):  # no one reads the standard error
            faulthandler.dump_traceback_later(
                self._service.settings.drain_seconds + _TELL_SECONDS + _END_SECONDS, exit=True
            )
        self._draining = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        clock: Any = asyncio.get_running_loop().time
        end = clock() + self._service.settings.drain_seconds
        while self._service.open and clock() < end:
            await asyncio.sleep(_LOOK)
        if self._service.open:
            self._say(f"{self._service.open} requests were not answered in time")
            # subtle: whoever waits for a text, or for a constraint, is told by these; uvicorn would just hang up.
            await asyncio.to_thread(self._service.close)
            end = clock() + _TELL_SECONDS
            while self._service.open and clock() < end:
                await asyncio.sleep(_LOOK)
            self.force_exit = bool(self._service.open)
        self.should_exit = True
