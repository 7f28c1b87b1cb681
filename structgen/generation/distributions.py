"""The distribution of one step: from a row of logits and a mask to what a token is drawn from.

Why: local masking is one formula that every sampler uses, the speculative ones included. So it stands alone, as pure
functions on numpy arrays.
What: p(t) = softmax(logits / temperature)[t], and Z is the sum of p over the allowed tokens. The draw's distribution is
p / Z on the allowed tokens, then truncated by top-k, top-p and min-p, and renormalised after each. `log_z` is log Z, of
the model's own softmax before top-k, top-p and min-p. At temperature 0 the draw is the most probable allowed token
(ties: the smallest id), and Z is taken at temperature 1.
A draw is the token with the greatest log p + Gumbel noise (`draw_noisy`), or it inverts the cumulative sum over ids in
increasing order with one uniform number (`draw`). So a token is a function of the logits, the mask and these numbers
alone. Inversion is far more sensitive: a logit that changes in its last digit moves every boundary after it, and a flat
distribution has tens of thousands of them.
Invariant: no argument is written to; a drawn token is always allowed and has p > 0.
Cost: a few passes over the vocabulary: about 0.2 ms for 49k tokens, and less if few tokens are allowed.
Source: Geng et al. 2023 (local masking).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from structgen.errors import ModelError

from .options import SamplingOptions

if TYPE_CHECKING:
    from structgen.protocols import TextMatcher

__all__ = [
    "StepDistribution",
    "allowed_bits",
    "allowed_ids",
    "allowed_words",
    "bits_of",
    "log_sum_exp",
    "next_ids",
    "sample_index",
    "sample_index_by_blocks",
    "scaled_logits",
]

Array = NDArray[Any]
_FIRST_SORTED = 256
"""The number of most probable tokens that top-p sorts first; eight times as many if they are too few."""
_LOW_TEMPERATURE = 1e-3
"""Below it, logits over the temperature are too large for float32 to hold their differences."""


def allowed_ids(mask: Array, size: int) -> NDArray[np.int64]:
    """Return the token ids of a mask (int32 words, least significant bit first), increasing."""
    return _ids(bits_of(mask, size))


def next_ids(matcher: TextMatcher, *, at_cap: bool) -> NDArray[np.int64]:
    """Return the tokens that may follow, increasing; at the cap only those that end the text."""
    return _ids(allowed_bits(matcher, at_cap=at_cap))


def allowed_words(matcher: TextMatcher, *, at_cap: bool) -> NDArray[np.int32]:
    """Return the mask of the tokens that may follow; at the cap only of those that end the text."""
    return matcher.mask() & matcher.vocabulary.eos_mask if at_cap else matcher.mask()


def allowed_bits(matcher: TextMatcher, *, at_cap: bool) -> NDArray[np.uint8]:
    """Return 1 for each token that may follow and 0 for the others; at the cap only those that end the text may."""
    return bits_of(allowed_words(matcher, at_cap=at_cap), matcher.vocabulary.size)


def bits_of(mask: Array, size: int) -> NDArray[np.uint8]:
    """Return a mask (int32 words, least significant bit first) as an array of 0 and 1, ``[size]``."""
    return np.unpackbits(mask.view(np.uint8), count=size, bitorder="little")


def _ids(bits: NDArray[np.uint8]) -> NDArray[np.int64]:
    return np.flatnonzero(bits.view(np.bool_))  # several times as fast on booleans


def sample_index(cumulative: Array, uniform: float) -> int:
    """Return the index that `uniform` in [0, 1) selects in proportion to the summands of `cumulative`.

    The total must be positive.
    """
    total = cumulative[-1]
    index = int(np.searchsorted(cumulative, uniform * total, side="right"))
    # subtle: the product may round up to the total; then the last index with a positive summand is selected.
    return index if index < len(cumulative) else int(np.searchsorted(cumulative, total, side="left"))


_BLOCK = 512


def sample_index_by_blocks(masses: Array, uniform: float) -> int:
    """Return the index that `uniform` in [0, 1) selects in proportion to `masses`: first its block, then the index."""
    sums = np.add.reduceat(masses, np.arange(0, len(masses), _BLOCK), dtype=np.float64)
    cumulative = np.cumsum(sums)
    block = sample_index(cumulative, uniform)
    start = block * _BLOCK
    before = float(cumulative[block - 1]) if block else 0.0
    inside = np.cumsum(masses[start : start + _BLOCK], dtype=np.float64)
    left = (uniform * float(cumulative[-1]) - before) / float(inside[-1])
    return start + sample_index(inside, min(max(left, 0.0), 1.0))


def log_sum_exp(values: Array) -> float:
    """Return log(sum(exp(values))), stable; minus infinity for an empty or zero sum. The sum is in float64."""
    if not values.size:
        return -math.inf
    peak = float(values.max())
    if peak == -math.inf:
        return peak
    return peak + math.log(float(np.exp(values - values.dtype.type(peak)).sum(dtype=np.float64)))


def scaled_logits(logits: Array, temperature: float) -> Array:
    """Return the logits over a temperature above 0, up to a constant.

    At a low temperature the greatest logit is subtracted first, and the result is float64. Otherwise the differences
    would be lost by rounding, or the quotients would be infinite.
    """
    if temperature == 1:
        return logits
    quotients: Array
    if temperature >= _LOW_TEMPERATURE:
        quotients = logits / logits.dtype.type(temperature)
        return quotients
    if not logits.size or (peak := float(logits.max())) == -math.inf:
        return logits
    with np.errstate(over="ignore"):  # a quotient of minus infinity is a probability of 0
        quotients = (logits.astype(np.float64) - peak) / temperature
    return quotients


class StepDistribution:
    """The distribution of one draw.

    Args:
        logits: The model's logits, ``[vocabulary.size]``.
        ids: The allowed tokens, increasing; None if every token is allowed.
        options: Temperature and truncation.

    Attributes:
        log_z: The log of the allowed probability, before truncation.
    """

    def __init__(self, logits: Array, ids: NDArray[np.int64] | None, options: SamplingOptions) -> None:
        if math.isnan(float(logits.max())):
            raise ModelError("the model returned logits that are not a number", hint="Try float32 weights.")
        temperature = options.effective_temperature
        self._logits = logits
        self._ids = ids
        self._options = options
        self._greedy = temperature == 0
        scale = 1.0 if self._greedy else temperature
        is_low = scale < _LOW_TEMPERATURE
        scaled = scaled_logits(logits, scale)
        if ids is None:
            self._scores = scaled
        else:
            # At a low temperature the constants of the two differ.
            self._scores = scaled_logits(logits[ids], scale) if is_low else scaled[ids]
        self._total = log_sum_exp(logits)
        if ids is None:
            self.log_z = 0.0 if self._total > -math.inf else -math.inf
        else:
            total = self._total if scale == 1 else log_sum_exp(scaled)
            if is_low and len(ids):
                total += (float(logits.max()) - float(logits[ids].max())) / scale
            # Rounding may make the part a little larger than the whole.
            self.log_z = min(0.0, log_sum_exp(self._scores) - total) if total > -math.inf else -math.inf
        self._cumulative: Array | None = None
        self._chosen: NDArray[np.int64] | None = None
        self._excluded: set[int] = set()

    @property
    def is_empty(self) -> bool:
        """Whether no allowed token has a positive probability."""
        return not self._scores.size or float(self._scores.max()) == -math.inf

    def logprob(self, token: int) -> float:
        """Return log p(token) of the model at temperature 1, without the mask."""
        return float(self._logits[token]) - self._total

    def most_probable(self, count: int, size: int) -> list[tuple[int, float]]:
        """Return the most probable of the first `size` tokens with their log p (`logprob`), the greatest first."""
        logits = self._logits[:size]
        count = min(count, len(logits))
        tokens = np.argpartition(logits, len(logits) - count)[len(logits) - count :]
        order = np.lexsort((tokens, -logits[tokens]))
        return [(int(token), self.logprob(int(token))) for token in tokens[order]]

    def draw(self, uniform: float) -> int:
        """Return the token that `uniform` in [0, 1) selects. The distribution must not be empty."""
        if self._greedy:
            best = int(self._scores.argmax())
            return best if self._ids is None else int(self._ids[best])
        if self._cumulative is None:
            self._prepare()
        assert self._cumulative is not None
        position = sample_index(self._cumulative, uniform)
        return position if self._chosen is None else int(self._chosen[position])

    def draw_noisy(self, best: Callable[[Array, NDArray[np.int64]], int]) -> int:
        """Return the token with the greatest log p + noise. The distribution must not be empty.

        Args:
            best: From log p and ids to the index of the greatest sum (see `GumbelNoise.best`).
        """
        if self._greedy:
            return self.draw(0.0)
        scores, ids = self._kept()
        if ids is None:
            ids = np.arange(len(scores))
        return int(ids[best(scores, ids)])

    def probabilities(self) -> dict[int, float]:
        """Return the probabilities after truncation, by token id, without those that are zero."""
        if self._greedy:
            return {self.draw(0.0): 1.0}
        if self._cumulative is None:
            self._prepare()
        assert self._cumulative is not None
        masses = np.diff(self._cumulative, prepend=0.0) / self._cumulative[-1]
        chosen = range(len(masses)) if self._chosen is None else self._chosen.tolist()
        return {int(token): float(mass) for token, mass in zip(chosen, masses, strict=True) if mass > 0}

    def over(self, size: int) -> Array:
        """Return the probabilities after truncation, float64 ``[size]``."""
        probabilities = np.zeros(size)
        if self._greedy:
            probabilities[self.draw(0.0)] = 1.0
            return probabilities
        if self._cumulative is None:
            self._prepare()
        assert self._cumulative is not None
        masses = np.diff(self._cumulative, prepend=0.0) / self._cumulative[-1]
        probabilities[slice(len(masses)) if self._chosen is None else self._chosen] = masses
        return probabilities

    def kept(self) -> list[int]:
        """Return the tokens that truncation keeps."""
        scores, ids = self._kept()
        return list(range(len(scores))) if ids is None else [int(token) for token in ids]

    def allows(self, token: int) -> bool:
        """Return whether the mask allows a token that has a positive probability before truncation."""
        position = token if self._ids is None else int(np.searchsorted(self._ids, token))
        if self._ids is not None and (position == len(self._ids) or self._ids[position] != token):
            return False
        return float(self._scores[position]) > -math.inf

    def exclude(self, token: int) -> None:
        """Remove a token that turned out not to be allowed; the rest is renormalised. `log_z` does not change."""
        position = token if self._ids is None else int(np.searchsorted(self._ids, token))
        if self._ids is not None and (position == len(self._ids) or self._ids[position] != token):
            return  # the mask excludes it already
        if not self._excluded:
            self._scores = np.array(self._scores)  # it may be a view of the model's logits so far
        self._excluded.add(token)
        self._scores[position] = -math.inf
        self._cumulative = self._chosen = None

    def _kept(self) -> tuple[Array, NDArray[np.int64] | None]:
        """Return the scores and ids that truncation keeps."""
        scores, chosen = self._scores, self._ids
        if self._options.truncates:
            kept = _truncate(scores, self._options)
            scores, chosen = scores[kept], kept if chosen is None else chosen[kept]
        return scores, chosen

    def _prepare(self) -> None:
        scores, chosen = self._kept()
        masses = np.exp(scores - scores.max())
        self._cumulative = np.cumsum(masses, dtype=np.float64)
        self._chosen = chosen


def _truncate(scores: Array, options: SamplingOptions) -> NDArray[np.int64]:
    """Return the positions that top-k, top-p and min-p keep, increasing."""
    kept: NDArray[np.int64] = np.flatnonzero(scores > -math.inf)
    if options.top_k is not None and options.top_k < len(kept):
        kept = _most_probable(kept, scores, options.top_k)
    if options.top_p is not None and options.top_p < 1:
        kept = _nucleus(kept, scores, options.top_p)
    if options.min_p:
        floor = float(scores[kept].max()) + math.log(options.min_p)
        kept = kept[scores[kept] >= floor]
    return kept


def _most_probable(kept: NDArray[np.int64], scores: Array, count: int) -> NDArray[np.int64]:
    """Return the `count` best of `kept`; of those that tie with the last one, the smallest ids."""
    values = scores[kept]
    threshold = np.partition(values, len(values) - count)[len(values) - count]
    above = kept[values > threshold]
    ties = kept[values == threshold][: count - len(above)]
    return np.sort(np.concatenate((above, ties)))


def _nucleus(kept: NDArray[np.int64], scores: Array, mass: float) -> NDArray[np.int64]:
    """Return the smallest set of best tokens with a probability of at least `mass`; sorts only as many as needed."""
    values = scores[kept]
    masses = np.exp(values - values.max()).astype(np.float64)
    wanted = mass * masses.sum()
    count = _FIRST_SORTED
    while count < len(kept):
        best = np.partition(masses, len(masses) - count)[-count:]
        if best.sum() >= wanted:
            break
        count *= 8
    best = np.sort(masses if count >= len(kept) else best)[::-1]
    needed = int(np.searchsorted(np.cumsum(best), wanted * (1 - 1e-12), side="left")) + 1
    return _most_probable(kept, scores, needed) if needed < len(kept) else kept
