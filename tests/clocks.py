"""A clock that tests move by hand, so that nothing they assert depends on how busy the machine is."""

from __future__ import annotations

import time
from typing import Any

__all__ = ["HandClock"]


class HandClock:
    """Stands in for the module `time` where a module measures durations.

    The clock on the wall moves only in `advance`, and by `tick` seconds whenever it is read. All else, such as the CPU
    time of a thread, is that of the real module.
    """

    def __init__(self, tick: float = 0.0) -> None:
        self.now = 0.0
        self.tick = tick
        self.readings = 0
        """How many times the clock was read."""

    def perf_counter(self) -> float:
        """Return the seconds that have passed on this clock."""
        self.readings += 1
        self.now += self.tick
        return self.now

    monotonic = perf_counter

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass."""
        self.now += seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)
