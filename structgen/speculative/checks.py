"""Checks of the arguments of drafters and controllers, when they are made and not in the middle of a text."""

from __future__ import annotations

import math
from typing import Any

from structgen.errors import OptionError

__all__ = ["check_number", "check_whole"]


def check_whole(name: str, value: object, low: int = 1, high: int = 256) -> None:
    """Raise `OptionError` unless `value` is a whole number from `low` to `high`."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise OptionError(f"{name} is {value!r:.40}; it must be a whole number from {low} to {high}")


def check_number(name: str, value: Any, low: float = 0.0, high: float = 1.0) -> None:
    """Raise `OptionError` unless `value` is a number from `low` to `high`, by default a probability."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not low <= value <= high:
        wanted = "a probability" if (low, high) == (0.0, 1.0) else f"a number from {low:g} to {high:g}"
        raise OptionError(f"{name} is {value!r:.40}; it must be {wanted}")
