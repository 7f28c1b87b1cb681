"""Drafts for samplers: the same drafters, chances and costs, for rows that return to the same prefixes.

Why: samplers that draw from exact distributions (`structgen.generation.prefix_logits`) never accept a draft token as a
draw. They request distributions, and a draft is right when the distribution after it is requested.
What: a chain of tokens is grown after each prefix. Rows advance together, so a pass is saved only if the drafts of all
rows are right. The controller therefore decides about one chain, whose probabilities are the products of theirs, at the
cost of a pass of all rows. Rows that are shorter than the longest read more draft tokens at no cost.
Proposals are counted by the tokens that are requested next, separately from those of generation: samplers draw at the
model's own temperature, some of them without a mask. A proposal is wrong if its prefix was requested and not continued.
Cost: rows draft in turn, and none does after a row without a draft. Drafters that learn from logits get none here.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from structgen.errors import StructgenError
from structgen.generation.drafting import PrefixQuery
from structgen.generation.prefix_logits import common_length

from .drafters import Context, RowDrafter, Start
from .growth import MIN_CHANCE, Candidate, Chances, GrownTree, Kind, grow_tree
from .guarded import UNSUPPORTED, Guarded, SpeculationWarning
from .trees import ROOT, DraftTree

if TYPE_CHECKING:
    from .speculation import Speculation

__all__ = ["SamplerDrafts"]

Prefix = tuple[int, ...]

_READERS, _READ = 8, 40_000
"""The largest number of row drafters that rows share, and of tokens that these read: each reads the prompt."""
_PRIOR_FACTOR = 0.5
"""Priors of proposals are multiplied by this factor, compared with those of generation."""
_PASSES_TO_JUDGE = 12
"""The number of passes after which a proposal counts as wrong: exact samplers return to a prefix and continue later."""


@dataclass
class _SamplerChances(Chances):
    """Estimates for draws from a whole distribution, which are predicted less often than the most probable text.

    Forced text is an exception, unless the sampler may abandon its text. Proposals are counted whether they are read or
    not, so that low estimates cost little.
    """

    gives_up: bool = False

    def of(self, kind: Kind, prior: float) -> float:
        """See `Chances.of`."""
        is_sure = not self.gives_up and "forced" in kind[0]
        return super().of(kind, prior if is_sure else _PRIOR_FACTOR * prior)


@dataclass
class _Reader:
    drafters: list[RowDrafter]
    tokens: list[int]
    """Prompt and text that the drafters have seen."""


@dataclass
class _Guess:
    """The proposals after a prefix."""

    candidates: list[Candidate]
    asked: bool
    """Whether the distribution after the prefix was requested, so that a token may have followed."""
    number: int
    """The number of the pass."""


class SamplerDrafts:
    """The drafts of one call of a sampler; see `structgen.generation.drafting.PrefixDrafting`."""

    def __init__(
        self,
        speculation: Speculation,
        start: Start,
        *,
        max_tokens: int,
        sampler: str,
        gives_up: bool = False,
        warns: bool = True,
    ) -> None:
        """Start the drafts of a call.

        Args:
            speculation: Drafters, controller and what they learned.
            start: The prompt and the constraint.
            max_tokens: The largest number of tokens of a text.
            sampler: The name under which proposals are counted.
            gives_up: Whether the sampler may abandon a text in the middle.
            warns: Whether to warn if the session cannot have drafts.
        """
        self._all = speculation
        self._warns = warns
        self._start = start
        self._max_tokens = max_tokens
        above = speculation.chances.setdefault(sampler, _SamplerChances(gives_up=gives_up))
        self._chances = Chances(above)
        self._ends = frozenset(start.vocabulary.eos_ids)
        self._readers: dict[int, _Reader] = {}
        self._open: OrderedDict[Prefix, _Guess] = OrderedDict()
        self._passes = 0

    def propose(self, queries: Sequence[PrefixQuery], rows: int, *, pads: bool = False) -> list[list[int]]:
        """Return draft tokens after each prefix; none where they do not pay."""
        nothing: list[list[int]] = [[] for _ in queries]
        with self._all.lock:
            self._all.counts["passes"] += 1
            self._all.counts["steps"] += 1
            self._passes += 1
            self._forget(self._passes - _PASSES_TO_JUDGE)
            chains = self._chains(queries)
            drafts = nothing if chains is None else self._cut(queries, chains, rows, pads and rows == 1)
            self._all.counts["without"] += not any(drafts)
        return drafts

    def on_request(self, prefixes: Collection[Prefix], used: int) -> None:
        """See `PrefixDrafting.on_request`."""
        went: dict[Prefix, set[int]] = {}
        with self._all.lock:
            self._all.counts["tokens"] += len(prefixes)
            self._all.counts["accepted"] += used
            for prefix in prefixes:
                if prefix in self._open:
                    self._open[prefix].asked = True
                if prefix:
                    went.setdefault(prefix[:-1], set()).add(prefix[-1])
            for prefix, tokens in went.items():
                guess = self._open.pop(prefix, None)
                if guess is not None:
                    self._learn(guess, tokens)

    def on_pass(self, rows: int, tokens: int, seconds: float) -> None:
        """See `PrefixDrafting.on_pass`."""
        with self._all.lock:
            self._all.costs.note(rows, tokens, seconds)
            for record in self._all.records:
                record.rested()
            worth = self._all.costs.of(1, 1)
            weighed = self._all.weighs_drafters
            for reader in self._readers.values():
                for drafter in reader.drafters:
                    if isinstance(drafter, Guarded):
                        drafter.passed(worth, weighed=weighed)

    def on_unsupported(self) -> None:
        """See `PrefixDrafting.on_unsupported`; warns if the caller requested drafts explicitly."""
        self._all.counts["unsupported"] += 1
        if self._warns:
            warnings.warn(UNSUPPORTED, SpeculationWarning, stacklevel=2)

    def on_end(self, tokens: Sequence[int]) -> None:
        """See `PrefixDrafting.on_end`."""
        with self._all.lock:
            self._all.counts["rows"] += 1
            for drafter in self._readers[0].drafters if 0 in self._readers else ():
                drafter.finish([*self._start.prompt, *tokens])

    def close(self) -> None:
        """Count the open proposals as wrong."""
        with self._all.lock:
            self._forget(self._passes)

    # -- helpers

    def _chains(self, queries: Sequence[PrefixQuery]) -> list[DraftTree] | None:
        """Return a draft for each query; None if one of them has no draft, so that no pass can be saved."""
        grown: dict[Prefix, DraftTree] = {}
        for query in queries:
            if query.prefix not in grown:
                tree = grown[query.prefix] = self._grow(query)
                if not tree:
                    return None
        return [grown[query.prefix] for query in queries]

    def _cut(
        self, queries: Sequence[PrefixQuery], chains: Sequence[DraftTree], rows: int, pads: bool
    ) -> list[list[int]]:
        """Return as much of the drafts as the controller wants."""
        reach = [1.0] * min(map(len, chains))
        for tree in {query.prefix: tree for query, tree in zip(queries, chains, strict=True)}.values():
            reach = [all_so_far * chance for all_so_far, chance in zip(reach, tree.reach, strict=False)]
        # Draft tokens that a row holds already are not read again.
        pending = [
            query.pending - common_length(query.held, tree.tokens)
            for query, tree in zip(queries, chains, strict=True)
        ]
        longest = max(1, *pending)
        costs = self._all.costs.for_rows(rows, pads=pads, looked_up_as=1)
        (steps,) = self._all.nodes_to_read([reach], [longest], costs)
        if steps <= 0:
            return [[] for _ in queries]
        drafts = [
            list(tree.tokens[: max(0, longest + steps - mine)])
            for mine, tree in zip(pending, chains, strict=True)
        ]
        self._all.counts["drafted"] += sum(
            max(0, len(draft) - common_length(query.held, tree.tokens))
            for query, draft, tree in zip(queries, drafts, chains, strict=True)
        )
        if pads:
            self._pad(queries[0], drafts[0])
        return drafts

    def _pad(self, query: PrefixQuery, draft: list[int]) -> None:
        """Add padding, if the forward pass takes less time with it."""
        used = query.pending + len(draft)
        wanted = self._all.costs.padded(1, used) - used
        draft += draft[-1:] * min(wanted, self._room(query) - len(draft))

    def _grow(self, query: PrefixQuery) -> DraftTree:
        size = min(self._all.controller.size, self._room(query))
        if size <= 0:
            return DraftTree()
        reader = self._reader(query)
        constrained = self._start.constraint is not None
        context = Context(reader.tokens, query.matcher, self._start.vocabulary, is_constrained=constrained)
        depth = min(self._all.depth, size)
        least = MIN_CHANCE if self._all.min_chance is None else self._all.min_chance
        parts = (context, reader.drafters, self._chances, self._ends)
        try:
            grown = grow_tree(*parts, size=size, depth=depth, branching=False, least=least)
        except StructgenError:
            return DraftTree()  # a draft that fails is dropped
        self._remember(query.prefix, grown)
        return grown.tree

    def _room(self, query: PrefixQuery) -> int:
        return self._max_tokens - len(query.prefix)

    def _reader(self, query: PrefixQuery) -> _Reader:
        """Return drafters that have seen the prefix of the query, and nothing else."""
        prompt = len(self._start.prompt)
        number = query.row % max(1, min(_READERS, _READ // (prompt + 1)))
        reader = self._readers.get(number)
        if reader is None:
            started = self._all.start_row_drafters(self._start, with_states=False)
            reader = self._readers[number] = _Reader(started, list(self._start.prompt))
        start = prompt + common_length(reader.tokens[prompt:], query.prefix)
        if start < len(reader.tokens) or start < prompt + len(query.prefix):
            reader.tokens[start:] = query.prefix[start - prompt :]
            for drafter in reader.drafters:
                drafter.observe(reader.tokens, start)
        return reader

    # -- counting

    def _remember(self, prefix: Prefix, grown: GrownTree) -> None:
        for node, candidates in grown.candidates.items():
            here = (*prefix, *grown.tree.tokens[: node + 1])
            before = self._open.get(here)
            asked = node == ROOT or (before is not None and before.asked)
            self._open[here] = _Guess(candidates, asked, self._passes)
            self._open.move_to_end(here)

    def _forget(self, number: int) -> None:
        """Count the proposals up to that pass, after which nothing was requested, as wrong."""
        while self._open and next(iter(self._open.values())).number <= number:
            _, guess = self._open.popitem(last=False)
            if guess.asked:
                self._learn(guess, ())

    def _learn(self, guess: _Guess, tokens: Collection[int]) -> None:
        """Count proposals after a prefix that was continued with these tokens."""
        for each in guess.candidates:
            for drawn in tokens or (None,):
                self._chances.note(each.kind, each.token == drawn)
            if each.token in tokens and isinstance(by := each.by, Guarded):
                by.accepted += 1
