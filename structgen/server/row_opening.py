"""Make the rows of a request: open its matchers, which may wait until a matcher process is free.

What: a matcher of this process opens at once. One that needs a matcher process starts it on a thread, and first waits
for its turn in the `ProcessQueue` if all processes are in use.
Invariant: a client that disconnects meanwhile holds no matcher, no process and no place in a queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from structgen.errors import LimitExceeded
from structgen.generation.options import row_seed
from structgen.generation.row import Row
from structgen.generation.token_budget import room_after
from structgen.serving.compiler import CompiledConstraint
from structgen.serving.isolatable_constraint import IsolatableConstraint
from structgen.serving.isolated_matcher import IsolatedMatcher
from structgen.serving.matcher_processes import MatcherProcesses
from structgen.serving.migrating_matcher import MigratingMatcher

from .client import Client
from .completion_request import CompletionRequest
from .fair_threads import FairThreads
from .process_queue import ProcessQueue
from .settings import ServerSettings

__all__ = ["AnyConstraint", "RowOpener"]

AnyConstraint = CompiledConstraint | IsolatableConstraint
_THREADS = 2
"""Threads for matchers of this process."""


class _OpeningMatchers:
    """The matchers of a request that has not joined the batch yet."""

    def __init__(self) -> None:
        self._matchers: list[MigratingMatcher | IsolatedMatcher] = []
        self.is_wanted = True

    def add(self, matcher: MigratingMatcher | IsolatedMatcher) -> MigratingMatcher | IsolatedMatcher:
        """Add a matcher, on the thread that opened it."""
        self._matchers.append(matcher)
        if not self.is_wanted:
            matcher.on_disconnect()
        return matcher

    def clear(self) -> None:
        """Release the matchers of an attempt that has failed."""
        self._matchers.clear()

    def on_start(self) -> None:
        """Called before the texts join the batch."""
        for matcher in self._matchers:
            if isinstance(matcher, MigratingMatcher):
                matcher.has_started = True

    def on_disconnect(self) -> None:
        """Called on the event loop when the client has disconnected."""
        self.is_wanted = False
        for matcher in tuple(self._matchers):
            matcher.on_disconnect()


class RowOpener:
    """Makes the rows of all requests of one server. Only its event loop uses it."""

    def __init__(self, model: Any, settings: ServerSettings, processes: MatcherProcesses | None) -> None:
        """Prepare the threads.

        Args:
            model: The language model of the rows.
            settings: `queue_seconds` and `limits` apply here.
            processes: The matcher processes of the server, if it has any.
        """
        self._model, self._settings = model, settings
        self.process_queue = ProcessQueue(lambda: 1 if processes is None else processes.free)
        """Requests that wait until a matcher process is free."""
        if processes is not None:
            processes.on_start, processes.on_end = self.process_queue.on_start, self.process_queue.on_end
        self._threads = FairThreads(_THREADS, "structgen-opening")
        self._isolated_threads = FairThreads(
            settings.limits.max_matcher_processes, "structgen-opening-isolated"
        )
        self._requests = 0

    def close(self) -> None:
        """Stop the threads after their current work."""
        self._threads.close()
        self._isolated_threads.close()

    async def open(
        self, request: CompletionRequest, prompt: list[int], constraint: AnyConstraint | None, client: Client
    ) -> list[Row]:
        """Return the rows of a request, prepared to join the batch.

        Raises:
            StructgenError: A row cannot be prepared, or no matcher process was free in time.
        """
        self._requests += 1
        index = self._requests << 8
        opening = _OpeningMatchers()

        def rows() -> list[Row]:
            return self._rows(request, prompt, constraint, index, opening)

        try:
            if isinstance(constraint, IsolatableConstraint) and self._needs_process(
                request, len(prompt), constraint
            ):
                opened = await self._in_turn(rows, constraint, opening, client)
            else:
                opened = await self._threads.run(client.name, rows)
        except asyncio.CancelledError:
            opening.on_disconnect()
            raise
        for row in opened:
            row.scope = client.name  # nothing that one client sent is shared with another
        opening.on_start()
        return opened

    def _needs_process(
        self, request: CompletionRequest, prompt_tokens: int, constraint: IsolatableConstraint
    ) -> bool:
        room, _ = room_after(prompt_tokens, self._model.context_length, request.options.max_tokens)
        return constraint.needs_process(room, closes=request.options.close_within_budget)

    async def _in_turn(
        self,
        rows: Callable[[], list[Row]],
        constraint: IsolatableConstraint,
        opening: _OpeningMatchers,
        client: Client,
    ) -> list[Row]:
        """Call `rows`, if need be after waiting until a matcher process is free."""
        waits = bool(self.process_queue) and not constraint.has_process
        with self.process_queue.place(client.name) as place:
            while True:
                try:
                    if waits:
                        await place.turn(client.seconds_left(self._settings.queue_seconds))
                    return await self._isolated_threads.run(client.name, rows)
                except TimeoutError:
                    raise constraint.processes.full() from None
                except LimitExceeded as error:
                    if error.limit != "max_matcher_processes":
                        raise
                    opening.clear()
                    waits = True

    def _rows(
        self,
        request: CompletionRequest,
        prompt: list[int],
        constraint: AnyConstraint | None,
        index: int,
        opening: _OpeningMatchers,
    ) -> list[Row]:
        """Return the rows of a request, with new matchers.

        Args:
            request: The request.
            prompt: The prompt's tokens.
            constraint: The compiled constraint.
            index: The index of the first row.
            opening: Collects the matchers, and says whether the client still waits.
        """
        vocabulary = self._model.vocabulary
        rows = []
        seed = row_seed(request.options.seed, 0)
        for choice in range(request.n):
            matcher: Any = None
            if isinstance(constraint, IsolatableConstraint):
                matcher = opening.add(constraint.open(lambda: opening.is_wanted))
            elif constraint is not None:
                matcher = constraint.open()
            own = row_seed(seed, choice)
            row = Row(index + choice, prompt, matcher, request.options, vocabulary, own)
            row.scores.top_tokens = request.top_logprobs
            row.prepare(self._model.context_length)
            rows.append(row)
        return rows
