"""Checks of the sizes of drafters, which may come from the metadata of a file.

Why: sizes decide how much memory a network takes and how long making it takes, so types and bounds are checked first.
"""

from __future__ import annotations

__all__ = ["LARGEST_SIZE", "check_flags", "check_numbers", "check_sizes"]

LARGEST_SIZE = 1 << 20
"""The largest width of a part of a drafter."""
_LARGEST_NUMBER = 1e30


def check_sizes(low: int = 1, high: int = LARGEST_SIZE, **sizes: object) -> None:
    """Raise `ValueError` unless all sizes are whole numbers from `low` to `high`."""
    for name, size in sizes.items():
        if type(size) is not int or not low <= size <= high:
            raise ValueError(f"{name} is {size!r:.40}; it must be a whole number from {low} to {high}")


def check_numbers(**numbers: object) -> None:
    """Raise `ValueError` unless all are positive finite numbers."""
    for name, number in numbers.items():
        # subtle: NaN fails the comparison, and so do whole numbers of JSON that are too large for a float.
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        if not is_number or not 0 < number <= _LARGEST_NUMBER:  # type: ignore[operator]
            raise ValueError(f"{name} is {number!r:.40}; it must be a positive number")


def check_flags(**flags: object) -> None:
    """Raise `ValueError` unless all are True or False."""
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise ValueError(f"{name} is {flag!r:.40}; it must be true or false")
