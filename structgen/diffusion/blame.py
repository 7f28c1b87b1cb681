"""Why a canvas has no completion: the smallest part that cannot stand, or too few cells.

Cost: a chart for each question; their number is logarithmic in the cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from structgen.errors import CanvasInfeasible

if TYPE_CHECKING:
    from .canvas import Canvas

__all__ = ["blame"]

_MOST = 512
"""Cells that are tried for each hole."""


def blame(canvas: Canvas) -> CanvasInfeasible:
    """The error that says why."""
    from .canvas import GAP, Canvas, Hole

    filled = canvas.tokens
    count = len(filled)

    def can_stand(start: int, end: int) -> bool:
        """May this part stand in a text, whatever is around it and in its open cells?"""
        inside = [GAP if token is None else token for token in filled[start:end]]
        whole = [*[GAP][: start > 0], *inside, *[GAP][: end < count]]
        return Canvas(canvas.constraint, canvas.vocabulary, whole, closing=canvas.closing).completable()

    if count and not can_stand(0, count):
        end = _least(lambda end: not can_stand(0, end), 1, count)
        start = end - _least(lambda length: not can_stand(end - length, end), 1, end)
        at = "begins with" if start == 0 else "ends with" if end == count else "has"
        where = f"cell {start}" if end - start == 1 else f"cells {start} to {end - 1}"
        return CanvasInfeasible(
            f"no text of {canvas.constraint.describe():.60} {at} {_told(canvas, filled[start:end])} ({where})",
            start=start,
            end=end,
            hint="Whatever is around it and in its holes; change what is fixed there.",
        )
    free = [Hole(0, _MOST) if token is None else token for token in _joined(filled)]
    wider = Canvas(canvas.constraint, canvas.vocabulary, free)
    found = wider.best(np.full((len(wider), canvas.vocabulary.size), -1.0, dtype=np.float32))
    open_cells = sum(token is None for token in filled)
    if found is None:
        return CanvasInfeasible(
            f"no text of {canvas.constraint.describe():.60} fits with {_MOST} tokens in each hole or fewer"
        )
    needed = round(-found[1])
    return CanvasInfeasible(
        f"{open_cells} open cells are {'too few' if needed > open_cells else 'not right'}: "
        f"the shortest completion takes {needed}",
        needed=needed,
        hint=f"Such as {_told(canvas, found[0])}.",
    )


def _told(canvas: Canvas, tokens: Iterable[int | None]) -> str:
    text = canvas.vocabulary.decode(token for token in tokens if token is not None)
    return f"{text.decode('utf-8', 'replace')!r:.80}"


def _joined(filled: Sequence[int | None]) -> list[int | None]:
    """Open cells in a row as one."""
    found: list[int | None] = []
    for token in filled:
        if token is not None or not found or found[-1] is not None:
            found.append(token)
    return found


def _least(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The least number for which a monotone condition holds; it holds for `high`."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
