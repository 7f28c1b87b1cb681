"""A batch that never stops: rows join it between two passes of the model, and leave when they have ended.

Why: a server that waits for a batch to end before it starts the next one lets short answers wait for long ones.
What: `step` is one round. Rows whose logits have come take their turn (mask, draw, forced tokens; see `Row`), prompts
that wait are read, a part at a time, and one pass gives every row its new tokens. A row whose turn takes long (a
constraint that is hard to follow) sits out the passes until it is done; the others go on.
Rows that leave in the middle of their turn keep its thread until the turn is done; where there are many of these, no
others join, so that there is a thread for each turn.
Invariants: a row's text is what `generate_tokens` draws for it alone (as far as the model's logits do not depend on the
batch). Rows start in the order in which they were added. An error of one row ends that row alone.
Cost: beside the model one mask and one softmax a row and token, and a copy of the cache where rows join or leave.
One thread at a time calls it; turns run on threads of its own while that thread waits.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from structgen.errors import ModelError, OptionError

from .loop import failing_alone
from .row import Row
from .task_threads import WAITING, Turns

__all__ = ["RunningBatch"]

logger = logging.getLogger(__name__)

_SLOW = 0.5
"""A row whose turn took more than this share of the patience is not waited for in its place the next times."""
_SLOW_TURNS = 8
"""So many times, if it is quick from then on."""

_MOST_AT_ONCE = 8
"""At most so many prompts, and so many times `prompt_tokens`, are read in one round while others run."""

_ALONE = 8
"""Times `prompt_tokens` that are read in one step while no row runs: new requests wait for its end."""

_State = Literal["logits", "turning", "turned", "pending"]


@dataclass(eq=False)
class _Seat:
    """A row in the batch. While it is `turning` it belongs to some thread, and nobody else looks at the row."""

    row: Row
    logits: NDArray[np.float32]
    can_score: bool
    state: _State = "logits"
    is_new: bool = True
    slow_turns: int = 0
    """So many of the next turns are not waited for in their place."""
    seconds: float = 0.0
    """Of the last turn: CPU time, or a share of the time on the wall where it waited (see `turns`)."""

    def take_turn(self) -> None:
        """Draw from the logits, and settle what needs no draw."""
        started, used = time.perf_counter(), time.thread_time()
        try:
            with failing_alone(self.row):
                self._draw()
        except Exception as error:  # subtle: from this thread nobody would ever hear of it
            logger.exception("a row failed")
            self.row.fail(ModelError(f"an internal error: {type(error).__name__}: {error}"))
        self.seconds = max(time.thread_time() - used, (time.perf_counter() - started) / WAITING)
        self.state = "turned"

    def _draw(self) -> None:
        row = self.row
        if self.is_new:
            self.is_new = False
            row.settle(can_score=self.can_score)
            row.score_pending(0, self.logits)
            if row.finish is not None or row.pending:
                return
        row.draw(self.logits, row.allowed())
        row.settle(can_score=self.can_score)
        row.score_pending(0, self.logits)


@dataclass
class _Arrival:
    """Rows with one prompt, which is being read."""

    rows: list[Row]
    session: Any = None
    read: int = 0


@dataclass
class Counts:
    """What a batch has done so far."""

    passes: int = 0
    rows: int = 0
    """Of all passes together: rows that had something to read."""
    seconds: float = 0.0
    """In passes."""
    prompt_tokens: int = 0
    prompt_seconds: float = 0.0
    left_behind: int = 0
    """Turns that were not waited for to their end."""
    failed: int = 0
    """Passes that raised."""


class RunningBatch:
    """At most `most_rows` rows of `model`.

    patience       seconds that all others wait for one row's turn
    prompt_tokens  tokens of prompts that are read between two passes while rows are running, up to eight times as many
                   where few run and many wait. Reading so many takes about as long as a pass does without any.
    """

    def __init__(
        self, model: Any, *, most_rows: int = 16, patience: float = 0.01, prompt_tokens: int = 64
    ) -> None:
        if min(most_rows, prompt_tokens) < 1 or patience <= 0:
            raise OptionError("most_rows, prompt_tokens and patience must be above 0")
        self.most_rows = most_rows
        self.counts = Counts()
        self._model = model
        self._patience = patience
        self._prompt_tokens = prompt_tokens
        self._turns = Turns(patience, 2 * most_rows)
        self._waiting: deque[_Arrival] = deque()
        self._arriving: _Arrival | None = None
        self._session: Any = None
        self._seats: list[_Seat] = []
        self.progressed = time.monotonic()
        """When a row or a prompt went on last, or there was none."""
        self._left: list[_Seat] = []
        """Rows that were dropped while some thread had them."""

    @property
    def running(self) -> int:
        """Rows that draw or whose prompt is being read."""
        return len(self._seats) + (0 if self._arriving is None else len(self._arriving.rows))

    @property
    def waiting(self) -> int:
        """Rows that have not begun."""
        return sum(len(arrival.rows) for arrival in self._waiting)

    @property
    def is_idle(self) -> bool:
        """Is there nothing to do, nor a row that left to be let go?"""
        return not (self._seats or self._left or self._waiting) and self._arriving is None

    def add(self, rows: Sequence[Row]) -> None:
        """Let rows that have one and the same prompt wait for their place. They are `Row.prepare`d."""
        if not 0 < len(rows) <= self.most_rows:
            raise OptionError(f"{len(rows)} rows at once; it is 1 to {self.most_rows}")
        if self.is_idle:
            self.progressed = time.monotonic()
        self._waiting.append(_Arrival(list(rows)))

    def drop(self, rows: Iterable[Row]) -> None:
        """Rows that nobody wants any more leave at once."""
        rows = list(rows)
        gone = {id(row) for row in rows}
        for row in rows:
            row.leave()
        for arrival in (*self._waiting, *([] if self._arriving is None else [self._arriving])):
            arrival.rows = [row for row in arrival.rows if id(row) not in gone]
        self._waiting = deque(arrival for arrival in self._waiting if arrival.rows)
        if self._arriving is not None and not self._arriving.rows:
            self._arriving = None
        self._left += [seat for seat in self._seats if id(seat.row) in gone]
        self._let_go()
        self._keep([seat for seat in self._seats if id(seat.row) not in gone])

    @property
    def has_prompts(self) -> bool:
        """Whether the next round would prefill a part of a prompt."""
        return self._arriving is not None or (
            bool(self._waiting) and self._has_room(len(self._waiting[0].rows))
        )

    def step(self, *, prompts: bool = True) -> list[Row]:
        """One round; the rows that went on, of which some may have ended (`finish`) and left.

        `prompts=False` skips the prefill of waiting prompts in this round.
        """
        self._let_go()
        changed = self._take_turns()
        self._keep([seat for seat in self._seats if seat.state == "turning" or seat.row.finish is None])
        read, passes = self.counts.prompt_tokens, self.counts.passes
        if prompts:
            changed += self._read_prompts()
        changed += self._pass()
        if changed or self.is_idle or (read, passes) != (self.counts.prompt_tokens, self.counts.passes):
            self.progressed = time.monotonic()
        return changed

    def close(self) -> None:
        """End the threads."""
        self._turns.close()

    # -- the parts of a round

    def _take_turns(self) -> list[Row]:
        fresh = [seat for seat in self._seats if seat.state == "logits"]
        for seat in fresh:
            seat.state = "turning"
        slow = [self._turns.start(seat.take_turn) for seat in fresh if seat.slow_turns]
        self._turns.take([seat.take_turn for seat in fresh if not seat.slow_turns])
        if slow:
            wait(slow, self._patience)  # for all of them together
        self.counts.left_behind += sum(seat.state == "turning" for seat in fresh)
        turned = [seat for seat in self._seats if seat.state == "turned"]
        for seat in turned:
            is_slow = seat.seconds > _SLOW * self._patience
            seat.slow_turns = _SLOW_TURNS if is_slow else max(0, seat.slow_turns - 1)
            seat.state = "pending"
        return [seat.row for seat in turned]

    def _let_go(self) -> None:
        """Forget the rows that left and whose turns have ended."""
        self._left = [seat for seat in self._left if seat.state == "turning"]

    def _keep(self, seats: list[_Seat]) -> None:
        if len(seats) == len(self._seats):
            return
        if seats:
            places = {id(seat): place for place, seat in enumerate(self._seats)}
            self._session.select([places[id(seat)] for seat in seats])
        else:
            self._session = None
        self._seats = seats

    def _read_prompts(self) -> list[Row]:
        """Read as much of the prompts that wait as others have patience for; who is through joins."""
        failed: list[Row] = []
        # subtle: reading a few tokens takes a pass of the model, too, so prompts are counted as well as their tokens.
        prompts = self._prompts_at_once()
        left = (_ALONE if prompts is None else prompts) * self._prompt_tokens
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
                    self._seat(arrival)
            except Exception as error:
                logger.exception("reading a prompt failed")
                failed += self._failed(arrival.rows, error)
                arrival.read = len(prompt)
            self.counts.prompt_tokens += len(part)
            self.counts.prompt_seconds += time.perf_counter() - before
            if arrival.read == len(prompt):
                self._arriving = None
                if prompts is None and self._seats:
                    break  # there is somebody now who waits
            left -= len(part)
            prompts = None if prompts is None else prompts - 1
        return failed

    def _has_room(self, rows: int) -> bool:
        """For so many rows that join: in the batch, and among the threads for their turns."""
        self._let_go()
        wanted = self.running + rows
        return wanted <= self.most_rows and wanted + len(self._left) <= 2 * self.most_rows

    def _prompts_at_once(self) -> int | None:
        """How many prompts may be read in this round, each as far as `prompt_tokens` allow; None: as many as one likes,
        since nobody waits for the next pass.

        The more rows could join for each that runs, the more: or a batch of short texts would never fill.
        """
        if not self._seats:
            return None
        running = max(1, sum(seat.state == "pending" for seat in self._seats))
        arriving = 0 if self._arriving is None else len(self._arriving.rows)
        joining = min(self.waiting + arriving, self.most_rows - len(self._seats))
        return max(1, min(_MOST_AT_ONCE, joining // running))

    def _seat(self, arrival: _Arrival) -> None:
        session = arrival.session
        can_score = session.capabilities.scores_runs
        logits = np.array(session.logits()[0], dtype=np.float32)
        if len(arrival.rows) > 1:
            session.select([0] * len(arrival.rows))
        for row in arrival.rows:
            row.draft_limit = session.capabilities.draft_limit
        if self._session is None:
            self._session = session
        else:
            self._session.join(session)
        self._seats += [_Seat(row, logits, can_score=can_score) for row in arrival.rows]

    def _pass(self) -> list[Row]:
        going = [seat for seat in self._seats if seat.state == "pending"]
        if not going:
            if any(seat.state == "turning" for seat in (*self._seats, *self._left)):
                time.sleep(min(0.002, self._patience))
            return []
        before = time.perf_counter()
        try:
            self._advance(going)
        except Exception as error:
            # What the session has read is not known any more, so all its rows end.
            logger.exception("a pass of the model failed")
            self.counts.failed += 1
            failed = self._failed([seat.row for seat in self._seats], error)
            self.drop(failed)
            return failed
        self.counts.passes += 1
        self.counts.rows += len(going)
        self.counts.seconds += time.perf_counter() - before
        return []

    def _advance(self, going: list[_Seat]) -> None:
        session = self._session
        for place, seat in enumerate(self._seats):
            if seat.state == "pending" and seat.row.excess:
                session.rollback(place, seat.row.excess)
        width = self._width(going)
        pending = [seat.row.pending[:width] if seat.state == "pending" else [] for seat in self._seats]
        places = [place for place, seat in enumerate(self._seats) if seat.state == "pending"]
        wants_scores = any(len(seat.row.pending) > 1 and seat.row.options.exact_weight for seat in going)
        if wants_scores and going[0].can_score:
            inner = session.append_scored(pending)
            for place, seat in zip(places, going, strict=True):
                for offset in range(1, len(pending[place])):
                    seat.row.score_pending(offset, inner[place][offset - 1])
            last = [logits[-1] if len(logits) else None for logits in inner]
        else:
            session.append(pending)
            last = session.logits()
        for place, seat in zip(places, going, strict=True):
            # A turn may outlast the array, which is the session's.
            seat.logits = np.array(last[place], dtype=np.float32)
            read = len(pending[place])
            if read < len(seat.row.pending):
                seat.row.score_pending(read, seat.logits)
            else:
                seat.state = "logits"
            seat.row.sent(read)

    def _width(self, going: list[_Seat]) -> int:
        """How many tokens at most a row has read in the next pass, where some have several that are forced.

        Every row of a pass is as wide as the widest, so one with a long constant would make it slow for all. A pass
        costs about `prompt_tokens` positions and those that it has; the width is that of proportional fairness (Kelly,
        1997): the one for which the sum of the logarithms of the rows' speeds is largest.
        """
        lengths = np.array([max(1, len(seat.row.pending)) for seat in going])
        widths = np.array(
            sorted({*lengths.tolist(), *(2**power for power in range(int(lengths.max()).bit_length()))})
        )
        speeds = np.minimum(lengths[None, :], widths[:, None]) / (
            self._prompt_tokens + len(self._seats) * widths[:, None]
        )
        return int(widths[np.argmax(np.log(speeds).sum(axis=1))])

    @staticmethod
    def _failed(rows: Iterable[Row], error: Exception) -> list[Row]:
        listed = list(rows)
        for row in listed:
            row.fail(ModelError(f"the model failed: {type(error).__name__}: {error}"))
        return listed
