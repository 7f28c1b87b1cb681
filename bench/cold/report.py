"""Tables of the cold tail: each figure, its ratio to the better peer, and the project's own bar."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["FIGURES", "Measured", "Worst", "coverage", "figures", "table", "worst"]


@dataclass(frozen=True)
class Measured:
    """A record and what each engine replied."""

    name: str
    side: str
    """``tuned``, ``open`` or ``held-out``, see `bench.cold.__main__`."""
    texts: list[list[int]]
    replies: dict[str, dict[str, Any]]

    @property
    def family(self) -> str:
        return self.name.partition("/")[0]

    @property
    def is_common(self) -> bool:
        """Whether all engines take the schema with all instances."""
        return all(reply["status"] == "ok" for reply in self.replies.values())


def _percentile(share: float) -> Callable[[Sequence[float]], float]:
    return lambda values: float(np.percentile(values, share))


FIGURES: tuple[tuple[str, str, Callable[[Sequence[float]], float], float | None], ...] = (
    ("mask, mean", "masks", statistics.fmean, 1 / 3),
    ("mask, p99", "masks", _percentile(99), 1 / 3),
    ("mask, p99.9", "masks", _percentile(99.9), 1 / 3),
    ("mask, worst", "masks", max, 1 / 2),
    ("second pass, mean", "again", statistics.fmean, None),
    ("second pass, p99", "again", _percentile(99), None),
    ("second pass, p99.9", "again", _percentile(99.9), None),
    ("second pass, worst", "again", max, 1 / 2),
    ("compile + first mask, p50", "first", _percentile(50), 1 / 4),
    ("compile + first mask, p99", "first", _percentile(99), 1 / 8),
)
"""Name, times that it is of, statistic, and the greatest ratio to the better peer that the project wants."""


def figures(measured: Iterable[Measured], engine: str) -> dict[str, float]:
    """Return an engine's figures in microseconds over records that all engines take."""
    times: dict[str, list[float]] = {"masks": [], "again": [], "first": []}
    for record in measured:
        reply = record.replies[engine]
        times["first"].append(reply["first"] / 1e3)
        for key in ("masks", "again"):
            times[key] += [time / 1e3 for text in reply[key] for time in text]
    if not times["masks"]:
        return {}
    return {name: statistic(times[key]) for name, key, statistic, _ in FIGURES}


def table(measured: Sequence[Measured], engines: Sequence[str], title: str) -> Iterator[str]:
    """Yield the lines of a table over the schemas that all engines take.

    The ratio is that of the first engine to the better of the others. The last column is the first engine over all
    schemas that it takes: constructs that a peer refuses are in it only.
    """
    common = [record for record in measured if record.is_common]
    by_engine = {engine: figures(common, engine) for engine in engines}
    if not common or not by_engine[engines[0]]:
        yield f"{title}: no schema that all engines take"
        return
    tokens = sum(len(text) for record in common for text in record.texts)
    yield f"{title}: {len(common)} of {len(measured)} schemas, {tokens:,} masks a pass"
    yield ""
    own = [record for record in measured if record.replies[engines[0]]["status"] == "ok"]
    alone = figures(own, engines[0])
    yield f"| µs | {' | '.join(engines)} | ratio | bar | {engines[0]}, {len(own)} schemas |"
    yield "|---|" + "--:|" * (len(engines) + 3)
    for name, _, _, bar in FIGURES:
        values = [by_engine[engine][name] for engine in engines]
        ratio = values[0] / min(values[1:]) if len(values) > 1 else math.nan
        shown = "" if math.isnan(ratio) else f"{ratio:.2f}"
        wanted = "" if bar is None else f"1/{round(1 / bar)}"
        row = " | ".join(map(_written, values))
        yield f"| {name} | {row} | {shown} | {wanted} | {_written(alone[name])} |"


def _written(value: float) -> str:
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def coverage(measured: Sequence[Measured], engines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a table of what each engine takes, by family."""
    yield f"| family | schemas | {' | '.join(engines)} | all |"
    yield "|---|" + "--:|" * (len(engines) + 2)
    families = list(dict.fromkeys(record.family for record in measured))
    for family in (*families, None):
        chosen = [record for record in measured if family in (None, record.family)]
        taken = [sum(record.replies[e]["status"] == "ok" for record in chosen) for e in engines]
        common = sum(record.is_common for record in chosen)
        cells = " | ".join(map(str, taken))
        yield f"| {family or 'sum'} | {len(chosen)} | {cells} | {common} |"
    yield ""
    for engine in engines:
        states = Counter(record.replies[engine]["status"] for record in measured)
        yield f"{engine}: " + ", ".join(f"{status} {count}" for status, count in sorted(states.items()))


@dataclass(frozen=True)
class Worst:
    """A slow mask."""

    microseconds: float
    name: str
    figure: str
    text: int
    token: int


def worst(measured: Iterable[Measured], engine: str, count: int) -> list[Worst]:
    """Return an engine's slowest masks, the slowest of each schema and pass, slowest first."""
    slow = []
    for record in measured:
        reply = record.replies[engine]
        if reply["status"] != "ok":
            continue
        for figure in ("masks", "again"):
            slowest = max(
                (
                    (time, text, token)
                    for text, times in enumerate(reply[figure])
                    for token, time in enumerate(times)
                ),
                default=None,
            )
            if slowest is not None:
                slow.append(Worst(slowest[0] / 1e3, record.name, figure, slowest[1], slowest[2]))
    return sorted(slow, key=lambda record: -record.microseconds)[:count]
