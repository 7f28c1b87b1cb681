"""A row of a running batch: draws its tokens on a thread, and finds its next draft tokens.

Invariant: while the state is "drawing", only the thread that draws uses the row. `holds_draft` belongs to the batch.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from structgen.errors import ModelError

from .drafting import NO_DRAFT, DraftedTokens, Drafting, RowStates
from .loop import failing_alone
from .results import Timing
from .row import Row
from .task_threads import WALL_FACTOR
from .tree_draws import accepted_nodes, draw_along

__all__ = ["BatchRow"]

logger = logging.getLogger(__name__)

_SLOW_FRACTION = 0.5
"""A draw is slow if it takes more than this fraction of `patience`."""
_DRAWS_AFTER_SLOW_ONE = 8
"""After a slow draw the next draws of the row, as many as this, start on a thread of their own and find no drafts."""

_State = Literal["logits", "drawing", "drawn", "pending"]


@dataclass(eq=False)
class BatchRow:
    """A row in the batch."""

    row: Row
    scores: NDArray[np.float32]
    """The logits after the row's last token and after each node of `tree`, ``[1 + nodes, vocabulary.size]``."""
    can_score: bool
    drafting: Drafting | None = None
    reads_trees: bool = False
    tree: DraftedTokens = NO_DRAFT
    """The draft tokens that the last forward pass read."""
    holds_draft: bool = False
    """Whether the session still holds the tokens of `tree`."""
    states: Any = None
    """The hidden states after the tokens that the session has read, and after the nodes of `tree`; None if it keeps
    none."""
    accepted: list[int] = field(default_factory=list)
    """The nodes of `tree` that were drawn."""
    state: _State = "logits"
    is_new: bool = True
    slow_draws: int = 0
    """How many of the next draws start on a thread of their own."""
    undrafted_draws: int = 0
    """How many of the next draws find no drafts, because finding them was slow."""
    seconds: float = 0.0
    """Duration of the last draw: CPU time, or wall-clock time over `WALL_FACTOR` if that is more."""

    def draw_tokens(self, patience: float) -> None:
        """Draw tokens from the logits, commit what needs no draw, and find draft tokens for the next pass."""
        started, used = time.perf_counter(), time.thread_time()
        self.accepted = []
        try:
            with failing_alone(self.row):
                self._draw()
        except Exception as error:  # subtle: an exception of this thread would be lost.
            logger.exception("a row failed")
            self.row.fail(ModelError(f"an internal error: {type(error).__name__}: {error}"))
        drawn, spent = time.perf_counter(), time.thread_time()
        self.seconds = max(spent - used, (drawn - started) / WALL_FACTOR)
        is_slow = self.seconds > _SLOW_FRACTION * patience
        self.slow_draws = _DRAWS_AFTER_SLOW_ONE if is_slow else max(0, self.slow_draws - 1)
        self.undrafted_draws = max(0, self.undrafted_draws - 1)
        if (
            self.drafting is not None
            and self.row.finish is None
            and not (self.slow_draws or self.undrafted_draws)
        ):
            self._grow(self.drafting)
            if time.thread_time() - spent > _SLOW_FRACTION * patience:
                self.undrafted_draws = _DRAWS_AFTER_SLOW_ONE
        self.state = "drawn"

    def _draw(self) -> None:
        row = self.row
        if self.is_new:
            self.is_new = False
            row.advance_without_draw(can_score=self.can_score)
            row.score_pending(0, self.scores[0])
            if row.finish is not None or row.pending:
                return
        draw_along(row, self.scores, self.tree, self.drafting, Timing())
        if not len(self.tree) and row.finish is None:
            row.advance_without_draw(can_score=self.can_score)
            row.score_pending(0, self.scores[0])
        self.accepted = accepted_nodes(row, self.tree, self.drafting)

    def _grow(self, drafting: Drafting) -> None:
        try:
            hidden = None
            if self.states is not None:
                # subtle: the row still counts tokens that were accepted just now as pending, so they are not in
                # `read_count`. The session keeps them only after this, or forgets them if the draw takes long.
                hidden = RowStates(
                    self.states, drafting.hidden_layers, self.row.read_count, tuple(self.accepted)
                )
            drafting.grow(self.row, hidden, trees=self.reads_trees)
        except Exception:  # subtle: drafts change the time only, so the row goes on without them.
            logger.exception("a drafter failed")
            self.drafting = None
