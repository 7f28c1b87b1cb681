"""Drafts for vLLM from the constraint and from texts: lossless, and without a draft model.

    {"method": "custom_class", "model": "structgen.integrations.vllm.drafting.GrammarProposer",
     "num_speculative_tokens": 8}

Why: a JSON answer repeats its schema, its prompt and earlier answers. What the constraint forces, what the prompt says
and what followed before under the same constraint can be verified many tokens at a time.
What: vLLM loads the proposer of a `custom_class` in its workers, which have no grammars. So `GrammarProposer` proposes
nothing, and `GrammarDrafts` drafts in the engine's process, where vLLM validates what a worker has proposed. This works
for any number of workers.
Invariant: vLLM's rejection sampler decides about each draft token, so the tokens have the distribution that they have
without drafts; greedy ones are the same. A chain holds only tokens that the constraint accepts.
Cost: tens of microseconds per draft token, in the engine's process.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from structgen.errors import OptionError, StructgenError
from structgen.generation.row import Unconstrained
from structgen.matcher import Matcher
from structgen.serving.sequence import ConstrainedSequence
from structgen.speculative.drafters import Context, RowDrafter, Start
from structgen.speculative.growth import Chances, GrownTree, grow_tree
from structgen.speculative.speculation import Speculation
from structgen.speculative.trees import ROOT, DraftTree
from structgen.vocabulary import Vocabulary

__all__ = ["PROPOSER", "DraftCounts", "GrammarDrafts", "GrammarProposer", "RequestText"]

PROPOSER = "structgen.integrations.vllm.drafting.GrammarProposer"
"""The `model` of vLLM's `speculative_config`."""
_LEAST_CHANCE, _CHANCE_PER_REQUEST, _HIGHEST_CHANCE = 0.3, 0.07, 0.8
"""The estimated probability that a token is accepted, below which it is not drafted: for one request, the increase for
each further one, since a full batch makes each token cost more, and its upper bound."""
_EVERY = 60.0
_log = logging.getLogger("vllm.structgen")


class GrammarProposer:
    """The class that vLLM's workers load. It leaves the drafting to `GrammarDrafts`."""

    def __init__(self, vllm_config: Any) -> None:
        """Check that the plugin drafts in the engine.

        Raises:
            OptionError: The plugin is not loaded, or vLLM's code has no place for drafts.
        """
        from .patches import drafts_are_patched

        if not drafts_are_patched():
            raise OptionError(
                "the plugin structgen cannot draft in this vLLM",
                hint="VLLM_PLUGINS must name structgen, or be unset. The log says what this version of vLLM lacks.",
            )

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
    tokens: list[int]
    drafted: list[int] = field(default_factory=list)
    """The last draft."""
    drafted_at: int = 0
    """The number of tokens before it."""
    grown: GrownTree | None = None
    """The part of it that drafters have proposed."""
    grown_at: int = 0
    """The number of tokens before that part."""


class GrammarDrafts:
    """Drafts the requests of one engine, and learns from one to the next."""

    def __init__(self, vocabulary: Vocabulary, most: int) -> None:
        """Start without anything learned.

        Args:
            vocabulary: That of the model.
            most: The largest number of tokens of a draft.
        """
        self.counts = DraftCounts()
        self._vocabulary = vocabulary
        self._most = most
        self._speculation = Speculation()
        self._rows: weakref.WeakKeyDictionary[Any, _Row] = weakref.WeakKeyDictionary()
        self._told_at = monotonic()

    def draft(self, text: RequestText) -> list[int]:
        """Return draft tokens after the text; all of them are allowed by its constraint."""
        row = self._observed(text)
        sequence = text.sequence
        if sequence is not None and not sequence.is_open:
            return []
        try:
            drafted, row.grown = self._chain(row, sequence)
        except StructgenError:  # a draft that fails is dropped; the mask of the text reports the error
            drafted, row.grown = [], None
        row.drafted, row.drafted_at = drafted, len(row.tokens)
        self.counts.drafts += bool(drafted)
        self.counts.tokens += len(drafted)
        self._report()
        return list(drafted)

    def _chain(self, row: _Row, sequence: ConstrainedSequence | None) -> tuple[list[int], GrownTree]:
        """Return a draft, and the part of it that drafters have proposed: before and after it come forced tokens."""
        ends = frozenset(self._vocabulary.eos_ids) if sequence is None else sequence.ends
        matcher: Any = Unconstrained() if sequence is None else sequence.matcher.fork()
        drafted = _forced(matcher, ends, self._most)
        row.grown_at = len(row.tokens) + len(drafted)
        context = Context(
            [*row.tokens, *drafted], matcher, self._vocabulary, is_constrained=sequence is not None
        )
        room = self._most - len(drafted)
        if not room:
            return drafted, GrownTree(DraftTree())
        grown = grow_tree(
            context,
            row.drafters,
            row.chances,
            ends,
            size=room,
            depth=room,
            branching=False,
            least=_LEAST_CHANCE,
        )
        drafted += grown.tree.tokens
        for token in grown.tree.tokens:
            matcher.advance(token)
        drafted += _forced(matcher, ends, self._most - len(drafted))
        if (
            sequence is not None
            and len(drafted) < self._most
            and self._vocabulary.eos_ids
            and matcher.must_stop
        ):
            drafted.append(self._vocabulary.eos_ids[0])
        return drafted, grown

    def finish(self, text: RequestText) -> None:
        """Learn the text of a request that has ended."""
        row = self._observed(text)
        for drafter in row.drafters:
            drafter.finish(row.tokens)
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
        row = self._rows.get(text.request)
        tokens = list(text.tokens)
        if row is None or row.tokens != tokens[: len(row.tokens)]:
            start = Start(tuple(tokens[: text.prompt]), self._vocabulary, text.key)
            row = self._rows[text.request] = _Row(
                self._speculation.start_row_drafters(start),
                Chances(self._speculation.chances[text.key is not None]),
                tokens[: text.prompt],
            )
        known = len(row.tokens)
        if len(tokens) > known:
            self._learn(row, tokens)
            row.tokens = tokens
            for drafter in row.drafters:
                drafter.observe(row.tokens, known)
        return row

    def _learn(self, row: _Row, tokens: Sequence[int]) -> None:
        """Count which proposals of the last draft were right."""
        new = list(tokens[row.drafted_at :])
        count = next(
            (i for i, pair in enumerate(zip(row.drafted, new, strict=False)) if pair[0] != pair[1]), None
        )
        self.counts.accepted += min(len(row.drafted), len(new)) if count is None else count
        forced = row.grown_at - row.drafted_at
        if row.grown is not None and new[:forced] == row.drafted[:forced]:
            rest = new[forced:]
            for node, token in zip([ROOT, *row.grown.tree.path(rest)], rest, strict=False):
                row.grown.learn(node, token, row.chances, self._speculation.tallies)
        row.grown, row.drafted = None, []

    def _report(self) -> None:
        now = monotonic()
        if now - self._told_at > _EVERY:
            self._told_at = now
            _log.info("structgen: %s", self.report())


def _forced(matcher: Any, ends: frozenset[int], most: int) -> list[int]:
    """Advance by the tokens that are the only ones allowed, at most `most` of them, and return them."""
    found: list[int] = []
    for token in matcher.forced(most) if most > 0 and isinstance(matcher, Matcher) else ():
        if token in ends or not matcher.advance(token):
            break
        found.append(token)
    return found
