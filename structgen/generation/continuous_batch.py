"""Continuous batching: rows join a running batch between two forward passes, and leave it when they have ended.

Why: a server that waits for a batch to end before it starts the next one makes short answers wait for long ones.
What: `step` is one round. Rows whose logits have arrived draw their next token (mask, draw, forced tokens; see `Row`).
Waiting prompts are prefilled, one part at a time. One forward pass then reads the new tokens of every row. A row whose
draw takes long, because its constraint is expensive, skips forward passes until the draw is done.
A row that is dropped in the middle of a draw occupies its thread until the draw is done. While there are many of these,
no other rows join, so that there is a thread for each draw.
Invariants: a row's text is what `generate_tokens` draws for it alone (as far as the model's logits do not depend on the
batch). Rows start in the order in which they were added. An error of one row ends that row alone.
Cost: besides the model, one mask and one softmax per row and token, and a copy of the cache when rows join or leave.
One thread at a time calls the batch. Draws run on threads of their own while that thread waits.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from structgen.errors import ModelError, OptionError
from structgen.protocols import capabilities_of

from .loop import failing_alone
from .row import Row
from .task_threads import WALL_FACTOR, TaskThreads

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel

__all__ = ["ContinuousBatch"]

logger = logging.getLogger(__name__)

_SLOW_FRACTION = 0.5
"""A draw is slow if it takes more than this fraction of `patience`."""
_DRAWS_AFTER_SLOW_ONE = 8
"""After a slow draw the next draws of the row, as many as this, start on a thread of their own."""

_MAX_PROMPTS = 8
"""While rows run, a round prefills at most this many prompts, and at most this many times `prompt_tokens` tokens."""

_IDLE_FACTOR = 8
"""While no row runs, a step prefills this many times `prompt_tokens`. New requests wait for the end of the step."""

_State = Literal["logits", "drawing", "drawn", "pending"]


@dataclass(eq=False)
class _BatchRow:
    """A row in the batch. While its state is "drawing", only the thread that draws may use the row."""

    row: Row
    logits: NDArray[np.float32]
    can_score: bool
    state: _State = "logits"
    is_new: bool = True
    slow_draws: int = 0
    """How many of the next draws start on a thread of their own."""
    seconds: float = 0.0
    """Duration of the last draw: CPU time, or wall-clock time over `WALL_FACTOR` if that is more."""

    def draw_token(self) -> None:
        """Draw a token from the logits, and commit what needs no draw."""
        started, used = time.perf_counter(), time.thread_time()
        try:
            with failing_alone(self.row):
                self._draw()
        except Exception as error:  # subtle: an exception of this thread would be lost.
            logger.exception("a row failed")
            self.row.fail(ModelError(f"an internal error: {type(error).__name__}: {error}"))
        self.seconds = max(time.thread_time() - used, (time.perf_counter() - started) / WALL_FACTOR)
        self.state = "drawn"

    def _draw(self) -> None:
        row = self.row
        if self.is_new:
            self.is_new = False
            row.advance_without_draw(can_score=self.can_score)
            row.score_pending(0, self.logits)
            if row.finish is not None or row.pending:
                return
        row.draw(self.logits, row.allowed())
        row.advance_without_draw(can_score=self.can_score)
        row.score_pending(0, self.logits)


@dataclass
class _Arrival:
    """Rows with one prompt, which is being prefilled."""

    rows: list[Row]
    session: Any = None
    read: int = 0


@dataclass
class Counts:
    """Statistics of a batch since its start."""

    passes: int = 0
    rows: int = 0
    """The sum over all forward passes of the rows that read something."""
    seconds: float = 0.0
    """In forward passes."""
    prompt_tokens: int = 0
    prompt_seconds: float = 0.0
    detached: int = 0
    """Draws that were detached because they took too long."""
    failed: int = 0
    """Forward passes that raised."""


class ContinuousBatch:
    """A batch of at most `most_rows` rows of `model`.

    Args:
        model: The language model.
        most_rows: The largest number of rows, those in prefill included.
        patience: Seconds that all other rows wait for the draw of one row.
        prompt_tokens: Tokens of prompts that are prefilled between two forward passes while rows run; up to eight
            times as many if few run and many wait. Choose it so that prefilling them takes about as long as a decode
            step.
    """

    def __init__(
        self, model: LanguageModel, *, most_rows: int = 16, patience: float = 0.01, prompt_tokens: int = 64
    ) -> None:
        if min(most_rows, prompt_tokens) < 1 or patience <= 0:
            raise OptionError("most_rows, prompt_tokens and patience must be above 0")
        self.most_rows = most_rows
        self.counts = Counts()
        self._model = model
        self._patience = patience
        self._prompt_tokens = prompt_tokens
        self._threads = TaskThreads(patience, 2 * most_rows)
        self._waiting: deque[_Arrival] = deque()
        self._arriving: _Arrival | None = None
        self._session: Any = None
        self._members: list[_BatchRow] = []
        self.progressed = time.monotonic()
        """The time at which a row or a prompt last advanced, or the batch was idle."""
        self._dropped: list[_BatchRow] = []
        """Rows that were dropped during a draw."""

    @property
    def running(self) -> int:
        """The number of rows that draw or are in prefill."""
        return len(self._members) + (0 if self._arriving is None else len(self._arriving.rows))

    @property
    def waiting(self) -> int:
        """The number of rows that have not started."""
        return sum(len(arrival.rows) for arrival in self._waiting)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do, and no dropped row whose draw still runs."""
        return not (self._members or self._dropped or self._waiting) and self._arriving is None

    def add(self, rows: Sequence[Row]) -> None:
        """Append rows that share one prompt to the queue. `Row.prepare` must have been called."""
        if not 0 < len(rows) <= self.most_rows:
            raise OptionError(f"{len(rows)} rows cannot join at once; give 1 to {self.most_rows}")
        if self.is_idle:
            self.progressed = time.monotonic()
        self._waiting.append(_Arrival(list(rows)))

    def drop(self, rows: Iterable[Row]) -> None:
        """Remove rows at once, in any state."""
        rows = list(rows)
        gone = {id(row) for row in rows}
        for row in rows:
            row.disconnect()
        for arrival in (*self._waiting, *([] if self._arriving is None else [self._arriving])):
            arrival.rows = [row for row in arrival.rows if id(row) not in gone]
        self._waiting = deque(arrival for arrival in self._waiting if arrival.rows)
        if self._arriving is not None and not self._arriving.rows:
            self._arriving = None
        self._dropped += [member for member in self._members if id(member.row) in gone]
        self._release_dropped()
        self._keep([member for member in self._members if id(member.row) not in gone])

    @property
    def has_prompts(self) -> bool:
        """Whether the next round would prefill a part of a prompt."""
        return self._arriving is not None or (
            bool(self._waiting) and self._has_room(len(self._waiting[0].rows))
        )

    def step(self, *, prompts: bool = True) -> list[Row]:
        """Make one round; return the rows that advanced. Rows that ended (`finish`) have left the batch.

        Args:
            prompts: Whether to prefill waiting prompts in this round.
        """
        self._release_dropped()
        changed = self._draw_tokens()
        self._keep(
            [member for member in self._members if member.state == "drawing" or member.row.finish is None]
        )
        read, passes = self.counts.prompt_tokens, self.counts.passes
        if prompts:
            changed += self._read_prompts()
        changed += self._pass()
        if changed or self.is_idle or (read, passes) != (self.counts.prompt_tokens, self.counts.passes):
            self.progressed = time.monotonic()
        return changed

    def close(self) -> None:
        """Shut the threads down."""
        self._threads.close()

    # -- phases of a round

    def _draw_tokens(self) -> list[Row]:
        fresh = [member for member in self._members if member.state == "logits"]
        for member in fresh:
            member.state = "drawing"
        slow = [self._threads.start(member.draw_token) for member in fresh if member.slow_draws]
        self._threads.run([member.draw_token for member in fresh if not member.slow_draws])
        if slow:
            wait(slow, self._patience)  # one patience for all of them together
        self.counts.detached += sum(member.state == "drawing" for member in fresh)
        turned = [member for member in self._members if member.state == "drawn"]
        for member in turned:
            is_slow = member.seconds > _SLOW_FRACTION * self._patience
            member.slow_draws = _DRAWS_AFTER_SLOW_ONE if is_slow else max(0, member.slow_draws - 1)
            member.state = "pending"
        return [member.row for member in turned]

    def _release_dropped(self) -> None:
        """Forget dropped rows whose draws have ended."""
        self._dropped = [member for member in self._dropped if member.state == "drawing"]

    def _keep(self, members: list[_BatchRow]) -> None:
        if len(members) == len(self._members):
            return
        if members:
            indices = {id(member): index for index, member in enumerate(self._members)}
            self._session.select([indices[id(member)] for member in members])
        else:
            self._session = None
        self._members = members

    def _read_prompts(self) -> list[Row]:
        """Prefill waiting prompts within this round's budget; rows whose prompt is complete join the batch."""
        failed: list[Row] = []
        # subtle: a short prompt takes a forward pass, too, so prompts are counted as well as their tokens.
        prompts = self._prompts_at_once()
        left = (_IDLE_FACTOR if prompts is None else prompts) * self._prompt_tokens
        while left > 0 and (prompts is None or prompts > 0):
            if self._arriving is None:
                if not self._waiting or not self._has_room(len(self._waiting[0].rows)):
                    break
                self._arriving = self._waiting.popleft()
            arrival = self._arriving
            prompt = arrival.rows[0].prompt
            part = prompt[arrival.read : arrival.read + left]
            before = time.perf_counter()
            try:
                if arrival.session is None:
                    arrival.session = self._model.start([part])
                else:
                    arrival.session.append([part])
                arrival.read += len(part)
                if arrival.read == len(prompt):
                    self._join(arrival)
            except Exception as error:
                logger.exception("prefill of a prompt failed")
                failed += self._failed(arrival.rows, error)
                arrival.read = len(prompt)
            self.counts.prompt_tokens += len(part)
            self.counts.prompt_seconds += time.perf_counter() - before
            if arrival.read == len(prompt):
                self._arriving = None
                if prompts is None and self._members:
                    break  # a row runs now and waits for the next pass
            left -= len(part)
            prompts = None if prompts is None else prompts - 1
        return failed

    def _has_room(self, rows: int) -> bool:
        """Return whether so many rows can join: there is room in the batch, and a thread for each draw.

        A session without `joins` takes in no rows. They wait until it has ended.
        """
        if self._session is not None and not capabilities_of(self._session).joins:
            return False
        self._release_dropped()
        wanted = self.running + rows
        return wanted <= self.most_rows and wanted + len(self._dropped) <= 2 * self.most_rows

    def _prompts_at_once(self) -> int | None:
        """Return how many prompts this round may prefill, each up to `prompt_tokens`; None if no row waits for a pass.

        The number grows with the ratio of rows that could join to rows that run. Otherwise a batch of short texts would
        never fill.
        """
        if not self._members:
            return None
        running = max(1, sum(member.state == "pending" for member in self._members))
        arriving = 0 if self._arriving is None else len(self._arriving.rows)
        joining = min(self.waiting + arriving, self.most_rows - len(self._members))
        return max(1, min(_MAX_PROMPTS, joining // running))

    def _join(self, arrival: _Arrival) -> None:
        session = arrival.session
        can_score = capabilities_of(session).scores_runs
        logits = np.array(session.logits()[0], dtype=np.float32)
        if len(arrival.rows) > 1:
            session.select([0] * len(arrival.rows))
        for row in arrival.rows:
            row.draft_limit = capabilities_of(session).draft_limit
        if self._session is None:
            self._session = session
        else:
            self._session.join(session)
        self._members += [_BatchRow(row, logits, can_score=can_score) for row in arrival.rows]

    def _pass(self) -> list[Row]:
        going = [member for member in self._members if member.state == "pending"]
        if not going:
            if any(member.state == "drawing" for member in (*self._members, *self._dropped)):
                time.sleep(min(0.002, self._patience))
            return []
        before = time.perf_counter()
        try:
            self._advance(going)
        except Exception as error:
            # It is unknown what the session has read, so all its rows end.
            logger.exception("a forward pass of the model failed")
            self.counts.failed += 1
            failed = self._failed([member.row for member in self._members], error)
            self.drop(failed)
            return failed
        self.counts.passes += 1
        self.counts.rows += len(going)
        self.counts.seconds += time.perf_counter() - before
        return []

    def _advance(self, going: list[_BatchRow]) -> None:
        session = self._session
        for index, member in enumerate(self._members):
            if member.state == "pending" and member.row.excess:
                session.rollback(index, member.row.excess)
        width = self._width(going)
        pending = [
            member.row.pending[:width] if member.state == "pending" else [] for member in self._members
        ]
        indices = [index for index, member in enumerate(self._members) if member.state == "pending"]
        wants_scores = any(
            len(member.row.pending) > 1 and member.row.options.exact_weight for member in going
        )
        if wants_scores and going[0].can_score:
            inner = session.append_scored(pending)
            for index, member in zip(indices, going, strict=True):
                for offset in range(1, len(pending[index])):
                    member.row.score_pending(offset, inner[index][offset - 1])
            last = [logits[-1] if len(logits) else None for logits in inner]
        else:
            session.append(pending)
            last = session.logits()
        for index, member in zip(indices, going, strict=True):
            # The array belongs to the session and may change before the draw ends.
            member.logits = np.array(last[index], dtype=np.float32)
            read = len(pending[index])
            if read < len(member.row.pending):
                member.row.score_pending(read, member.logits)
            else:
                member.state = "logits"
            member.row.mark_read(read)

    def _width(self, going: list[_BatchRow]) -> int:
        """Return the largest number of tokens that a row may read in the next forward pass.

        Every row of a pass is padded to the longest, so a row with a long forced run would slow down all others. A pass
        costs about as much as `prompt_tokens` positions plus its own. The width maximises the sum of the logarithms of
        the rows' speeds: proportional fairness (Kelly, 1997).
        """
        lengths = np.array([max(1, len(member.row.pending)) for member in going])
        widths = np.array(
            sorted({*lengths.tolist(), *(2**power for power in range(int(lengths.max()).bit_length()))})
        )
        speeds = np.minimum(lengths[None, :], widths[:, None]) / (
            self._prompt_tokens + len(self._members) * widths[:, None]
        )
        return int(widths[np.argmax(np.log(speeds).sum(axis=1))])

    @staticmethod
    def _failed(rows: Iterable[Row], error: Exception) -> list[Row]:
        listed = list(rows)
        for row in listed:
            row.fail(ModelError(f"the model failed: {type(error).__name__}: {error}"))
        return listed
