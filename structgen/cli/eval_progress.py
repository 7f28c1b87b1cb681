"""Show the progress of a run on standard error: bars where `rich` can draw on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structgen.evaluation.records import Record
    from structgen.evaluation.running import Phase

__all__ = ["Progress"]

_EVERY = 30.0
"""Seconds between two lines."""


class Progress:
    """A context manager; `advance` is called with each record."""

    def __init__(self, phases: Sequence[Phase]) -> None:
        self._phases = {(phase.kind, phase.engine): phase for phase in phases}
        self._statuses: dict[tuple[str, str], Counter[str]] = {key: Counter() for key in self._phases}
        self._bars: Any = None
        self._numbers: dict[tuple[str, str], Any] = {}
        self._statuses_text = time.monotonic()

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            try:
                from rich import progress
                from rich.console import Console
            except ImportError:
                return self
            self._bars = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(bar_width=24),
                progress.MofNCompleteColumn(),
                progress.TimeRemainingColumn(),
                progress.TextColumn("{task.fields[statuses_text]}", markup=False),
                console=Console(stderr=True),
            )
            for key, phase in self._phases.items():
                self._numbers[key] = self._bars.add_task(
                    " ".join(key), total=phase.total, completed=phase.done, start=False, statuses_text=""
                )
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def advance(self, record: Record) -> None:
        """Count one more answer."""
        key = (record.kind, record.engine)
        phase, statuses = self._phases[key], self._statuses[key]
        phase.done += 1
        statuses[record.status] += 1
        if self._bars is not None:
            if sum(statuses.values()) == 1:
                self._bars.start_task(self._numbers[key])
            self._bars.update(
                self._numbers[key], completed=phase.done, statuses_text=_statuses_text(statuses)
            )
        elif phase.done >= phase.total or time.monotonic() - self._statuses_text > _EVERY:
            self._statuses_text = time.monotonic()
            print(f"structgen: {self._line(key)}", file=sys.stderr, flush=True)

    def lines(self) -> list[str]:
        """Return how each phase stands."""
        return [self._line(key) for key in self._phases]

    def _line(self, key: tuple[str, str]) -> str:
        phase = self._phases[key]
        statuses_text = _statuses_text(self._statuses[key])
        return f"{' '.join(key)}: {phase.done} of {phase.total}" + (
            f" ({statuses_text})" if statuses_text else ""
        )


def _statuses_text(statuses: Counter[str]) -> str:
    return ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
