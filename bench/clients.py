"""OpenAI's client for measurements: every failure counts, except a connection that was closed while it was idle.

Servers close idle connections (vLLM after five seconds). A request that is sent at that moment is lost before the
server reads it. The official client would send it again, but its retries are off here, because answers with status 429
and 500 must be visible. Without a second attempt such a request would count as failed.

Invariant: a request is sent again only if its connection ended before an answer started, and at most `RETRIES` times.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2

__all__ = ["RETRIES", "Resending", "client_of"]

RETRIES = 2
_IDLE_SECONDS = 4.0
"""Idle connections are not used again after this time, which is less than the five seconds of vLLM's server."""


class Resending(httpx2.AsyncBaseTransport):
    """Sends a request again if its connection was closed without an answer."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner
        self.sent_again = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        for _ in range(RETRIES):
            try:
                return await self._inner.handle_async_request(request)
            except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
                self.sent_again += 1
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


@contextlib.asynccontextmanager
async def client_of(
    url: str, api_key: str = "none", *, most: int = 1000, idle_seconds: float = _IDLE_SECONDS
) -> AsyncIterator[tuple[Any, Resending]]:
    """Yield the official client, without its own retries, and its transport. `most` limits its connections."""
    import openai

    limits = httpx2.Limits(
        max_connections=most, max_keepalive_connections=most, keepalive_expiry=idle_seconds
    )
    sending = Resending(httpx2.AsyncHTTPTransport(limits=limits))
    async with (
        httpx2.AsyncClient(transport=sending, timeout=900) as http,
        openai.AsyncOpenAI(
            base_url=url, api_key=api_key, max_retries=0, timeout=900, http_client=http
        ) as client,
    ):
        yield client, sending
