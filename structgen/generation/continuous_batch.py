"""Continuous batching: rows join a running batch between two forward passes, and leave it when they have ended.

Why: a server that waits for a batch to end before it starts the next one makes short answers wait for long ones.
What: `step` is one round. Rows whose logits have arrived draw their next token (mask, draw, forced tokens; see `Row`).
Waiting prompts are prefilled, one part at a time. One forward pass then reads the new tokens of every row. A row whose
draw takes long, because its constraint is expensive, skips forward passes until the draw is done.
With drafts (`Drafting`), the pass reads draft tokens after the new tokens of each row, and the row draws along them.
Its thread finds the next draft tokens; how many of them a pass reads is decided for all rows together. If a draw takes
long, the session forgets the row's draft tokens, and reads those that were drawn again.
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
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from structgen.errors import ModelError, OptionError
from structgen.protocols import capabilities_of, hidden_state_bytes, start_rows, token_cache_bytes

from .batch_row import BatchRow
from .drafting import NO_DRAFT, DraftedTokens, Drafting
from .prefix_cache import PrefixCache
from .prefix_logits import can_draft
from .row import Row
from .task_threads import TaskThreads

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel

__all__ = ["ContinuousBatch"]

logger = logging.getLogger(__name__)

_MAX_PROMPTS = 8
"""While rows run, a round prefills at most this many prompts, and at most this many times `prompt_tokens` tokens."""

_IDLE_FACTOR = 8
"""While no row runs, a step prefills this many times `prompt_tokens`. New requests wait for the end of the step."""


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
    cached_prompts: int = 0
    """Prompts of which a part was not read, because an earlier prompt began with it."""
    cached_tokens: int = 0
    """Tokens of prompts that were not read, because an earlier prompt began with them."""
    detached: int = 0
    """Draws that were detached because they took too long."""
    failed: int = 0
    """Forward passes that raised."""
    drafted: int = 0
    """Draft tokens that were read."""
    accepted: int = 0
    """Those of them that were drawn."""


class ContinuousBatch:
    """A batch of at most `most_rows` rows of `model`.

    Args:
        model: The language model.
        most_rows: The largest number of rows, those in prefill included.
        patience: Seconds that all other rows wait for the draw of one row.
        prompt_tokens: Tokens of prompts that are prefilled between two forward passes while rows run; up to eight
            times as many if few run and many wait. Choose it so that prefilling them takes about as long as a decode
            step.
        drafting: Proposes draft tokens for the rows whose options say `speculate`; None for none.
        prefix_bytes: Memory for KV caches of earlier prompts, whose beginnings need not be read again (`PrefixCache`).
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        most_rows: int = 16,
        patience: float = 0.01,
        prompt_tokens: int = 64,
        drafting: Drafting | None = None,
        prefix_bytes: int = 0,
    ) -> None:
        if min(most_rows, prompt_tokens) < 1 or patience <= 0:
            raise OptionError("most_rows, prompt_tokens and patience must be above 0")
        if drafting is not None and drafting.is_lossy:
            raise OptionError(
                "a running batch takes no lossy verifier: requests of others would get another distribution",
                hint="Use it in structgen.generate(..., speculate=...), or a Speculation with another verifier.",
            )
        self.most_rows = most_rows
        self.counts = Counts()
        self._model = model
        self._patience = patience
        self._prompt_tokens = prompt_tokens
        self._drafting = drafting
        states = 0 if drafting is None else hidden_state_bytes(model, len(drafting.hidden_layers))
        self.prefixes = PrefixCache(prefix_bytes, token_cache_bytes(model) + states)
        self._threads = TaskThreads(patience, 2 * most_rows)
        self._waiting: deque[_Arrival] = deque()
        self._arriving: _Arrival | None = None
        self._session: Any = None
        self._members: list[BatchRow] = []
        self.progressed = time.monotonic()
        """The time at which a row or a prompt last advanced, or the batch was idle."""
        self._dropped: list[BatchRow] = []
        """Rows that were dropped during a draw."""
        self._must_keep = False
        """Whether the session waits for `keep` of each row (`Session.append_trees`)."""

    @property
    def running(self) -> int:
        """The number of rows that draw or are in prefill."""
        return len(self._members) + (0 if self._arriving is None else len(self._arriving.rows))

    @property
    def waiting(self) -> int:
        """The number of rows that have not started."""
        return sum(len(arrival.rows) for arrival in self._waiting)

    @property
    def drafting_rows(self) -> int:
        """The number of rows that read draft tokens where that makes them faster."""
        return sum(member.drafting is not None for member in tuple(self._members))

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
        if self._must_keep:
            self._forget_drafts()
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
        self._remove_ended()
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
        # subtle: a slow draw counts itself down on its thread, so the rows are divided before any draw starts.
        slow_rows = [member for member in fresh if member.slow_draws]
        quick_rows = [member for member in fresh if not member.slow_draws]
        slow = [self._threads.start(partial(member.draw_tokens, self._patience)) for member in slow_rows]
        self._threads.run([partial(member.draw_tokens, self._patience) for member in quick_rows])
        if slow:
            wait(slow, self._patience)  # one patience for all of them together
        self.counts.detached += sum(member.state == "drawing" for member in fresh)
        turned = [member for member in self._members if member.state == "drawn"]
        self._forget_drafts()
        for member in turned:
            member.state = "pending"
        return [member.row for member in turned]

    def _forget_drafts(self) -> None:
        """Let the session forget the draft tokens that were not drawn, and those of rows that still draw."""
        must_keep, self._must_keep = self._must_keep, False  # first: a call that fails is not repeated
        for index, member in enumerate(self._members):
            path = member.accepted if member.holds_draft and member.state == "drawn" else []
            if must_keep:
                self._session.keep(index, path)
            elif member.holds_draft and len(path) < len(member.tree):
                self._session.rollback(index, len(member.tree) - len(path))
            member.row.drop_pending(len(path))
            self.counts.accepted += len(path)
            member.holds_draft = False

    def _release_dropped(self) -> None:
        """Forget dropped rows whose draws have ended."""
        dropped, self._dropped = self._dropped, []
        for member in dropped:
            if member.state == "drawing":
                self._dropped.append(member)
            elif self._drafting is not None:
                self._drafting.on_end(member.row)

    def _remove_ended(self) -> None:
        # subtle: a row that is drawn meanwhile must be reported before it leaves, so it waits for the next round.
        ended = [
            member for member in self._members if member.state == "pending" and member.row.finish is not None
        ]
        if self._drafting is not None:
            for member in ended:
                self._drafting.on_end(member.row)
        self._keep([member for member in self._members if member not in ended])

    def _keep(self, members: list[BatchRow]) -> None:
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
            prompt, scope = arrival.rows[0].prompt, arrival.rows[0].scope
            before, part = time.perf_counter(), []
            try:
                if arrival.session is None and (known := self.prefixes.start(prompt, scope)) is not None:
                    arrival.session, arrival.read = known
                    self.counts.cached_prompts += 1
                    self.counts.cached_tokens += arrival.read
                    for row in arrival.rows:
                        row.cached_tokens = arrival.read
                part = prompt[arrival.read : arrival.read + left]
                if arrival.session is None:
                    layers = () if self._drafting is None else self._drafting.hidden_layers
                    arrival.session = start_rows(self._model, [part], layers)
                else:
                    arrival.session.append([part])
                arrival.read += len(part)
                if arrival.read == len(prompt):
                    self.prefixes.keep(prompt, scope, arrival.session)
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
        can = capabilities_of(session)
        drafting = self._drafting if can_draft(session) else None
        scores = np.array(session.logits()[:1], dtype=np.float32)
        if len(arrival.rows) > 1:
            session.select([0] * len(arrival.rows))
        first = len(self._members)
        for row in arrival.rows:
            row.draft_limit = can.draft_limit
        if self._session is None:
            self._session = session
        else:
            self._session.join(session)
        self._members += [
            BatchRow(
                row,
                scores,
                can_score=can.scores_runs,
                drafting=drafting if row.options.speculate else None,
                reads_trees=can.reads_trees,
                states=self._session.hidden_states(first + number) if can.hidden_states else None,
            )
            for number, row in enumerate(arrival.rows)
        ]

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

    def _advance(self, going: list[BatchRow]) -> None:
        session = self._session
        for index, member in enumerate(self._members):
            if member.state == "pending" and member.row.excess:
                session.rollback(index, member.row.excess)
        indices = [index for index, member in enumerate(self._members) if member.state == "pending"]
        width = self._width(going)
        pending: list[list[int]] = [[] for _ in self._members]
        for index, member in zip(indices, going, strict=True):
            pending[index] = member.row.pending[:width]
        trees: list[DraftedTokens] = [NO_DRAFT] * len(self._members)
        for index, tree in zip(
            indices, self._chosen(going, [pending[index] for index in indices]), strict=True
        ):
            trees[index] = tree
        scores = self._read(going, pending, trees)
        keeps_states = capabilities_of(session).hidden_states
        for index, member in zip(indices, going, strict=True):
            read = len(pending[index])
            every = len(scores[index]) >= read
            for offset in range(1, read if every else 0):
                member.row.score_pending(offset, scores[index][offset - 1])
            member.scores = scores[index][read - 1 :] if every else scores[index]
            member.tree, member.holds_draft = trees[index], len(trees[index]) > 0
            member.states = None
            if member.drafting is not None and keeps_states:
                member.states = session.hidden_states(index)
            if member.drafting is not None and member.drafting.wants_logits:
                member.drafting.on_logits(member.row, member.tree, member.scores)
            if read < len(member.row.pending):
                member.row.score_pending(read, member.scores[0])
            else:
                member.state = "logits"
            member.row.mark_read(read)

    def _chosen(self, going: list[BatchRow], pending: list[list[int]]) -> Sequence[DraftedTokens]:
        """Return what the pass reads of the drafts of these rows."""
        if self._drafting is None or not any(member.drafting for member in going):
            return [NO_DRAFT] * len(going)
        is_alone = len(self._members) == 1
        return self._drafting.choose(
            [member.row for member in going],
            [len(tokens) for tokens in pending],
            rows_in_pass=len(self._members),
            pads=is_alone and capabilities_of(self._session).takes_padding,
        )

    def _read(
        self, going: list[BatchRow], pending: list[list[int]], trees: list[DraftedTokens]
    ) -> Sequence[NDArray[np.float32]]:
        """Read tokens and drafts in one forward pass.

        Returns:
            For each row of the session the logits after each token and each node, or only those after its last token.
        """
        session = self._session
        before = time.perf_counter()
        has_drafts = any(map(len, trees))
        wants_scores = has_drafts or any(
            len(member.row.pending) > 1 and member.row.options.exact_weight for member in going
        )
        # subtle: `logits` would read a row again whose draft was forgotten while it draws.
        waits = self._drafting is not None and len(going) < len(self._members)
        scores: Sequence[NDArray[np.float32]]
        if going[0].can_score and (wants_scores or waits):
            if all(tree.is_chain for tree in trees):
                scores = session.append_scored(
                    [[*mine, *tree.tokens] for mine, tree in zip(pending, trees, strict=True)]
                )
            else:
                scores = session.append_trees(pending, [(tree.tokens, tree.parents) for tree in trees])
                self._must_keep = True
        else:
            session.append(pending)
            # The array belongs to the session and may change before the draw ends.
            scores = list(np.array(session.logits(), dtype=np.float32)[:, None])
        if self._drafting is not None:
            longest = max(len(mine) + len(tree) for mine, tree in zip(pending, trees, strict=True))
            self._drafting.on_pass(len(self._members), longest, time.perf_counter() - before)
            self.counts.drafted += sum(map(len, trees))
        return scores

    def _width(self, going: list[BatchRow]) -> int:
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
