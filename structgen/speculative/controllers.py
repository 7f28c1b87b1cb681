"""Controllers: how much of what is drafted the model is given to read.

Why: a pass over eight tokens is not free, and a guess that is seldom right costs more than it saves. What a pass costs
is not a straight line either (on a CPU two tokens may take longer than four), so it is measured while it runs.
What: drafts come as trees whose nodes stand in the order of their chances (`growth`); a controller says how many nodes
of each are read.

    Fixed        so many of each
    Goodput      what makes the most tokens a second: expected tokens over the measured cost of the pass
    Confidence   nodes that the text goes through with some probability at least

Source: Liu et al. 2024 (SmartSpec); Huang et al. 2024 (SpecDec++).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from .checks import check_number, check_whole

__all__ = ["Confidence", "Controller", "Costs", "Fixed", "Goodput"]

_AGAIN = 64
"""Of passes without a draft one in so many has a few tokens all the same, so that costs are known; fewer of passes of
several rows, of which each token costs more."""
_SOME = 3
_PLAIN = 256
"""And of passes with drafts one in so many has none."""
_LEAD = 8.0
"""A row that is so many tokens ahead of the last one counts e times less."""
_PADS = 5
"""At most so many tokens are read for nothing."""


class Controller(Protocol):
    """Cuts drafts."""

    @property
    def size(self) -> int:
        """The most nodes that it may keep of a tree."""
        ...

    def keep(
        self,
        reach: Sequence[Sequence[float]],
        pending: Sequence[int],
        costs: Costs,
        ahead: Sequence[int] = (),
    ) -> list[int]:
        """How many nodes of each row's tree are read. `reach`: the chances of its nodes, none greater than the one
        before; `pending`: the tokens that each row has to read anyway; `ahead`: by how many tokens each row is ahead of
        the last one (nothing: they are level)."""
        ...


@dataclass
class Costs:
    """Seconds of a pass by its rows and the tokens of the longest: running means, and straight lines between."""

    known: dict[int, dict[int, float]] = field(default_factory=dict)
    pads: bool = True
    """Whether a pass may be given more tokens than it needs."""

    def for_rows(self, rows: int, *, pads: bool, told_as: int | None = None) -> Costs:
        """The same for passes of so many rows, which may be padded or not; `told_as`: as if they were so many."""
        return Costs({rows if told_as is None else told_as: self.known.setdefault(rows, {})}, pads)

    def note(self, rows: int, tokens: int, seconds: float) -> None:
        """One pass more. A slow one (another process) counts little, a faster one much."""
        tokens = _length(tokens)
        table = self.known.setdefault(rows, {})
        # Of a length that was never tried what is known of others tells something: one slow pass must not rule it out.
        before = self.of(rows, tokens) if table else seconds
        share = 0.5 if seconds <= before else 0.15 if tokens in table else 0.25
        table[tokens] = before + share * (min(seconds, 2 * before) - before)

    def padded(self, rows: int, tokens: int) -> int:
        """The cheapest length that is no shorter: kernels for seven rows of a matrix may be slower than for eight.

        Lengths that nobody has tried are not counted on, but multiples of four are given a try.
        """
        if tokens <= 1 or not self.pads:
            return tokens
        told = [self.of(rows, length) for length in range(tokens, tokens + _PADS + 1)]
        return tokens + self._padded(rows, tokens, told)

    def least(self, rows: int, tokens: int, most: int | None = None) -> list[float]:
        """What passes take over so many tokens, and one more, up to `most`: or over a few more, where that is less."""
        last = tokens if most is None else most
        told = [self.of(rows, length) for length in range(tokens, last + _PADS + 1)]
        if not self.pads:
            return told[: last - tokens + 1]
        return [
            told[length - tokens + (self._padded(rows, length, told[length - tokens :]) if length > 1 else 0)]
            for length in range(tokens, last + 1)
        ]

    def more(self, rows: int) -> float:
        """What one token more of each row takes, as a share of a pass over one."""
        first = self.of(rows, 1)
        return min(0.5, max(0.0, (self.of(rows, 1 + _SOME) - first) / (_SOME * first)))

    def _padded(self, rows: int, tokens: int, told: Sequence[float]) -> int:
        """How many tokens more are read for nothing. `told`: what so many take, and one more and so on."""
        table = self.known.get(rows, {})
        best, least = 0, 0.98 * told[0]
        for more in range(1, _PADS + 1):
            length = tokens + more
            seconds = told[more]
            if length not in table:
                if length % 4:
                    continue
                seconds = 0.95 * min(seconds, told[0])
            if seconds < least:
                best, least = more, seconds
        return best

    def of(self, rows: int, tokens: int) -> float:
        """What a pass takes; beyond all that is known, as much more for a token as so far, or three hundredths."""
        table = self.known.get(rows)
        if not table:
            return _guessed(rows, tokens)
        tokens = _length(tokens)
        if tokens in table:
            return table[tokens]
        below = max((one for one in table if one < tokens), default=None)
        above = min((one for one in table if one > tokens), default=None)
        if below is None or above is None:
            nearest = above if below is None else below
            assert nearest is not None
            first = min(table)
            if nearest == first:
                return table[first] * _guessed(rows, tokens) / _guessed(rows, first)
            # A little less than so far, so that longer passes are tried.
            more = max(0.0, 0.8 * (table[nearest] - table[first]) / (nearest - first))
            return table[nearest] + more * (tokens - nearest)
        share = (tokens - below) / (above - below)
        return table[below] * (1 - share) + table[above] * share


@dataclass
class Fixed:
    """The first `size` nodes, whatever they cost."""

    size: int = 8
    least: ClassVar[float] = 0.0
    """What is improbable is read as well."""

    def __post_init__(self) -> None:
        check_whole("size", self.size)

    def keep(
        self,
        reach: Sequence[Sequence[float]],
        pending: Sequence[int],
        costs: Costs,
        ahead: Sequence[int] = (),
    ) -> list[int]:
        """See `Controller`."""
        return [min(self.size, len(one)) for one in reach]


@dataclass
class Confidence:
    """The nodes that the text goes through with a probability of `least` at least, up to `size`."""

    least: float = 0.3
    size: int = 16

    def __post_init__(self) -> None:
        check_whole("size", self.size)
        check_number("least", self.least)

    def keep(
        self,
        reach: Sequence[Sequence[float]],
        pending: Sequence[int],
        costs: Costs,
        ahead: Sequence[int] = (),
    ) -> list[int]:
        """See `Controller`."""
        return [sum(chance >= self.least for chance in one[: self.size]) for one in reach]


@dataclass
class Goodput:
    """As many nodes as make the most tokens a second, all rows together; none where they would not make a tenth more,
    or a fifth more in a batch.

    (Chances are estimates, and of many that look good some are not. A batch takes as long as its last row, which may be
    one without drafts: that it falls behind is seen only afterwards.)
    """

    size: int = 20
    margin: float = 1.1
    weighs_drafters: ClassVar[bool] = True
    """A drafter that costs more than it brings is left alone for a while."""
    _declined: int = field(default=0, init=False, repr=False)
    _drafted: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        check_whole("size", self.size)
        check_number("margin", self.margin, 0.0, 100.0)

    def keep(
        self,
        reach: Sequence[Sequence[float]],
        pending: Sequence[int],
        costs: Costs,
        ahead: Sequence[int] = (),
    ) -> list[int]:
        """See `Controller`. Rows are read side by side: each may have as many nodes as the longest for nothing."""
        rows = len(reach)
        least = max(1, *pending)
        margin = self.margin if rows == 1 else self.margin**2
        # A batch ends with its last row: tokens of those that are ahead are worth less.
        worth = [math.exp(-one / _LEAD) for one in ahead] or [1.0] * rows
        # What shorter rows may read beside the longest costs nothing.
        expected = sum(
            value * (1 + sum(one[: least - mine]))
            for one, mine, value in zip(reach, pending, worth, strict=True)
        )
        longest = max(mine + len(one) for one, mine in zip(reach, pending, strict=True))
        seconds = costs.least(rows, least, max(least, min(longest, least + self.size)))
        best, most = least, margin * expected / seconds[0]
        for length in range(least + 1, least + self.size + 1):
            more = [
                value * one[length - mine - 1]
                for one, mine, value in zip(reach, pending, worth, strict=True)
                if length - mine <= len(one)
            ]
            if not more:
                break
            expected += sum(more)
            rate = expected / seconds[length - least]
            if rate > most:
                best, most = length, rate
        if best == least and any(reach):
            self._declined += 1
            if self._declined % (_AGAIN * rows) == 0:  # what once looked bad may have been bad luck
                best += _SOME
        elif best > least:
            self._drafted += 1
            if self._drafted % _PLAIN == 0:  # nor is what a pass without drafts takes known for ever
                best = least
        return [min(best - mine, len(one)) for one, mine in zip(reach, pending, strict=True)]


def _guessed(rows: int, tokens: int) -> float:
    """What a pass takes, in some unit, where nothing is known: three hundredths more for each token that is read."""
    return 1.0 + 0.03 * rows * tokens


def _length(tokens: int) -> int:
    """Lengths that are told apart: all up to 32, and eight for each power of two beyond."""
    step = 1 << max(0, (tokens - 1).bit_length() - 4)
    return tokens if tokens <= 32 else -(-tokens // step) * step
