"""Metrics of the plugin: for Prometheus where requests come in, and as log lines where masks are computed.

Why: vLLM serves ``/metrics`` from the process of the API. Masks are computed in the engine's process, which has no such
page, so it logs one line per minute while it computes masks.
Invariant: names begin with ``structgen:``, as vLLM's begin with ``vllm:``. Counting costs no lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, perf_counter
from typing import Any

from structgen.serving.compiler import SECONDS, CompilerStats

__all__ = ["MaskTimes", "register_metrics"]

_log = logging.getLogger("vllm.structgen")
_EVERY = 60.0


class MaskTimes:
    """Times of the masks of one engine."""

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.slowest = 0.0
        self._told_at = monotonic()
        self._told_count = 0

    @contextmanager
    def measured(self, masks: int) -> Iterator[None]:
        """Measure the time of a `with` block, in which `masks` masks are computed."""
        begin = perf_counter()
        yield
        took = perf_counter() - begin
        self.count += masks
        self.seconds += took
        self.slowest = max(self.slowest, took)

    def tell(self, stats: CompilerStats, *, last: bool = False) -> None:
        """Log a line if there are new masks and the last line is a minute old."""
        now = monotonic()
        if self.count == self._told_count or (not last and now - self._told_at < _EVERY):
            return
        self._told_at, self._told_count = now, self.count
        _log.info(
            "structgen: %d masks, %.1f us each, the slowest call %.1f ms; %d specs compiled (%d slow), %d known "
            "again, %d refused (%d for time); %d kept, masks %.1f MiB",
            self.count,
            1e6 * self.seconds / self.count,
            1e3 * self.slowest,
            stats.misses,
            stats.slow,
            stats.hits,
            stats.refused,
            stats.timed_out,
            stats.entries,
            stats.mask_bytes / 2**20,
        )


def register_metrics(stats_of: Callable[[], CompilerStats]) -> None:
    """Register the counts of `stats_of` in this process's metrics, if prometheus_client is installed."""
    try:
        from prometheus_client import REGISTRY
    except ImportError:
        return
    REGISTRY.register(_Collector(stats_of))  # type: ignore[arg-type, unused-ignore]


class _Collector:
    def __init__(self, stats_of: Callable[[], CompilerStats]) -> None:
        self._stats_of = stats_of

    def describe(self) -> list[Any]:
        return []

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        stats = self._stats_of()
        for name, value, text in (
            ("spec_hits", stats.hits, "Specs that were known."),
            ("spec_misses", stats.misses, "Specs that were probed."),
            ("specs_refused", stats.refused, "Requests refused for their spec."),
            ("specs_timed_out", stats.timed_out, "Specs whose probe exceeded its time."),
            ("worker_starts", stats.worker_starts, "Worker processes started for probes."),
        ):
            yield CounterMetricFamily(f"structgen:{name}", text, value=value)
        total, buckets = 0, []
        for most, count in zip((*map(str, SECONDS), "+Inf"), stats.compile_seconds, strict=True):
            total += count
            buckets.append((most, total))
        yield HistogramMetricFamily(
            "structgen:compile_seconds",
            "Seconds of a compile probe.",
            buckets=buckets,
            sum_value=stats.compile_seconds_sum,
        )
