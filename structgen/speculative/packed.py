"""A controller for packed passes: how many draft tokens all rows of a batch read together.

Why: engines such as vLLM put the tokens of all rows into one pass without padding. So each draft token has a cost,
whichever row it belongs to, and the best tokens of all rows compete. In a small batch the pass mostly reads the
weights, and a draft token is almost free. In a full one it costs up to as much as a row.
What: `PassCosts` fits the measured durations of passes. `PackedGoodput` orders the draft tokens of all rows by the
probability that the text passes through them, and keeps as many as maximise tokens per second. `Calibration` corrects
the estimates of these probabilities.
Source: Liu et al. 2024 (SmartSpec), who also fit a linear function.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["Calibration", "PackedGoodput", "PassCosts"]

_DECAY = 0.98
"""The factor by which the weights of earlier passes are multiplied with each pass."""
_PRIOR_ROWS, _PRIOR_DRAFT = 0.5, 0.03
"""Before there are measurements: the share of a pass that depends on the number of rows, and the cost of a draft token
in passes."""
_PRIOR_WEIGHTS = (0.5, 0.5, 4.0)
"""The weights of these assumptions, and of the rest of a pass, in measured passes."""
_LEAST_FIXED = 0.01
"""The least duration of a pass that depends on nothing, as a part of the average pass."""
_COST_LEARNING_RATE = 0.1
"""The part by which the assumption about draft tokens moves to their measured cost with each pass that has some."""
_MAX_DURATION_RATIO = 2.0
"""A pass counts as at most so many times as long as expected: another process may have had its CPU."""
_DRAFT_PROBE_INTERVAL, _PROBE_TOKENS = 64, 3
"""Every 64th step that would read no draft reads up to 3 tokens all the same, to measure their cost."""
_PLAIN_PROBE_INTERVAL = 256
"""Every 256th step that would read drafts reads none, to measure the cost of a plain pass."""
_CLASSES = 10
"""The number of classes of probabilities that are corrected."""
_CLASS_DECAY, _CLASS_WEIGHT = 0.99, 4.0
"""The factor by which the counts of a class are multiplied with each of its tokens, and the weight of the estimate."""


class PassCosts:
    """Durations of passes: a linear function of the numbers of rows and of draft tokens, fitted with decay.

    The cost of draft tokens is remembered while none are read, since otherwise it would have to be found again.
    """

    def __init__(self) -> None:
        self._squares = np.zeros((3, 3))
        self._products = np.zeros(3)
        self._draft_share = _PRIOR_DRAFT
        """The assumed cost of a draft token, as a fraction of an average pass."""
        self._coefficients = np.array([1.0 - _PRIOR_ROWS, _PRIOR_ROWS, _PRIOR_DRAFT])

    def note(self, rows: int, drafted: int, seconds: float) -> None:
        """Record a pass without prefill."""
        if self._squares[0, 0]:
            seconds = min(seconds, _MAX_DURATION_RATIO * self.of(rows, drafted))
        features = np.array([1.0, rows, drafted])
        self._squares = _DECAY * self._squares + np.outer(features, features)
        self._products = _DECAY * self._products + seconds * features
        _, mean_rows, mean_drafted = self._squares[0] / self._squares[0, 0]
        average = self._products[0] / self._squares[0, 0]
        level = average / (1.0 + self._draft_share * mean_drafted)  # of a pass without drafts
        prior = level * np.array([1.0 - _PRIOR_ROWS, _PRIOR_ROWS / mean_rows, self._draft_share])
        weights = np.array(_PRIOR_WEIGHTS) * (1.0, mean_rows**2, 1.0)
        fitted = np.linalg.solve(self._squares + np.diag(weights), self._products + weights * prior)
        fitted = np.maximum(fitted, 0.0)  # no token makes a pass shorter; noise may say so
        # Noise may also leave nothing for a pass without drafts, which others divide by.
        fitted[0] = max(fitted[0], _LEAST_FIXED * average)
        if not (np.isfinite(fitted).all() and level > 0):
            return
        self._coefficients = fitted
        if drafted:
            self._draft_share += _COST_LEARNING_RATE * (self._coefficients[2] / level - self._draft_share)

    def of(self, rows: int, drafted: int) -> float:
        """Return the estimated duration of a pass, in seconds; in an arbitrary unit before any measurement."""
        fixed, row, draft = self._coefficients
        return float(fixed + row * rows + draft * drafted)


class Calibration:
    """Corrects estimated probabilities by the share of tokens with about this estimate that were accepted.

    Why: the most probable proposals are chosen, and of those that look best some look better than they are.
    """

    def __init__(self) -> None:
        self._expected = [0.0] * _CLASSES
        self._accepted = [0.0] * _CLASSES

    def note(self, reach: Sequence[float], accepted: int) -> None:
        """Record that the first `accepted` tokens of a draft with these estimates were accepted, and no others."""
        for index, chance in enumerate(reach):
            number = _class_of(chance)
            self._expected[number] = _CLASS_DECAY * self._expected[number] + chance
            self._accepted[number] = _CLASS_DECAY * self._accepted[number] + (index < accepted)

    def corrected(self, reach: Sequence[float]) -> list[float]:
        """Return the corrected probabilities of the tokens of a draft, none greater than the one before.

        Certain ones, of 1, stay as they are.
        """
        corrected: list[float] = []
        before = 1.0
        for chance in reach:
            if chance < 1.0:
                number = _class_of(chance)
                weight = _CLASS_WEIGHT * chance
                chance *= (self._accepted[number] + weight) / (self._expected[number] + weight)
            before = min(before, chance)
            corrected.append(before)
        return corrected


def _class_of(chance: float) -> int:
    return min(_CLASSES - 1, int(_CLASSES * chance))


class PackedGoodput:
    """Keeps the draft tokens that maximise the tokens per second of all rows together.

    Args:
        margin: The smallest speed-up for which drafts are read: probabilities and durations are estimates.
    """

    def __init__(self, margin: float = 1.03) -> None:
        self.costs = PassCosts()
        self.calibration = Calibration()
        self._margin = margin
        self._declined = self._drafted = 0

    def least_chance(self, rows: int) -> float:
        """Return the probability below which no draft token pays in a batch of so many rows."""
        plain = self.costs.of(rows, 0)
        return (self.costs.of(rows, 1) - plain) * rows / plain

    def saved(self, rows: int) -> float:
        """Return the seconds that an accepted draft token saves, in a batch of so many rows."""
        plain = self.costs.of(rows, 0)
        return max(0.0, plain / rows - (self.costs.of(rows, 1) - plain))

    def keep(self, reach: Sequence[Sequence[float]]) -> list[int]:
        """Return how many draft tokens of each row are read.

        Args:
            reach: For each row of the batch the estimated probabilities that its text passes through its draft
                tokens, none greater than the one before.
        """
        rows = len(reach)
        ordered = sorted(
            (-chance, row)
            for row, chances in enumerate(reach)
            for chance in self.calibration.corrected(chances)
        )
        count = self._probe(self._best(rows, [-chance for chance, _ in ordered]), len(ordered))
        kept = [0] * rows
        for _, row in ordered[:count]:
            kept[row] += 1
        return kept

    def _best(self, rows: int, chances: Sequence[float]) -> int:
        """Return how many of these probabilities, in descending order, maximise the tokens per second."""
        if not chances:
            return 0
        plain, draft = self.costs.of(rows, 0), self.costs.of(rows, 1) - self.costs.of(rows, 0)
        best, most, expected = 0, self._margin * rows / plain, float(rows)
        for count, chance in enumerate(chances, 1):
            expected += chance
            rate = expected / (plain + count * draft)
            if rate > most:
                best, most = count, rate
        return best

    def _probe(self, count: int, available: int) -> int:
        """Return the number of tokens to read, which now and then is one that measures costs."""
        if not available:
            return 0
        if count:
            self._drafted += 1
            return 0 if self._drafted % _PLAIN_PROBE_INTERVAL == 0 else count
        self._declined += 1
        return min(_PROBE_TOKENS, available) if self._declined % _DRAFT_PROBE_INTERVAL == 0 else 0
