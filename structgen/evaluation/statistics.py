"""Intervals and tests for what an evaluation counts and times, in closed form, without scipy.

Sources: Wilson 1927 for one proportion; Newcombe 1998, method 10, for the difference of two paired ones; the exact
sign test (McNemar's) for pairs that differ; order statistics for the median of paired ratios.
Invariant: intervals lie within what the figure can be, and hold it. Cost: linear in the items, but for sorting.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

__all__ = ["median_interval", "paired_difference", "percentile", "sign_test", "wilson"]

_Z = 1.959963984540054
"""The normal quantile of intervals that hold the truth in 95 of 100 cases."""


def wilson(hits: int, total: int) -> tuple[float, float]:
    """Return the 95 % interval of a proportion; all of [0, 1] where nothing was counted."""
    if total == 0:
        return 0.0, 1.0
    share, square = hits / total, _Z * _Z
    middle = (share + square / (2 * total)) / (1 + square / total)
    half = _Z / (1 + square / total) * math.sqrt(share * (1 - share) / total + square / (4 * total * total))
    low = 0.0 if hits == 0 else middle - half
    high = 1.0 if hits == total else middle + half
    return low, high


def paired_difference(both: int, first: int, second: int, neither: int) -> tuple[float, float, float]:
    """Share of the first less share of the second over the same items, with its 95 % interval.

    `both`, `first`, `second`, `neither`: how many items only these got right.
    """
    total = both + first + second + neither
    if total == 0:
        return 0.0, -1.0, 1.0
    share1, share2 = (both + first) / total, (both + second) / total
    (low1, high1), (low2, high2) = wilson(both + first, total), wilson(both + second, total)
    margins = (both + first) * (second + neither) * (both + second) * (first + neither)
    crossed: float = both * neither - first * second
    if crossed > 0:
        crossed = max(crossed - total / 2, 0.0)  # the correction for continuity, which makes it method 10
    tied = crossed / math.sqrt(margins) if margins else 0.0
    below = _square_and_add(share1 - low1, high2 - share2, tied)
    above = _square_and_add(high1 - share1, share2 - low2, tied)
    return share1 - share2, share1 - share2 - below, share1 - share2 + above


def sign_test(first: int, second: int) -> float:
    """Return the probability, both ways, of pairs that differ so unevenly or more where neither is better."""
    total, fewer = first + second, min(first, second)
    if total == 0:
        return 1.0
    tail = sum(_binomials(total, fewer))
    halved: int = 2 ** (total - 1)
    return min(1.0, tail / halved)


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return the smallest value that `percent` in a hundred do not exceed (nearest rank); None without values."""
    if not values:
        return None
    rank = math.ceil(len(values) * percent / 100)
    return sorted(values)[max(rank, 1) - 1]


def median_interval(values: Sequence[float]) -> tuple[float, float, float] | None:
    """Return the median with order statistics that hold it in 95 of 100 cases; the extremes where there are too few."""
    if not values:
        return None
    ordered, count = sorted(values), len(values)
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    spread, rank, mass = 2**count, 0, 0
    for rank, ways in enumerate(_binomials(count, count)):  # noqa: B007
        mass += ways
        if mass * 40 > spread:  # the tail up to this rank has more than 2.5 %
            break
    rank = max(rank - 1, 0)
    return middle, ordered[rank], ordered[count - 1 - rank]


def _square_and_add(first: float, second: float, tied: float) -> float:
    return math.sqrt(max(first * first - 2 * tied * first * second + second * second, 0.0))


def _binomials(total: int, last: int) -> Iterator[int]:
    """Yield the ways to choose 0, 1, ... `last` of `total`, each from the one before, which saves minutes."""
    ways = 1
    for count in range(last + 1):
        yield ways
        ways = ways * (total - count) // (count + 1)
