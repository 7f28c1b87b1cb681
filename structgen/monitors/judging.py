"""What is wrong with a finished text, by an analyser's diagnostics.

Why: names that exist are not yet a correct program; the diagnostics of a type checker say where to generate again.
Invariant: only faults that the generated text causes count: those in it, and those after it or around its beginning
that are not there without it.
Cost: one request for each finished text, and one for the document without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from typing import Any

from .futures import then
from .language_server import Analyser, Diagnostic
from .members import path_of
from .monitor import Context, Fault, Monitor

__all__ = ["DiagnosticsMonitor"]


class DiagnosticsMonitor(Monitor):
    """Judges finished texts by an analyser's diagnostics."""

    def __init__(
        self, analyser: Analyser, *, severities: Collection[str] = ("error",), ignore: Collection[str] = ()
    ) -> None:
        """Judge with `analyser`; `ignore`: codes of diagnostics that are not faults."""
        super().__init__(f"diagnostics ({analyser.name})")
        self.analyser = analyser
        self._severities = frozenset(severities)
        self._ignored = frozenset(ignore)
        self._without: dict[bytes, Future[Any]] = {}

    def faults(self, context: Context) -> Future[Any]:
        """Return the diagnostics that count, in their order."""
        path, start = path_of(context), len(context.text) - context.generated
        key = context.digest(start)
        before = self._without.get(key)
        if before is None or (before.done() and before.result() is None):
            before = self.analyser.diagnostics(path, context.document_at(start))
            self._without = {key: before}
        pending = self.analyser.diagnostics(path, context.document)
        known = before
        return then(pending, lambda diagnostics: self._caused(diagnostics, context, start, known))

    def _caused(
        self, diagnostics: Sequence[Diagnostic] | None, context: Context, start: int, before: Future[Any]
    ) -> list[Fault] | None:
        if diagnostics is None:
            return None
        # The analyser answers in order, so the earlier request has its answer.
        old = before.result() if before.done() else None
        left = Counter(
            (diagnostic.code, diagnostic.message) for diagnostic in old or () if diagnostic.end >= start
        )
        faults = []
        for diagnostic in sorted(diagnostics, key=lambda diagnostic: diagnostic.start):
            if (
                diagnostic.severity not in self._severities
                or diagnostic.code in self._ignored
                or diagnostic.end <= start
            ):
                continue
            # subtle: a diagnostic about ``x.name`` may begin at the ``x``, before the generated name
            if diagnostic.start < start or diagnostic.start >= len(context.text):
                left[diagnostic.code, diagnostic.message] -= 1
                if left[diagnostic.code, diagnostic.message] >= 0 or old is None:
                    continue
            if diagnostic.start >= len(
                context.text
            ):  # it appears after the text, and must be repaired in its last line
                offset = max(0, context.text.rstrip().rfind("\n") + 1 - start)
            else:
                offset = max(0, diagnostic.start - start)
            faults.append(Fault(offset, diagnostic.message, diagnostic.code))
        return faults

    def close(self) -> None:
        """End the analyser."""
        self.analyser.close()
