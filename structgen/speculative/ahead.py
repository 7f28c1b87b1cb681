"""Reading ahead for samplers: the same drafters, chances and costs, for rows that come to the same prefixes again.

Why: samplers that draw the same from exact laws (`structgen.generation.lookahead`) take no drafted token for drawn;
they ask for laws, and a draft is right when the law behind it is asked for.
What: a chain of tokens is grown behind each prefix. Rows go on side by side, so that reading ahead spares a pass only
where all of them were guessed right: the controller is asked about one chain whose chances are the products of theirs,
with what a pass of so many rows takes. What shorter rows read beside the longest costs nothing, and is read as well.
Chances are counted by what was asked for next, apart from those of generation: samplers draw at the model's own
temperature, some of them without a mask. What was asked for and never went on was guessed wrong.
Cost: rows are asked in turn, and none after one that has no draft. Drafters that learn from laws are told none here.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from structgen.errors import StructgenError
from structgen.generation.drafting import Place
from structgen.generation.lookahead import common

from .drafters import Context, RowDrafter, Start
from .growth import LEAST, Chances, Grown, Kind, grow
from .guarded import DECLINED, Guarded, SpeculationWarning
from .trees import ROOT, DraftTree

if TYPE_CHECKING:
    from .driver import Speculation

__all__ = ["RunAhead"]

Prefix = tuple[int, ...]

_READERS, _READ = 8, 40_000
"""Rows share so many readers of what they have, each of which has read the prompt; fewer where that makes more tokens
than the second number."""
_TRUST = 0.5
"""What guesses are worth here, as long as nothing has been counted, of what they are worth to generation."""
_OPEN = 12
"""For so many passes it is remembered what was guessed: exact samplers come back to a prefix, and go on then."""


@dataclass
class _SamplerChances(Chances):
    """What is drawn from a whole law is guessed less often than the likeliest text, unless it is forced; and samplers
    that give texts up may not go on at all.

    Guesses are counted whether they are read or not, so that doubt costs little.
    """

    gives_up: bool = False

    def of(self, kind: Kind, prior: float) -> float:
        """See `Chances.of`."""
        is_sure = not self.gives_up and "forced" in kind[0]
        return super().of(kind, prior if is_sure else _TRUST * prior)


@dataclass
class _Reader:
    drafters: list[RowDrafter]
    tokens: list[int]
    """Prompt and text as the drafters have seen them."""


@dataclass
class _Guess:
    """What was guessed to come after a prefix."""

    candidates: list[tuple[int, Kind, RowDrafter | None]]
    asked: bool
    """Whether the law after the prefix was asked for, so that something may have come."""
    number: int
    """Of the pass."""


class RunAhead:
    """See `structgen.generation.drafting.ReadingAhead`: what one call of a sampler reads ahead."""

    def __init__(
        self,
        speculation: Speculation,
        start: Start,
        *,
        max_tokens: int,
        sampler: str,
        gives_up: bool = False,
        told: bool = True,
    ) -> None:
        """`sampler` is what chances are counted for; `gives_up`: it may begin again in the middle of a text; `told`:
        there is a warning where the model cannot read ahead."""
        self._all = speculation
        self._told = told
        self._start = start
        self._max_tokens = max_tokens
        above = speculation.chances.setdefault(sampler, _SamplerChances(gives_up=gives_up))
        self._chances = Chances(above)
        self._ends = frozenset(start.vocabulary.eos_ids)
        self._readers: dict[int, _Reader] = {}
        self._open: OrderedDict[Prefix, _Guess] = OrderedDict()
        self._passes = 0

    def propose(self, places: Sequence[Place], rows: int, *, pads: bool = False) -> list[list[int]]:
        """Tokens to read behind each place; none where they are not worth their time."""
        nothing: list[list[int]] = [[] for _ in places]
        with self._all.lock:
            self._all.counts["passes"] += 1
            self._all.counts["steps"] += 1
            self._passes += 1
            self._forget(self._passes - _OPEN)
            chains = self._chains(places)
            drafts = nothing if chains is None else self._cut(places, chains, rows, pads and rows == 1)
            self._all.counts["without"] += not any(drafts)
        return drafts

    def asked(self, prefixes: Collection[Prefix], used: int) -> None:
        """The laws after these are asked for."""
        went: dict[Prefix, set[int]] = {}
        with self._all.lock:
            self._all.counts["tokens"] += len(prefixes)
            self._all.counts["taken"] += used
            for prefix in prefixes:
                if prefix in self._open:
                    self._open[prefix].asked = True
                if prefix:
                    went.setdefault(prefix[:-1], set()).add(prefix[-1])
            for prefix, tokens in went.items():
                guess = self._open.pop(prefix, None)
                if guess is not None:
                    self._learn(guess, tokens)

    def passed(self, rows: int, tokens: int, seconds: float) -> None:
        """A pass over so many tokens of each row took so long."""
        with self._all.lock:
            self._all.costs.note(rows, tokens, seconds)
            for account in self._all.accounts:
                account.rested()
            worth = self._all.costs.of(1, 1)
            weighed = getattr(self._all.controller, "weighs_drafters", False)
            for reader in self._readers.values():
                for drafter in reader.drafters:
                    if isinstance(drafter, Guarded):
                        drafter.passed(worth, weighed=weighed)

    def declined(self) -> None:
        """See `ReadingAhead`. Who asked for drafts in so many words is told."""
        self._all.counts["declined"] += 1
        if self._told:
            warnings.warn(DECLINED, SpeculationWarning, stacklevel=2)

    def ended(self, tokens: Sequence[int]) -> None:
        """A text was drawn; drafters that keep texts are told."""
        with self._all.lock:
            self._all.counts["rows"] += 1
            for drafter in self._readers[0].drafters if 0 in self._readers else ():
                finish = getattr(drafter, "finish", None)
                if finish is not None:
                    finish([*self._start.prompt, *tokens])

    def close(self) -> None:
        """What is open will not go on."""
        with self._all.lock:
            self._forget(self._passes)

    # -- parts

    def _chains(self, places: Sequence[Place]) -> list[DraftTree] | None:
        """A draft for each place; None where one of them has none, so that no pass could be spared."""
        grown: dict[Prefix, DraftTree] = {}
        for place in places:
            if place.prefix not in grown:
                tree = grown[place.prefix] = self._grow(place)
                if not tree:
                    return None
        return [grown[place.prefix] for place in places]

    def _cut(
        self, places: Sequence[Place], chains: Sequence[DraftTree], rows: int, pads: bool
    ) -> list[list[int]]:
        """As much of the drafts as the controller wants."""
        reach = [1.0] * min(map(len, chains))
        for tree in {place.prefix: tree for place, tree in zip(places, chains, strict=True)}.values():
            reach = [all_so_far * one for all_so_far, one in zip(reach, tree.reach, strict=False)]
        # What a row holds of its draft is not read again.
        pending = [
            place.pending - common(place.held, tree.tokens)
            for place, tree in zip(places, chains, strict=True)
        ]
        longest = max(1, *pending)
        costs = self._all.costs.for_rows(rows, pads=pads, told_as=1)
        (steps,) = self._all.kept([reach], [longest], costs)
        if steps <= 0:
            return [[] for _ in places]
        drafts = [
            list(tree.tokens[: max(0, longest + steps - mine)])
            for mine, tree in zip(pending, chains, strict=True)
        ]
        self._all.counts["drafted"] += sum(
            max(0, len(draft) - common(place.held, tree.tokens))
            for place, draft, tree in zip(places, drafts, chains, strict=True)
        )
        if pads:
            self._pad(places[0], drafts[0])
        return drafts

    def _pad(self, place: Place, draft: list[int]) -> None:
        """Tokens that are read for nothing, where the pass takes less time with them."""
        used = place.pending + len(draft)
        wanted = self._all.costs.padded(1, used) - used
        draft += draft[-1:] * min(wanted, self._room(place) - len(draft))

    def _grow(self, place: Place) -> DraftTree:
        size = min(self._all.controller.size, self._room(place))
        if size <= 0:
            return DraftTree()
        reader = self._reader(place)
        constrained = self._start.constraint is not None
        context = Context(reader.tokens, place.matcher, self._start.vocabulary, is_constrained=constrained)
        depth = min(self._all.depth, size)
        least = getattr(self._all.controller, "least", LEAST)
        parts = (context, reader.drafters, self._chances, self._ends)
        try:
            grown = grow(*parts, size=size, depth=depth, branching=False, least=least)
        except StructgenError:
            return DraftTree()  # of a guess nobody has to know
        self._remember(place.prefix, grown)
        return grown.tree

    def _room(self, place: Place) -> int:
        return self._max_tokens - len(place.prefix)

    def _reader(self, place: Place) -> _Reader:
        """Drafters that have seen the place's prefix, and nothing else."""
        prompt = len(self._start.prompt)
        number = place.row % max(1, min(_READERS, _READ // (prompt + 1)))
        reader = self._readers.get(number)
        if reader is None:
            readers = self._all.readers(self._start)
            reader = self._readers[number] = _Reader(readers, list(self._start.prompt))
        start = prompt + common(reader.tokens[prompt:], place.prefix)
        if start < len(reader.tokens) or start < prompt + len(place.prefix):
            reader.tokens[start:] = place.prefix[start - prompt :]
            for drafter in reader.drafters:
                drafter.observe(reader.tokens, start)
        return reader

    # -- what became of guesses

    def _remember(self, prefix: Prefix, grown: Grown) -> None:
        for node, candidates in grown.candidates.items():
            here = (*prefix, *grown.tree.tokens[: node + 1])
            before = self._open.get(here)
            asked = node == ROOT or (before is not None and before.asked)
            self._open[here] = _Guess(candidates, asked, self._passes)
            self._open.move_to_end(here)

    def _forget(self, number: int) -> None:
        """What was guessed up to that pass, and did not go on, was wrong."""
        while self._open and next(iter(self._open.values())).number <= number:
            _, guess = self._open.popitem(last=False)
            if guess.asked:
                self._learn(guess, ())

    def _learn(self, guess: _Guess, tokens: Collection[int]) -> None:
        """The texts went on with these, each of which was to be guessed."""
        for token, kind, by in guess.candidates:
            for one in tokens or (None,):
                self._chances.note(kind, token == one)
            if token in tokens and isinstance(by, Guarded):
                by.taken += 1
