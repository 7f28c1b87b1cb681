"""A spec that is being probed, and the futures of those who wait for its outcome.

Invariant: only its `CompileProbes` changes a job, under its lock.
"""

from __future__ import annotations

import math
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .fair_queue import Queued
from .requests import Kind

__all__ = ["ProbeFuture", "ProbeJob"]

Outcome = TypeVar("Outcome")


class ProbeFuture(Future[Outcome]):
    """The outcome of a spec."""

    started: float | None = None
    """When its probe began, on the monotonic clock; None while it waits for a worker, and for cached outcomes."""
    deadline: float = math.inf
    """Until when it waits for a worker that it has to leave to others."""
    key: bytes = b""
    """The key of its spec."""


@dataclass(eq=False)
class ProbeJob(Generic[Outcome]):
    """One spec in flight."""

    kind: Kind
    spec: Any
    key: bytes
    waiting: list[ProbeFuture[Outcome]]
    client: str = ""
    """Who sent it first."""
    deadline: float = 0.0
    """Until when it waits for a worker that does not start."""
    is_slow: bool = False
    """Whether it has reserved a worker, as a slow spec."""
    entry: Queued[ProbeJob[Outcome]] | None = None
    """Its place among the slow specs, while it waits there."""

    @property
    def is_wanted(self) -> bool:
        """Return whether a future of it was not cancelled."""
        return not all(future.cancelled() for future in self.waiting)
