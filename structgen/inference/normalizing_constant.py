"""The normalising constant Z, the probability of all texts of the constraint: an estimate, and certain bounds.

What: attempt k ended in a text with probability Z / theta[k], given all that happened before. Here theta[k] is the
bound at the root when it started. The estimate is the maximum-likelihood Z: the root of

    (attempts that ended in a text) / Z  =  sum over the others of 1 / (theta[k] - Z)

It weighs attempts by their information: under a bound of 1, an attempt on a language of probability 1e-7 has nearly
none. The mean of theta[k] * 1[k ended in a text] is unbiased, but so skewed that nearly every run is far below Z. If
the run stops at the n-th text, the last attempt was selected by its result. So of two texts or more the last one is
left out. (For constant bounds this is (n - 1) / (attempts - 1), the unbiased estimate of inverse sampling; for falling
bounds and few draws it is some percent too high.) With one text the estimate is too high on average.
Bounds: Z is at least the probability of the distinct texts that were drawn, and at most the bound at the root.
Weighted walks (ASAp) use the mean of their weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from structgen.generation.distributions import log_sum_exp

__all__ = ["MassEstimate"]

_BISECTION_STEPS = 60


class MassEstimate:
    """The estimate from walks, in the order in which they started."""

    def __init__(self) -> None:
        self._weights: list[float] = []
        self._ended: list[bool] = []
        self._texts: dict[tuple[int, ...], float] = {}

    def add(self, log_weight: float, text: tuple[int, ...] | None, log_mass: float) -> None:
        """Add an attempt with its bound (or weight), the tokens of its text with their end, and the text's own mass."""
        self._weights.append(log_weight)
        self._ended.append(text is not None)
        if text is not None:
            self._texts[text] = log_mass

    def low(self) -> float:
        """Return the log of the total of the distinct texts, a lower bound."""
        return log_sum_exp(np.array(list(self._texts.values()))) if self._texts else -math.inf

    def of_attempts(self, high: float, *, chosen: bool) -> float:
        """Return the log of the most likely value below `high`; `chosen`: the run stopped at its last text."""
        ended = np.array(self._ended, dtype=bool)
        if not ended.any():
            return -math.inf
        bounds = np.array(self._weights)
        if chosen and ended.sum() > 1:
            ended, bounds = ended[:-1], bounds[:-1]
        top = min(high, float(bounds.min()))
        ratios = np.exp(np.minimum(bounds[~ended] - top, 700.0))
        least, most = 0.0, 1.0  # as multiples of exp(top)
        for _ in range(_BISECTION_STEPS):
            middle = (least + most) / 2
            too_low = ended.sum() / middle > np.sum(1 / np.maximum(ratios - middle, 1e-300))
            least, most = (middle, most) if too_low else (least, middle)
        return max(top + math.log(most), self.low())

    def of_weights(self) -> float:
        """Return the log of the mean weight."""
        masses: Sequence[float] = [
            w if e else -math.inf for w, e in zip(self._weights, self._ended, strict=True)
        ]
        return max(log_sum_exp(np.array(masses)) - math.log(len(masses)), self.low()) if masses else -math.inf
