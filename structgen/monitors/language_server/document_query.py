"""One query about one document, at a server that is ready.

Invariant: the server gets the text right before the query about it, so no other text comes in between; if a server
reports that it was disturbed, the query is repeated, a few times.
Cost: see `Documents.send`. Used in the background loop only.
Spec: Language Server Protocol 3.17, "Text Documents" and the error codes of "Response Message".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from structgen.monitors.language_server.connection import CONTENT_MODIFIED, SERVER_CANCELLED, Refused
from structgen.monitors.language_server.positions import position_of
from structgen.monitors.language_server.session import Ready

__all__ = ["DocumentQuery", "language_of"]

_TRIES = 4
_LANGUAGES = {
    ".py": "python",
    ".pyi": "python",
    ".ts": "typescript",
    ".mts": "typescript",
    ".cts": "typescript",
    ".tsx": "typescriptreact",
    ".js": "javascript",
    ".mjs": "javascript",
    ".cjs": "javascript",
    ".jsx": "javascriptreact",
}


def language_of(path: Path, otherwise: str) -> str:
    """Return the protocol's name for the language of a document, by its suffix."""
    return _LANGUAGES.get(path.suffix, otherwise)


@dataclass(slots=True)
class DocumentQuery:
    """One query at a server that is ready; `is_sent` once the server has it."""

    ready: Ready
    uri: str
    language: str
    is_sent: bool = False

    async def request(self, method: str, text: str, more: Mapping[str, Any]) -> Any:
        """Return the server's answer about a text."""
        version = self.ready.documents.send(self.uri, self.language, text)
        self.ready.pushes.on_text_sent(self.uri, version)
        self.is_sent = True
        for _ in range(_TRIES - 1):
            try:
                return await self._request(method, more)
            except Refused as refused:
                if refused.code not in (CONTENT_MODIFIED, SERVER_CANCELLED):
                    raise
        return await self._request(method, more)

    async def request_at(self, method: str, text: str, offset: int, more: Mapping[str, Any]) -> Any:
        """Return the server's answer about an offset in a text."""
        line, column = position_of(text, offset, self.ready.encoding)
        return await self.request(method, text, {"position": {"line": line, "character": column}, **more})

    async def pushed(self, text: str) -> Any:
        """Return the diagnostics that the server pushes after it got a text."""
        version = self.ready.documents.send(self.uri, self.language, text)
        self.ready.pushes.on_text_sent(self.uri, version)
        self.is_sent = True
        return await self.ready.pushes.wait(self.uri, version)

    async def _request(self, method: str, more: Mapping[str, Any]) -> Any:
        return await self.ready.connection.request(method, {"textDocument": {"uri": self.uri}, **more})
