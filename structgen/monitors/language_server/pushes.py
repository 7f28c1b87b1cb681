"""Diagnostics that a server pushes, for servers that do not answer requests for them.

Invariant: `wait` gives the diagnostics of the version that was sent, or of a later one; from a server that names no
version, the next ones that arrive after the text was sent (which may still be about the text before: such servers leave
no way to know). Used in the background loop only. Cost: the last list of each document is kept.
Spec: Language Server Protocol 3.17, "PublishDiagnostics Notification".
"""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["Pushes"]

_KEPT = 256


class Pushes:
    """The last diagnostics of each document."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int | None, Any, int]] = {}
        self._waiting: dict[str, list[asyncio.Event]] = {}
        self._count = 0
        self._told: dict[str, tuple[int, int]] = {}

    def on_notification(self, method: str, parameters: object) -> None:
        """Called for each notification; only diagnostics matter."""
        if method != "textDocument/publishDiagnostics" or not isinstance(parameters, dict):
            return
        uri, version = parameters.get("uri"), parameters.get("version")
        if not isinstance(uri, str):
            return
        self._count += 1
        self._last.pop(uri, None)
        self._last[uri] = (
            version if isinstance(version, int) else None,
            parameters.get("diagnostics"),
            self._count,
        )
        if len(self._last) > _KEPT:
            del self._last[next(iter(self._last))]
        for event in self._waiting.pop(uri, ()):
            event.set()

    def on_text_sent(self, uri: str, version: int) -> None:
        """Called after a text was sent; earlier diagnostics are not about it."""
        if self._told.get(uri, (0, 0))[0] != version:
            self._told[uri] = version, self._count
            if len(self._told) > _KEPT:
                del self._told[next(iter(self._told))]

    async def wait(self, uri: str, version: int) -> Any:
        """Return the list of diagnostics of a version that was sent to the server."""
        while True:
            last = self._last.get(uri)
            if last is not None:
                is_later = last[2] > self._told.get(uri, (0, 0))[1]
                if last[0] >= version if last[0] is not None else is_later:
                    return last[1]
            event = asyncio.Event()
            self._waiting.setdefault(uri, []).append(event)
            await event.wait()
