"""Critical values of the chi-squared distribution, without SciPy."""

from __future__ import annotations


def critical_value(freedom: int) -> float:
    """Return what chi-squared with `freedom` degrees of freedom exceeds with probability 1e-4.

    An approximation: Wilson and Hilferty, "The distribution of chi-square" (1931).
    """
    return freedom * float(1 - 2 / (9 * freedom) + 3.719 * (2 / (9 * freedom)) ** 0.5) ** 3
