"""A deadline for whole requests: connecting, sending, headers and body together.

Why: an HTTP client's time-out applies to one read. A server that sends one byte of its headers at a time could hold
such a client for hours.
Invariant: while a thread is `under` a deadline, no socket operation of the client waits past it, and each checks the
deadline before it starts. Only the system's name look-up is unbounded.
Cost: one comparison per operation.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import httpcore2
import httpx2

__all__ = ["timed_client", "under"]

_PIECE = 1 << 12
"""Bytes that are sent between two checks of the deadline."""
_thread = threading.local()


class _Deadline(Protocol):
    @property
    def left(self) -> float: ...

    def check(self) -> None: ...


@contextlib.contextmanager
def under(deadline: _Deadline) -> Iterator[None]:
    """Bound the operations of this thread by `deadline`."""
    before = getattr(_thread, "deadline", None)
    _thread.deadline = deadline
    try:
        yield
    finally:
        _thread.deadline = before


def timed_client() -> httpx2.Client:
    """Return a client that follows no redirects and obeys the deadline of `under`."""
    client = httpx2.Client(follow_redirects=False)
    # subtle: httpx2 has no option for a network backend, though httpcore2 takes one. Proxies have pools of their own.
    for transport in (client._transport, *client._mounts.values()):
        if transport is not None:
            pool: Any = transport._pool  # type: ignore[attr-defined]
            pool._network_backend = _Backend(pool._network_backend)
    return client


def _bounded(timeout: float | None) -> float | None:
    deadline: _Deadline | None = getattr(_thread, "deadline", None)
    if deadline is None:
        return timeout
    deadline.check()
    left = max(deadline.left, 0.001)  # 0 would mean "do not wait at all", with another error
    return left if timeout is None else min(timeout, left)


class _Backend(httpcore2.NetworkBackend):
    def __init__(self, inner: httpcore2.NetworkBackend) -> None:
        self._inner = inner

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        """Connect to the first address of the host that answers; each has its time-out, all have the deadline."""
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        last: Exception = httpcore2.ConnectError(f"{host} has no address")
        for address in dict.fromkeys(str(info[4][0]) for info in found):
            try:
                stream = self._inner.connect_tcp(
                    address, port, _bounded(timeout), local_address, socket_options
                )
                return _Stream(stream)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                last = error
        raise last

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.NetworkStream:
        return _Stream(self._inner.connect_unix_socket(path, _bounded(timeout), socket_options))

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(_bounded(seconds) or 0.0)


class _Stream(httpcore2.NetworkStream):
    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _bounded(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _PIECE):
            self._inner.write(buffer[start : start + _PIECE], _bounded(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, _bounded(timeout)))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
