"""Schedules of unmasking: how confident a model is of each cell, which decides which cells are filled next.

Invariant: confidences are those of the model's own distribution, without masks, so their order does not change when
masks shrink.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from structgen.errors import OptionError

__all__ = ["SCHEDULES", "ScheduleName", "confidences"]

ScheduleName = Literal["confidence", "margin", "entropy", "random", "left-to-right"]
SCHEDULES: tuple[str, ...] = get_args(ScheduleName)
Array = NDArray[np.float64]


def confidences(
    schedule: str, log_p: Array, tokens: Sequence[int], cells: Sequence[int], chance: np.random.Generator
) -> Array:
    """Return the model's confidence in each cell, ``[cells]``, the greatest first to be filled.

    Args:
        schedule: One of `SCHEDULES`.
        log_p: Log probabilities, ``[cells, size]``.
        tokens: The candidate of each cell.
        cells: The index of each cell.
        chance: The generator of "random".
    """
    if schedule not in _OF:
        raise OptionError(f"schedule is {schedule!r:.40}; use one of {', '.join(SCHEDULES)}")
    return _OF[schedule](log_p, np.asarray(tokens), np.asarray(cells), chance)


def _confidence(log_p: Array, tokens: Array, cells: Array, chance: np.random.Generator) -> Array:
    """Return the log probability of the candidate (low-confidence remasking of LLaDA)."""
    confidence: Array = log_p[np.arange(len(tokens)), tokens]
    return confidence


def _margin(log_p: Array, tokens: Array, cells: Array, chance: np.random.Generator) -> Array:
    """Return how much more probable the candidate is than the best other token."""
    p = np.exp(log_p)
    mine = p[np.arange(len(tokens)), tokens].copy()
    p[np.arange(len(tokens)), tokens] = -1
    margin: Array = mine - p.max(axis=1)
    return margin


def _entropy(log_p: Array, tokens: Array, cells: Array, chance: np.random.Generator) -> Array:
    """Return the negative entropy of the cell's distribution."""
    negative_entropy: Array = (np.exp(log_p) * np.where(np.isfinite(log_p), log_p, 0)).sum(axis=1)
    return negative_entropy


def _random(log_p: Array, tokens: Array, cells: Array, chance: np.random.Generator) -> Array:
    return chance.random(len(tokens))


def _left_to_right(log_p: Array, tokens: Array, cells: Array, chance: np.random.Generator) -> Array:
    return -cells.astype(np.float64)


_OF: dict[str, Callable[[Array, Array, Array, np.random.Generator], Array]] = {
    "confidence": _confidence,
    "margin": _margin,
    "entropy": _entropy,
    "random": _random,
    "left-to-right": _left_to_right,
}
