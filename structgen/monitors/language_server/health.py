"""What happened to an analyser: counts, and the last faults in words.

Why: an analyser that fails must not stop a generation, so it fails open; then someone has to be able to see that it
did, how often and why. Invariant: every query ends in exactly one of `answered` (which includes `unknown`: the
analyser had no opinion), `cancelled` and `failed`. Thread-safe. Cost: a lock and a dictionary.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import Literal

__all__ = ["Fault", "Health", "Reason"]

Reason = Literal["start", "crash", "hang", "late", "nonsense", "refused", "given up", "closed"]
"""start: could not be started; crash: the process ended by itself; hang: it stopped answering and was
ended; late: no answer before the deadline; nonsense: what came breaks the protocol; refused: it answered with an error
or cannot do this; given up: too many restarts; closed: queried after `close`."""

_KEPT = 32
"""Faults that are kept in words."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that went wrong."""

    reason: Reason
    message: str
    seconds: float
    """Since the analyser was made."""

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s: {self.reason}: {self.message}"


class Health:
    """The record of one analyser; ``str`` of it is a report for people."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._counts: Counter[Reason] = Counter()
        self._last: deque[Fault] = deque(maxlen=_KEPT)
        self.answered = 0
        """Queries that the analyser answered."""
        self.unknown = 0
        """Of those, how often it had no opinion."""
        self.cancelled = 0
        """Queries that the caller cancelled."""
        self.failed = 0
        """Queries that a fault left without an answer."""
        self.restarts = 0
        """How often its process was started again."""

    def fault(self, reason: Reason, message: str) -> None:
        """Record a fault; it counts no query (see `fail`)."""
        with self._lock:
            self._counts[reason] += 1
            self._last.append(Fault(reason, message, time.monotonic() - self._began))

    def fail(self) -> None:
        """Count a query that stays without an answer because of a fault."""
        with self._lock:
            self.failed += 1

    def answer(self, known: bool) -> None:
        """Count an answer."""
        with self._lock:
            self.answered += 1
            self.unknown += not known

    def cancel(self) -> None:
        """Count a query that was cancelled."""
        with self._lock:
            self.cancelled += 1

    def restart(self) -> None:
        """Count a restart of the process."""
        with self._lock:
            self.restarts += 1

    @property
    def faults(self) -> dict[Reason, int]:
        """How often each thing went wrong."""
        with self._lock:
            return dict(self._counts)

    @property
    def last(self) -> tuple[Fault, ...]:
        """The latest faults, oldest first."""
        with self._lock:
            return tuple(self._last)

    def __str__(self) -> str:
        counts = (
            ", ".join(f"{count} x {reason}" for reason, count in sorted(self.faults.items())) or "no faults"
        )
        head = (
            f"{self.name}: {self.answered} answered ({self.unknown} unknown), {self.failed} failed, "
            f"{self.cancelled} cancelled, {self.restarts} restarts; {counts}"
        )
        return "\n".join([head, *(f"  {fault}" for fault in self.last)])

    __repr__ = __str__
