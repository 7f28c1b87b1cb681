"""Beam search over constrained states, in groups that avoid one another where wanted.

What: `width` texts grow side by side, those with the most probable tokens of all that the constraint allows; texts that
end leave the beam and are kept. With several groups each goes its own way: a token that earlier groups chose in this
step costs `diversity` for each that did.
Invariant: what is found is in the language, with its log probability under the model (not renormalised under the mask).
A search of one group without a length penalty stops when no text that still grows can become better than the worst
that is kept, so that stopping loses nothing.
Cost: a row of the model for each distinct text and step.
Source: Vijayakumar et al. 2018, "Diverse beam search"; Wu et al. 2016 for the penalty, score = log P / length^alpha.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .law import next_ids
from .prefixes import PrefixBatch

if TYPE_CHECKING:
    from structgen.matcher import Matcher

__all__ = ["Beam", "beam_search"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Beam:
    """A text that was found."""

    tokens: tuple[int, ...]
    """Without the end-of-text token."""
    log_prob: float
    score: float
    """log_prob over the number of tokens (the end among them) to the power of the length penalty."""
    group: int


@dataclass
class _Growing:
    tokens: tuple[int, ...]
    matcher: Matcher
    log_prob: float


def beam_search(
    batch: PrefixBatch,
    matcher: Matcher,
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
    kept: list[list[Beam]] = [[] for _ in range(groups)]

    def score(log_prob: float, length: int) -> float:
        return log_prob / float(length**length_penalty)

    for step in range(max_tokens + 1):
        alive = [one.tokens for group in growing for one in group]
        if not alive or stops():
            break
        laws = batch.read(alive)
        chosen: dict[int, int] = {}
        for group, share in enumerate(shares):
            candidates: list[tuple[float, float, int, _Growing]] = []
            for one in growing[group]:
                ids = next_ids(one.matcher, at_cap=step == max_tokens)
                log_p = laws[one.tokens][ids].astype(np.float64)
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
            grown: list[_Growing] = []
            for _, log_prob, token, one in candidates:
                if token in eos:
                    found = Beam(one.tokens, log_prob, score(log_prob, len(one.tokens) + 1), group)
                    kept[group] = sorted([*kept[group], found], key=lambda beam: -beam.score)[:share]
                elif len(grown) < share:
                    other = one.matcher.fork()
                    other.advance(token)
                    grown.append(_Growing((*one.tokens, token), other, log_prob))
                    chosen[token] = chosen.get(token, 0) + 1
            if len(kept[group]) == share and length_penalty <= 0 and not diversity:
                worst = kept[group][-1].score
                grown = [one for one in grown if one.log_prob > worst]
            growing[group] = grown
    return sorted((beam for group in kept for beam in group), key=lambda beam: -beam.score)
