"""What stands before the generated text, read as the generated text is: where one is asked at its beginning, and the
states that monitors are in there.

Why: a file that was opened in the document's beginning is open.
Cost: linear in the document's beginning; for monitors that keep a state also a copy of what stands before each name
that is written where they ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .languages import Language
from .monitor import Context, Monitor
from .scanning import Asking, Scan, Scanner

__all__ = ["Beginning", "Document"]


class Document(NamedTuple):
    """What is around the generated text."""

    before: bytes
    after: str
    path: Path | None
    language: Language
    before_text: str

    def context(self, asking: Asking, text: bytes, state: Any, scan: Scan) -> Context:
        """Of a place; `text` is what was generated so far, `scan` the state there or before."""
        whole = self.before[: asking.offset] + text[: max(0, asking.offset - len(self.before))]
        # Copied rather than decoded, where characters are bytes.
        is_before = asking.offset <= len(self.before) and self.before_text.isascii()
        document = self.before_text[: asking.offset] if is_before else whole.decode("utf-8", "replace")
        statement = (
            scan.statement if document.isascii() else len(whole[: scan.statement].decode("utf-8", "replace"))
        )
        return Context(
            place=asking.place,
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
    """Where the generated text begins."""

    scan: Scan
    states: tuple[Any, ...]
    """Of monitors."""
    failures: tuple[str, ...] = ()
    """Errors of monitors on the way; the state stayed what it was."""

    @classmethod
    def of(cls, document: Document, scanner: Scanner, monitors: Sequence[Monitor]) -> Beginning:
        """Read the document's beginning."""
        states = [monitor.state for monitor in monitors]
        keeping = {
            number for number, one in enumerate(monitors) if type(one).committed is not Monitor.committed
        }
        scan = scanner.start
        failures: list[str] = []
        for byte in document.before:
            at = scan
            scan, _, written = scanner.step(scan, byte)
            for one in written:
                number = one.asking.monitor
                if number not in keeping:
                    continue
                context = document.context(one.asking, b"", states[number], at)
                try:
                    states[number] = monitors[number].committed(context, one.name.decode("utf-8", "replace"))
                except Exception as error:
                    failures.append(f"{type(error).__name__}: {error!s:.120}")
        return cls(scan, tuple(states), tuple(failures))
