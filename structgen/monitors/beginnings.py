"""What stands before the generated text, read as the generated text is: where one is asked at its beginning, and the
states that monitors are in there.

Why: a file that was opened in the document's beginning is open.
Cost: linear in the document's beginning; contexts are made only for monitors that keep a state.
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
    characters: int
    """Of `before`."""

    def context(self, asking: Asking, text: bytes, state: Any, scan: Scan) -> Context:
        """Of a place; `text` is what was generated so far, `scan` the state there or before."""
        whole = self.before[: asking.offset] + text[: max(0, asking.offset - len(self.before))]
        document = whole.decode("utf-8", "replace")
        return Context(
            place=asking.place,
            text=document,
            after=self.after,
            path=self.path,
            generated=max(0, len(document) - self.characters),
            arguments=scan.lexed.arguments,
            statement=len(whole[: scan.statement].decode("utf-8", "replace")),
            state=state,
            language=self.language,
        )


class Beginning(NamedTuple):
    """Where the generated text begins."""

    scan: Scan
    states: tuple[Any, ...]
    """Of monitors."""

    @classmethod
    def of(cls, document: Document, scanner: Scanner, monitors: Sequence[Monitor]) -> Beginning:
        """Read the document's beginning."""
        states = [monitor.state for monitor in monitors]
        keeping = {
            number for number, one in enumerate(monitors) if type(one).committed is not Monitor.committed
        }
        scan = scanner.start
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
                except Exception:  # as in the generated text, the state stays what it was
                    continue
        return cls(scan, tuple(states))
