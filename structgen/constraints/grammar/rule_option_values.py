"""Values of the options of rules that Lark's and XGrammar's notations have in common."""

from __future__ import annotations

import math
import re

__all__ = ["MOST_TEMPERATURE", "capture_name_fault", "temperature_of"]

MOST_TEMPERATURE = 1e6
"""The highest temperature of a rule, as of a call."""
_NAME_LENGTH = 200
_NUMBER = re.compile(r"\+?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def capture_name_fault(name: str) -> str | None:
    """Return what is wrong with the name of a capture, as the end of a sentence; None if it is a good one."""
    if not name:
        return "is empty"
    if len(name) > _NAME_LENGTH:
        return f"is longer than {_NAME_LENGTH} characters"
    if any(one.isspace() or not one.isprintable() for one in name):
        return "holds a space or a control character"
    return None


def temperature_of(text: str) -> float | None:
    """Return a temperature as it is written in a grammar; None if it is not a number from 0 to a million."""
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    return value if 0 <= value <= MOST_TEMPERATURE else None
