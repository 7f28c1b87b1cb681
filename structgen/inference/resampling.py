"""Resampling: ancestors of particles in proportion to their weights.

Invariant: for weights w (normalised) and n offspring, the expected number of offspring of i is n * w[i]. With
``systematic`` the number differs from it by less than one, with ``stratified`` by less than two.
Source: Douc and Cappe, "Comparison of resampling schemes for particle filtering" (2005).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from structgen.errors import OptionError
from structgen.generation.distributions import log_sum_exp

__all__ = ["RESAMPLING", "Resampling", "effective_size", "resample"]

Resampling = Literal["systematic", "stratified", "multinomial"]
RESAMPLING = ("systematic", "stratified", "multinomial")


def effective_size(log_weights: NDArray[Any]) -> float:
    """Return the effective sample size (sum w)^2 / sum w^2; 0 if all weights are 0."""
    total = log_sum_exp(log_weights)
    return 0.0 if total == -np.inf else float(np.exp(2 * total - log_sum_exp(2 * log_weights)))


def resample(
    log_weights: NDArray[Any], count: int, method: Resampling, random: np.random.Generator
) -> NDArray[np.int64]:
    """Return `count` indices of ancestors, sorted. At least one weight must be positive."""
    masses = np.exp(log_weights - log_weights.max())
    cumulative = np.cumsum(masses / masses.sum())
    if method == "systematic":
        points = (np.arange(count) + random.random()) / count
    elif method == "stratified":
        points = (np.arange(count) + random.random(count)) / count
    elif method == "multinomial":
        points = np.sort(random.random(count))
    else:
        raise OptionError(f"unknown resampling {method!r}", hint=f"Use one of {', '.join(RESAMPLING)}.")
    # subtle: rounding may leave the last sum below 1, and a particle without weight must never be selected.
    indices = np.searchsorted(cumulative, points * cumulative[-1], side="right")
    ancestors: NDArray[np.int64] = np.minimum(indices, int(np.flatnonzero(masses)[-1]))
    return ancestors
