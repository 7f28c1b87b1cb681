"""What a server knows of the documents: which are open, at which version, with which text.

Why: a server answers about the text that it got last, so the text must be sent before each query, and cheaply:
generated text grows at its end, so an edit from the first difference on is small, where the server takes edits.
Invariant: after `send` the server's text is ours, and every other document is to it as it is on disk: what was
generated for one file and then dropped is no part of the project. Used in the background loop only.
Cost: a comparison with the last text, at the speed of `memcmp`, and the message: for an edit what is new, else all.
Spec: Language Server Protocol 3.17, "Text Document Synchronization".
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from structgen.monitors.language_server.connection import Connection
from structgen.monitors.language_server.positions import Encoding, position_of

__all__ = ["OPEN_LIMIT", "Documents", "SyncKind", "common_prefix", "sync_kind"]

OPEN_LIMIT = 1

SyncKind = int
"""0: a server that takes no changes (documents are closed and opened again), 1: whole texts, 2: edits."""


def sync_kind(capability: object) -> SyncKind:
    """Return what kind of changes a server takes, from ``capabilities.textDocumentSync``."""
    kind = capability.get("change", 0) if isinstance(capability, dict) else capability
    return kind if isinstance(kind, int) and 0 <= kind <= 2 else 0


def common_prefix(first: str, second: str) -> int:
    """Return how many characters two texts have in common from their beginning."""
    low, high = 0, min(len(first), len(second))
    if first[:high] == second[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle
    return low


@dataclass(slots=True)
class _Document:
    text: str
    version: int


class Documents:
    """The open documents of one connection."""

    def __init__(self, connection: Connection, encoding: Encoding, kind: SyncKind) -> None:
        self._connection = connection
        self._encoding = encoding
        self._kind = kind
        self._open: OrderedDict[str, _Document] = OrderedDict()
        self._versions = 0

    def send(self, uri: str, language: str, text: str) -> int:
        """Send the text to the server if it is new, and return its version.

        Raises:
            Ended: there is no connection.
        """
        document = self._open.get(uri)
        if document is not None and document.text == text:
            self._open.move_to_end(uri)
            return document.version
        # subtle: versions never repeat, so that an old list of diagnostics is never taken for a new one
        self._versions += 1
        if document is not None and self._kind == 0:
            self._close(uri)
            document = None
        if document is None:
            item = {"uri": uri, "languageId": language, "version": self._versions, "text": text}
            self._connection.notify("textDocument/didOpen", {"textDocument": item})
        else:
            change = self._edit(document.text, text) if self._kind == 2 else {"text": text}
            identifier = {"uri": uri, "version": self._versions}
            self._connection.notify(
                "textDocument/didChange", {"textDocument": identifier, "contentChanges": [change]}
            )
        self._open[uri] = _Document(text, self._versions)
        self._open.move_to_end(uri)
        while len(self._open) > OPEN_LIMIT:
            self._close(next(iter(self._open)))
        return self._versions

    def _close(self, uri: str) -> None:
        del self._open[uri]
        self._connection.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def _edit(self, old: str, new: str) -> dict[str, Any]:
        """Return the change of everything from the first difference on."""
        start = common_prefix(old, new)
        if start and old[start - 1] == "\r":
            start -= 1  # subtle: there may be no position between \r and \n
        first, last = (position_of(old, offset, self._encoding) for offset in (start, len(old)))
        return {
            "range": {
                "start": {"line": first[0], "character": first[1]},
                "end": {"line": last[0], "character": last[1]},
            },
            "text": new[start:],
        }
