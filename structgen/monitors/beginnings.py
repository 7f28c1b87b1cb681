"""Read the document before the generated text with the same scanner, to find queries at its end and states of monitors.

Why: a file that the document opened before the generated text is open.
Cost: linear in that text; for monitors that keep a state also a copy of what stands before each name at a trigger.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .languages import Language
from .monitor import Context, Monitor
from .scanning import Query, Scan, Scanner

__all__ = ["Beginning", "Document"]


class Document(NamedTuple):
    """The document around the generated text."""

    before: bytes
    after: str
    path: Path | None
    language: Language
    before_text: str

    def context(self, query: Query, text: bytes, state: object, scan: Scan) -> Context:
        """Return the context of a query; `text` was generated so far, `scan` is the state there or before."""
        whole = self.before[: query.offset] + text[: max(0, query.offset - len(self.before))]
        # Where characters are bytes, the text is copied instead of decoded.
        is_before = query.offset <= len(self.before) and self.before_text.isascii()
        document = self.before_text[: query.offset] if is_before else whole.decode("utf-8", "replace")
        statement = (
            scan.statement if document.isascii() else len(whole[: scan.statement].decode("utf-8", "replace"))
        )
        return Context(
            place=query.place,
            text=document,
            after=self.after,
            path=self.path,
            generated=max(0, len(document) - len(self.before_text)),
            arguments=scan.lexed.arguments,
            statement=statement,
            state=state,
            language=self.language,
        )


class Beginning(NamedTuple):
    """The states of scanner and monitors where the generated text begins."""

    scan: Scan
    states: tuple[Any, ...]
    """States of the monitors."""
    failures: tuple[str, ...] = ()
    """Errors of monitors on the way; their states stayed the same."""

    @classmethod
    def of(cls, document: Document, scanner: Scanner, monitors: Sequence[Monitor]) -> Beginning:
        """Read the document up to the generated text."""
        states = [monitor.state for monitor in monitors]
        keeping = {
            number
            for number, monitor in enumerate(monitors)
            if type(monitor).committed is not Monitor.committed
        }
        scan = scanner.start
        failures: list[str] = []
        for byte in document.before:
            before = scan
            scan, _, written = scanner.step(scan, byte)
            for name in written:
                number = name.query.monitor
                if number not in keeping:
                    continue
                context = document.context(name.query, b"", states[number], before)
                try:
                    states[number] = monitors[number].committed(context, name.name.decode("utf-8", "replace"))
                except Exception as error:  # noqa: BLE001 — a monitor may raise anything
                    failures.append(f"{type(error).__name__}: {error!s:.120}")
        return cls(scan, tuple(states), tuple(failures))
