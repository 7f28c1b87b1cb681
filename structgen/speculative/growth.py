"""Growing a draft tree: the node that the text most probably goes through is added next.

Why: a model reads a dozen tokens in little more time than one, so that besides the likeliest run it can be given other
ways on where that is uncertain; which, is a matter of chances.
What: at each node the drafters' proposals are candidates. The chance of a candidate is counted by what kind of guess it
is; where several drafters propose the same token, that is a kind of its own. Candidates wait in a heap by the chance
that the text goes through them (the product down the tree, given that the siblings before it are wrong), and the first
is added as long as the constraint takes it. So the nodes of the tree come in the order of their chances: whoever reads
less reads the first ones.
Invariant: a tree holds what the constraint takes and nothing that ends the text.
Source: Xiong et al. 2024 (DySpec).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.generation.distributions import bits_of

from .drafters import Context, Guessed, RowDrafter
from .trees import ROOT, DraftTree

__all__ = ["LEAST", "Chances", "Grown", "Tallies", "candidates", "grow", "masked_law", "move"]

Proposal = tuple[Guessed, int, RowDrafter]
"""A guess, how far along it we are, and whose it is."""
Kind = tuple[str, int, int]
"""Who proposed a token, how far it is in the run that was proposed, and how it begins."""
LEAST = 0.1
"""What is less probable is not looked at: reading it would cost more than it brings."""
_SURE = 0.7
_PRIOR = 3.0
"""Guesses that a kind is taken to have made before any was counted."""
_FORGET = 0.98
_TOGETHER = 16
"""Guesses at one token that are told apart."""
_KINDS = 20_000
"""More are not told apart: names come from drafters, which may be anybody's."""


@dataclass
class Chances:
    """How often guesses of each kind were right: counts that fade, on top of those of `above`."""

    above: Chances | None = None
    _right: dict[Kind, float] = field(default_factory=dict, init=False, repr=False)
    _tried: dict[Kind, float] = field(default_factory=dict, init=False, repr=False)

    def of(self, kind: Kind, prior: float) -> float:
        """The chance that a guess is right, where it is asked for."""
        before = prior if self.above is None else self.above.of(kind, prior)
        return (self._right.get(kind, 0.0) + _PRIOR * before) / (self._tried.get(kind, 0.0) + _PRIOR)

    def note(self, kind: Kind, right: bool) -> None:
        """A guess was right or wrong."""
        if len(self._tried) >= _KINDS and kind not in self._tried:  # the one that came first goes
            oldest = next(iter(self._tried))
            del self._tried[oldest], self._right[oldest]
        self._tried[kind] = self._tried.get(kind, 0.0) * _FORGET + 1
        self._right[kind] = self._right.get(kind, 0.0) * _FORGET + right
        if self.above is not None:
            self.above.note(kind, right)


@dataclass
class Tallies:
    """Of each kind of guess: how many, how many were right, how many of these the model had read."""

    known: dict[str, list[int]] = field(default_factory=dict)

    def note(self, kind: str, right: bool, taken: bool) -> None:
        """A guess was right or wrong; `taken`: it was read, and drawn."""
        counts = self.known.get(kind)
        if counts is None:
            if len(self.known) >= _KINDS:
                return
            counts = self.known[kind] = [0, 0, 0]
        counts[0] += 1
        counts[1] += right
        counts[2] += taken


@dataclass(slots=True)
class _Candidate:
    token: int
    kind: Kind
    chance: float
    guesses: list[Proposal]

    @property
    def by(self) -> RowDrafter | None:
        """Who alone proposed it."""
        whose = self.guesses[0][2]
        return whose if all(by is whose for _, _, by in self.guesses) else None


@dataclass
class Grown:
    """A tree, and what was a candidate at each of its nodes, in the tree or not."""

    tree: DraftTree
    candidates: dict[int, list[tuple[int, Kind, RowDrafter | None]]] = field(default_factory=dict)
    """At each node tokens, with what kind of guess they are, and whose, if nobody else guessed them."""
    sampled: dict[int, Any] = field(default_factory=dict)
    """At nodes whose children were drawn from a law: `Sampled`."""
    sampled_by: dict[int, RowDrafter] = field(default_factory=dict)
    """Whose law that was."""

    def cut(self, size: int) -> None:
        """Keep the first `size` nodes."""
        for node in range(size, len(self.tree)):
            self.candidates.pop(node, None)
            self.sampled.pop(node, None)
            self.sampled_by.pop(node, None)
        self.tree.cut(size)

    def learn(self, node: int, drawn: int, chances: Chances, tallies: Tallies) -> RowDrafter | None:
        """At `node` the text went on with `drawn`: who alone had guessed that, if it was in the tree."""
        is_read = self.tree.has(node, drawn)
        found = self.sampled_by.get(node) if is_read else None
        for token, kind, by in self.candidates.get(node, ()):
            right = token == drawn
            chances.note(kind, right)
            tallies.note(kind[0], right, right and is_read)
            if right and is_read:
                found = by
        return found


def grow(
    context: Context,
    drafters: Sequence[RowDrafter],
    chances: Chances,
    ends: frozenset[int],
    *,
    size: int,
    depth: int,
    branching: bool = True,
    least: float = LEAST,
) -> Grown:
    """A tree of at most `size` nodes and `depth` tokens; a chain where `branching` is False.

    What the text goes through with less than the probability `least` is left out.
    """
    tree = DraftTree()
    grown = Grown(tree)
    waiting: list[tuple[float, int, int, _Candidate]] = []
    here, number = ROOT, 0
    matcher, tokens = context.matcher, context.tokens
    base = len(tokens)
    runs: list[Proposal] = []
    node, reach = ROOT, 1.0
    try:
        while True:
            if context.drafted < depth:
                context.reach = reach
                found = candidates(context, drafters, chances, runs, alternatives=branching)
                grown.candidates[node] = [(one.token, one.kind, one.by) for one in found]
                left = reach
                for one in found:
                    if one.token in ends:
                        continue
                    chance = left * one.chance
                    left -= chance
                    if chance >= least:
                        number += 1
                        heapq.heappush(waiting, (-chance, number, node, one))
            while waiting:
                loss, _, parent, one = heapq.heappop(waiting)
                if not branching and parent != node:
                    continue
                here = move(tree, here, parent, matcher, tokens, base)
                if matcher.advance(one.token):
                    break
            else:
                return grown
            reach = -loss
            here = node = tree.add(parent, one.token, reach)
            tokens.append(one.token)
            context.drafted = len(tokens) - base
            runs = [
                (guess, place + 1, by) for guess, place, by in one.guesses if place + 1 < len(guess.tokens)
            ]
            if len(tree) == size:
                return grown
    finally:
        if len(tokens) > base:
            matcher.rollback(len(tokens) - base)
            del tokens[base:]
        context.drafted = 0


def candidates(
    context: Context,
    drafters: Sequence[RowDrafter],
    chances: Chances,
    runs: Sequence[Proposal],
    *,
    alternatives: bool = True,
) -> list[_Candidate]:
    """The distinct tokens that are proposed here, the likeliest first. `runs` were begun before.

    Without `alternatives` nobody else is asked where a run is all but sure to go on.
    """
    proposed: dict[int, list[Proposal]] = {}
    for guess, place, by in runs:
        proposed.setdefault(guess.tokens[place], []).append((guess, place, by))
    if len(proposed) == 1 and not alternatives:
        found = _judged(context, chances, proposed)
        if found[0].chance >= _SURE:
            return found
    for drafter in drafters:
        for guess in (*_coupled(drafter, context), *drafter.propose(context)):
            others = proposed.setdefault(guess.tokens[0], [])
            if len(others) < _TOGETHER and all(
                one.kind != guess.kind or by is not drafter for one, _, by in others
            ):
                others.append((guess, 0, drafter))
    return _judged(context, chances, proposed)


def _coupled(drafter: RowDrafter, context: Context) -> list[Guessed]:
    """What a drafter that has a law would draw with the noise that the row draws with."""
    tell = None if context.noise is None else getattr(drafter, "law", None)
    law = None if tell is None else tell(context)
    if law is None or context.noise is None:
        return []
    masked = masked_law(context, law)
    if masked is None:
        return []
    some = np.flatnonzero(masked)
    best = int(some[(np.log(masked[some]) + context.noise(some)).argmax()])
    return [Guessed((best,), f"{_name_of(drafter)} with noise", 0.6)]


def _name_of(drafter: RowDrafter) -> str:
    account = getattr(drafter, "account", None)
    return type(drafter).__name__ if account is None else str(account.name)


def masked_law(context: Context, law: Any) -> NDArray[np.float64] | None:
    """A law under the constraint's mask, normalised; None where it has no mass there."""
    masked = np.asarray(law, dtype=np.float64)
    if context.is_constrained:
        masked = masked * bits_of(context.matcher.mask(), len(masked))
    mass = float(masked.sum())
    return masked / mass if mass > 0 else None


def _judged(context: Context, chances: Chances, proposed: dict[int, list[Proposal]]) -> list[_Candidate]:
    found = []
    for token, guesses in proposed.items():
        kinds = {guess.kind for guess, _, _ in guesses}
        names = guesses[0][0].kind if len(kinds) == 1 else "+".join(sorted(kinds))
        kind = (names, min(3, max([place for _, place, _ in guesses])), _beginning(context.vocabulary, token))
        prior = max([guess.chance for guess, _, _ in guesses])
        chance = chances.of(kind, prior if context.is_constrained else prior / 2)
        found.append(_Candidate(token, kind, chance, guesses))
    found.sort(key=_order)
    return found


def _order(candidate: _Candidate) -> float:
    return -candidate.chance


def _beginning(vocabulary: Any, token: int) -> int:
    """0: within a word; 1: with a space; 2: otherwise. Copies go on within words more often than beyond them."""
    text = vocabulary.token_bytes(token)
    if not text:
        return 2
    first = text[0]
    return 0 if first >= 128 or chr(first).isalnum() else 1 if first == 32 else 2


def move(tree: DraftTree, here: int, there: int, matcher: Any, tokens: list[int], base: int) -> int:
    """Take the matcher and the tokens from one node to another."""
    if here == there:
        return there
    above = set(tree.above(here))
    path = []
    node = there
    while node != ROOT and node not in above:
        path.append(node)
        node = tree.parents[node]
    depth = sum(1 for _ in tree.above(node))
    back = len(tokens) - base - depth
    if back:
        matcher.rollback(back)
        del tokens[len(tokens) - back :]
    for place in reversed(path):
        matcher.advance(tree.tokens[place])
        tokens.append(tree.tokens[place])
    return there
