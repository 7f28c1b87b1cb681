"""Limits on connections: how many are open, and how long one may be silent.

Why: a connection costs its client nothing. Hundreds of silent ones must not keep the other clients out.
What: `guarded` returns uvicorn's protocol with two time limits: `header_seconds` for a request header to arrive, and
`unread_seconds` during which a client reads nothing of its answer. Beyond `max_connections`, or
`max_client_connections` from one address, the oldest connection without a complete request is closed, of the client
that has most. If all connections have complete requests, the new one may request the open paths (``/health``) only.
Invariant: at most one connection more than `max_connections` is open.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from structgen.extras import needed

from .errors import ApiError
from .paths import OPEN_PATHS, path_in_app
from .request_ids import REQUEST_ID_HEADER, RequestIds, new_request_id
from .settings import ServerSettings

with needed("the server", extra="server"):
    import h11
    from fastapi.responses import JSONResponse
    from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Connections", "guarded"]

_CLOSE_SECONDS = 5.0
"""Time for a client to read what was sent before its connection is closed."""
_OTHER_FILES = 256
"""File descriptors for the rest of the server."""


class Connections:
    """The open connections, oldest first."""

    def __init__(self, most: int, most_of_client: int) -> None:
        self._most, self._most_of_client = most, most_of_client
        self._open: dict[Any, str] = {}
        """The address of the client of each connection."""
        self._of: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, connection: Any, client: str) -> bool:
        """Add a connection. Closes an idle one if there are too many; returns False if none is idle."""
        if self._of[client] >= self._most_of_client:
            has_place = self._make_room([client])
        elif len(self._open) >= self._most:
            has_place = self._make_room([other for other, _ in self._of.most_common()])
        else:
            has_place = True
        self._open[connection] = client
        self._of[client] += 1
        return has_place

    def leave(self, connection: Any) -> None:
        """Remove a connection that was closed."""
        client = self._open.pop(connection, None)
        if client is not None:
            self._of[client] -= 1
            if not self._of[client]:
                del self._of[client]

    def _make_room(self, clients: list[str]) -> bool:
        for client in clients:
            for connection, its in self._open.items():
                if its == client and connection.is_idle:
                    self.leave(connection)
                    connection.cut()
                    return True
        return False


def most_connections(settings: ServerSettings) -> int:
    """Return `max_connections`, or less where the process may open fewer files."""
    try:
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    except (ImportError, OSError, ValueError):
        return settings.max_connections
    if soft == resource.RLIM_INFINITY:
        return settings.max_connections
    return max(16, min(settings.max_connections, soft - _OTHER_FILES))


class _GuardedProtocol(H11Protocol):
    """One connection, with the limits of its server; `guarded` sets the attributes of the class."""

    settings_of_server: ServerSettings
    connections_of_server: Connections
    _header_timer: asyncio.TimerHandle | None = None
    _unread_timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Return whether no complete request is being answered."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if not self.connections_of_server.enter(self, self.client[0] if self.client else ""):
            self.app = _open_paths_alone(self.app)
        self._await_header()

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections_of_server.leave(self)
        self._stop_header_timer()
        self._stop_unread_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_header_timer()
        elif self._header_timer is None:
            self._await_header()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread_timer is None:
            self._unread_timer = self.loop.call_later(self.settings_of_server.unread_seconds, self.cut)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_unread_timer()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, like uvicorn, but with a request id."""
        headers = [
            (b"Content-Type", b"text/plain; charset=utf-8"),
            (b"Connection", b"close"),
            (REQUEST_ID_HEADER.encode(), new_request_id().encode()),
        ]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=msg.encode("ascii")),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self.loop.call_later(_CLOSE_SECONDS, self.cut)

    def cut(self) -> None:
        """Close the connection at once, without sending what is left."""
        self.transport.abort()

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _stop_unread_timer(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _await_header(self) -> None:
        self._header_timer = self.loop.call_later(self.settings_of_server.header_seconds, self._give_up)

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(_too_late())
            self.transport.close()
        self.loop.call_later(_CLOSE_SECONDS, self.cut)


def _too_late() -> bytes:
    """Return the response to a header that did not arrive in time; no application has seen the request."""
    identity = f"{REQUEST_ID_HEADER}: {new_request_id()}"
    return f"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n{identity}\r\nContent-Length: 0\r\n\r\n".encode()


def guarded(settings: ServerSettings) -> type[_GuardedProtocol]:
    """Return uvicorn's protocol with the connection limits of `settings`."""

    class Guarded(_GuardedProtocol):
        settings_of_server = settings
        connections_of_server = Connections(most_connections(settings), settings.max_client_connections)

    return Guarded


def _open_paths_alone(app: Any) -> Callable[..., Any]:
    async def refused(scope: Any, receive: Any, send: Any) -> None:
        error = ApiError(429, "too many connections are open; try again later", code="too_many_connections")
        headers = {**error.headers, "Connection": "close"}
        await JSONResponse(error.body, error.status, headers)(scope, receive, send)

    async def answered(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and path_in_app(scope) not in OPEN_PATHS:
            await RequestIds(refused)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return answered
