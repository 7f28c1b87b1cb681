"""Metrics for Prometheus: requests, tokens, waiting times, the batch, the compiler.

Invariant: labels come from small fixed sets, so no client can create time series.
Cost: counters of the batch and the compiler are read only when the metrics are requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from structgen.extras import needed
from structgen.serving.probes import SECONDS

with needed("the server", extra="server"):
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.registry import Collector

__all__ = ["Metrics"]

_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)
_GAPS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2, 5)


class Metrics:
    """The metrics of one server."""

    def __init__(self, model_thread: Any, compiler: Any, queued: Callable[[], int] = lambda: 0) -> None:
        """Make the metrics of a server.

        Args:
            model_thread: The thread whose batch is counted.
            compiler: The compiler whose probes and matcher processes are counted.
            queued: Returns the number of requests that wait for a matcher process.
        """
        registry = self._registry = CollectorRegistry()
        self.requests = Counter(
            "structgen_requests", "Requests by endpoint and status", ["endpoint", "status"], registry=registry
        )
        self.constraints = Counter(
            "structgen_constraints", "Requests by kind of constraint", ["kind"], registry=registry
        )
        self.open = Gauge(
            "structgen_open_requests", "Requests that wait or are being answered", registry=registry
        )
        self.prompt_tokens = Counter("structgen_prompt_tokens", "Tokens of prompts", registry=registry)
        self.tokens = Counter("structgen_generated_tokens", "Tokens of answers", registry=registry)
        self.forced = Counter(
            "structgen_forced_tokens", "Generated tokens that were the only allowed choice", registry=registry
        )
        self.first_token = Histogram(
            "structgen_first_token_seconds",
            "Seconds until the first token",
            buckets=_SECONDS,
            registry=registry,
        )
        self.gap = Histogram(
            "structgen_token_gap_seconds",
            "Seconds between two steps of a row",
            buckets=_GAPS,
            registry=registry,
        )
        self.total = Histogram(
            "structgen_request_seconds", "Seconds until the last token", buckets=_SECONDS, registry=registry
        )
        self._counts = _Counts(model_thread, compiler, queued)
        registry.register(self._counts)

    def page(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)

    def state(self) -> dict[str, int]:
        """Return what waits and what is in use now, by the names of the metrics without their prefix."""
        return {name: value for name, _, value in self._counts.gauges()}


class _Counts(Collector):
    def __init__(self, model_thread: Any, compiler: Any, queued: Callable[[], int]) -> None:
        self._model_thread, self._compiler, self._queued = model_thread, compiler, queued

    def gauges(self) -> Iterator[tuple[str, str, int]]:
        """Yield the name, the description and the value of what waits, and of what is in use."""
        batch, processes = self._model_thread.batch, self._compiler.matcher_processes
        yield "rows_running", "Rows in the batch", batch.running
        yield "rows_waiting", "Rows that wait to join the batch", batch.waiting
        yield (
            "constraints_waiting",
            "Constraints in compile probes, or waiting for one",
            self._compiler.pending,
        )
        yield "matcher_processes", "Matcher processes in use", 0 if processes is None else processes.running
        yield "matcher_requests_waiting", "Requests that wait for a matcher process", self._queued()
        yield "drafting_rows", "Rows that draft", batch.drafting_rows
        yield "prefix_cache_prompts", "Prompts in the prefix cache", len(batch.prefixes)
        yield "prefix_cache_tokens", "Tokens of these prompts", batch.prefixes.tokens
        yield (
            "prefix_cache_limit_tokens",
            "Tokens that the prefix cache holds at most",
            batch.prefixes.most_tokens,
        )

    def collect(self) -> Iterable[Any]:
        batch = self._model_thread.batch
        counts = batch.counts
        for name, description, number in self.gauges():
            yield GaugeMetricFamily(f"structgen_{name}", description, number)
        for name, description, value in (
            ("passes", "Forward passes of the batch", counts.passes),
            ("pass_rows", "Rows of all passes, summed", counts.rows),
            ("pass_seconds", "Seconds in these passes", counts.seconds),
            ("prompt_seconds", "Seconds of prefill", counts.prompt_seconds),
            (
                "cached_prompt_tokens",
                "Tokens of prompts that an earlier prompt began with",
                counts.cached_tokens,
            ),
            ("prefix_cache_hits", "Prompts of which a part was not read again", counts.cached_prompts),
            ("late_masks", "Masks that a pass did not wait for", counts.detached),
            ("drafted_tokens", "Draft tokens that passes read", counts.drafted),
            ("accepted_tokens", "Those of them that became part of an answer", counts.accepted),
            ("passes_failed", "Passes that failed", counts.failed),
        ):
            yield CounterMetricFamily(f"structgen_{name}", description, value)
        stats = self._compiler.stats
        for name in ("hits", "misses", "joined", "refused", "timed_out", "slow", "worker_starts"):
            yield CounterMetricFamily(
                f"structgen_compiler_{name}", f"Constraints: {name}", getattr(stats, name)
            )
        yield GaugeMetricFamily("structgen_compiler_entries", "Constraints in the cache", stats.entries)
        yield GaugeMetricFamily("structgen_compiler_mask_bytes", "Bytes of cached masks", stats.mask_bytes)
        yield _histogram(stats)


def _histogram(stats: Any) -> HistogramMetricFamily:
    total, buckets = 0, []
    for bound, count in zip((*map(str, SECONDS), "+Inf"), stats.compile_seconds, strict=True):
        total += count
        buckets.append((bound, float(total)))
    family = HistogramMetricFamily("structgen_compile_seconds", "Seconds to compile a constraint", labels=[])
    family.add_metric([], buckets=buckets, sum_value=stats.compile_seconds_sum)
    return family
