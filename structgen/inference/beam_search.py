"""Beam search over constrained states, in groups that can be made to differ.

What: `width` texts grow in parallel, those with the most probable tokens that the constraint allows. Texts that end
leave the beam and are kept. With several groups, each searches for itself: a token that earlier groups chose in this
step costs `diversity` for each of them.
A text that is found again, in other tokens or with another end, is one text: its log probability is the log of the sum
over all of them.
Invariant: each result is in the language, with its log probability under the model (not renormalised under the mask). A
growing text is dropped once it cannot become better than the worst kept text of its group, at any length. So stopping
loses no better text, at most another tokenization of a kept one.
Cost: one row of the model for each distinct text and step.
Source: Vijayakumar et al. 2018, "Diverse beam search"; Wu et al. 2016 for the penalty, score = log P / length^alpha.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from structgen.generation.distributions import next_ids

from .prefixes import PrefixBatch

if TYPE_CHECKING:
    from structgen.protocols import TextMatcher

__all__ = ["Beam", "beam_search"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Beam:
    """A text that was found."""

    tokens: tuple[int, ...]
    """The most probable tokenization, without the end-of-sequence token."""
    log_prob: float
    score: float
    """log_prob / (number of tokens, end included) ** length penalty."""
    group: int


@dataclass
class _Growing:
    tokens: tuple[int, ...]
    matcher: TextMatcher
    log_prob: float


def beam_search(
    batch: PrefixBatch,
    matcher: TextMatcher,
    *,
    width: int,
    groups: int = 1,
    diversity: float = 0.0,
    length_penalty: float = 0.0,
    max_tokens: int = 512,
    stops: Callable[[], bool] = lambda: False,
) -> list[Beam]:
    """Return the best texts found, at most `width`, the best first.

    Args:
        batch: Reads the model.
        matcher: The matcher at the start of the text.
        width: The number of texts that grow in parallel, divided among the groups.
        groups: The number of groups.
        diversity: The cost of a token for each earlier group that chose it in the same step.
        length_penalty: The exponent of the length in the score.
        max_tokens: The largest number of tokens of a text.
        stops: Called once per step; True ends the search.
    """
    eos = frozenset(matcher.vocabulary.eos_ids)
    shares = [width // groups + (i < width % groups) for i in range(groups)]
    growing: list[list[_Growing]] = [[_Growing((), matcher.fork(), 0.0)] for _ in range(groups)]
    kept = [_Kept(share, length_penalty, max_tokens + 1) for share in shares]

    for step in range(max_tokens + 1):
        alive = [text.tokens for group in growing for text in group]
        if not alive or stops():
            break
        distributions = batch.read(alive)
        chosen: dict[int, int] = {}
        for group, share in enumerate(shares):
            at_cap = step == max_tokens
            best_next: list[_Next] | None = None
            while best_next is None:  # a matcher excludes from its mask what it has refused
                best_next = _grown(
                    growing[group], distributions, chosen, share, eos, at_cap=at_cap, diversity=diversity
                )
            grown: list[_Growing] = []
            for log_prob, token, text, after in best_next:
                if after is None:
                    kept[group].add(text, log_prob, group)
                else:
                    grown.append(_Growing((*text.tokens, token), after, log_prob))
                chosen[token] = chosen.get(token, 0) + 1
            growing[group] = [text for text in grown if kept[group].may_take(text.log_prob)]
    listed: dict[bytes, Beam] = {}  # a text that several groups found belongs to the first one
    for mine in kept:
        listed |= mine.best(listed)
    return sorted(listed.values(), key=lambda beam: -beam.score)


_Next = tuple[float, int, _Growing, "TextMatcher | None"]
"""Log probability including the token, the token, the text before it, the matcher after it (None: the text ends)."""


def _grown(
    growing: list[_Growing],
    distributions: Any,
    chosen: dict[int, int],
    share: int,
    eos: frozenset[int],
    *,
    at_cap: bool,
    diversity: float,
) -> list[_Next] | None:
    """Return the best ends and the `share` best tokens, the best first; None if a matcher refused an allowed token."""
    candidates: list[tuple[float, float, int, _Growing]] = []
    for text in growing:
        ids = next_ids(text.matcher, at_cap=at_cap)
        log_p = distributions[text.tokens].log_p[ids].astype(np.float64)
        ranked = log_p.copy()
        for token, times in chosen.items() if diversity else ():
            ranked[ids == token] -= diversity * times
        many = min(len(ids), 2 * share + len(eos))
        best = np.argpartition(-ranked, many - 1)[:many] if many < len(ids) else np.arange(len(ids))
        candidates += [
            (text.log_prob + float(ranked[i]), text.log_prob + float(log_p[i]), int(ids[i]), text)
            for i in best
            if log_p[i] > -math.inf
        ]
    candidates.sort(key=lambda candidate: (-candidate[0], candidate[2]))
    best_next: list[_Next] = []
    tokens = 0
    for _, log_prob, token, text in candidates:
        if token in eos:
            if _is_right(text.matcher):
                best_next.append((log_prob, token, text, None))
        elif tokens < share:
            after = text.matcher.fork()
            if not after.advance(token):
                return None
            tokens += 1
            best_next.append((log_prob, token, text, after))
    return best_next


def _is_right(matcher: TextMatcher) -> bool:
    """Return whether the matcher's monitors, if it has any, find no fault in the whole text."""
    judge = matcher.judge
    return judge is None or judge.is_right()


class _Kept:
    """The texts that a group has found: all of them, since one may recur in other tokens."""

    def __init__(self, share: int, length_penalty: float, longest: int) -> None:
        self._share = share
        self._penalty = length_penalty
        self._longest = longest
        self._found: dict[bytes, tuple[float, Beam]] = {}
        """By text: the log probability of its best tokenization, and the result."""

    def add(self, growing: _Growing, log_prob: float, group: int) -> None:
        text = growing.matcher.text
        best, known = self._found.get(text, (-math.inf, None))
        total = log_prob if known is None else float(np.logaddexp(known.log_prob, log_prob))
        tokens = growing.tokens if known is None or log_prob > best else known.tokens
        score = self._score(total, len(tokens) + 1)
        self._found[text] = max(best, log_prob), Beam(tokens, total, score, group)

    def best(self, others: Container[bytes] = ()) -> dict[bytes, Beam]:
        """Return the group's share of texts, the best first, without `others`."""
        beams = [(text, beam) for text, (_, beam) in self._found.items() if text not in others]
        return dict(sorted(beams, key=lambda item: -item[1].score)[: self._share])

    def may_take(self, log_prob: float) -> bool:
        """Return whether a growing text with this log probability may become one of the best."""
        best = list(self.best().values())
        return len(best) < self._share or self._score(log_prob, self._longest) > best[-1].score

    def _score(self, log_prob: float, length: int) -> float:
        return log_prob / math.pow(length, self._penalty)
