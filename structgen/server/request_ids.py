"""Request ids: a name for each request that its client and the log of the server have in common.

What: `RequestIds` gives each request an id and sends it back in the header ``x-request-id``. A client may send an id of
its own in that header. It is used if it is a short printable token, so that a client cannot write what it likes into
the log. `report_failure` writes the cause of a response with a status of 500 or more to the log, with the id.
Invariant: the log gets no prompt, no answer and no key. An error whose message quotes one of them has another text for
the log (`ApiError.log_message`).
"""

from __future__ import annotations

import logging
import re
import secrets
from contextvars import ContextVar
from typing import Any

__all__ = ["REQUEST_ID_HEADER", "RequestIds", "new_request_id", "report_failure", "request_id"]

logger = logging.getLogger(__name__)

REQUEST_ID_HEADER = "x-request-id"
_OF_CLIENT = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:+/=-]{0,63}")
"""Matches the ids of clients that are used: they cannot be mistaken for other parts of a log line."""
_current: ContextVar[str | None] = ContextVar("structgen_request_id", default=None)


def request_id() -> str | None:
    """Return the id of the request that is being handled; None outside of requests."""
    return _current.get()


def report_failure(status: int, cause: str, *, code: str | None = None) -> None:
    """Write the cause of a response with a status of 500 or more to the log.

    Args:
        status: The status. 500 is a fault of the server, and is logged as an error. The others are warnings.
        cause: What happened, in one line or several.
        code: The name of the error for programs.
    """
    level = logging.ERROR if status == 500 else logging.WARNING
    named = f" {code}" if code else ""
    logger.log(level, "request %s: status %d%s: %s", request_id() or "-", status, named, cause)


class RequestIds:
    """Middleware that gives each request an id, and its response the header with it."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one request of the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        identity = _id_of(scope)

        async def with_header(message: Any) -> None:
            if message["type"] == "http.response.start":
                header = (REQUEST_ID_HEADER.encode(), identity.encode())
                message = {**message, "headers": [*message.get("headers", ()), header]}
            await send(message)

        token = _current.set(identity)
        try:
            await self._app(scope, receive, with_header)
        finally:
            _current.reset(token)


def _id_of(scope: Any) -> str:
    """Return the id that the client sent, or a new one."""
    given = [value for name, value in scope["headers"] if name == REQUEST_ID_HEADER.encode()]
    if len(given) == 1 and _OF_CLIENT.fullmatch(given[0]):
        sent: str = given[0].decode()
        return sent
    return new_request_id()


def new_request_id() -> str:
    """Return a new id, for a request whose client sent none."""
    return f"req-{secrets.token_hex(8)}"
