"""Controllers: how many of the drafted tokens the model is given to read.

Why: a pass over eight tokens is not free, and a guess that is seldom right costs more than it saves. What a pass costs
is not a straight line either (on a CPU two tokens may take longer than four), so it is measured while it runs.
What: `Goodput` takes as many as make the most tokens a second: 1 + the chance of the first being right, of the first
two, ..., over what a pass of that many tokens takes. Chances are counted for each kind of draft.
Source: Liu et al. 2024 (SmartSpec).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["Controller", "Costs", "Fixed", "Goodput"]

_FORGET = 0.97
"""What a count is worth after one guess more."""
_CHANCES = {"forced": 0.85, "look-up 3": 0.7, "look-up 2": 0.5, "look-up 1": 0.3}
"""What has been seen of them mostly; others have a half."""
_AGAIN, _SOME = 64, 3
"""Of drafts that would not pay one in so many is read all the same, so far."""
_PRIOR = 4.0
"""Guesses that a new kind of draft is taken to have made."""


class Controller(Protocol):
    """Cuts drafts."""

    def keep(self, kinds: Sequence[str], pending: int) -> int:
        """How many tokens of a draft are worth reading, after `pending` tokens that have to be read anyway."""
        ...

    def drawn(self, kinds: Sequence[str], taken: int) -> None:
        """Of a draft whose tokens are of these kinds so many were right."""
        ...

    def passed(self, tokens: int, seconds: float) -> None:
        """A pass over so many tokens a row took so long."""
        ...


@dataclass
class Fixed:
    """All of them."""

    def keep(self, kinds: Sequence[str], pending: int) -> int:
        """See `Controller`."""
        return len(kinds)

    def drawn(self, kinds: Sequence[str], taken: int) -> None:
        """Nothing."""

    def passed(self, tokens: int, seconds: float) -> None:
        """Nothing."""


@dataclass
class Costs:
    """Seconds of a pass by its tokens: running means, and straight lines between those that are known."""

    known: dict[int, float] = field(default_factory=dict)

    def note(self, tokens: int, seconds: float) -> None:
        """One pass more. A slow one (another process) counts little, a faster one much."""
        before = self.known.get(tokens, seconds)
        share = 0.2 if seconds > before else 0.5
        self.known[tokens] = before + share * (min(seconds, 2 * before) - before)

    def of(self, tokens: int) -> float:
        """What a pass of so many takes; beyond all that is known, three hundredths more or less for each token."""
        if tokens in self.known:
            return self.known[tokens]
        below = max((one for one in self.known if one < tokens), default=None)
        above = min((one for one in self.known if one > tokens), default=None)
        if below is None or above is None:
            nearest = above if below is None else below
            # Little more for each token, so that longer passes are tried.
            return 1.0 if nearest is None else self.known[nearest] * max(0.2, 1 + 0.03 * (tokens - nearest))
        share = (tokens - below) / (above - below)
        return self.known[below] * (1 - share) + self.known[above] * share


@dataclass
class Goodput:
    """As many as make the most tokens a second."""

    costs: Costs = field(default_factory=Costs)
    priors: dict[str, float] = field(default_factory=lambda: dict(_CHANCES))
    """By kind, the chance that a new one is taken to have."""
    _right: dict[str, float] = field(default_factory=dict)
    _tried: dict[str, float] = field(default_factory=dict)
    _declined: int = 0

    def chance(self, kind: str) -> float:
        """That a token of this kind is right, where those before it were."""
        prior = self.priors.get(kind, 0.5)
        return (self._right.get(kind, 0.0) + _PRIOR * prior) / (self._tried.get(kind, 0.0) + _PRIOR)

    def keep(self, kinds: Sequence[str], pending: int) -> int:
        """See `Controller`."""
        best, most = 0, 1 / self.costs.of(max(1, pending))
        expected = chance = 1.0
        for place, kind in enumerate(kinds, 1):
            chance *= self.chance(kind)
            expected += chance
            rate = expected / self.costs.of(pending + place)
            if rate > most:
                best, most = place, rate
        if kinds and not best:
            self._declined += 1
            if self._declined % _AGAIN == 0:  # what once looked bad may have been bad luck
                return min(len(kinds), _SOME)
        return best

    def drawn(self, kinds: Sequence[str], taken: int) -> None:
        """See `Controller`."""
        for place, kind in enumerate(kinds[: taken + 1]):
            self._tried[kind] = self._tried.get(kind, 0.0) * _FORGET + 1
            self._right[kind] = self._right.get(kind, 0.0) * _FORGET + (place < taken)

    def passed(self, tokens: int, seconds: float) -> None:
        """See `Controller`."""
        self.costs.note(tokens, seconds)
