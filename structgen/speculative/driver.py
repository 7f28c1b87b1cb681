"""The driver: drafts for the rows of a generation, what was made of them, and what is learned from it.

What: a `Speculation` says which drafters, verifier and controller there are, and keeps what they learn from one request
to the next: chances, costs, texts. `start` gives the `Drafting` of one generation: grow a tree for each row, let the
controller cut it, let the model read (the loop does), draw by the verifier, learn.
Invariant: what is drawn has the law of drawing without drafts; under `Match` it is the same.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from structgen._core import LimitError
from structgen.errors import OptionError, StructgenError, VocabularyMismatch, a_kind
from structgen.sampling.law import StepLaw
from structgen.sampling.streams import uniform_stream

from .controllers import Controller, Costs, Goodput
from .drafters import Context, Copying, Drafter, ForcedBytes, RowDrafter, Start, TokenLookup
from .growth import LEAST, Chances, Grown, grow
from .guarded import started
from .recycling import SuffixStore
from .sampled import WrongDrafts, grow_sampled
from .trees import DraftTree
from .verifiers import Match, Verifier

__all__ = ["Speculation"]


class Speculation:
    """How tokens are drafted, and what has been learned about it: for `speculate=`.

    drafters     what proposes tokens; by default `ForcedBytes`, `Copying`, `TokenLookup` and a `SuffixStore`
    verifier     how drafted tokens are taken; `Match`, the default, draws the very tokens that would be drawn without
    controller   how many are read; `Goodput`, the default, reads what pays, and nothing where nothing does
    branching    trees in place of chains, where the model can read them
    depth        the most tokens ahead
    width        how many children are drawn at a node, where the verifier takes several

    One object serves one vocabulary, and any number of requests: the more it has seen, the better it guesses.
    """

    def __init__(
        self,
        drafters: Sequence[Drafter] | None = None,
        verifier: Verifier | None = None,
        controller: Controller | None = None,
        *,
        branching: bool = False,
        depth: int = 20,
        width: int = 3,
    ) -> None:
        self.drafters: tuple[Drafter, ...] = (
            (ForcedBytes(), Copying(), TokenLookup(), SuffixStore()) if drafters is None else tuple(drafters)
        )
        self.verifier: Verifier = Match() if verifier is None else verifier
        self.controller: Controller = Goodput() if controller is None else controller
        self.branching = branching
        self.depth = depth
        self.width = width
        self.costs = Costs()
        self.chances: dict[bool | str, Chances] = {True: Chances(), False: Chances()}
        """Of constrained rows and of free ones; and of each sampler, by its name."""
        self.counts: Counter[str] = Counter()
        self.lock = threading.Lock()
        """What is learned is shared by the generations of several threads."""
        self._vocabulary: str | None = None
        _check(self)

    def start(self, model: Any) -> Run:
        """The drafts of one generation."""
        self.check_vocabulary(model)
        return Run(self, model)

    def check_vocabulary(self, model: Any) -> None:
        """It has learned tokens of this model's vocabulary, or none so far."""
        fingerprint = model.vocabulary.fingerprint
        if self._vocabulary is None:
            self._vocabulary = fingerprint
        if self._vocabulary != fingerprint:
            raise VocabularyMismatch(
                "this Speculation has learned tokens of another vocabulary",
                hint="Make one for each model: structgen.Speculation().",
            )

    def report(self) -> str:
        """What was drafted and taken so far, in words."""
        counts = self.counts
        passes, drafted, taken = counts["passes"], counts["drafted"], counts["taken"]
        lines = [
            f"{counts['tokens']} tokens in {passes} passes of {counts['rows']} rows; {drafted} drafted, {taken} taken"
            + (f" ({taken / drafted:.0%})" if drafted else "")
            + f"; {counts['without']} passes had no draft"
        ]
        for rows, table in sorted(self.costs.known.items()):
            told = ", ".join(f"{tokens}: {seconds * 1e3:.1f}" for tokens, seconds in sorted(table.items()))
            lines.append(f"milliseconds of a pass by tokens, {rows} row{'s' * (rows > 1)}: {told}")
        return "\n".join(lines)


@dataclass
class _Row:
    """What is known of one row."""

    drafters: list[RowDrafter]
    chances: Chances
    tokens: list[int]
    seen: int
    """How many of `tokens` the drafters have seen."""
    random: np.random.Generator
    failed: set[int] = field(default_factory=set)
    grown: Grown = field(default_factory=lambda: Grown(DraftTree()))


class Run:
    """See `structgen.sampling.loop.Drafting`."""

    def __init__(self, speculation: Speculation, model: Any) -> None:
        self._all = speculation
        self._model = model
        self._vocabulary = model.vocabulary
        self._eos = frozenset(model.vocabulary.eos_ids)
        self._rows: dict[int, _Row] = {}
        self._learns = [drafter for drafter in speculation.drafters if hasattr(drafter, "learn")]
        self.reads_hidden = any(getattr(drafter, "wants_hidden", False) for drafter in speculation.drafters)

    def propose(
        self, rows: Sequence[Any], hidden: Sequence[Any] | None = None, *, trees: bool
    ) -> list[DraftTree]:
        """A tree for each row; `trees`: whether the model can read more than chains."""
        with self._all.lock:
            for place, row in enumerate(rows):
                known = self._known(row)
                known.grown = self._grow(row, known, None if hidden is None else hidden[place], trees)
            found = [self._rows[row.index].grown.tree for row in rows]
            pending = [len(row.pending) for row in rows]
            if any(pending):
                kept = self._all.controller.keep([tree.reach for tree in found], pending, self._all.costs)
            else:
                kept = [0] * len(rows)  # a token can be drawn before anything is read
            for tree, size in zip(found, kept, strict=True):
                tree.cut(size)
            if len(rows) == 1 and any(pending):
                self._pad(rows[0], found[0])
            self._all.counts["drafted"] += sum(map(len, found))
        return found

    def draw(self, row: Any, node: int, law: StepLaw, uniform: float) -> int:
        """The token at a node, by the verifier."""
        grown = self._rows[row.index].grown
        sampled = grown.sampled.get(node)
        if sampled is None:
            return law.draw(uniform)
        target = np.zeros(self._vocabulary.size)
        for token, mass in law.probabilities().items():
            target[token] = mass
        return self._all.verifier.outcome(target, sampled.law, sampled.tokens).draw(uniform)

    def drawn(self, row: Any, node: int, token: int) -> None:
        """At a node the text went on with `token`."""
        with self._all.lock:
            known = self._rows[row.index]
            known.grown.learn(node, token, known.chances)

    def read(self, row: Any, pending: Sequence[int], tree: DraftTree, logits: Any) -> None:
        """The model has told `logits`, ``[tokens, vocabulary]``, behind the pending tokens and each node."""
        if not self._learns:
            return
        with self._all.lock:
            before = self._rows[row.index].tokens
            contexts = [[*before[-3:], *pending[: place + 1]][-3:] for place in range(len(pending))]
            end = [*before[-3:], *pending]
            contexts += [[*end, *tree.text_to(node)][-3:] for node in range(len(tree))]
            for drafter in self._learns:
                drafter.learn(contexts[-len(logits) :], logits)

    def passed(self, rows: int, tokens: int, seconds: float) -> None:
        """A pass over so many tokens of each row took so long."""
        with self._all.lock:
            self._all.costs.note(rows, tokens, seconds)

    def went(self, row: Any, tree: DraftTree, taken: int) -> None:
        """A row has drawn what it could: so many nodes of its tree."""
        with self._all.lock:
            counts = self._all.counts
            counts["passes"] += 1
            counts["taken"] += taken
            counts["without"] += not tree

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

    def _known(self, row: Any) -> _Row:
        known = self._rows.get(row.index)
        if known is None:
            constraint = getattr(row.matcher, "constraint", None)
            start = Start(
                row.prompt, self._vocabulary, constraint, row.options.effective_temperature, self._model
            )
            known = self._rows[row.index] = _Row(
                [started(drafter, start) for drafter in self._all.drafters],
                Chances(self._all.chances[constraint is not None]),
                list(row.prompt),
                len(row.prompt),
                uniform_stream(row.seed, _DRAFTS),
            )
        return known

    def _grow(self, row: Any, known: _Row, hidden: Any, trees: bool) -> Grown:
        self._observe(row, known)
        most = min(self._all.controller.size, row.capacity - len(row.tokens)) if row.options.speculate else 0
        if most <= 0:
            return Grown(DraftTree())
        constrained = getattr(row.matcher, "constraint", None) is not None
        context = Context(
            known.tokens, row.matcher, self._vocabulary, is_constrained=constrained, hidden=hidden
        )
        drafted = self._all.verifier.drafted
        branching = self._all.branching and trees
        depth = min(self._all.depth, most)
        parts = (context, known.drafters, known.chances, self._eos)
        try:
            if drafted == "any":
                least = max(LEAST, getattr(self._all.controller, "least", 0.0))
                return grow(*parts, size=most, depth=depth, branching=branching, least=least)
            width = self._all.width if branching else 1
            return grow_sampled(*parts, known.random, drafted, size=most, depth=depth, width=width)
        except WrongDrafts as wrong:
            name = type(self._all.verifier).__name__
            raise OptionError(
                f"{name} is exact for {drafted} drafts, not for {wrong.drafted} ones",
                hint="Match() takes any.",
            ) from None
        except (LimitError, StructgenError):
            return Grown(DraftTree())  # of a guess nobody has to know

    def _pad(self, row: Any, tree: DraftTree) -> None:
        """Tokens that are read for nothing, where the pass takes less time with them."""
        used = len(row.pending) + len(tree)
        wanted = self._all.costs.padded(1, used) - used
        depth = max((len(tree.text_to(node)) for node in range(len(tree))), default=0)
        room = row.capacity - len(row.tokens) - depth
        node = len(tree) - 1
        for _ in range(min(wanted, room)):
            node = tree.add(node, row.pending[-1], 0.0)

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


_DRAFTS = 1 << 20
"""The branch of a row's random stream that drafts are drawn from."""


def _check(speculation: Speculation) -> None:
    for drafter in speculation.drafters:
        if isinstance(drafter, type) or not hasattr(drafter, "start"):
            raise OptionError(f"a drafter has `start`; this is {a_kind(drafter)}")
    for name, value, method in (
        ("verifier", speculation.verifier, "outcome"),
        ("controller", speculation.controller, "keep"),
    ):
        if isinstance(value, type) or not hasattr(value, method):
            raise OptionError(f"a {name} has `{method}`; this is {a_kind(value)}")
    for name, number in (("depth", speculation.depth), ("width", speculation.width)):
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= 256:
            raise OptionError(f"{name} is {number!r:.40}; it must be a whole number from 1 to 256")
    tells = any(getattr(drafter, "tells_laws", False) for drafter in speculation.drafters)
    if speculation.verifier.drafted != "any" and not tells:
        raise OptionError(
            f"{type(speculation.verifier).__name__} verifies draws from a law, and no drafter here has a law",
            hint="TriGrams, LogitNGrams, TokenRecycling, DraftModel and LayerSkip have; Match() takes any draft.",
        )
