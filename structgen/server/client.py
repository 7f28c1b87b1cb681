"""Who sent a request, and how long it has waited.

Invariant: one API key is one client, so that no key has more than one share.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

__all__ = ["Client"]


@dataclass
class Client:
    """Who sent a request, for fair turns, and for what only requests of one client share."""

    name: str
    """The digest of its key, or its address."""
    size: int
    """Bytes of the request."""
    arrived: float = field(default_factory=time.monotonic)
    """When it arrived, on the monotonic clock."""
    compile_seconds: float = 0.0
    """Time in which its constraint was compiled, which does not count as waiting."""

    def seconds_left(self, queue_seconds: float) -> float:
        """Return how long the request may still wait for processes and their CPU time."""
        return max(0.0, self.arrived + self.compile_seconds + queue_seconds - time.monotonic())
