"""The thread that runs the model: requests come in from any thread, their texts are told as they grow.

Why: the event loop must never wait for a forward pass, and a model is used by one thread at a time.
What: a `Ticket` is one request: rows with one prompt. It waits for its place, its rows join the running batch
(`structgen.generation.continuous_batch`), and each time they went on `changed` is called in this thread. Its texts are
whole snapshots, so a client that reads slowly makes nothing pile up.
`call` lets other threads run something between two passes. Samplers that drive the model themselves share it with the
batch that way: each makes a pass in turn. A round with such a pass has no prefill and no pause, so running rows do not
wait for these as well. The next round has the prefill and the pause, if there are any.
Invariant: every ticket that was taken ends, by its texts or by an `error`, but those that were cancelled.
"""

from __future__ import annotations

import ctypes
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from structgen.errors import GenerationError
from structgen.generation.continuous_batch import ContinuousBatch
from structgen.generation.row import Row
from structgen.serving.temporary_errors import detached

from .errors import ShuttingDown
from .row_text import RowText
from .settings import ServerSettings

__all__ = ["Engine", "Ticket"]

logger = logging.getLogger(__name__)
T = TypeVar("T")
_GIVE_BACK_SECONDS = 20.0
_ALONE = 8
"""Times `prompt_tokens` that a sampler reads in one pass where no row runs."""
_LONG_CALL, _LEAST_PART = 1.25, 4
"""A sampler's pass of more than `_LONG_CALL` rounds of the batch halves its tokens, to `_LEAST_PART` at least."""
_PAUSE = 0.2
"""Of the time of the round before,"""
_MOST_PAUSE = 0.025
"""and so many seconds at most."""


def _trimmer() -> Callable[[], Any]:
    """glibc's `malloc_trim`; nothing where there is none."""
    try:
        found = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return lambda: None
    return lambda: found(0)


_trim = _trimmer()


class Ticket:
    """One request. All but `changed` is written by the model's thread alone."""

    def __init__(self, rows: Sequence[Row], texts: Sequence[RowText], changed: Callable[[], None]) -> None:
        self.rows, self.texts, self.changed = list(rows), list(texts), changed
        self.settled = [""] * len(rows)
        """Of each row as much text as will stay."""
        self.finish: list[str | None] = [None] * len(rows)
        """`Finish` of each row; "stop" where a stop string ended it."""
        self.drawn = [0] * len(rows)
        """Tokens so far."""
        self.started = time.perf_counter()
        self.first_token: float | None = None
        """Seconds until the first token of any row."""
        self.gaps: list[float] = []
        """Seconds between the rounds in which the first row went on."""
        self._last = 0.0

    @property
    def is_done(self) -> bool:
        return None not in self.finish

    def went_on(self, place: int) -> None:
        row, text = self.rows[place], self.texts[place]
        now = time.perf_counter()
        if self.first_token is None and (row.tokens or row.finish is not None):
            self.first_token = now - self.started
        if place == 0:
            if self._last:
                self.gaps.append(now - self._last)
            self._last = now
        text.follow(row.tokens)
        finish = "stop" if text.stopped else row.finish
        self.drawn[place] = len(row.tokens)
        # subtle: whoever sees the finish sees the whole text.
        self.settled[place] = text.settled if finish is None else text.text
        self.finish[place] = finish


class _Call(NamedTuple):
    """A function for the model's thread; see `Engine.call`."""

    function: Callable[[], Any]
    future: Future[Any]
    reads: bool


def _ended_by(error: Exception) -> GenerationError:
    """The error of a request that ends because of `error`: at the end of the server, or after a fault in it."""
    if isinstance(error, ShuttingDown):
        return ShuttingDown(str(error))
    return GenerationError(f"the server could not go on: {error}")


def computes_here(model: Any) -> bool:
    """Does a model keep this machine's processors busy, not another device?"""
    return getattr(getattr(model, "device", None), "type", "cpu") == "cpu"


class Engine:
    """Of one model. `start` it, `close` it.

    is_in_the_way  is there work that runs only when the processors are idle? Then the thread pauses before rounds
                   without a call, for a fifth of a round, 25 ms at most.
    """

    def __init__(
        self, model: Any, settings: ServerSettings, is_in_the_way: Callable[[], bool] = lambda: False
    ) -> None:
        self.model = model
        self.batch = ContinuousBatch(
            model,
            most_rows=settings.max_rows,
            patience=settings.patience,
            prompt_tokens=settings.prompt_tokens,
        )
        self._prompt_tokens = settings.prompt_tokens
        self._stall_seconds = settings.stall_seconds
        self._round_since: float | None = None
        """When the round that runs began."""
        self._is_in_the_way = is_in_the_way
        self._pauses = computes_here(model)
        self._last_round = 0.0
        self._wake = threading.Condition()
        self._new: deque[Ticket] = deque()
        self._gone: deque[Ticket] = deque()
        self._calls: deque[_Call] = deque()
        self._call_tokens = settings.prompt_tokens
        """The most tokens of one sampler pass while rows run."""
        self._has_called = False
        """Whether the last round ran a call. Waiting prompts and pauses then go before the next call."""
        self._of: dict[int, tuple[Ticket, int]] = {}
        self._closing = False
        self._given_back = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="structgen-model", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def stalled_seconds(self) -> float | None:
        """For how long no step was finished although there is work, if that is more than `stall_seconds`."""
        # subtle: rounds go on while all rows wait for their masks.
        since = [] if self.batch.is_idle else [self.batch.progressed]
        if (started := self._round_since) is not None:
            since.append(started)
        seconds = time.monotonic() - min(since, default=math.inf)
        return seconds if seconds > self._stall_seconds else None

    def prompt_part(self) -> int:
        """Return the most tokens of one sampler pass: few while rows run, since they wait for it."""
        return self._call_tokens if self.batch.running else _ALONE * self._prompt_tokens

    def submit(self, ticket: Ticket) -> None:
        """Take a request; its rows are prepared."""
        self._put(self._new, ticket)

    def cancel(self, ticket: Ticket) -> None:
        """Nobody wants it any more; its rows leave at the next round."""
        self._put(self._gone, ticket)

    def call(self, function: Callable[[], T], /, *, reads: bool = False) -> T:
        """Run a function on the model's thread, between two passes; what it gives or raises.

        Args:
            function: Called once.
            reads: Is it a forward pass of a sampler? How long that takes decides how many tokens the next one gets.
        """
        made: _Call = _Call(function, Future(), reads)
        self._put(self._calls, made)
        return made.future.result()  # type: ignore[no-any-return]

    def close(self, seconds: float = 10.0) -> None:
        """End the thread; what is under way ends with an error."""
        with self._wake:
            self._closing = True
            waiting = list(self._new)
            self._wake.notify()
        # subtle: a call of the core that runs would keep its thread, and with it the process.
        for ticket in (*waiting, *(ticket for ticket, _ in list(self._of.values()))):
            for row in ticket.rows:
                row.disconnect()
        if self._thread.is_alive():
            self._thread.join(seconds)
        self.batch.close()

    def _put(self, where: deque[Any], what: Any) -> None:
        with self._wake:
            if self._closing:
                raise ShuttingDown("the server is shutting down")
            where.append(what)
            self._wake.notify()

    # -- on the model's thread

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._new or self._gone or self._calls or self._closing) and self.batch.is_idle:
                    self._wake.wait()
                if self._closing:
                    break
                new, self._new = self._new, deque()
                gone, self._gone = self._gone, deque()
                should_yield = self._pauses and self._is_in_the_way()
                others_first = self._has_called and (should_yield or bool(new) or self.batch.has_prompts)
                call = self._calls.popleft() if self._calls and not others_first else None
                self._has_called = call is not None
            self._round_since = time.monotonic()
            self._give_back()
            if should_yield and call is None:
                # Why: isolated matchers run only on an idle processor, which the model's threads hardly leave. Without
                # a pause they would starve; in the middle of a pass they would delay it by an unknown time.
                time.sleep(min(_MOST_PAUSE, _PAUSE * self._last_round))
            before = time.perf_counter()
            try:
                self._round(new, gone, call)
            except Exception as error:  # subtle: without this thread nothing would ever be answered again
                logger.exception("a round failed")
                if call is not None and not call.future.done():
                    call.future.set_exception(_ended_by(error))
                self._fail_all(error)
            self._last_round = time.perf_counter() - before
            self._round_since = None
        self._fail_all(ShuttingDown("the server is shutting down"))

    def _round(
        self,
        new: deque[Ticket],
        gone: deque[Ticket],
        call: _Call | None,
    ) -> None:
        for ticket in new:
            for place, row in enumerate(ticket.rows):
                self._of[id(row)] = (ticket, place)
            self.batch.add(ticket.rows)
        for ticket in gone:
            self._forget(ticket.rows)
        began = time.monotonic()
        if call is not None:
            try:
                call.future.set_result(call.function())
            except BaseException as error:
                call.future.set_exception(error)
        if self.batch.is_idle:
            return
        called = time.monotonic()
        told: dict[int, Ticket] = {}
        changed = self.batch.step(prompts=call is None)
        if (
            call is not None and call.reads and changed
        ):  # a round in which all rows wait for masks is no measure
            self._adapt_call_tokens(called - began, time.monotonic() - called)
        for row in changed:
            known = self._of.get(id(row))
            if known is None:
                continue
            ticket, place = known
            if row.error is not None:
                # else a cycle keeps the row, and its lane, until the collector comes
                row.error = detached(row.error)
            ticket.went_on(place)
            told[id(ticket)] = ticket
            if row.finish is not None:
                del self._of[id(row)]
            elif ticket.finish[place] is not None:
                self._forget([row])
        for ticket in told.values():
            ticket.changed()

    def _adapt_call_tokens(self, seconds: float, round_seconds: float) -> None:
        """Adapt the tokens of a sampler pass to its duration, which grows with the length of the text."""
        if seconds > _LONG_CALL * round_seconds:
            self._call_tokens = max(_LEAST_PART, self._call_tokens // 2)
        elif seconds < round_seconds:
            self._call_tokens = min(self._prompt_tokens, 2 * self._call_tokens)

    def _forget(self, rows: Sequence[Row]) -> None:
        self.batch.drop(rows)
        for row in rows:
            self._of.pop(id(row), None)

    def _give_back(self) -> None:
        """Let the system have what the allocator holds and nobody uses: the batch's cache grows and shrinks, and what
        is freed in between small things would stay with the process."""
        now = time.monotonic()
        if now - self._given_back > _GIVE_BACK_SECONDS:
            self._given_back = now
            _trim()

    def _fail_all(self, error: Exception) -> None:
        """After a fault in this program, or at the end: every ticket is told."""
        with self._wake:
            tickets = {id(ticket): ticket for ticket in (*self._new, *(one for one, _ in self._of.values()))}
            self._new.clear()
            calls, self._calls = self._calls, deque()
        for call in calls:
            call.future.set_exception(_ended_by(error))
        for ticket in tickets.values():
            self.batch.drop(ticket.rows)
            for place, row in enumerate(ticket.rows):
                self._of.pop(id(row), None)
                if ticket.finish[place] is None:
                    row.error = _ended_by(error)
                    ticket.finish[place] = "failed"
            ticket.changed()
