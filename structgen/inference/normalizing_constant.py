"""What attempts tell about the mass Z of all texts (the log of it): an estimate, and bounds that hold for certain.

What: attempt k ended in a text with probability Z / theta[k], whatever happened before, theta[k] being the bound at the
root when it began. The estimate is the most likely Z under that: the root of

    (attempts that ended in a text) / Z  =  sum over the others of 1 / (theta[k] - Z)

which weighs attempts by what they tell: under a bound of 1 an attempt on a language of mass 1e-7 tells nothing. The
mean of theta[k] * 1[k ended in a text] is unbiased, and so skewed that nearly every run is far below. Whoever stops at
the n-th text has the last attempt chosen by its result, so of two texts or more the last one is left out (for bounds
that stay as they are this is (n - 1) / (attempts - 1), the unbiased estimate of inverse sampling; under falling bounds
a few draws are some percent too high); of one text it is too high on the average.
Bounds: Z is at least the mass of the distinct texts that came out, and at most the bound at the root.
Weighted walks (ASAp) have the mean of their weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from structgen.generation.distributions import log_sum_exp

__all__ = ["MassEstimate"]

_STEPS = 60


class MassEstimate:
    """Of walks, in the order in which they began."""

    def __init__(self) -> None:
        self._weights: list[float] = []
        self._ended: list[bool] = []
        self._texts: dict[tuple[int, ...], float] = {}

    def add(self, log_weight: float, text: tuple[int, ...] | None, log_mass: float) -> None:
        """An attempt with its bound (or its weight), the tokens that came out with their end, and their own mass."""
        self._weights.append(log_weight)
        self._ended.append(text is not None)
        if text is not None:
            self._texts[text] = log_mass

    def low(self) -> float:
        """The mass of the distinct texts."""
        return log_sum_exp(np.array(list(self._texts.values()))) if self._texts else -math.inf

    def of_attempts(self, high: float, *, chosen: bool) -> float:
        """The most likely mass, where it is at most `high`. `chosen`: the last attempt is the last for its text."""
        ended = np.array(self._ended, dtype=bool)
        if not ended.any():
            return -math.inf
        bounds = np.array(self._weights)
        if chosen and ended.sum() > 1:
            ended, bounds = ended[:-1], bounds[:-1]
        top = min(high, float(bounds.min()))
        ratios = np.exp(np.minimum(bounds[~ended] - top, 700.0))
        least, most = 0.0, 1.0  # of Z / exp(top)
        for _ in range(_STEPS):
            middle = (least + most) / 2
            too_low = ended.sum() / middle > np.sum(1 / np.maximum(ratios - middle, 1e-300))
            least, most = (middle, most) if too_low else (least, middle)
        return max(top + math.log(most), self.low())

    def of_weights(self) -> float:
        """The mean of the weights."""
        found: Sequence[float] = [
            w if e else -math.inf for w, e in zip(self._weights, self._ended, strict=True)
        ]
        return max(log_sum_exp(np.array(found)) - math.log(len(found)), self.low()) if found else -math.inf
