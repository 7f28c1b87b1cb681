"""The protocol of monitors of a canvas, which know more of a text with holes than its grammar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

__all__ = ["CanvasMonitor"]


class CanvasMonitor(Protocol):
    """Judges tokens and finished texts while a canvas is filled; it is overruled where it leaves no token."""

    def allows(self, tokens: Sequence[int | None], cell: int, token: int) -> bool:
        """Return whether the token may stand in the cell, as far as that is known while others are open (None)."""
        ...

    def faults(self, tokens: Sequence[int]) -> Sequence[int]:
        """Return the cells of a finished text that must be filled again; empty if it is right."""
        ...
