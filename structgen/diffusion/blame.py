"""Why a canvas has no completion: the smallest part that cannot stand, or too few cells.

Cost: a chart for each test; their number is logarithmic in the cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from structgen.errors import CanvasInfeasible, LimitExceeded

if TYPE_CHECKING:
    from .canvas import Canvas

__all__ = ["blame"]

_MAX_HOLE_CELLS = 512
"""The largest number of cells in holes that is tried."""


def blame(canvas: Canvas) -> CanvasInfeasible:
    """Return the error that explains why the canvas has no completion."""
    from .canvas import GAP, Canvas

    filled = canvas.tokens
    count = len(filled)

    def can_stand(start: int, end: int) -> bool:
        """Return whether this part may stand in a text, with anything around it and in its open cells."""
        inside = [GAP if token is None else token for token in filled[start:end]]
        whole = [*[GAP][: start > 0], *inside, *[GAP][: end < count]]
        return Canvas(canvas.constraint, canvas.vocabulary, whole, closing=canvas.closing).completable()

    if count and not can_stand(0, count):
        end = _least(lambda end: not can_stand(0, end), 1, count)
        start = end - _least(lambda length: not can_stand(end - length, end), 1, end)
        relation = "begins with" if start == 0 else "ends with" if end == count else "has"
        where = f"cell {start}" if end - start == 1 else f"cells {start} to {end - 1}"
        return CanvasInfeasible(
            f"no text of {canvas.constraint.describe():.60} {relation} "
            f"{_told(canvas, filled[start:end], '░')} ({where})",
            start=start,
            end=end,
            hint="Anything may stand around it and in its holes; change what is fixed there.",
        )
    open_cells = sum(token is None for token in filled)
    shortest = _shortest(canvas)
    if shortest is None:
        return CanvasInfeasible(
            f"no text of {canvas.constraint.describe():.60} was found that fits what is fixed, with "
            f"{open_cells} open cells or a few hundred",
            hint="What is fixed may be contradictory, or need longer holes.",
        )
    needed = round(-shortest[1])
    return CanvasInfeasible(
        f"{open_cells} open cells are {'too few' if needed > open_cells else 'not right'}: "
        f"the shortest completion takes {needed}",
        needed=needed,
        hint=f"Such as {_told(canvas, shortest[0])}."
        + (
            ""
            if needed > open_cells or canvas.closing
            else " Closing tokens fill the cells after a shorter text."
        ),
    )


def _shortest(canvas: Canvas) -> tuple[list[int | None], float] | None:
    """Return a completion with the fewest tokens in holes of any length, and the negative number of these tokens."""
    from .canvas import Canvas, Hole

    joined = _joined(canvas.tokens)
    holes = joined.count(None)
    most = 8
    while holes and most * holes <= _MAX_HOLE_CELLS:
        free = [Hole(0, most) if token is None else token for token in joined]
        wider = Canvas(canvas.constraint, canvas.vocabulary, free, closing=canvas.closing)
        try:
            if wider.completable():
                return wider.best(np.full((len(wider), canvas.vocabulary.size), -1.0, dtype=np.float32))
        except LimitExceeded:
            return None
        most *= 4
    return None


def _told(canvas: Canvas, tokens: Iterable[int | None], hole: str = "") -> str:
    parts = [
        hole.encode() if token is None else canvas.vocabulary.token_bytes(token) or b"" for token in tokens
    ]
    return f"{b''.join(parts).decode('utf-8', 'replace')!r:.80}"


def _joined(filled: Sequence[int | None]) -> list[int | None]:
    """Return the cells with adjacent open ones merged into one."""
    cells: list[int | None] = []
    for token in filled:
        if token is not None or not cells or cells[-1] is not None:
            cells.append(token)
    return cells


def _least(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the least number from `low` on for which a monotone condition holds; it holds for `high`."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
