"""Which cells are filled next: how sure a model is of each.

Invariant: confidences are of the model's own law, without masks, so what is surest does not change when masks shrink.
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
    """How sure the model is of each cell, greater first.

    log_p    log probabilities, ``[cells, size]``
    tokens   the candidate of each cell
    cells    their places
    """
    if schedule not in _OF:
        raise OptionError(f"schedule is {schedule!r:.40}; it is one of {', '.join(SCHEDULES)}")
    return _OF[schedule](log_p, np.asarray(tokens), np.asarray(cells), chance)


def _confidence(log_p: Array, tokens: Array, cells: Array, chance: np.random.Generator) -> Array:
    """The probability of the candidate (low-confidence re-masking of LLaDA)."""
    found: Array = log_p[np.arange(len(tokens)), tokens]
    return found


def _margin(log_p: Array, tokens: Array, cells: Array, chance: np.random.Generator) -> Array:
    """How much more likely the candidate is than the best other token."""
    p = np.exp(log_p)
    mine = p[np.arange(len(tokens)), tokens].copy()
    p[np.arange(len(tokens)), tokens] = -1
    found: Array = mine - p.max(axis=1)
    return found


def _entropy(log_p: Array, tokens: Array, cells: Array, chance: np.random.Generator) -> Array:
    """The entropy of the cell's law, negated."""
    found: Array = (np.exp(log_p) * np.where(np.isfinite(log_p), log_p, 0)).sum(axis=1)
    return found


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
