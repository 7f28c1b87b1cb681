"""How acceptance grows with training data and with the drafter's size: a log-linear fit for the report.

Why: the fit shows what more data or a larger drafter would bring, before anyone pays for it.
What: ``value = level + a * log2(data) + b * log2(size)`` by least squares: a is what each doubling of the data adds, b
each doubling of the weights. The value is an acceptance rate or tokens per pass.
Interval: a bootstrap over residuals. Each is divided by the square root of 1 minus its leverage, drawn with replacement
and given a random sign. Each resample also draws its scale, ``sqrt(n / chi-squared(n))`` with n degrees of freedom that
remain: without it, the intervals of few points are too narrow, as those of a normal distribution are next to Student's.
Source: Yan et al. 2025 (Scylla), https://arxiv.org/abs/2505.07858: acceptance grows log-linearly with the training
tokens and with the drafter's size. Residuals by leverage: Davison and Hinkley 1997, section 6.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from structgen.errors import OptionError

__all__ = ["Point", "ScalingFit", "Slope", "fit_scaling"]

_RESAMPLES = 4000
_FEWEST_POINTS = 3
_FLAT = 1e-9
"""A residual or a distance in logarithms below this counts as 0."""


@dataclass(frozen=True)
class Point:
    """The measurement of one trained drafter."""

    data: float
    """The number of training tokens."""
    size: float
    """The number of weights."""
    value: float
    """The acceptance rate, or tokens per pass."""


@dataclass(frozen=True)
class Slope:
    """What one doubling adds."""

    estimate: float
    low: float
    high: float
    """The interval from `low` to `high` contains the true slope with the probability that `fit_scaling` was given."""

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class ScalingFit:
    """The fit; `data` or `size` is None if all points agree in it."""

    level: float
    data: Slope | None
    size: Slope | None
    points: tuple[Point, ...]
    confidence: float

    def predict(self, data: float, size: float) -> float:
        """Return the fitted value for `data` tokens and `size` weights; beyond the points it is extrapolated."""
        value = self.level
        for slope, amount in ((self.data, data), (self.size, size)):
            if slope is not None:
                value += slope.estimate * math.log2(amount)
        return value

    def sentences(self, measure: str = "tokens per pass") -> str:
        """Return the fit in words, one sentence for each slope.

        Args:
            measure: The name of the value.
        """
        written = []
        for slope, subject, amounts in (
            (self.data, "the training data doubles", [point.data for point in self.points]),
            (self.size, "the number of weights doubles", [point.size for point in self.points]),
        ):
            if slope is None:
                continue
            interval = f"{self.confidence * 100:g} % interval: {slope.low:+.3g} to {slope.high:+.3g}"
            of = f"{len(self.points)} points from {min(amounts):,.0f} to {max(amounts):,.0f}"
            if slope.is_clear:
                change = f"{abs(slope.estimate):.3g} {'more' if slope.estimate > 0 else 'less'}"
                written.append(f"{measure}: {change} each time {subject} ({interval}; {of}).")
            else:
                written.append(f"{measure}: no clear change each time {subject} ({interval}; {of}).")
        return " ".join(sentence[0].upper() + sentence[1:] for sentence in written)

    def outlook(self, measure: str = "tokens per pass") -> str:
        """Return in one sentence what twice the data of the drafter with the most data would bring.

        Args:
            measure: The name of the value.
        """
        most = max(self.points, key=lambda point: (point.data, point.size))
        if self.data is None:
            return "All drafters were trained on the same amount of data, so nothing follows for more of it."
        interval = f"{self.confidence * 100:g} % interval: {self.data.low:+.3g} to {self.data.high:+.3g}"
        twice = f"{2 * most.data:,.0f} training tokens in place of {most.data:,.0f}"
        if not self.data.is_clear:
            return f"There is no clear gain in {measure} to expect from {twice} ({interval})."
        before, after = (self.predict(data, most.size) for data in (most.data, 2 * most.data))
        return (
            f"If the trend goes on, {twice} give {after:.2f} {measure} in place of {before:.2f} "
            f"({self.data.estimate:+.3g}; {interval})."
        )


def fit_scaling(points: Iterable[Point], *, confidence: float = 0.95, seed: int = 0) -> ScalingFit:
    """Fit how the value grows with data and size.

    Args:
        points: The measurements. Several of the same data and size, with other seeds, make the interval sounder.
        confidence: The probability of the intervals.
        seed: Of the bootstrap.

    Raises:
        OptionError: There are fewer than three distinct pairs of data and size, no point is left over after the
            coefficients, data and size grow in step, or a number is not finite and positive.
    """
    points = tuple(points)
    _check(points, confidence)
    logs = np.log2([[point.data, point.size] for point in points])
    values = np.array([point.value for point in points])
    varied = [column for column in range(2) if np.ptp(logs[:, column]) > _FLAT]
    centre = logs[:, varied].mean(0)
    design = np.column_stack([np.ones(len(points)), logs[:, varied] - centre])
    if np.linalg.matrix_rank(design, tol=1e-6) < design.shape[1]:
        raise OptionError(
            "data and size grow in step: their effects cannot be separated",
            hint="Add drafters of one size with different data, or of different sizes with the same data.",
        )
    inverse = np.linalg.pinv(design)
    coefficients = inverse @ values
    residuals = values - design @ coefficients
    left = len(points) - design.shape[1]
    if left < 1:
        raise OptionError(
            f"{len(points)} points determine {design.shape[1]} coefficients exactly, which leaves no interval",
            hint="Measure more points.",
        )
    drawn = _resampled(inverse, residuals, np.einsum("ij,ji->i", design, inverse), left, seed)
    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    slopes: list[Slope | None] = [None, None]
    for index, column in enumerate(varied, start=1):
        low, high = coefficients[index] + np.quantile(drawn[:, index], tails)
        slopes[column] = Slope(float(coefficients[index]), float(low), float(high))
    level = float(coefficients[0] - coefficients[1:] @ centre)
    return ScalingFit(level, slopes[0], slopes[1], points, confidence)


def _resampled(
    inverse: NDArray[np.float64],
    residuals: NDArray[np.float64],
    leverages: NDArray[np.float64],
    left: int,
    seed: int,
) -> NDArray[np.float64]:
    """Return the deviations of the coefficients in each resample, ``[resamples, coefficients]``."""
    free = 1 - leverages > _FLAT  # a point that one coefficient fits alone has no residual
    pool = residuals[free] / np.sqrt(1 - leverages[free])
    rng = np.random.default_rng(seed)
    shape = (_RESAMPLES, len(residuals))
    noise = rng.choice(pool, size=shape) * rng.choice([-1.0, 1.0], size=shape)
    scales = np.sqrt(left / rng.chisquare(left, size=(_RESAMPLES, 1)))
    deviations: NDArray[np.float64] = scales * (noise @ inverse.T)
    return deviations


def _check(points: Sequence[Point], confidence: float) -> None:
    """Check the points before they are fitted."""
    if not 0 < confidence < 1:
        raise OptionError(f"confidence is {confidence!r:.40}; it must be between 0 and 1")
    for point in points:
        amounts = point.data, point.size
        if not all(math.isfinite(amount) and amount > 0 for amount in amounts):
            raise OptionError(f"{point} needs positive numbers of training tokens and of weights")
        if not math.isfinite(point.value):
            raise OptionError(f"{point} has a value that is not finite")
    distinct = len({(point.data, point.size) for point in points})
    if distinct < _FEWEST_POINTS:
        raise OptionError(
            f"a fit over sizes needs at least {_FEWEST_POINTS} drafters that differ in training data or size, and "
            f"there {'is' if distinct == 1 else 'are'} {distinct}",
            hint="Train some with half and a quarter of the data.",
        )
