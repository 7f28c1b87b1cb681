"""The drafts of one generation: grow a tree for each row, let the controller cut it and the model read it, draw by the
verifier, learn.

Invariant: what is drawn has the law of drawing without drafts; under `Match` it is the same. Others verify draws from a
law, and what was drawn at a node must not decide whether the node is read: then good draws would count and
bad ones would be made again. So how much is read of their trees is decided node by node, before its children are drawn.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from structgen.errors import OptionError, StructgenError
from structgen.generation.distributions import StepLaw
from structgen.generation.random_streams import uniform_stream

from .controllers import Costs
from .drafters import CONTEXT, Context, RowDrafter, Start
from .growth import LEAST, Chances, Grown, grow
from .guarded import DECLINED, Guarded, Learner, SpeculationWarning
from .sampled import Draws, WrongDrafts, grow_sampled
from .trees import DraftTree

if TYPE_CHECKING:
    from .driver import Speculation

__all__ = ["Run"]

_DRAFTS = 1 << 20
"""The branch of a row's random stream that drafts are drawn from."""
_WORTH = 0.6
"""A token more of each row pays if it is as probable as its time is a share of a pass; some less is grown as well."""
_IDLE, _EVERY = 12, 3
"""After so many passes without a draft one is looked for before every third pass only,"""
_TRIFLE = 0.01
"""where that takes more than this share of the time."""
_FADES = 0.98


_Parts = tuple[Context, Sequence[RowDrafter], Chances, frozenset[int]]


@dataclass
class _Row:
    """What is known of one row."""

    drafters: list[RowDrafter]
    chances: Chances
    tokens: list[int]
    seen: int
    """How many of `tokens` the drafters have seen."""
    random: np.random.Generator
    grown: Grown = field(default_factory=lambda: Grown(DraftTree()))


class Run:
    """See `structgen.generation.drafting.Drafting`."""

    def __init__(self, speculation: Speculation, model: Any, *, told: bool = True) -> None:
        self._all = speculation
        self._told = told
        self._model = model
        self._vocabulary = model.vocabulary
        self._eos = frozenset(model.vocabulary.eos_ids)
        self._rows: dict[int, _Row] = {}
        self._side_by_side = 1
        self._idle = self._rested = 0
        self._reads = 0.0
        """The most nodes of a row that were read lately."""
        self._drafting = self._reading = 0.0
        self._learners = [
            Learner(drafter, account)
            for drafter, account in zip(speculation.drafters, speculation.accounts, strict=True)
            if hasattr(drafter, "learn")
        ]
        self.learns = bool(self._learners)
        self.verifies = speculation.verifier.drafted != "any"
        self.reads_hidden = any(getattr(drafter, "wants_hidden", False) for drafter in speculation.drafters)

    def propose(
        self, rows: Sequence[Any], hidden: Sequence[Any] | None = None, *, trees: bool, pads: bool = False
    ) -> list[DraftTree]:
        """See `Drafting.propose`."""
        pending = [len(row.pending) for row in rows]
        self._side_by_side = max(1, len(rows))
        if self._rests():
            for known in self._rows.values():
                known.grown = Grown(DraftTree())
            return [DraftTree() for _ in rows]
        before = time.perf_counter()
        with self._all.lock:
            costs = self._all.costs.for_rows(len(rows), pads=pads and len(rows) == 1)
            grown = [
                self._grow(row, None if hidden is None else hidden[place], trees, costs)
                for place, row in enumerate(rows)
            ]
            if not any(pending):
                kept = [0] * len(rows)  # a token can be drawn before anything is read
            elif self.verifies:
                kept = [len(one.tree) for one in grown]  # that was decided while they grew
            else:
                written = [len(row.tokens) for row in rows]
                ahead = [one - min(written) for one in written]
                kept = self._all.kept([one.tree.reach for one in grown], pending, costs, ahead)
            self._reads = max([*kept, 0.8 * self._reads])
            for one, size in zip(grown, kept, strict=True):
                one.cut(size)
            if costs.pads and any(pending) and rows[0].options.speculate:
                self._pad(rows[0], grown[0].tree)
        self._idle = 0 if any(len(one.tree) for one in grown) else self._idle + 1
        self._drafting += time.perf_counter() - before
        return [one.tree for one in grown]

    def draw(self, row: Any, node: int, law: StepLaw, uniform: float) -> int | None:
        """The token at a node, by the verifier; None where nothing was drawn there."""
        known = self._rows.get(row.index)
        sampled = None if known is None else known.grown.sampled.get(node)
        if sampled is None:
            return None
        target = law.over(self._vocabulary.size)
        return self._all.verifier.outcome(target, sampled.law, sampled.tokens).draw(uniform)

    def drawn(self, row: Any, node: int, token: int) -> None:
        """At a node the text went on with `token`."""
        known = self._rows.get(row.index)
        if known is not None:
            with self._all.lock:
                whose = known.grown.learn(node, token, known.chances, self._all.tallies)
                if isinstance(whose, Guarded):
                    whose.taken += 1

    def read(self, row: Any, tree: DraftTree, logits: Any) -> None:
        """See `Drafting.read`."""
        known = self._rows.get(row.index)
        if not self._learners or known is None:
            return
        with self._all.lock:
            # Not what the drafters have seen: while they rest they are behind.
            end = [*row.prompt[-CONTEXT:], *row.tokens[-CONTEXT:]][-CONTEXT:]
            guesses = len(tree) - tree.padding
            contexts = [end, *([*end, *tree.text_to(node)][-CONTEXT:] for node in range(guesses))]
            told = logits[: 1 + guesses].view()
            told.flags.writeable = False  # the row is drawn from the same numbers
            for learner in self._learners:
                learner.learn(contexts, told)

    def passed(self, rows: int, tokens: int, seconds: float) -> None:
        """A pass over so many tokens of each row took so long."""
        with self._all.lock:
            self._all.counts["passes"] += 1
            self._all.costs.note(rows, tokens, seconds)
            for account in self._all.accounts:
                account.rested()
        self._drafting *= _FADES
        self._reading = self._reading * _FADES + seconds

    def went(self, row: Any, drafted: int, taken: int) -> None:
        """A row has drawn what it could: so many nodes of its tree."""
        with self._all.lock:
            counts = self._all.counts
            counts["drafted"] += drafted
            counts["taken"] += taken
            counts["without"] += not drafted
            counts["steps"] += 1
            known = self._rows.get(row.index)
            worth = self._all.costs.of(self._side_by_side, 1) / self._side_by_side
            weighed = getattr(self._all.controller, "weighs_drafters", False)
            for reader in () if known is None else known.drafters:
                if isinstance(reader, Guarded):
                    reader.passed(worth, weighed=weighed)

    def declined(self) -> None:
        """See `Drafting`. Who asked for drafts in so many words is told."""
        self._all.counts["declined"] += 1
        if self._told:
            warnings.warn(DECLINED, SpeculationWarning, stacklevel=2)

    def ended(self, row: Any) -> None:
        """A row has ended."""
        known = self._rows.pop(row.index, None)
        if known is None:
            return
        with self._all.lock:
            counts = self._all.counts
            counts["rows"] += 1
            counts["tokens"] += len(row.tokens)
            tokens = [*row.prompt, *row.tokens]
            end = [] if row.end_token is None else [row.end_token]
            for drafter in known.drafters:
                finish = getattr(drafter, "finish", None)
                if finish is not None:
                    finish([*tokens, *end])

    # -- parts

    def _rests(self) -> bool:
        """Whether no row is asked for drafts: there were none for a while, and looking for them takes its time."""
        weighs = getattr(self._all.controller, "weighs_drafters", False)
        if not weighs or self._idle < _IDLE or self._drafting < _TRIFLE * self._reading:
            return False
        self._rested = (self._rested + 1) % _EVERY
        return self._rested != 0

    def _known(self, row: Any) -> _Row:
        known = self._rows.get(row.index)
        if known is None:
            constraint = _constraint(row)
            start = Start(
                tuple(row.prompt),
                self._vocabulary,
                constraint,
                row.options.effective_temperature,
                self._model,
            )
            known = self._rows[row.index] = _Row(
                self._all.readers(start),
                Chances(self._all.chances[constraint is not None]),
                list(row.prompt),
                len(row.prompt),
                uniform_stream(row.seed, _DRAFTS),
            )
        return known

    def _grow(self, row: Any, hidden: Any, trees: bool, costs: Costs) -> Grown:
        if not row.options.speculate:
            return Grown(DraftTree())  # nothing of this row is kept either
        known = self._known(row)
        self._observe(row, known)
        known.grown = Grown(DraftTree())
        controller = self._all.controller
        most = min(controller.size, row.draft_room)
        # What a matcher waits for comes while the model reads, and no mask is known before.
        if most <= 0 or getattr(row.matcher, "is_waiting", False):
            return known.grown
        context = Context(
            known.tokens, row.matcher, self._vocabulary, is_constrained=_constraint(row) is not None
        )
        context.hidden = hidden
        if row.options.noise == "gumbel" and row.options.effective_temperature and not self.verifies:
            context.noise = lambda ids: row.noise_at(len(context.tokens) - len(row.prompt))(ids)
        branching = self._all.branching and trees
        depth = min(self._all.depth, most)
        parts = (context, known.drafters, known.chances, self._eos)
        if self.verifies:
            known.grown = self._sampled(row, parts, most, depth, branching, costs)
        else:
            least = getattr(controller, "least", None)
            if least is None:
                least = max(LEAST, _WORTH * costs.more(self._side_by_side))
                if (
                    self._side_by_side > 1
                ):  # what one row has need not be worth it for all, and growing takes time
                    most = min(most, 2 + int(1.5 * self._reads))
                    depth = min(depth, most)
            with suppress(StructgenError):  # a guess that fails is dropped
                known.grown = grow(*parts, size=most, depth=depth, branching=branching, least=least)
        return known.grown

    def _sampled(
        self, row: Any, parts: _Parts, most: int, depth: int, branching: bool, costs: Costs
    ) -> Grown:
        rows = self._side_by_side
        pending = [len(row.pending)] * rows

        def goes_on(reach: Sequence[float]) -> bool:
            # What may follow is taken to be a little less likely, step by step, whatever it will be.
            ahead = [*reach, *(reach[-1] * 0.8**step for step in range(1, most - len(reach) + 1))]
            return self._all.kept([ahead] * rows, pending, costs)[0] >= len(reach)

        try:
            return grow_sampled(
                *parts,
                Draws(
                    self._all.verifier.drafted,
                    self._rows[row.index].random,
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

    def _pad(self, row: Any, tree: DraftTree) -> None:
        """Tokens that are read for nothing, where the pass takes less time with them."""
        used = len(row.pending) + len(tree)
        wanted = self._all.costs.padded(1, used) - used
        depth = max((len(tree.text_to(node)) for node in range(len(tree))), default=0)
        room = row.draft_room - depth
        node = len(tree) - 1
        for _ in range(min(wanted, room)):
            node = tree.add(node, row.pending[-1], 0.0)
            tree.padding += 1

    def _observe(self, row: Any, known: _Row) -> None:
        """Tell the drafters what the row has become."""
        prompt, tokens = len(row.prompt), known.tokens
        start = len(tokens)
        if tokens[prompt:] != row.tokens[: start - prompt]:
            # A row that went back from a dead end has other tokens where it had some.
            pairs = zip(tokens[prompt:], row.tokens, strict=False)
            start = prompt + next(
                (place for place, (one, other) in enumerate(pairs) if one != other), len(row.tokens)
            )
        start = min(start, known.seen)
        del tokens[start:]
        tokens.extend(row.tokens[start - prompt :])
        for drafter in known.drafters:
            drafter.observe(tokens, start)
        known.seen = len(tokens)


def _constraint(row: Any) -> Any:
    return getattr(row.matcher, "constraint", None)
