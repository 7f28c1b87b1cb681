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
        asked = self.analyser.diagnostics(path, context.document)
        known = before
        return then(asked, lambda found: self._caused(found, context, start, known))

    def _caused(
        self, found: Sequence[Diagnostic] | None, context: Context, start: int, before: Future[Any]
    ) -> list[Fault] | None:
        if found is None:
            return None
        # The analyser answers in order, so the earlier request has its answer.
        old = before.result() if before.done() else None
        left = Counter((one.code, one.message) for one in old or () if one.end >= start)
        faults = []
        for one in sorted(found, key=lambda one: one.start):
            if one.severity not in self._severities or one.code in self._ignored or one.end <= start:
                continue
            # subtle: a diagnostic about ``x.name`` may begin at the ``x``, before the generated name
            if one.start < start or one.start >= len(context.text):
                left[one.code, one.message] -= 1
                if left[one.code, one.message] >= 0 or old is None:
                    continue
            if one.start >= len(
                context.text
            ):  # it appears after the text, and must be repaired in its last line
                place = max(0, context.text.rstrip().rfind("\n") + 1 - start)
            else:
                place = max(0, one.start - start)
            faults.append(Fault(place, one.message, one.code))
        return faults

    def close(self) -> None:
        """End the analyser."""
        self.analyser.close()
