"""How a pattern is read: its bounds, and the modes in which each place of it is read.

Why: the parsers of all dialects share them with the code that calls a parser.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["DEFAULT_LIMITS", "NO_FLAGS", "Flags", "RegexLimits"]


@dataclass(frozen=True)
class RegexLimits:
    """Bounds on one pattern."""

    length: int = 1_000_000
    """Characters."""
    depth: int = 200
    """Groups inside one another."""
    look_depth: int = 30
    """Groups around an anchor, a word boundary or a look-around."""
    count: int = 1_000_000
    """The number in a quantifier."""
    class_ranges: int = 10_000_000
    """Ranges of characters of all classes together; ``\\w`` has 770."""


DEFAULT_LIMITS = RegexLimits()


class Flags(NamedTuple):
    """The modes that a pattern, or a group of it, is read in."""

    ignore_case: bool = False
    multi_line: bool = False
    dot_all: bool = False
    verbose: bool = False
    ascii: bool = False


NO_FLAGS = Flags()
