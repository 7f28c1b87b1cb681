"""Counts of what a compiler did, for metrics and logs."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["SECONDS", "CompilerStats"]

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Upper bounds of the buckets of `CompilerStats.compile_seconds`; one more bucket holds longer times."""


@dataclass
class CompilerStats:
    """Counts since the start; a consistent copy."""

    hits: int = 0
    misses: int = 0
    joined: int = 0
    """Requests that waited for an equal spec in flight."""
    refused: int = 0
    timed_out: int = 0
    slow: int = 0
    """Specs with an engine or a matcher process of their own."""
    unprobed: int = 0
    """Specs that were compiled without a probe."""
    preempted: int = 0
    """Specs whose probe made way for others."""
    worker_starts: int = 0
    entries: int = 0
    mask_bytes: int = 0
    compile_seconds: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))
    """Number of specs by compile time, in the buckets of `SECONDS`; not cumulative."""
    compile_seconds_sum: float = 0.0
