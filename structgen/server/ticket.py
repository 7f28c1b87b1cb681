"""One request in the model's thread: its rows, their texts so far, and what the metrics need.

Invariant: only the model's thread writes. The event loop reads, and sees a row's whole text once it sees its finish.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from structgen.errors import StructgenError
from structgen.generation.row import Row

from .row_text import RowText

__all__ = ["SequenceRow", "Ticket"]


class SequenceRow:
    """One row of a request, as its client sees it."""

    def __init__(self, row: Row, text: RowText) -> None:
        self.row, self._decoded = row, text
        self.text = ""
        """The part of the text that can no longer change, or the whole text once it has finished."""
        self.finish: str | None = None
        """The row's `Finish`, or "stop" if a stop string ended it; None while it runs."""
        self.tokens = 0
        """Tokens so far."""

    def on_step(self) -> None:
        """Called after the row has got tokens or has finished."""
        row, decoded = self.row, self._decoded
        decoded.follow(row.tokens)
        if decoded.stopped:
            row.cut_off(decoded.length)  # with drafts, the step may have drawn more
        finish = "stop" if decoded.stopped else row.finish
        self.tokens = len(row.tokens)
        # subtle: the finish is written last, so that a reader who sees it sees the whole text.
        self.text = decoded.settled if finish is None else decoded.text
        self.finish = finish

    def fail(self, error: StructgenError) -> None:
        """End the row with an error, unless it has finished."""
        if self.finish is None:
            self.row.error = error
            self.finish = "failed"


class Ticket:
    """One request that has joined the batch, or waits to join it."""

    def __init__(self, rows: Sequence[Row], texts: Sequence[RowText], on_change: Callable[[], None]) -> None:
        """Prepare a request for `ModelThread.submit`.

        Args:
            rows: Rows with one prompt.
            texts: Decodes the tokens of each row.
            on_change: Called on the model's thread after each step in which a row got tokens or finished.
        """
        self.sequences = [SequenceRow(row, text) for row, text in zip(rows, texts, strict=True)]
        self.on_change = on_change
        self.started = time.perf_counter()
        self.first_token: float | None = None
        """Seconds until the first token of any row."""
        self.gaps: list[float] = []
        """Seconds between the steps of the first row."""
        self._last_step = 0.0

    @property
    def rows(self) -> list[Row]:
        """Return the rows of the request in the batch, one for each choice."""
        return [sequence.row for sequence in self.sequences]

    @property
    def is_done(self) -> bool:
        """Whether all rows have finished."""
        return all(sequence.finish is not None for sequence in self.sequences)

    @property
    def tokens(self) -> int:
        """The tokens of all rows so far."""
        return sum(sequence.tokens for sequence in self.sequences)

    def on_step(self, index: int) -> None:
        """Called after row `index` has got tokens or has finished."""
        row = self.sequences[index].row
        now = time.perf_counter()
        if self.first_token is None and (row.tokens or row.finish is not None):
            self.first_token = now - self.started
        if index == 0:
            if self._last_step:
                self.gaps.append(now - self._last_step)
            self._last_step = now
        self.sequences[index].on_step()
