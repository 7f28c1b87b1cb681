"""The generation loop of a fixed batch: rows in, logits from the model, tokens out.

What: each round commits what needs no draw (`Row.advance_without_draw`), gives the model the new tokens of all rows in
one call, and draws one token per row. Rows with different constraints, options and seeds share a batch; a row that has
ended leaves it. The loop is synchronous. Asynchronous callers run it in a thread and stop it through `cancel`.
With drafts (`Drafting`), the same call also reads draft tokens. A row then draws position after position, as without
drafts, as long as the drawn token is one of those that were read.
Invariant: a row's text depends on its own prompt, constraint, options and seed, not on its neighbours (as far
as the model's logits do not depend on the batch).
Cost: besides the model, one mask and one softmax per row and token.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from structgen._core import LimitError
from structgen.constraints.failures import limit_exceeded
from structgen.errors import OptionError, StructgenError
from structgen.protocols import capabilities_of, start_rows

from .drafting import NO_DRAFT, ROOT, Drafting, RowStates
from .options import SamplingOptions, row_seed
from .prefix_logits import can_draft
from .results import Generation, Timing
from .row import Row
from .tree_draws import accepted_nodes, draw_along

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel, Session, TokenMatcher

__all__ = ["Progress", "failing_alone", "generate_steps", "generate_tokens", "generation_of"]


@dataclass(frozen=True)
class Progress:
    """The state of one row after a round."""

    row: int
    text: str
    generation: Generation | None = None
    tokens: Sequence[int] = ()
    """The tokens of the text so far. The list is valid until the next step."""


def generate_tokens(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    matchers: Sequence[TokenMatcher | None],
    options: SamplingOptions | Sequence[SamplingOptions] | None = None,
    *,
    cancel: Callable[[], bool] | None = None,
    drafting: Drafting | None = None,
) -> list[Generation]:
    """Generate one text per prompt, as one batch.

    Args:
        model: The language model.
        prompts: The tokens of each prompt.
        matchers: The matcher of each row; None leaves a row unconstrained.
        options: One set for all rows, where row i draws from the random stream (seed, i); or one set per row, where
            each row draws what it would draw alone.
        cancel: Called once per round; True stops all rows.
        drafting: Proposes draft tokens. They change the time, not the texts.

    Returns:
        One generation per prompt, in the order of the prompts.
    """
    run = _Loop(model, prompts, matchers, options, cancel, drafting)
    for _ in run.rounds():
        pass
    return [run.generations[row.index] for row in run.rows]


def generate_steps(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    matchers: Sequence[TokenMatcher | None],
    options: SamplingOptions | Sequence[SamplingOptions] | None = None,
    *,
    cancel: Callable[[], bool] | None = None,
    drafting: Drafting | None = None,
) -> Iterator[Progress]:
    """Generate as `generate_tokens` does; after each round, yield the state of each row that took part."""
    run = _Loop(model, prompts, matchers, options, cancel, drafting)
    for changed in run.rounds():
        for row in changed:
            yield Progress(row.index, row.text, run.generations.get(row.index), row.tokens)


class _Loop:
    def __init__(
        self,
        model: LanguageModel,
        prompts: Sequence[Sequence[int]],
        matchers: Sequence[TokenMatcher | None],
        options: SamplingOptions | Sequence[SamplingOptions] | None,
        cancel: Callable[[], bool] | None,
        drafting: Drafting | None = None,
    ) -> None:
        each = _per_row(options, len(prompts))
        if len(matchers) != len(prompts):
            raise OptionError(f"{len(prompts)} prompts need as many matchers, not {len(matchers)}")
        self.started = time.perf_counter()
        shared = options is None or isinstance(options, SamplingOptions)
        self.rows = [
            Row(
                i,
                prompt,
                matchers[i],
                each[i],
                model.vocabulary,
                row_seed(each[i].seed, i if shared else 0),
            )
            for i, prompt in enumerate(prompts)
        ]
        self.generations: dict[int, Generation] = {}
        self.timing = Timing()
        self._first: dict[int, float] = {}
        self._probed: Sequence[Any] = ()
        """For each row of the last pass, the logits after the embeddings that it read."""
        self._model = model
        self._cancel = cancel
        self._drafting = drafting

    def rounds(self) -> Iterator[list[Row]]:
        """Run the loop; after each round, yield the rows that changed. Rows that ended are in `generations` by then."""
        active = self._prepare()
        failed = [row for row in self.rows if row.finish is not None]
        if failed:
            yield failed
        if not active:
            return
        session, drafting = self._prefill(active)
        can_score = capabilities_of(session).scores_runs
        logits = list(session.logits())
        self.timing.prompt = time.perf_counter() - self.started
        while True:
            self._advance_without_draw(active, logits, can_score)
            changed = active
            keep = [index for index, row in enumerate(active) if row.finish is None]
            if len(keep) < len(active):
                active = [active[index] for index in keep]
            for row in changed:
                self._note(row)
            yield changed
            if not active:
                return
            trees = (
                [NO_DRAFT] * len(active)
                if drafting is None
                else self._drafts(drafting, session, active, keep)
            )
            before = time.perf_counter()
            if len(keep) < len(changed):
                session.select(keep)
            longest = max(self._width(row, tree) for row, tree in zip(active, trees, strict=True))
            scores = self._advance(session, active, trees, can_score)
            seconds = time.perf_counter() - before
            self.timing.model += seconds
            if drafting is not None:
                self._report_pass(drafting, active, trees, scores, longest, seconds)
            logits[:] = self._draw_all(session, active, trees, scores, drafting)

    def _prepare(self) -> list[Row]:
        """Check all rows; return those that can start. The others have failed."""
        for row in self.rows:
            with failing_alone(row):
                row.prepare(self._model.context_length)
            if row.finish is not None:
                self._note(row)
        return [row for row in self.rows if row.finish is None]

    def _prefill(self, active: list[Row]) -> tuple[Any, Drafting | None]:
        """Start a session over the prompts; return it, and the drafter if the session can have drafts."""
        layers = () if self._drafting is None else self._drafting.hidden_layers
        session: Any = start_rows(self._model, [row.prompt for row in active], layers)
        drafting = self._drafting if can_draft(session) else None
        if drafting is None and self._drafting is not None:
            self._drafting.on_unsupported()
        for row in active:
            row.draft_limit = capabilities_of(session).draft_limit
        return session, drafting

    def _advance_without_draw(self, active: list[Row], logits: Sequence[Any], can_score: bool) -> None:
        """Commit what needs no draw in each row, and check for a cancellation."""
        before = time.perf_counter()
        for index, row in enumerate(active):
            with failing_alone(row):
                row.advance_without_draw(can_score=can_score)
                row.score_pending(0, logits[index])
        if self._cancel is not None and self._cancel():
            for row in active:
                row.finish = row.finish or "cancelled"
        self.timing.constraint += time.perf_counter() - before

    def _report_pass(
        self,
        drafting: Drafting,
        active: list[Row],
        trees: Sequence[Any],
        scores: Sequence[Any],
        longest: int,
        seconds: float,
    ) -> None:
        """Call the drafter's hooks after a forward pass."""
        before = time.perf_counter()
        if longest:
            drafting.on_pass(len(active), longest, seconds)
        if drafting.wants_logits:
            for row, tree, read in zip(active, trees, scores, strict=True):
                drafting.on_logits(row, tree, read)
        self.timing.drafting += time.perf_counter() - before

    def _draw_all(
        self,
        session: Session,
        active: list[Row],
        trees: Sequence[Any],
        scores: Sequence[Any],
        drafting: Drafting | None,
    ) -> list[Any]:
        """Draw in each row, and keep the accepted draft tokens in the session; return the logits after each row."""
        logits = []
        forked = not all(tree.is_chain and not tree.probes for tree in trees)
        for index, (row, tree) in enumerate(zip(active, trees, strict=True)):
            with failing_alone(row):
                if drafting is not None and drafting.wants_states and len(tree):
                    keeps = capabilities_of(session).hidden_states
                    drafting.on_states(row, session.hidden_states(index)[-len(tree) :] if keeps else None)
                # subtle: a row may have failed while its draft was grown, with draft tokens in its matcher.
                if row.finish is None:
                    draw_along(row, scores[index], tree, drafting, self.timing)
            path = accepted_nodes(row, tree, drafting)
            logits.append(scores[index][path[-1] + 1 if path else 0])
            if row.finish is None:
                row.drop_pending(len(path))
                self._report_probed(drafting, row, index, tree, path)
            if forked:
                session.keep(index, path)
            elif row.finish is None and len(path) < len(tree):
                session.rollback(index, len(tree) - len(path))
        return logits

    def _drafts(
        self, drafting: Drafting, session: Session, active: list[Row], indices: Sequence[int]
    ) -> Sequence[Any]:
        """Return a draft tree for each row. `indices` are those of the rows in the session."""
        before = time.perf_counter()
        hidden = None
        can = capabilities_of(session)
        if drafting.hidden_layers and can.hidden_states:
            hidden = [
                RowStates.of(session, index, drafting.hidden_layers, row.read_count)
                for row, index in zip(active, indices, strict=True)
            ]
        trees = drafting.propose(
            active, hidden, trees=can.reads_trees, pads=can.takes_padding, probes=can.reads_embeddings
        )
        self.timing.drafting += time.perf_counter() - before
        return trees

    def _advance(
        self, session: Session, active: list[Row], trees: Sequence[Any], can_score: bool
    ) -> list[Any]:
        """Give the session all pending and draft tokens.

        Returns:
            For each row the logits after its pending tokens and after each node of its tree.
        """
        for index, row in enumerate(active):
            if row.excess:
                session.rollback(index, row.excess)
        pending = [row.pending for row in active]
        probes = any(tree.probes for tree in trees)
        if not can_score or not (
            probes
            or any(map(len, trees))
            or any(len(row.pending) > 1 and row.options.exact_weight for row in active)
        ):
            if any(pending):
                self.timing.forward_passes += 1
                session.append(pending)
            for row in active:
                row.mark_read()
            return [row_logits[None] for row_logits in session.logits()]
        # A row without pending tokens starts from the logits that the session has.
        known: list[Any] = list(session.logits().copy()) if not all(pending) else [None] * len(active)
        self.timing.forward_passes += 1
        inner: Sequence[Any]
        if probes and self._drafting is not None:
            inner, self._probed = session.append_probed(
                pending,
                [(tree.tokens, tree.parents) for tree in trees],
                self._drafting.probe_embeddings,
                [tree.probes for tree in trees],
            )
        elif all(tree.is_chain for tree in trees):
            inner = session.append_scored(
                [[*mine, *tree.tokens] for mine, tree in zip(pending, trees, strict=True)]
            )
        else:
            inner = session.append_trees(pending, [(tree.tokens, tree.parents) for tree in trees])
        scores = []
        for row, first, logits in zip(active, known, inner, strict=True):
            for offset in range(1, len(row.pending)):
                row.score_pending(offset, logits[offset - 1])
            if row.pending:
                scores.append(logits[len(row.pending) - 1 :])
            else:
                scores.append(np.stack([first, *logits]))
        for row in active:
            row.mark_read()
        return scores

    def _width(self, row: Row, tree: Any) -> int:
        """Return the number of positions that a row reads in the next pass, those of embeddings included."""
        probes = len(tree.probes)
        if probes and self._drafting is not None:
            probes *= len(self._drafting.probe_embeddings)
        return len(row.pending) + len(tree) + probes

    def _report_probed(
        self, drafting: Drafting | None, row: Row, index: int, tree: Any, path: Sequence[int]
    ) -> None:
        """Give the drafter the logits after the embeddings that were read at the end of the accepted path."""
        end = path[-1] if path else ROOT
        if drafting is not None and not row.excess and end in tree.probes:
            drafting.on_probed(row, self._probed[index][tree.probes.index(end)])

    def _note(self, row: Row) -> None:
        """Record the time of the first token, and the generation of a row that has ended."""
        elapsed = time.perf_counter() - self.started
        if row.tokens:
            self._first.setdefault(row.index, elapsed)
        if row.finish is None:
            return
        if self._drafting is not None:
            self._drafting.on_end(row)
        timing = replace(self.timing, total=elapsed, first_token=self._first.get(row.index))
        self.generations[row.index] = generation_of(row, timing)


def generation_of(row: Row, timing: Timing) -> Generation:
    """Return the generation of a row that has ended."""
    assert row.finish is not None
    return Generation(
        text=row.text,
        tokens=list(row.tokens),
        finish=row.finish,
        logprob=row.logprob,
        log_weight=row.log_weight,
        end_token=row.end_token,
        prompt_tokens=len(row.prompt),
        forced_tokens=row.forced_tokens,
        drafted_tokens=row.drafted_tokens,
        accepted_tokens=row.accepted_tokens,
        steered=row.steered,
        is_lossy=row.is_lossy,
        retries=row.retries,
        unproven=row.unproven,
        monitors=row.monitor_report,
        error=row.error,
        captured=row.captured,
        seed=row.seed,
        timing=timing,
    )


@contextmanager
def failing_alone(row: Row) -> Iterator[None]:
    """Turn an error inside the block into the end of this row; the other rows go on."""
    try:
        yield
    except LimitError as error:
        row.fail(limit_exceeded(error))
    except StructgenError as error:
        row.fail(error)


def _per_row(options: SamplingOptions | Sequence[SamplingOptions] | None, rows: int) -> list[SamplingOptions]:
    if options is None or isinstance(options, SamplingOptions):
        return [options or SamplingOptions()] * rows
    if len(options) != rows:
        raise OptionError(f"{rows} prompts need one set of options or as many, not {len(options)}")
    return list(options)
