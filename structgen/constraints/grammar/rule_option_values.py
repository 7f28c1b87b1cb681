"""Check the values of rule options that Lark's and XGrammar's notations share."""

from __future__ import annotations

import math
import re

__all__ = ["MOST_TEMPERATURE", "capture_name_fault", "temperature_of"]

MOST_TEMPERATURE = 1e6
"""The highest temperature of a rule; a generation call has the same limit."""
_NAME_LENGTH = 200
_NUMBER = re.compile(r"\+?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def capture_name_fault(name: str) -> str | None:
    """Return what is wrong with the name of a capture, as the end of a sentence; None if it is valid."""
    if not name:
        return "is empty"
    if len(name) > _NAME_LENGTH:
        return f"is longer than {_NAME_LENGTH} characters"
    if any(character.isspace() or not character.isprintable() for character in name):
        return "contains a space or a control character"
    return None


def temperature_of(text: str) -> float | None:
    """Return the temperature that a text in a grammar states; None if it is not a number from 0 to a million."""
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    return value if 0 <= value <= MOST_TEMPERATURE else None
