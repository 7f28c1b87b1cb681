"""Controllers: how many draft tokens the model reads.

Why: a pass over eight tokens is not free, and a draft that is rarely right costs more than it saves. The duration of a
pass is not linear in its tokens either (on a CPU two tokens may take longer than four), so it is measured.
What: the nodes of draft trees are ordered by their probabilities (`growth`). A controller decides how many nodes of
each tree are read.

    Fixed        the same number for each tree
    Goodput      what maximises tokens per second: expected tokens over the measured duration of the pass
    Confidence   nodes that the text passes through with at least some probability

Source: Liu et al. 2024 (SmartSpec); Huang et al. 2024 (SpecDec++).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from .checks import check_number, check_whole

__all__ = ["Confidence", "Controller", "Costs", "Fixed", "Goodput"]

_DRAFT_PROBE_INTERVAL = 64
"""Every 64th pass without a draft reads a few tokens all the same, to measure their cost. In batches of n rows, where
each token costs more, it is every (64 n)-th pass."""
_PROBE_TOKENS = 3
"""The number of tokens of such a pass."""
_PLAIN_PROBE_INTERVAL = 256
"""Every 256th pass that would read drafts reads none, to measure the cost of a plain pass."""
_LEAD_DECAY = 8.0
"""The weight of a row's tokens falls by a factor of e for each 8 tokens that it is ahead of the last row."""
_MAX_PADDING = 5
"""The largest number of padding tokens."""


class Controller(Protocol):
    """Decides how many draft tokens are read."""

    @property
    def size(self) -> int:
        """The largest number of nodes of a tree that it may keep."""
        ...

    def keep(
        self,
        reach: Sequence[Sequence[float]],
        pending: Sequence[int],
        costs: Costs,
        leads: Sequence[int] = (),
    ) -> list[int]:
        """Return how many nodes of each row's tree are read.

        Args:
            reach: For each row the probabilities of its nodes, none greater than the one before.
            pending: For each row the number of tokens that it has to read anyway.
            costs: The durations of forward passes.
            leads: For each row its lead over the last row in tokens; empty in a running batch, where no row waits for
                another.
        """
        ...


@dataclass
class Costs:
    """Durations of forward passes, in seconds, by rows and tokens of the longest row: running means, interpolated."""

    known: dict[int, dict[int, float]] = field(default_factory=dict)
    pads: bool = True
    """Whether a pass may contain padding."""

    def for_rows(self, rows: int, *, pads: bool, looked_up_as: int | None = None) -> Costs:
        """Return the costs of passes of `rows` rows. `looked_up_as` is the number under which they are looked up."""
        return Costs({rows if looked_up_as is None else looked_up_as: self.known.setdefault(rows, {})}, pads)

    def note(self, rows: int, tokens: int, seconds: float) -> None:
        """Record a pass. A slow one, perhaps due to another process, counts little; a fast one counts much."""
        tokens = _length(tokens)
        table = self.known.setdefault(rows, {})
        # A length without measurements starts from the estimate: one slow pass must not rule it out.
        before = self.of(rows, tokens) if table else seconds
        share = 0.5 if seconds <= before else 0.15 if tokens in table else 0.25
        table[tokens] = before + share * (min(seconds, 2 * before) - before)

    def padded(self, rows: int, tokens: int) -> int:
        """Return the fastest length of at least `tokens`: a kernel may be slower for seven rows than for eight.

        Lengths without measurements are not used, except multiples of four.
        """
        if tokens <= 1 or not self.pads:
            return tokens
        durations = [self.of(rows, length) for length in range(tokens, tokens + _MAX_PADDING + 1)]
        return tokens + self._padded(rows, tokens, durations)

    def least(self, rows: int, tokens: int, most: int | None = None) -> list[float]:
        """Return the durations for `tokens`, `tokens` + 1, ... up to `most` tokens, padded where that is faster."""
        last = tokens if most is None else most
        durations = [self.of(rows, length) for length in range(tokens, last + _MAX_PADDING + 1)]
        if not self.pads:
            return durations[: last - tokens + 1]
        return [
            durations[
                length
                - tokens
                + (self._padded(rows, length, durations[length - tokens :]) if length > 1 else 0)
            ]
            for length in range(tokens, last + 1)
        ]

    def more(self, rows: int) -> float:
        """Return the duration of one more token of each row, as a fraction of a pass over one."""
        first = self.of(rows, 1)
        return min(0.5, max(0.0, (self.of(rows, 1 + _PROBE_TOKENS) - first) / (_PROBE_TOKENS * first)))

    def _padded(self, rows: int, tokens: int, durations: Sequence[float]) -> int:
        """Return the best number of padding tokens. `durations` has the durations for 0, 1, ... of them."""
        table = self.known.get(rows, {})
        best, least = 0, 0.98 * durations[0]
        for more in range(1, _MAX_PADDING + 1):
            length = tokens + more
            seconds = durations[more]
            if length not in table:
                if length % 4:
                    continue
                seconds = 0.95 * min(seconds, durations[0])
            if seconds < least:
                best, least = more, seconds
        return best

    def of(self, rows: int, tokens: int) -> float:
        """Return the estimated duration of a pass; longer ones than measured are extrapolated."""
        table = self.known.get(rows)
        if not table:
            return _guessed(rows, tokens)
        tokens = _length(tokens)
        if tokens in table:
            return table[tokens]
        lengths = tuple(table)  # another thread may add one meanwhile
        below = max((length for length in lengths if length < tokens), default=None)
        above = min((length for length in lengths if length > tokens), default=None)
        if below is None or above is None:
            nearest = above if below is None else below
            assert nearest is not None
            first = min(lengths)
            if nearest == first:
                return table[first] * _guessed(rows, tokens) / _guessed(rows, first)
            # A little less than so far, so that longer passes get measured.
            more = max(0.0, 0.8 * (table[nearest] - table[first]) / (nearest - first))
            return table[nearest] + more * (tokens - nearest)
        share = (tokens - below) / (above - below)
        return table[below] * (1 - share) + table[above] * share


@dataclass
class Fixed:
    """Reads the first `size` nodes of each tree.

    Args:
        size: The number of nodes.
    """

    size: int = 8
    least: ClassVar[float] = 0.0
    """Improbable nodes are read as well."""

    def __post_init__(self) -> None:
        check_whole("size", self.size)

    def keep(
        self,
        reach: Sequence[Sequence[float]],
        pending: Sequence[int],
        costs: Costs,
        leads: Sequence[int] = (),
    ) -> list[int]:
        """See `Controller`."""
        return [min(self.size, len(chances)) for chances in reach]


@dataclass
class Confidence:
    """Reads the nodes that the text passes through with a probability of at least `least`.

    Args:
        least: The probability.
        size: The largest number of nodes of a tree.
    """

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
        leads: Sequence[int] = (),
    ) -> list[int]:
        """See `Controller`."""
        return [sum(chance >= self.least for chance in chances[: self.size]) for chances in reach]


@dataclass
class Goodput:
    """Reads as many nodes as maximise the tokens per second of all rows together; the default controller.

    It reads none if they would not make `margin` times as many (squared for a fixed batch), because the probabilities
    are estimates, and of many that look good some are not. A fixed batch takes as long as its last row, which may be
    one without drafts: that it is slower shows only afterwards.

    Args:
        size: The largest number of nodes of a tree.
        margin: The smallest speed-up for which drafts are read.
    """

    size: int = 20
    margin: float = 1.1
    weighs_drafters: ClassVar[bool] = True
    """Drafters that cost more than they bring are paused."""
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
        leads: Sequence[int] = (),
    ) -> list[int]:
        """See `Controller.keep`. Rows share a pass: each may have as many nodes as the longest at no cost."""
        rows = len(reach)
        least = max(1, *pending)
        # A fixed batch ends with its last row: the tokens of rows that are ahead are worth less.
        margin = self.margin**2 if leads and rows > 1 else self.margin
        worth = [math.exp(-lead / _LEAD_DECAY) for lead in leads] or [1.0] * rows
        # Draft tokens of shorter rows, up to the length of the longest, cost nothing.
        expected = sum(
            value * (1 + sum(chances[: least - mine]))
            for chances, mine, value in zip(reach, pending, worth, strict=True)
        )
        longest = max(mine + len(chances) for chances, mine in zip(reach, pending, strict=True))
        seconds = costs.least(rows, least, max(least, min(longest, least + self.size)))
        best, most = least, margin * expected / seconds[0]
        for length in range(least + 1, least + self.size + 1):
            more = [
                value * chances[length - mine - 1]
                for chances, mine, value in zip(reach, pending, worth, strict=True)
                if length - mine <= len(chances)
            ]
            if not more:
                break
            expected += sum(more)
            rate = expected / seconds[length - least]
            if rate > most:
                best, most = length, rate
        if best == least and any(reach):
            self._declined += 1
            if self._declined % (_DRAFT_PROBE_INTERVAL * rows) == 0:  # a bad estimate may have been bad luck
                best += _PROBE_TOKENS
        elif best > least:
            self._drafted += 1
            if self._drafted % _PLAIN_PROBE_INTERVAL == 0:  # the duration of a plain pass may change, too
                best = least
        return [min(best - mine, len(chances)) for chances, mine in zip(reach, pending, strict=True)]


def _guessed(rows: int, tokens: int) -> float:
    """Return the duration of a pass in an arbitrary unit, before any measurement: 3 % more for each token."""
    return 1.0 + 0.03 * rows * tokens


def _length(tokens: int) -> int:
    """Return the bucket of a length: itself up to 32, then eight buckets for each power of two."""
    step = 1 << max(0, (tokens - 1).bit_length() - 4)
    return tokens if tokens <= 32 else -(-tokens // step) * step
