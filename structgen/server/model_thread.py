"""The thread that runs the model: it takes requests from any thread and reports their texts as they grow.

Why: the event loop must never wait for a forward pass, and only one thread at a time may use a model.
What: a `Ticket` is one request: rows with one prompt. It waits for its turn, and its rows join the running batch
(`structgen.generation.continuous_batch`). After each of their steps, `on_change` is called here. Texts are whole
snapshots, so nothing accumulates for a client that reads slowly.
`call` runs a function of another thread between two passes. Samplers that drive the model themselves share it with the
batch in this way: they make one pass at a time. A round with such a pass has no prefill and no pause, so running rows
do not wait for these as well. The next round has the prefill and the pause, if there are any.
Invariant: every ticket ends, by its texts or by an error, unless it was cancelled.
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
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from structgen.errors import GenerationError
from structgen.generation.continuous_batch import ContinuousBatch
from structgen.generation.row import Row
from structgen.serving.temporary_errors import detached
from structgen.speculative import Speculation, default_drafters

from .errors import ShuttingDown
from .settings import ServerSettings
from .ticket import Ticket

if TYPE_CHECKING:
    from structgen.speculative.learned.learned_drafter import LearnedDrafter

__all__ = ["ModelThread"]

logger = logging.getLogger(__name__)
T = TypeVar("T")
_TRIM_SECONDS = 20.0
"""Seconds between two releases of unused memory to the system."""
_IDLE_CALL_FACTOR = 8
"""A sampler's pass reads so many times `prompt_tokens` while no row runs."""
_LONG_CALL = 1.25
"""A sampler's pass that takes more than so many steps of the batch halves the tokens of the next one."""
_LEAST_CALL_TOKENS = 4
_YIELD_FRACTION = 0.2
"""Fraction of the previous round's duration to sleep, so that slow work in other processes gets CPU time."""
_MAX_YIELD_SECONDS = 0.025
"""Upper bound of that sleep, in seconds."""


def _find_malloc_trim() -> Callable[[], Any]:
    """Return glibc's `malloc_trim`, or a function that does nothing on other systems."""
    try:
        found = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return lambda: None
    return lambda: found(0)


_malloc_trim = _find_malloc_trim()


class _Call(NamedTuple):
    """A function to run on the model's thread; see `ModelThread.call`."""

    function: Callable[[], Any]
    future: Future[Any]
    reads: bool


def _ended_by(error: Exception) -> GenerationError:
    """Return the error of a request that ends because of `error`: a shutdown, or a fault of this program."""
    if isinstance(error, ShuttingDown):
        return ShuttingDown(str(error))
    return GenerationError(f"the server could not continue: {error}")


def computes_here(model: Any) -> bool:
    """Return whether a model keeps this machine's processors busy, not another device."""
    return getattr(getattr(model, "device", None), "type", "cpu") == "cpu"


class ModelThread:
    """Runs one model. `start` it, and `close` it."""

    def __init__(
        self, model: Any, settings: ServerSettings, has_slow_work: Callable[[], bool] = lambda: False
    ) -> None:
        """Prepare the thread.

        Args:
            model: A `LanguageModel`.
            settings: `max_rows`, `patience`, `prompt_tokens`, `prefix_bytes`, `speculate` and `stall_seconds` apply
                here.
            has_slow_work: Whether work is in progress that runs only on idle processors. The thread then sleeps before
                rounds without a call, if the model computes on this machine's processors.
        """
        self.model = model
        self.batch = ContinuousBatch(
            model,
            most_rows=settings.max_rows,
            patience=settings.patience,
            prompt_tokens=settings.prompt_tokens,
            prefix_bytes=settings.prefix_bytes,
            drafting=_speculation(model, settings).start(model, warns=False) if settings.speculate else None,
        )
        self._prompt_tokens = settings.prompt_tokens
        self._stall_seconds = settings.stall_seconds
        self._round_since: float | None = None
        """When the current round began."""
        self._has_slow_work = has_slow_work
        self._yields = computes_here(model)
        self._last_round = 0.0
        """Duration of the last round, in seconds."""
        self._wake = threading.Condition()
        self._submitted: deque[Ticket] = deque()
        self._cancelled: deque[Ticket] = deque()
        self._calls: deque[_Call] = deque()
        self._call_tokens = settings.prompt_tokens
        """The most tokens of one sampler pass while rows run."""
        self._has_called = False
        """Whether the last round ran a call. Waiting prompts and pauses then go before the next call."""
        self._tickets: dict[int, tuple[Ticket, int]] = {}
        """The ticket of each row in the batch, and its index there, by the row's `id`."""
        self._is_closing = False
        self._trimmed = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="structgen-model", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Return whether the thread runs."""
        return self._thread.is_alive()

    @property
    def stalled_seconds(self) -> float | None:
        """For how long there has been work but no finished step, if that is more than `stall_seconds`."""
        # subtle: rounds continue while all rows wait for their masks.
        since = [] if self.batch.is_idle else [self.batch.progressed]
        if (started := self._round_since) is not None:
            since.append(started)
        seconds = time.monotonic() - min(since, default=math.inf)
        return seconds if seconds > self._stall_seconds else None

    def most_call_tokens(self) -> int:
        """Return the most tokens of one sampler pass: few while rows run, since they wait for it."""
        return self._call_tokens if self.batch.running else _IDLE_CALL_FACTOR * self._prompt_tokens

    def submit(self, ticket: Ticket) -> None:
        """Take a request, whose rows are prepared."""
        self._put(self._submitted, ticket)

    def cancel(self, ticket: Ticket) -> None:
        """Drop a request; its rows leave the batch at the next round."""
        self._put(self._cancelled, ticket)

    def call(self, function: Callable[[], T], /, *, reads: bool = False) -> T:
        """Run a function on the model's thread, between two passes, and return what it returns or raises.

        Args:
            function: Called once.
            reads: It is a forward pass of a sampler, whose duration decides how many tokens the next one gets.
        """
        made: _Call = _Call(function, Future(), reads)
        self._put(self._calls, made)
        return made.future.result()  # type: ignore[no-any-return]

    def close(self, seconds: float = 10.0) -> None:
        """End the thread. Requests in progress end with an error.

        Args:
            seconds: How long to wait for the thread.
        """
        with self._wake:
            self._is_closing = True
            waiting = list(self._submitted)
            self._wake.notify()
        # subtle: a running call of the core would keep its thread alive, and with it the process.
        for ticket in (*waiting, *(ticket for ticket, _ in list(self._tickets.values()))):
            for row in ticket.rows:
                row.disconnect()
        if self._thread.is_alive():
            self._thread.join(seconds)
        self.batch.close()

    def _put(self, queue: deque[Any], what: Any) -> None:
        with self._wake:
            if self._is_closing:
                raise ShuttingDown("the server is shutting down")
            queue.append(what)
            self._wake.notify()

    # -- on the model's thread

    def _run(self) -> None:
        while True:
            with self._wake:
                while (
                    not (self._submitted or self._cancelled or self._calls or self._is_closing)
                    and self.batch.is_idle
                ):
                    self._wake.wait()
                if self._is_closing:
                    break
                submitted, self._submitted = self._submitted, deque()
                cancelled, self._cancelled = self._cancelled, deque()
                should_yield = self._yields and self._has_slow_work()
                others_first = self._has_called and (
                    should_yield or bool(submitted) or self.batch.has_prompts
                )
                call = self._calls.popleft() if self._calls and not others_first else None
                self._has_called = call is not None
            self._round_since = time.monotonic()
            self._trim()
            if should_yield and call is None:
                # Why: isolated matchers run only on an idle processor, which the model's threads hardly leave. Without
                # a pause they would starve; in the middle of a pass they would delay it by an unknown time.
                time.sleep(min(_MAX_YIELD_SECONDS, _YIELD_FRACTION * self._last_round))
            before = time.perf_counter()
            try:
                self._round(submitted, cancelled, call)
            except Exception as error:  # subtle: without this thread, no request would ever be answered again
                logger.exception("a round failed")
                if call is not None and not call.future.done():
                    call.future.set_exception(_ended_by(error))
                self._fail_all(error)
            self._last_round = time.perf_counter() - before
            self._round_since = None
        self._fail_all(ShuttingDown("the server is shutting down"))

    def _round(self, submitted: deque[Ticket], cancelled: deque[Ticket], call: _Call | None) -> None:
        """Run a call and one step of the batch."""
        for ticket in submitted:
            for index, row in enumerate(ticket.rows):
                self._tickets[id(row)] = (ticket, index)
            self.batch.add(ticket.rows)
        for ticket in cancelled:
            self._drop(ticket.rows)
        began = time.monotonic()
        if call is not None:
            try:
                call.future.set_result(call.function())
            except BaseException as error:  # noqa: BLE001 — the thread that called gets it
                call.future.set_exception(error)
        if self.batch.is_idle:
            return
        called = time.monotonic()
        changed = self.batch.step(prompts=call is None)
        # A step in which all rows wait for masks says nothing about durations.
        if call is not None and call.reads and changed:
            self._adapt_call_tokens(called - began, time.monotonic() - called)
        self._report(changed)

    def _report(self, changed: Sequence[Row]) -> None:
        """Update the tickets of rows that got tokens or finished."""
        tickets: dict[int, Ticket] = {}
        for row in changed:
            known = self._tickets.get(id(row))
            if known is None:
                continue
            ticket, index = known
            if row.error is not None:
                # Otherwise a cycle keeps the row, and its matcher process, until the next collection.
                row.error = detached(row.error)
            ticket.on_step(index)
            tickets[id(ticket)] = ticket
            if row.finish is not None:
                del self._tickets[id(row)]
            elif ticket.sequences[index].finish is not None:
                self._drop([row])
        for ticket in tickets.values():
            ticket.on_change()

    def _adapt_call_tokens(self, seconds: float, step_seconds: float) -> None:
        """Adapt the tokens of a sampler pass to its duration, which grows with the length of the text."""
        if seconds > _LONG_CALL * step_seconds:
            self._call_tokens = max(_LEAST_CALL_TOKENS, self._call_tokens // 2)
        elif seconds < step_seconds:
            self._call_tokens = min(self._prompt_tokens, 2 * self._call_tokens)

    def _drop(self, rows: Sequence[Row]) -> None:
        self.batch.drop(rows)
        for row in rows:
            self._tickets.pop(id(row), None)

    def _trim(self) -> None:
        """Release memory that the allocator holds and no one uses, now and then.

        The batch's cache grows and shrinks, and small objects between its parts would keep freed memory in the process.
        """
        now = time.monotonic()
        if now - self._trimmed > _TRIM_SECONDS:
            self._trimmed = now
            _malloc_trim()

    def _fail_all(self, error: Exception) -> None:
        """End all tickets with an error: after a fault of this program, or at the end."""
        with self._wake:
            tickets = {
                id(ticket): ticket
                for ticket in (*self._submitted, *(ticket for ticket, _ in self._tickets.values()))
            }
            self._submitted.clear()
            calls, self._calls = self._calls, deque()
        for call in calls:
            call.future.set_exception(_ended_by(error))
        # Together: the session may be in a state in which single rows can no longer leave it.
        self._drop([row for ticket in tickets.values() for row in ticket.rows])
        for ticket in tickets.values():
            for sequence in ticket.sequences:
                sequence.fail(_ended_by(error))
            ticket.on_change()


def _speculation(model: Any, settings: ServerSettings) -> Speculation:
    if settings.drafter is None:
        return Speculation(default_drafters(model), branching=False)
    from structgen.speculative.learned import speculation_with

    # A file for another model ends the server before it serves.
    speculation = speculation_with(
        settings.drafter, model, in_batches=True, any_base=settings.drafter_any_base
    )
    if not settings.drafter_learns:
        return speculation
    from structgen.draft_training.online import OnlineDrafter

    *others, drafter = speculation.drafters
    learning = OnlineDrafter(cast("LearnedDrafter[Any]", drafter))
    return Speculation([*others, learning], branching=False)
