"""Drafts for vLLM from the constraint and from texts: lossless, and without a draft model.

    {"method": "custom_class", "model": "structgen.integrations.vllm.drafting.GrammarProposer",
     "num_speculative_tokens": 8}

Why: a JSON answer repeats its schema, its prompt and earlier answers. What the constraint forces, what the prompt says
and what followed before under the same constraint can be verified many tokens at a time.
What: vLLM loads the proposer of a `custom_class` in its workers, which have no grammars. So `GrammarProposer` proposes
nothing, and `GrammarDrafts` drafts in the engine's process, where vLLM's scheduler takes what a worker has proposed.
This works for any number of workers. The rows of a step share its draft tokens: `PackedGoodput` decides which are read,
by their probabilities and the measured durations of steps.
Invariant: vLLM's rejection sampler decides about each draft token, so the tokens have the distribution that they have
without drafts; greedy ones are the same. A chain holds only tokens that the constraint accepts.
Cost: tens of microseconds per draft token, in the engine's process. Where these take longer than the drafts save, only
tokens that the constraint forces are drafted for a while.
"""

from __future__ import annotations

import logging
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from time import monotonic, perf_counter
from typing import Any

from structgen.errors import OptionError, StructgenError
from structgen.generation.row import Unconstrained
from structgen.matcher import Matcher
from structgen.serving.sequence import ConstrainedSequence
from structgen.speculative.drafters import Context, Copying, ForcedBytes, RowDrafter, Start, TokenLookup
from structgen.speculative.growth import MIN_CHANCE, Chances, DraftsLeft, GrownTree, grow_tree
from structgen.speculative.guarded import DrafterRecord
from structgen.speculative.packed import PackedGoodput
from structgen.speculative.recycling import ForcedSplits, SuffixStore
from structgen.speculative.speculation import Speculation
from structgen.speculative.trees import ROOT
from structgen.vocabulary import Vocabulary

__all__ = ["PROPOSER", "DraftCounts", "GrammarDrafts", "GrammarProposer", "RequestText"]

PROPOSER = "structgen.integrations.vllm.drafting.GrammarProposer"
"""The `model` of vLLM's `speculative_config`."""
_WORTH_FRACTION = 0.8
"""Fraction of the probability from which a draft token pays that it must have to be grown; `PackedGoodput` decides."""
_REPORT_SECONDS = 60.0
_log = logging.getLogger("vllm.structgen")


class GrammarProposer:
    """The class that vLLM's workers load. It leaves the drafting to `GrammarDrafts`."""

    def __init__(self, vllm_config: Any) -> None:
        """Check that the plugin drafts in the engine, and correct the worker's sampler (`cpu_sampling`).

        Raises:
            OptionError: The plugin is not loaded, or vLLM's code has no place for drafts.
        """
        from .patches import drafts_are_patched

        if not drafts_are_patched():
            raise OptionError(
                "the plugin structgen cannot draft in this vLLM",
                hint="VLLM_PLUGINS must name structgen, or be unset. The log says what this version of vLLM lacks.",
            )
        from .cpu_sampling import correct_cpu_sampling

        correct_cpu_sampling()

    def propose(
        self, sampled_token_ids: Sequence[Sequence[int]], *args: Any, **options: Any
    ) -> list[list[int]]:
        """Return an empty draft for each request."""
        return [[] for _ in sampled_token_ids]

    def load_model(self, *args: Any, **options: Any) -> None:
        """Do nothing: there is no model."""


@dataclass(frozen=True)
class RequestText:
    """A request and its tokens, as the engine has them."""

    request: Any
    """Identifies the request; weakly referenced."""
    tokens: Sequence[int]
    """Those of the prompt and of the answer."""
    prompt: int
    """How many of them are the prompt's."""
    sequence: ConstrainedSequence | None = None
    """The state of its constraint; None if it has no constraint, or while it reasons."""
    key: Hashable = None
    """Requests with the same key share drafts: the constraint, and who may share. None for one that shares none."""
    min_tokens: int = 0
    """Tokens of the answer before which it must not end, as the request's option of that name."""

    @property
    def most(self) -> int | None:
        """The largest number of draft tokens; None if there is no limit.

        Until an answer has `min_tokens` tokens, vLLM forbids its end also after the draft, wherever that ends.
        """
        rest = self.min_tokens - (len(self.tokens) - self.prompt)
        return rest - 1 if rest > 0 else None


@dataclass
class DraftCounts:
    """Draft tokens since the start."""

    drafts: int = 0
    tokens: int = 0
    accepted: int = 0


@dataclass(eq=False)
class _Row:
    """What is known of one request."""

    drafters: list[RowDrafter]
    chances: Chances
    prompt: int
    tokens: list[int]
    drafted: list[int] = field(default_factory=list)
    """The last draft."""
    reach: list[float] = field(default_factory=list)
    """The estimated probability that the text passes through each of its tokens."""
    drafted_at: int = 0
    """The number of tokens before it."""
    grown: GrownTree | None = None
    """The part of it that drafters have proposed; None if they were not called."""
    forced: int = 0
    """The number of its tokens before that part, which the constraint forces."""

    def cut(self, size: int) -> None:
        """Keep the first `size` tokens of the draft."""
        if size < len(self.drafted):
            del self.drafted[size:], self.reach[size:]
            if size < self.forced:
                self.grown = None
            elif self.grown is not None:
                self.grown.cut(size - self.forced)


class GrammarDrafts:
    """Drafts the requests of one engine, and learns from one to the next."""

    def __init__(self, vocabulary: Vocabulary, most: int) -> None:
        """Start without anything learned.

        Args:
            vocabulary: That of the model.
            most: The largest number of tokens of a draft.
        """
        self.counts = DraftCounts()
        self.goodput = PackedGoodput()
        self.clock: Callable[[], float] = perf_counter
        """Measures steps and drafting, in seconds."""
        self._vocabulary = vocabulary
        self._most = most
        self._speculation = Speculation(
            [ForcedBytes(), ForcedSplits(), Copying(), TokenLookup(), SuffixStore()]
        )
        self._ends: Counter[int] = Counter()
        """How often each token has ended an answer."""
        self._rows: weakref.WeakKeyDictionary[Any, _Row] = weakref.WeakKeyDictionary()
        self._growing = DrafterRecord("growing")
        """What the drafters cost and bring; they pause where they do not pay."""
        self._grown_accepted = 0
        self._step = 0.0, 0, 0
        self._reported_at = monotonic()

    def draft_all(self, texts: Sequence[RequestText]) -> list[list[int]]:
        """Return draft tokens after each text; all of them are allowed by its constraint.

        Args:
            texts: Those of all rows of the engine's next step.
        """
        self._grown_accepted = 0
        rows = [self._observed(text) for text in texts]
        self._growing.rested()
        grows, begin = not self._growing.resting, self.clock()
        least = max(MIN_CHANCE, _WORTH_FRACTION * self.goodput.least_chance(max(1, len(texts))))
        for row, text in zip(rows, texts, strict=True):
            self._draft(row, text, least, grows=grows)
        if grows and texts:
            self._growing.passed(
                self.clock() - begin, self._grown_accepted, self.goodput.saved(len(texts)), weighed=True
            )
        for row, kept in zip(rows, self.goodput.keep([row.reach for row in rows]), strict=True):
            row.cut(kept)
            self.counts.drafts += bool(kept)
            self.counts.tokens += kept
        self._report()
        return [list(row.drafted) for row in rows]

    def begin_step(self, begin: float, rows: int, drafted: int) -> None:
        """Note when a step began, and the numbers of its rows (0 if it has prefill) and of its draft tokens."""
        self._step = begin, rows, drafted

    def end_step(self) -> None:
        """Record the duration of the step that has just ended."""
        begin, rows, drafted = self._step
        if rows:
            self.goodput.costs.note(rows, drafted, self.clock() - begin)
        self._step = 0.0, 0, 0

    def _draft(self, row: _Row, text: RequestText, least: float, *, grows: bool) -> None:
        """Draft after the text of a row, without tokens below the probability `least`."""
        known, sequence = len(row.tokens), text.sequence
        row.drafted, row.reach, row.drafted_at, row.grown, row.forced = [], [], known, None, 0
        if sequence is not None and not sequence.is_open:
            return
        try:
            self._chain(row, sequence, least, grows=grows)
        except (StructgenError, DraftsLeft):
            # A draft that fails is dropped; the mask of the text reports the error.
            row.drafted, row.reach, row.grown = [], [], None
        finally:
            del row.tokens[known:]
        if text.most is not None:
            row.cut(text.most)

    def _chain(self, row: _Row, sequence: ConstrainedSequence | None, least: float, *, grows: bool) -> None:
        """Draft forced tokens, then what drafters propose, then forced tokens again, and the end if nothing may follow.

        The row's tokens serve as the context, so that a long text is not copied; `_draft` removes what is added.
        """
        matcher: Any = Unconstrained() if sequence is None else sequence.matcher.fork()
        ends = frozenset(self._vocabulary.eos_ids) if sequence is None else sequence.ends
        row.drafted = _forced(matcher, ends, self._most)
        row.forced = len(row.drafted)
        row.reach = [1.0] * row.forced
        room = self._most - row.forced
        if grows and room:
            row.tokens += row.drafted
            row.grown = grow_tree(
                Context(row.tokens, matcher, self._vocabulary, is_constrained=sequence is not None),
                row.drafters,
                row.chances,
                ends,
                size=room,
                depth=room,
                branching=False,
                least=least,
            )
            row.drafted += row.grown.tree.tokens
            row.reach += row.grown.tree.reach
            for token in row.grown.tree.tokens:
                matcher.advance(token)
            if row.grown.tree.tokens:
                row.drafted += _forced(matcher, ends, self._most - len(row.drafted))
        last = row.reach[-1] if row.reach else 1.0
        row.reach += [last] * (len(row.drafted) - len(row.reach))
        if sequence is not None and ends and len(row.drafted) < self._most and matcher.must_stop:
            # Some models have several ends of text, and draw one of them.
            end = max(sorted(ends), key=lambda token: (self._ends[token], token in self._vocabulary.eos_ids))
            row.drafted.append(end)
            among = sum(self._ends[token] for token in ends)
            row.reach.append(last * (self._ends[end] + 1) / (among + 1))

    def finish(self, text: RequestText) -> None:
        """Learn the text of a request that has ended."""
        row = self._observed(text)
        for drafter in row.drafters:
            drafter.finish(row.tokens)
        if text.sequence is not None and text.sequence.is_ended:
            self._ends[row.tokens[-1]] += 1
        self._rows.pop(text.request, None)

    def report(self) -> str:
        """Return the counts, and how often proposals of each kind were right."""
        counts = self.counts
        share = f" ({counts.accepted / counts.tokens:.0%})" if counts.tokens else ""
        kinds = sorted(self._speculation.tallies.known.items(), key=lambda item: -item[1][2])[:12]
        listed = "; ".join(f"{kind} {right} of {tried}" for kind, (tried, right, _) in kinds)
        return f"{counts.drafts} drafts, {counts.tokens} tokens, {counts.accepted} accepted{share}; right: {listed}"

    def _observed(self, text: RequestText) -> _Row:
        """Return the row of a request, after it has seen the request's new tokens."""
        row, tokens = self._rows.get(text.request), text.tokens
        known = 0 if row is None else len(row.tokens)
        # subtle: texts only grow, except that a session may get a new prompt; comparing all tokens would take long.
        if (
            row is None
            or row.prompt != text.prompt
            or len(tokens) < known
            or list(tokens[known - 1 : known]) != row.tokens[-1:]
        ):
            start = Start(tuple(tokens[: text.prompt]), self._vocabulary, text.key)
            row = self._rows[text.request] = _Row(
                self._speculation.start_row_drafters(start),
                Chances(self._speculation.chances[text.key is not None]),
                text.prompt,
                list(start.prompt),
            )
            known = len(row.tokens)
        if len(tokens) > known:
            new = list(tokens[known:])
            self._learn(row, new)
            row.tokens += new
            for drafter in row.drafters:
                drafter.observe(row.tokens, known)
        return row

    def _learn(self, row: _Row, new: Sequence[int]) -> None:
        """Count which proposals of the last draft were right, now that `new` tokens follow the text before it."""
        if row.drafted_at == len(row.tokens):
            accepted = next(
                (i for i, pair in enumerate(zip(row.drafted, new, strict=False)) if pair[0] != pair[1]),
                min(len(row.drafted), len(new)),
            )
            self.counts.accepted += accepted
            grown_accepted = max(0, accepted - row.forced)
            self._grown_accepted += grown_accepted
            self.goodput.calibration.note(row.reach[row.forced :], grown_accepted)
            if row.grown is not None and accepted >= row.forced:
                rest = new[row.forced :]
                for node, token in zip([ROOT, *row.grown.tree.path(rest)], rest, strict=False):
                    row.grown.learn(node, token, row.chances, self._speculation.tallies)
        row.grown, row.drafted, row.reach, row.forced = None, [], [], 0

    def _report(self) -> None:
        now = monotonic()
        if now - self._reported_at > _REPORT_SECONDS:
            self._reported_at = now
            _log.info("structgen: %s", self.report())


def _forced(matcher: Any, ends: frozenset[int], most: int) -> list[int]:
    """Advance by the tokens that are the only ones allowed, at most `most` of them, and return them."""
    found: list[int] = []
    for token in matcher.forced(most) if most > 0 and isinstance(matcher, Matcher) else ():
        if token in ends or not matcher.advance(token):
            break
        found.append(token)
    return found
