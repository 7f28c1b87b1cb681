"""Two engines, or two runs, on the same items: what only one got right, and the ratio of their times.

Why paired: items differ far more than engines do. A comparison item by item therefore shows differences that two
shares or medians over the same items hide.
Source: `structgen.evaluation.statistics`. Invariant: an item counts only where both sides have an answer to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from .statistics import median_interval, paired_difference, sign_test

__all__ = ["PairedRatio", "PairedShare", "paired_ratio", "paired_share"]


@dataclass(frozen=True)
class PairedShare:
    """How many items both sides, only one, or neither got right."""

    both: int
    first: int
    second: int
    neither: int

    @property
    def total(self) -> int:
        """The number of items."""
        return self.both + self.first + self.second + self.neither

    @cached_property
    def difference(self) -> tuple[float, float, float]:
        """Share of the second less share of the first, with its 95 % interval."""
        return paired_difference(self.both, self.second, self.first, self.neither)

    @cached_property
    def p(self) -> float:
        """Of the exact sign test (McNemar's): how likely so uneven a split is where neither side is better."""
        return sign_test(self.first, self.second)


@dataclass(frozen=True)
class PairedRatio:
    """Times of the second side over those of the first, item by item."""

    count: int
    median: float
    low: float
    high: float
    """Of the median's 95 % interval; the least and the greatest ratio where there are too few items."""
    slower: int
    faster: int

    @cached_property
    def p(self) -> float:
        """Of the exact sign test."""
        return sign_test(self.slower, self.faster)


def paired_share(first: Mapping[str, bool], second: Mapping[str, bool]) -> PairedShare:
    """Compare the items that both have."""
    counts = {(True, True): 0, (True, False): 0, (False, True): 0, (False, False): 0}
    for item, in_first in first.items():
        if (in_second := second.get(item)) is not None:
            counts[in_first, in_second] += 1
    return PairedShare(*counts.values())


def paired_ratio(first: Mapping[str, float], second: Mapping[str, float]) -> PairedRatio | None:
    """Compare the items that both have a time above zero for; None if there are no such items."""
    ratios = [
        in_second / in_first
        for item, in_first in first.items()
        if in_first > 0 and (in_second := second.get(item)) is not None and in_second > 0
    ]
    interval = median_interval(ratios)
    if interval is None:
        return None
    slower, faster = sum(ratio > 1 for ratio in ratios), sum(ratio < 1 for ratio in ratios)
    return PairedRatio(len(ratios), *interval, slower, faster)
