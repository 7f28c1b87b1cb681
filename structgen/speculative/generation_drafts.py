"""The drafts of one generation: grow a tree for each row, cut it, verify it, learn from the result.

Invariant: the output has the distribution of drawing without drafts; with `Match` it is the same text. Only lossy
verifiers (`lossy`) change the distribution. Other verifiers accept draws from a distribution. For these, what was drawn
at a node must not decide whether the node is read: otherwise good draws would count and bad ones be repeated. So the
number of nodes is decided node by node, before the children of a node are drawn.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from structgen.errors import OptionError, StructgenError
from structgen.generation.distributions import StepDistribution
from structgen.generation.drafting import Probed, RowStates
from structgen.generation.random_streams import uniform_stream

from .controllers import Costs
from .drafters import CONTEXT, Context, RowDrafter, Start
from .growth import MIN_CHANCE, Chances, DraftsLeft, GrownTree, grow_tree
from .guarded import (
    UNSUPPORTED,
    Guarded,
    GuardedLearner,
    SpeculationWarning,
    grows_without_lock,
    hidden_layers_of,
    reads_masks,
)
from .lossy import LossyVerifier, is_lossy
from .probing import Probing
from .sampled import Draws, WrongDrafts, grow_sampled_tree
from .trees import DraftTree

if TYPE_CHECKING:
    from structgen.generation.row import Row
    from structgen.protocols import LanguageModel

    from .speculation import Speculation

__all__ = ["GenerationDrafts"]

_DRAFT_STREAM = 1 << 20
"""The branch of a row's random stream for draft tokens."""
_WORTH_FRACTION = 0.6
"""Fraction of the marginal cost of a token that its probability must reach to be grown; below 1, to leave a margin."""
_IDLE, _EVERY = 12, 3
"""After `_IDLE` passes without a draft, only every `_EVERY`-th pass looks for one, if drafting is expensive."""
_CHEAP_FRACTION = 0.01
"""Drafting is expensive if it takes more than this fraction of the time of the forward passes."""
_TIME_DECAY = 0.98
"""The factor by which measured times are multiplied with each pass."""


_Parts = tuple[Context, Sequence[RowDrafter], Chances, frozenset[int]]


@dataclass
class _Row:
    """The state of one row."""

    drafters: list[RowDrafter]
    chances: Chances
    tokens: list[int]
    seen: int
    """How many of `tokens` the drafters have seen."""
    random: np.random.Generator
    probed: Probed | None = None
    """The logits after the embeddings that were read last."""
    probed_at: int = 0
    """The number of the row's steps back at that time."""
    grown_at: tuple[int, int] = (-1, 0)
    """The number of the row's tokens, and of its steps back, when the tree was grown."""
    grown: GrownTree = field(default_factory=lambda: GrownTree(DraftTree()))
    states: Any = None
    """The hidden states after each node, as `Drafting.on_states` gave them."""


class GenerationDrafts:
    """See `structgen.generation.drafting.Drafting`."""

    def __init__(self, speculation: Speculation, model: LanguageModel, *, warns: bool = True) -> None:
        self._all = speculation
        self._warns = warns
        self._model = model
        self._vocabulary = model.vocabulary
        self._eos = frozenset(model.vocabulary.eos_ids)
        self._rows: dict[Row, _Row] = {}
        self._rows_in_pass = 1
        self._idle = self._rested = 0
        self._is_resting = False
        self._reads = 0.0
        """The decaying maximum of the nodes of a row that were read."""
        self._drafting = self._reading = 0.0
        self._learners = [
            GuardedLearner(drafter, record)
            for drafter, record in zip(speculation.drafters, speculation.records, strict=True)
            if record.learns
        ]
        needs_lock = self._learners or not all(map(grows_without_lock, speculation.drafters))
        self._growth_lock: Any = speculation.lock if needs_lock else nullcontext()
        """Held while a row grows its draft, masks of its constraint included, if its drafters share what may change."""
        self.wants_logits = bool(self._learners)
        self._mask_readers = [
            number for number, drafter in enumerate(speculation.drafters) if reads_masks(drafter)
        ]
        self.wants_masks = bool(self._mask_readers)
        self.is_lossy = is_lossy(speculation.verifier)
        self._draws_children = speculation.verifier.drafted != "any"
        self.replaces_draws = self._draws_children or self.is_lossy
        self.hidden_layers = hidden_layers_of([*speculation.drafters, speculation.verifier], model)
        self._verifier_layers = hidden_layers_of([speculation.verifier], model)
        self.wants_states = hasattr(speculation.verifier, "hidden_layers")
        if self.wants_states and not self._verifier_layers:
            raise OptionError(
                f"{type(speculation.verifier).__name__} reads hidden states, and this model keeps none",
                hint="Models of structgen.load(...) do; other models need `layer_count`.",
            )
        self._probing = Probing.of(speculation.drafters, model)
        self.probe_embeddings = None if self._probing is None else self._probing.embeddings

    def propose(
        self,
        rows: Sequence[Row],
        hidden: Sequence[RowStates] | None = None,
        *,
        trees: bool,
        pads: bool = False,
        probes: bool = False,
    ) -> list[DraftTree]:
        """See `Drafting.propose`."""
        self._rows_in_pass = max(1, len(rows))
        if self._rests():
            self._forget_grown()
            return [DraftTree() for _ in rows]
        before = time.perf_counter()
        with self._all.lock:
            costs = self._all.costs.for_rows(len(rows), pads=pads and len(rows) == 1)
            grown = [
                self._grow_or_fail(row, None if hidden is None else hidden[index], trees, costs)
                for index, row in enumerate(rows)
            ]
            written = [len(row.tokens) for row in rows]
            leads = [length - min(written) for length in written]
            reads_probes = probes and trees and not self.wants_states
            probing = self._probing if reads_probes and self._is_probing() else None
            self._cut(rows, grown, [len(row.pending) for row in rows], costs, leads, probing)
        self._drafting += time.perf_counter() - before
        return [grown_tree.tree for grown_tree in grown]

    def grow(self, row: Row, hidden: RowStates | None = None, *, trees: bool) -> None:
        """See `Drafting.grow`."""
        if self._is_resting:
            return
        before = time.perf_counter()
        # Without the lock, a slow constraint delays its own row only. With it, the model waits for it, too (`choose`).
        with self._growth_lock:
            self._grow_or_fail(row, hidden, trees, self._all.costs.for_rows(self._rows_in_pass, pads=False))
        seconds = time.perf_counter() - before
        with self._all.lock:  # several rows add to it
            self._drafting += seconds

    def choose(
        self, rows: Sequence[Row], pending: Sequence[int], *, rows_in_pass: int, pads: bool = False
    ) -> list[DraftTree]:
        """See `Drafting.choose`."""
        self._rows_in_pass = max(1, rows_in_pass)
        grown = [self._taken(row, read) for row, read in zip(rows, pending, strict=True)]
        with self._all.lock:
            costs = self._all.costs.for_rows(
                rows_in_pass, pads=pads and rows_in_pass == 1, looked_up_as=len(rows)
            )
            self._cut(rows, grown, pending, costs, ())
        self._is_resting = self._rests()
        return [grown_tree.tree for grown_tree in grown]

    def _taken(self, row: Row, read: int) -> GrownTree:
        """Return what was grown for a row that reads so many tokens of its own, if it still follows the row's text."""
        known = self._rows.get(row)
        if known is None:
            return GrownTree(DraftTree())
        # A row that reads only a part of its forced tokens reads no draft after them.
        if known.grown_at != (len(row.tokens), row.retries) or read < len(row.pending):
            # subtle: `draw` and `on_token` must not use it either.
            known.grown = GrownTree(DraftTree())
        return known.grown

    def _grow_or_fail(self, row: Row, hidden: RowStates | None, trees: bool, costs: Costs) -> GrownTree:
        """Grow a tree for a row; end the row if its matcher cannot be rolled back."""
        try:
            return self._grow(row, hidden, trees, costs)
        except DraftsLeft as left:
            row.fail(left.error)
            self._rows[row].grown = GrownTree(DraftTree())
            return self._rows[row].grown

    def _cut(
        self,
        rows: Sequence[Row],
        grown: Sequence[GrownTree],
        pending: Sequence[int],
        costs: Costs,
        leads: Sequence[int],
        probing: Probing | None = None,
    ) -> None:
        """Cut the trees to what the next pass reads, and add embeddings and padding."""
        if not any(pending):
            kept = [0] * len(rows)  # a token can be drawn before the next pass
        elif self._draws_children:
            kept = [len(grown_tree.tree) for grown_tree in grown]  # decided while the trees grew
        else:
            extra = 0 if probing is None else probing.ends * len(probing.embeddings)
            others = [length + extra if length else 0 for length in pending]
            kept = self._all.nodes_to_read(
                [grown_tree.tree.reach for grown_tree in grown], others, costs, leads
            )
        self._reads = max([*kept, 0.8 * self._reads])
        for grown_tree, size in zip(grown, kept, strict=True):
            grown_tree.cut(size)
        if probing is not None:
            self._probe(rows, grown, probing)
        if costs.pads and any(pending) and rows[0].options.speculate:
            self._pad(rows[0], grown[0].tree)
        self._idle = 0 if any(len(grown_tree.tree) for grown_tree in grown) else self._idle + 1

    def _forget_grown(self) -> None:
        for known in self._rows.values():
            known.grown = GrownTree(DraftTree())

    def draw(self, row: Row, node: int, distribution: StepDistribution, uniform: float) -> int | None:
        """Draw the token at a node with the verifier; None if no children were drawn there."""
        known = self._rows.get(row)
        verifier: Any = self._all.verifier
        if known is not None and self.is_lossy:
            return self._accepted(verifier, known, node, distribution)
        sampled = None if known is None else known.grown.sampled.get(node)
        if sampled is None:
            return None
        target = distribution.over(self._vocabulary.size)
        token: int = verifier.outcome(target, sampled.distribution, sampled.tokens).draw(uniform)
        return token

    def _accepted(
        self, verifier: LossyVerifier, known: _Row, node: int, distribution: StepDistribution
    ) -> int | None:
        """Return the child of a node that a lossy verifier accepts. It sees no child that the mask excludes."""
        tree = known.grown.tree
        nodes = [
            child
            for child in range(len(tree) - tree.padding)
            if tree.parents[child] == node and distribution.allows(tree.tokens[child])
        ]
        if not nodes:
            return None
        target = distribution.over(self._vocabulary.size)
        states = None if known.states is None else known.states[nodes]
        token = verifier.accept(target, [tree.tokens[child] for child in nodes], states)
        if token is not None and token not in (tree.tokens[child] for child in nodes):
            raise OptionError(f"{type(verifier).__name__} accepted token {token!r:.40}, which is not a child")
        return token

    def on_states(self, row: Row, states: Any) -> None:
        """See `Drafting.on_states`."""
        known = self._rows.get(row)
        if known is not None:
            layers = [self.hidden_layers.index(layer) for layer in self._verifier_layers]
            known.states = None if states is None else states[:, layers]

    def on_probed(self, row: Row, logits: Any) -> None:
        """See `Drafting.on_probed`."""
        known = self._rows.get(row)
        if known is not None:
            known.probed, known.probed_at = Probed(row.read_count, logits), row.retries

    def on_mask(self, row: Row, allowed: NDArray[np.int64]) -> None:
        """See `Drafting.on_mask`."""
        known = self._rows.get(row)
        if (
            known is not None and row.matcher.can_draft
        ):  # otherwise there are no drafts, and no states to learn from
            for number in self._mask_readers:
                known.drafters[number].on_mask(row.tokens, allowed)

    def on_token(self, row: Row, node: int, token: int) -> None:
        """See `Drafting.on_token`."""
        known = self._rows.get(row)
        if known is not None:
            with self._all.lock:
                whose = known.grown.learn(node, token, known.chances, self._all.tallies)
                if isinstance(whose, Guarded):
                    whose.accepted += 1

    def on_logits(self, row: Row, tree: DraftTree, logits: Any) -> None:
        """See `Drafting.on_logits`."""
        known = self._rows.get(row)
        if not self._learners or known is None:
            return
        with self._all.lock:
            # The row's own tokens: the drafters may be several tokens late while they pause.
            end = [*row.prompt[-CONTEXT:], *row.tokens[-CONTEXT:]][-CONTEXT:]
            guesses = len(tree) - tree.padding
            contexts = [end, *([*end, *tree.text_to(node)][-CONTEXT:] for node in range(guesses))]
            read = logits[: 1 + guesses].view()
            read.flags.writeable = False  # the row is drawn from the same numbers
            for learner in self._learners:
                learner.learn(contexts, read)

    def on_pass(self, rows: int, tokens: int, seconds: float) -> None:
        """See `Drafting.on_pass`."""
        with self._all.lock:
            self._all.counts["passes"] += 1
            self._all.costs.note(rows, tokens, seconds)
            for record in self._all.records:
                record.rested()
            self._drafting *= _TIME_DECAY
        self._reading = self._reading * _TIME_DECAY + seconds

    def on_step(self, row: Row, drafted: int, accepted: int) -> None:
        """See `Drafting.on_step`."""
        with self._all.lock:
            counts = self._all.counts
            counts["drafted"] += drafted
            counts["accepted"] += accepted
            counts["without"] += not drafted
            counts["steps"] += 1
            positions = range(min(drafted, accepted + 1))
            self._all.reached.update(positions)
            self._all.right.update(positions[:accepted])
            known = self._rows.get(row)
            worth = self._all.costs.of(self._rows_in_pass, 1) / self._rows_in_pass
            weighed = self._all.weighs_drafters
            for reader in () if known is None else known.drafters:
                if isinstance(reader, Guarded):
                    reader.passed(worth, weighed=weighed)

    def on_unsupported(self) -> None:
        """See `Drafting.on_unsupported`; warns if the caller requested drafts explicitly."""
        self._all.counts["unsupported"] += 1
        if self._warns:
            warnings.warn(UNSUPPORTED, SpeculationWarning, stacklevel=2)

    def on_end(self, row: Row) -> None:
        """See `Drafting.on_end`."""
        known = self._rows.pop(row, None)
        if known is None:
            return
        with self._all.lock:
            counts = self._all.counts
            counts["rows"] += 1
            counts["tokens"] += len(row.tokens)
            tokens = [*row.prompt, *row.tokens]
            end = [] if row.end_token is None else [row.end_token]
            for drafter in known.drafters:
                drafter.finish([*tokens, *end])

    # -- helpers

    def _rests(self) -> bool:
        """Return whether this pass goes without drafts: no row had one for a while, and looking for them is slow."""
        weighs = self._all.weighs_drafters
        if not weighs or self._idle < _IDLE or self._drafting < _CHEAP_FRACTION * self._reading:
            return False
        self._rested = (self._rested + 1) % _EVERY
        return self._rested != 0

    def _known(self, row: Row) -> _Row:
        known = self._rows.get(row)
        if known is None:
            constraint = row.matcher.draft_key
            if constraint is not None and row.scope is not None:
                constraint = row.scope, constraint
            start = Start(
                tuple(row.prompt),
                self._vocabulary,
                constraint,
                row.options.effective_temperature,
                self._model,
            )
            known = self._rows[row] = _Row(
                self._all.start_row_drafters(start),
                Chances(self._all.chances[constraint is not None]),
                list(row.prompt),
                len(row.prompt),
                uniform_stream(row.seed, _DRAFT_STREAM),
            )
        return known

    def _grow(self, row: Row, hidden: RowStates | None, trees: bool, costs: Costs) -> GrownTree:
        if not row.options.speculate:
            return GrownTree(DraftTree())  # nothing is learned from this row either
        known = self._known(row)
        self._observe(row, known)
        known.grown, known.grown_at = GrownTree(DraftTree()), (len(row.tokens), row.retries)
        controller = self._all.controller
        most = min(controller.size, row.draft_room)
        # While a matcher waits for an answer, its mask is not known.
        if most <= 0 or not row.matcher.can_draft:
            return known.grown
        context = Context(
            known.tokens, row.matcher, self._vocabulary, is_constrained=row.matcher.draft_key is not None
        )
        context.hidden = hidden
        if known.probed_at == row.retries:  # otherwise the row stepped back and has other tokens
            context.probed = known.probed
        if row.options.noise == "gumbel" and row.options.effective_temperature and not self._draws_children:
            context.noise = lambda ids: row.noise_at(len(context.tokens) - len(row.prompt))(ids)
        branching = self._all.branching and trees
        depth = min(self._all.depth, most)
        parts = (context, known.drafters, known.chances, self._eos)
        if self._draws_children:
            known.grown = self._sampled(row, parts, most, depth, branching, costs)
        else:
            least = self._all.min_chance
            if least is None:
                least = max(MIN_CHANCE, _WORTH_FRACTION * costs.more(self._rows_in_pass))
                if (
                    self._rows_in_pass > 1
                ):  # one row's draft may not pay for the batch, and growing takes time
                    most = min(most, 2 + int(1.5 * self._reads))
                    depth = min(depth, most)
            with suppress(StructgenError):  # a draft that fails is dropped
                known.grown = grow_tree(*parts, size=most, depth=depth, branching=branching, least=least)
        return known.grown

    def _sampled(
        self, row: Row, parts: _Parts, most: int, depth: int, branching: bool, costs: Costs
    ) -> GrownTree:
        rows = self._rows_in_pass
        pending = [len(row.pending)] * rows

        def goes_on(reach: Sequence[float]) -> bool:
            # Later nodes are assumed to be a little less probable, step by step, for any draw.
            expected_reach = [*reach, *(reach[-1] * 0.8**step for step in range(1, most - len(reach) + 1))]
            return self._all.nodes_to_read([expected_reach] * rows, pending, costs)[0] >= len(reach)

        try:
            return grow_sampled_tree(
                *parts,
                Draws(
                    self._all.verifier.drafted,
                    self._rows[row].random,
                    self._all.width if branching else 1,
                ),
                goes_on,
                size=most,
                depth=depth,
            )
        except WrongDrafts as wrong:
            name = type(self._all.verifier).__name__
            raise OptionError(
                f"{name} is exact for {self._all.verifier.drafted} drafts, not for {wrong.drafted} ones",
                hint="Match() takes any.",
            ) from None

    def _is_probing(self) -> bool:
        """Return whether the drafter with embeddings does not pause."""
        return self._probing is not None and not self._all.records[self._probing.index].resting

    def _probe(self, rows: Sequence[Row], grown: Sequence[GrownTree], probing: Probing) -> None:
        """Choose where the next pass reads embeddings, and charge their drafter for the time that they take."""
        count = len(probing.embeddings)
        for row, grown_tree in zip(rows, grown, strict=True):
            tree, known = grown_tree.tree, self._rows.get(row)
            if known is None or not row.pending or not row.options.speculate:
                continue
            tree.probes = [
                end
                for end in tree.likely_ends(probing.ends)
                if sum(1 for _ in tree.above(end)) + count <= row.draft_room
            ]
            used, drafter = len(row.pending) + len(tree), known.drafters[probing.index]
            if isinstance(drafter, Guarded):
                longer, rows_in_pass = used + count * len(tree.probes), self._rows_in_pass
                costs = self._all.costs
                seconds = costs.of(rows_in_pass, longer) - costs.of(rows_in_pass, used)
                drafter.charge(max(0.0, seconds) / rows_in_pass)

    def _pad(self, row: Row, tree: DraftTree) -> None:
        """Add padding, if the forward pass takes less time with it."""
        used = len(row.pending) + len(tree)
        if tree.probes and self._probing is not None:
            used += len(tree.probes) * len(self._probing.embeddings)
        wanted = self._all.costs.padded(1, used) - used
        depth = max((len(tree.text_to(node)) for node in range(len(tree))), default=0)
        room = row.draft_room - depth
        node = len(tree) - 1
        for _ in range(min(wanted, room)):
            node = tree.add(node, row.pending[-1], 0.0)
            tree.padding += 1

    def _observe(self, row: Row, known: _Row) -> None:
        """Update the drafters with the row's tokens."""
        prompt, tokens = len(row.prompt), known.tokens
        start = len(tokens)
        if tokens[prompt:] != row.tokens[: start - prompt]:
            # A row that stepped back from a dead end has other tokens than before.
            pairs = zip(tokens[prompt:], row.tokens, strict=False)
            start = prompt + next(
                (index for index, (old, new) in enumerate(pairs) if old != new), len(row.tokens)
            )
        start = min(start, known.seen)
        del tokens[start:]
        tokens.extend(row.tokens[start - prompt :])
        for drafter in known.drafters:
            drafter.observe(tokens, start)
        known.seen = len(tokens)
