"""Run the application under uvicorn until a signal stops it.

The first SIGTERM or SIGINT drains the server: new requests get the status 503, `/health` reports it, and running
requests are answered. The server ends after the last one. Requests that are not answered within `drain_seconds` get the
status 503, or an error as the last event of their stream. A second signal ends the process at once. The system also
ends it if it is still running `_END_SECONDS` later, for example because a thread hangs.
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
from structgen.serving.temporary_errors import WorkerUnavailable

from .app import make_app
from .connections import guarded
from .logs import configure_logs
from .service import Service

with needed("the server", extra="server"):
    import uvicorn

__all__ = ["config_of", "serve", "wait_until_ready"]

_KEEP_ALIVE = 30
_POLL_SECONDS = 0.05
_REFUSE_SECONDS = 5.0
"""Time to send errors to clients that are not answered in time."""
_END_SECONDS = 30.0
"""Time for all threads to end after all clients have got a response."""


def serve(
    service: Service,
    sockets: list[socket.socket],
    *,
    say: Callable[[str], None] = lambda text: None,
    log_level: str = "warning",
) -> int:
    """Serve until a signal arrives.

    Args:
        service: The service, which is closed in the end.
        sockets: Sockets that are bound to an address.
        say: Prints a status line.
        log_level: The lowest level that is logged; "info" logs every request.

    Returns:
        The exit status, 0.

    Raises:
        ModelError: No process that compiles constraints starts; the message says why.
    """
    configure_logs(log_level)
    wait_until_ready(service)
    _Server(config_of(service, log_level), service, say).run(sockets)
    return 0


def wait_until_ready(service: Service) -> None:
    """Check the processes for constraints. If none compiles constraints, close the service and raise `ModelError`."""
    try:
        service.compiler.check_processes()
    except (StructgenError, OSError) as error:
        service.close()
        cause = error.cause if isinstance(error, WorkerUnavailable) else str(error)
        raise ModelError(
            f"the server cannot start: {cause}",
            hint="What the process wrote above says more. `structgen doctor` checks the installation.",
        ) from error


def config_of(service: Service, log_level: str = "warning") -> uvicorn.Config:
    """Return uvicorn's configuration for a service."""
    return uvicorn.Config(
        make_app(service),
        http=guarded(service.settings),
        ws="none",
        log_level=log_level,
        access_log=False,  # the application writes its own, with request ids
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
        """Replaces uvicorn's method, which would close the socket before clients could get an error."""
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
        # subtle: this timer is a C thread, which needs neither the interpreter nor the event loop.
        with contextlib.suppress(RuntimeError, OSError, ValueError):  # the standard error is closed
            faulthandler.dump_traceback_later(
                self._service.settings.drain_seconds + _REFUSE_SECONDS + _END_SECONDS, exit=True
            )
        self._draining = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        clock: Any = asyncio.get_running_loop().time
        end = clock() + self._service.settings.drain_seconds
        while self._service.open and clock() < end:
            await asyncio.sleep(_POLL_SECONDS)
        if self._service.open:
            self._say(f"{self._service.open} requests were not answered in time")
            # subtle: closing the service sends errors to waiting clients; uvicorn would only close their connections.
            await asyncio.to_thread(self._service.close)
            end = clock() + _REFUSE_SECONDS
            while self._service.open and clock() < end:
                await asyncio.sleep(_POLL_SECONDS)
            self.force_exit = bool(self._service.open)
        self.should_exit = True
