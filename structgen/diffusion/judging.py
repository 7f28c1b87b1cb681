"""What a grammar does not know of a text with holes: somebody who is asked about tokens, and about finished texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

__all__ = ["CanvasMonitor"]


class CanvasMonitor(Protocol):
    """Asked while a canvas is filled; what it says bends nothing where it leaves no token."""

    def allows(self, tokens: Sequence[int | None], cell: int, token: int) -> bool:
        """May the token stand in the cell, as far as is known while others are open (None)?"""
        ...

    def faults(self, tokens: Sequence[int]) -> Sequence[int]:
        """The cells of a finished text that are to be filled anew; none: it is right."""
        ...
