"""Gradients by central differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def slopes(function: Callable[[np.ndarray], float], at: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Return the gradient of `function`, in float64."""
    found = np.zeros_like(at, dtype=np.float64)
    for index in np.ndindex(at.shape):
        moved = at.copy()
        moved[index] += step
        above = function(moved)
        moved[index] -= 2 * step
        found[index] = (above - function(moved)) / (2 * step)
    return found
