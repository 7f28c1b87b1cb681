"""From a server's diagnostics to places in the text.

Invariant: ``0 <= start <= end <= len(text)``, in the server's order. Cost: one search of the line for each end.
Spec: Language Server Protocol 3.17, "Diagnostic".
"""

from __future__ import annotations

from typing import Any

from structgen.monitors.language_server.analysis import Diagnostic, Severity
from structgen.monitors.language_server.positions import Encoding, offset_of

__all__ = ["read_diagnostics"]

_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "information", "hint")
_TAGS = {1: "unnecessary", 2: "deprecated"}


def read_diagnostics(items: object, text: str, encoding: Encoding) -> tuple[Diagnostic, ...]:
    """Return the complaints in a text that a server lists.

    Raises:
        TypeError, ValueError, KeyError, AttributeError: the list breaks the protocol.
    """
    if not isinstance(items, list):
        raise TypeError("diagnostics are no list")
    return tuple(_read(item, text, encoding) for item in items)


def _read(item: dict[str, Any], text: str, encoding: Encoding) -> Diagnostic:
    first, last = (item["range"][end] for end in ("start", "end"))
    start = offset_of(text, first["line"], first["character"], encoding)
    end = offset_of(text, last["line"], last["character"], encoding)
    severity = item.get("severity")
    code = item.get("code")
    return Diagnostic(
        start=start,
        end=max(start, end),
        message=str(item["message"]),
        severity=_SEVERITIES[severity - 1] if isinstance(severity, int) and 1 <= severity <= 4 else "error",
        code="" if code is None else str(code),
        source=str(item.get("source") or ""),
        tags=frozenset(_TAGS[tag] for tag in item.get("tags") or () if tag in _TAGS),
    )
