"""Limits on a pattern, and the modes in which its parts are parsed.

Why: the parsers of all dialects share them with the code that calls a parser.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["DEFAULT_LIMITS", "NO_FLAGS", "Flags", "RegexLimits"]


@dataclass(frozen=True)
class RegexLimits:
    """Limits on one pattern."""

    length: int = 1_000_000
    """Characters of the pattern."""
    depth: int = 200
    """Nested groups."""
    look_depth: int = 30
    """Groups around an anchor, a word boundary or a look-around."""
    count: int = 1_000_000
    """The number in a quantifier."""
    class_ranges: int = 10_000_000
    r"""Ranges of characters in all classes together; ``\w`` has 770."""


DEFAULT_LIMITS = RegexLimits()


class Flags(NamedTuple):
    """The modes in which a pattern, or a group of it, is parsed."""

    ignore_case: bool = False
    multi_line: bool = False
    dot_all: bool = False
    verbose: bool = False
    ascii: bool = False


NO_FLAGS = Flags()
