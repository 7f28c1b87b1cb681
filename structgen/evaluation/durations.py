"""Many times counted in bins, so that percentiles over a whole data set follow from one record for each schema.

A bin is an eighth of an octave: bin ``b`` holds what is from ``2 ** (b / 8)`` to below ``2 ** ((b + 1) / 8)``.
Invariant: adding up the bins of several schemas is binning all their times together; a percentile is the middle of its
bin, within 4.5 % of the true one. Cost: a few dozen pairs of numbers a schema, for any count.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

__all__ = [
    "Bins",
    "Spread",
    "added",
    "bin_of",
    "binned",
    "duration",
    "edges",
    "middle",
    "percentile_of_bins",
    "spread",
    "spread_of_bins",
]

Bins = tuple[tuple[int, int], ...]
"""Bin and count, ascending."""

_EACH_OCTAVE = 8
_LEAST = 0.001
"""What a clock tells as nothing goes with what takes this long."""


def bin_of(value: float) -> int:
    """Return the bin of a time, in any unit."""
    return math.floor(_EACH_OCTAVE * math.log2(max(value, _LEAST)))


def binned(values: Iterable[float]) -> Bins:
    """Return how many values each bin has."""
    return tuple(sorted(Counter(map(bin_of, values)).items()))


def added(all_: Iterable[Iterable[tuple[int, int]]]) -> dict[int, int]:
    """Return the bins of all of them together, ascending."""
    total: Counter[int] = Counter()
    for bins in all_:
        for at, count in bins:
            total[at] += count
    return dict(sorted(total.items()))


def edges(at: int) -> tuple[float, float]:
    """Return the lower and the upper edge of a bin; the upper one is outside."""
    return 2 ** (at / _EACH_OCTAVE), 2 ** ((at + 1) / _EACH_OCTAVE)


def middle(at: int) -> float:
    """Return the geometric middle of the bin."""
    return float(2 ** ((at + 0.5) / _EACH_OCTAVE))


def percentile_of_bins(bins: Mapping[int, int], percent: float) -> float | None:
    """Return the middle of the bin in which the nearest rank lies; None where there is nothing."""
    total = sum(bins.values())
    rank, seen = max(math.ceil(total * percent / 100), 1), 0
    for at, count in sorted(bins.items()):
        seen += count
        if seen >= rank:
            return middle(at)
    return None


@dataclass(frozen=True)
class Spread:
    """Times in the unit that they came in."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float


def spread(values: Sequence[float]) -> Spread | None:
    """Return the spread of single times, exact (nearest ranks); None without times."""
    if not values:
        return None
    ordered = sorted(values)
    p50, p90, p99 = (ordered[max(math.ceil(len(ordered) * at / 100), 1) - 1] for at in (50, 90, 99))
    return Spread(len(ordered), sum(ordered) / len(ordered), p50, p90, p99, ordered[-1])


def spread_of_bins(bins: Mapping[int, int], total: float, most: float) -> Spread | None:
    """Return the spread of binned times, whose sum and maximum are exact; None without times."""
    count = sum(bins.values())
    if not count:
        return None
    p50, p90, p99 = (min(percentile_of_bins(bins, at) or 0.0, most) for at in (50, 90, 99))
    return Spread(count, total / count, p50, p90, p99, most)


def duration(microseconds: float) -> str:
    """Return a time in its most readable unit, to three digits."""
    for unit, size in (("s", 1e6), ("ms", 1e3), ("µs", 1.0)):
        if microseconds >= size or unit == "µs":
            value = microseconds / size
            digits = 0 if value >= 100 else 1 if value >= 10 else 2
            return f"{value:,.{digits}f} {unit}"
    raise AssertionError  # the last unit takes all
