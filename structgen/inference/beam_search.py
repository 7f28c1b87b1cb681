"""Beam search over constrained states, in groups that avoid one another where wanted.

What: `width` texts grow side by side, those with the most probable tokens of all that the constraint allows; texts that
end leave the beam and are kept. With several groups each goes its own way: a token that earlier groups chose in this
step costs `diversity` for each that did.
A text that is found again, in other tokens or with another end, is one text: its log probability is that of all the
ways that were found.
Invariant: what is found is in the language, with its log probability under the model (not renormalised under the mask).
A text that grows is left where it can no longer become better than the worst that its group keeps, however long it
gets: stopping loses no better text, at most other tokens of one that is kept.
Cost: a row of the model for each distinct text and step.
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
    """Without the end-of-text token; the most probable ones."""
    log_prob: float
    score: float
    """log_prob over the number of tokens (the end among them) to the power of the length penalty."""
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
    """The best texts found, best first: at most `width` of them, of each group its share."""
    eos = frozenset(matcher.vocabulary.eos_ids)
    shares = [width // groups + (i < width % groups) for i in range(groups)]
    growing: list[list[_Growing]] = [[_Growing((), matcher.fork(), 0.0)] for _ in range(groups)]
    kept = [_Kept(share, length_penalty, max_tokens + 1) for share in shares]

    for step in range(max_tokens + 1):
        alive = [one.tokens for group in growing for one in group]
        if not alive or stops():
            break
        laws = batch.read(alive)
        chosen: dict[int, int] = {}
        for group, share in enumerate(shares):
            at_cap = step == max_tokens
            found: list[_Next] | None = None
            while found is None:  # what a matcher refuses when it is read is in no mask of it afterwards
                found = _grown(growing[group], laws, chosen, share, eos, at_cap=at_cap, diversity=diversity)
            grown: list[_Growing] = []
            for log_prob, token, one, after in found:
                if after is None:
                    kept[group].add(one, log_prob, group)
                else:
                    grown.append(_Growing((*one.tokens, token), after, log_prob))
                chosen[token] = chosen.get(token, 0) + 1
            growing[group] = [one for one in grown if kept[group].may_take(one.log_prob)]
    listed: dict[bytes, Beam] = {}  # what several groups have found is the first one's
    for mine in kept:
        listed |= mine.best(listed)
    return sorted(listed.values(), key=lambda beam: -beam.score)


_Next = tuple[float, int, _Growing, "TextMatcher | None"]
"""The log probability with a token, the token, what it follows, and the matcher behind it; None: the text ends."""


def _grown(
    growing: list[_Growing],
    laws: Any,
    chosen: dict[int, int],
    share: int,
    eos: frozenset[int],
    *,
    at_cap: bool,
    diversity: float,
) -> list[_Next] | None:
    """The best ends and the `share` best tokens, best first; None where a matcher refused one that its mask allowed."""
    candidates: list[tuple[float, float, int, _Growing]] = []
    for one in growing:
        ids = next_ids(one.matcher, at_cap=at_cap)
        log_p = laws[one.tokens].log_p[ids].astype(np.float64)
        ranked = log_p.copy()
        for token, times in chosen.items() if diversity else ():
            ranked[ids == token] -= diversity * times
        many = min(len(ids), 2 * share + len(eos))
        best = np.argpartition(-ranked, many - 1)[:many] if many < len(ids) else np.arange(len(ids))
        candidates += [
            (one.log_prob + float(ranked[i]), one.log_prob + float(log_p[i]), int(ids[i]), one)
            for i in best
            if log_p[i] > -math.inf
        ]
    candidates.sort(key=lambda found: (-found[0], found[2]))
    found: list[_Next] = []
    tokens = 0
    for _, log_prob, token, one in candidates:
        if token in eos:
            if _is_right(one.matcher):
                found.append((log_prob, token, one, None))
        elif tokens < share:
            after = one.matcher.fork()
            if not after.advance(token):
                return None
            tokens += 1
            found.append((log_prob, token, one, after))
    return found


def _is_right(matcher: TextMatcher) -> bool:
    """Is the text right as a whole, where the matcher judges that (see `structgen.monitors`)?"""
    judge = matcher.judge
    return judge is None or judge.is_right()


class _Kept:
    """The texts that a group has found: all of them, since one may come again in other tokens."""

    def __init__(self, share: int, length_penalty: float, longest: int) -> None:
        self._share = share
        self._penalty = length_penalty
        self._longest = longest
        self._found: dict[bytes, tuple[float, Beam]] = {}
        """By text: the log probability of the tokens, and what is known of the text."""

    def add(self, one: _Growing, log_prob: float, group: int) -> None:
        text = one.matcher.text
        best, known = self._found.get(text, (-math.inf, None))
        total = log_prob if known is None else float(np.logaddexp(known.log_prob, log_prob))
        tokens = one.tokens if known is None or log_prob > best else known.tokens
        score = self._score(total, len(tokens) + 1)
        self._found[text] = max(best, log_prob), Beam(tokens, total, score, group)

    def best(self, others: Container[bytes] = ()) -> dict[bytes, Beam]:
        """Its share of texts, the best first, without `others`."""
        found = [(text, beam) for text, (_, beam) in self._found.items() if text not in others]
        return dict(sorted(found, key=lambda one: -one[1].score)[: self._share])

    def may_take(self, log_prob: float) -> bool:
        """May a text that has come so far become one of the best?"""
        best = list(self.best().values())
        return len(best) < self._share or self._score(log_prob, self._longest) > best[-1].score

    def _score(self, log_prob: float, length: int) -> float:
        return log_prob / math.pow(length, self._penalty)
