"""Growing a draft tree: the most probable next node is added, one after the other.

Why: a model reads a dozen tokens in little more time than one. So it can read the most probable run and, where that is
uncertain, alternatives to it. Estimated probabilities decide which.
What: at each node the drafters' proposals are candidates. The probability of a candidate is estimated by the kind of
its proposal; if several drafters propose the same token, their combination is a kind of its own. Candidates wait in a
heap, ordered by the probability that the text passes through them: the product along the path. Estimates are those of
the token alone, and not given that more probable siblings are wrong, because that is how they are counted. Together
siblings have at most the probability of their parent. The first candidate that the constraint accepts is added. So the
nodes of the tree are ordered by their probabilities, and a controller that reads fewer nodes reads the first ones.
Invariant: the constraint accepts every path of a tree, and no node ends the text.
Source: Xiong et al. 2024 (DySpec).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from structgen.errors import StructgenError
from structgen.generation.distributions import bits_of

from .drafters import Context, Proposal, RowDrafter
from .trees import ROOT, DraftTree

if TYPE_CHECKING:
    from structgen.protocols import TokenMatcher
    from structgen.vocabulary import Vocabulary

__all__ = [
    "MIN_CHANCE",
    "Candidate",
    "Chances",
    "DraftsLeft",
    "GrownTree",
    "Tallies",
    "candidates",
    "coupled_chance",
    "grow_tree",
    "masked_distribution",
    "move_to_node",
    "predicted_candidates",
    "remove_drafts",
]

_OpenProposal = tuple[Proposal, int, RowDrafter]
"""A proposal, the index of its next token, and its drafter."""
Kind = tuple[str, int, int]
"""The names of those who proposed a token, its index in their runs (at most 3), and how its text starts."""
MIN_CHANCE = 0.05
"""Candidates below this probability are ignored: reading them would cost more than it brings."""
_SURE_CHANCE = 0.7
"""A first proposal of at least this probability is taken without others."""
_LEFT_CHANCE = 0.25
"""Drafters that compute are not called at a node where the text leaves the best proposal of the others with less than
this probability. In extraction, limits of 0.2 to 0.3 give as many tokens a pass as calls wherever no proposal is almost
sure, and take half to three quarters of the passes of an EAGLE drafter."""
_PRIOR_WEIGHT = 3.0
"""The weight of the prior estimate of a kind, in proposals."""
_COUNT_DECAY = 0.98
"""The factor by which the counts of a kind are multiplied with each of its proposals."""
_COUPLED_LEAST = 0.35
"""The estimate for tokens that the drafter gives hardly any probability."""
_MAX_PER_TOKEN = 16
"""The largest number of proposals of one token at a node."""
_MAX_KINDS = 20_000
"""The largest number of kinds that are counted: users' drafters choose the names."""


@dataclass
class Chances:
    """How often proposals of each kind were right: decaying counts, with the counts of `above` as prior."""

    above: Chances | None = None
    _right: dict[Kind, float] = field(default_factory=dict, init=False, repr=False)
    _tried: dict[Kind, float] = field(default_factory=dict, init=False, repr=False)

    def of(self, kind: Kind, prior: float) -> float:
        """Return the estimated probability that a proposal of this kind is right."""
        before = prior if self.above is None else self.above.of(kind, prior)
        return (self._right.get(kind, 0.0) + _PRIOR_WEIGHT * before) / (
            self._tried.get(kind, 0.0) + _PRIOR_WEIGHT
        )

    def note(self, kind: Kind, right: bool) -> None:
        """Count a proposal that was right or wrong."""
        if len(self._tried) >= _MAX_KINDS and kind not in self._tried:  # evict the oldest kind
            oldest = next(iter(self._tried))
            del self._tried[oldest], self._right[oldest]
        self._tried[kind] = self._tried.get(kind, 0.0) * _COUNT_DECAY + 1
        self._right[kind] = self._right.get(kind, 0.0) * _COUNT_DECAY + right
        if self.above is not None:
            self.above.note(kind, right)


@dataclass
class Tallies:
    """How many proposals there were, how many were right, and how many of these were accepted."""

    known: dict[str, list[int]] = field(default_factory=dict)
    """Of each kind."""
    by_drafter: dict[str, list[int]] = field(default_factory=dict)
    """Of the drafters of each name. A token that several drafters proposed counts for each of them."""

    def note(self, kind: str, drafters: Iterable[str], right: bool, accepted: bool) -> None:
        """Count a proposal.

        Args:
            kind: Its kind.
            drafters: The different names of the drafters that made it.
            right: Whether its token was drawn.
            accepted: Whether it was drawn, and the model had read it as a draft.
        """
        _count(self.known, kind, right, accepted)
        for name in drafters:
            _count(self.by_drafter, name, right, accepted)


def _count(known: dict[str, list[int]], key: str, right: bool, accepted: bool) -> None:
    counts = known.get(key)
    if counts is None:
        if len(known) >= _MAX_KINDS:
            return
        counts = known[key] = [0, 0, 0]
    counts[0] += 1
    counts[1] += right
    counts[2] += accepted


@dataclass(slots=True)
class Candidate:
    """A token that drafters propose at a node."""

    token: int
    kind: Kind
    chance: float
    """The estimated probability that it is right."""
    proposals: list[_OpenProposal]

    @property
    def drafters(self) -> set[str]:
        """The names of the drafters that proposed it."""
        return {by.name for _, _, by in self.proposals}

    @property
    def by(self) -> RowDrafter | None:
        """The only drafter that proposed it; None if there are several."""
        first = self.proposals[0][2]
        return first if all(by is first for _, _, by in self.proposals) else None


@dataclass
class GrownTree:
    """A draft tree with the candidates at each of its nodes, in the tree or not."""

    tree: DraftTree
    candidates: dict[int, list[Candidate]] = field(default_factory=dict)
    """For each node. Of drawn children, only those whose acceptance the drafter predicts are candidates."""
    sampled: dict[int, Any] = field(default_factory=dict)
    """`Sampled` for each node whose children were drawn from a distribution."""
    sampled_by: dict[int, RowDrafter] = field(default_factory=dict)
    """The drafter of that distribution."""

    def cut(self, size: int) -> None:
        """Keep the first `size` nodes."""
        for node in range(size, len(self.tree)):
            self.candidates.pop(node, None)
            self.sampled.pop(node, None)
            self.sampled_by.pop(node, None)
        self.tree.cut(size)

    def learn(self, node: int, drawn: int, chances: Chances, tallies: Tallies) -> RowDrafter | None:
        """Count the proposals at `node`, after which `drawn` was drawn.

        Returns:
            The only drafter that proposed the token, if it was in the tree.
        """
        is_read = self.tree.has(node, drawn)
        drafter = self.sampled_by.get(node) if is_read else None
        for each in self.candidates.get(node, ()):
            right = each.token == drawn
            chances.note(each.kind, right)
            tallies.note(each.kind[0], each.drafters, right, right and is_read)
            if right and is_read:
                drafter = each.by
        return drafter


@dataclass(slots=True)
class _Frontier:
    """The candidates that are not in the tree yet, the most probable first."""

    ends: frozenset[int]
    """The end-of-sequence tokens, which are never added."""
    least: float
    """The smallest probability of a node."""
    heap: list[tuple[float, int, int, Candidate]] = field(default_factory=list)
    """For each candidate: its probability, negated; its number, in the order of additions; its parent; itself."""
    count: int = 0

    def add(self, parent: int, reach: float, siblings: Sequence[Candidate]) -> None:
        """Add the candidates of a node that the text reaches with probability `reach`, the most probable first."""
        remaining = reach
        for candidate in siblings:
            if candidate.token in self.ends:
                continue
            chance = min(reach * candidate.chance, remaining)
            remaining -= chance
            if chance >= self.least:
                self.count += 1
                heapq.heappush(self.heap, (-chance, self.count, parent, candidate))


def grow_tree(
    context: Context,
    drafters: Sequence[RowDrafter],
    chances: Chances,
    ends: frozenset[int],
    *,
    size: int,
    depth: int,
    branching: bool = True,
    least: float = MIN_CHANCE,
) -> GrownTree:
    """Grow a draft tree.

    Args:
        context: The end of the row.
        drafters: Propose candidates.
        chances: Estimate their probabilities.
        ends: The end-of-sequence tokens, which are never drafted.
        size: The largest number of nodes.
        depth: The largest number of tokens of a path.
        branching: Whether to grow a tree; otherwise a chain.
        least: The smallest probability of a node.
    """
    tree = DraftTree()
    grown = GrownTree(tree)
    frontier = _Frontier(ends, least)
    here = ROOT
    matcher, tokens = context.matcher, context.tokens
    base = len(tokens)
    runs: list[_OpenProposal] = []
    node, reach = ROOT, 1.0
    try:
        while True:
            if context.drafted < depth:
                context.reach = reach
                siblings = candidates(context, drafters, chances, runs, alternatives=branching)
                grown.candidates[node] = siblings
                frontier.add(node, reach, siblings)
            while frontier.heap:
                negated, _, parent, added = heapq.heappop(frontier.heap)
                if not branching and parent != node:
                    continue
                here = move_to_node(tree, here, parent, matcher, tokens, base)
                if matcher.advance(added.token):
                    break
            else:
                return grown
            reach = -negated
            here = node = tree.add(parent, added.token, reach)
            tokens.append(added.token)
            context.drafted = len(tokens) - base
            runs = [
                (proposal, index + 1, by)
                for proposal, index, by in added.proposals
                if index + 1 < len(proposal.tokens)
            ]
            if len(tree) == size:
                return grown
    finally:
        remove_drafts(context, base)


def remove_drafts(context: Context, base: int) -> None:
    """Remove all tokens after the first `base` from a context and its matcher.

    Raises:
        DraftsLeft: The matcher cannot be rolled back. It has read draft tokens, so its row must end.
    """
    tokens = context.tokens
    try:
        if len(tokens) > base:
            context.matcher.rollback(len(tokens) - base)
    except StructgenError as error:
        raise DraftsLeft(error) from error
    finally:
        del tokens[base:]
        context.drafted = 0


class DraftsLeft(Exception):
    """A matcher still holds draft tokens, because its roll-back failed."""

    def __init__(self, error: StructgenError) -> None:
        super().__init__(str(error))
        self.error = error


def candidates(
    context: Context,
    drafters: Sequence[RowDrafter],
    chances: Chances,
    runs: Sequence[_OpenProposal],
    *,
    alternatives: bool = True,
) -> list[Candidate]:
    """Return the distinct tokens proposed at a node, the most probable first.

    Args:
        context: The node.
        drafters: Propose candidates.
        chances: Estimate their probabilities.
        runs: Proposals of earlier nodes that continue here.
        alternatives: If False, drafters are not called where a run is almost certain to continue. Drafters that compute
            are never called where the others leave little probability.
    """
    proposed: dict[int, list[_OpenProposal]] = {}
    for proposal, index, by in runs:
        proposed.setdefault(proposal.tokens[index], []).append((proposal, index, by))
    if len(proposed) == 1 and not alternatives:
        continued = _ranked(context, chances, proposed)
        if continued[0].chance >= _SURE_CHANCE:
            return continued
    for drafter in drafters:
        if proposed and getattr(drafter, "computes", False):
            known = _ranked(context, chances, proposed)
            if context.reach * (1 - known[0].chance) < _LEFT_CHANCE:
                continue
        for proposal in (*_coupled(drafter, context), *drafter.propose(context)):
            others = proposed.setdefault(proposal.tokens[0], [])
            if len(others) < _MAX_PER_TOKEN and all(
                other.kind != proposal.kind or by is not drafter for other, _, by in others
            ):
                others.append((proposal, 0, drafter))
    return _ranked(context, chances, proposed)


def _coupled(drafter: RowDrafter, context: Context) -> list[Proposal]:
    """Return the token that a drafter's distribution and the row's own noise select."""
    if context.noise is None:
        return []
    distribution = drafter.distribution(context)
    if distribution is None:
        return []
    masked = masked_distribution(context, distribution)
    if masked is None:
        return []
    tokens = np.flatnonzero(masked)
    best = int(tokens[(np.log(masked[tokens]) + context.noise(tokens)).argmax()])
    predicted = _predicted(drafter, context, [best], "with noise")
    if predicted:
        return predicted
    share = float(masked[best])
    return [Proposal((best,), f"{drafter.name} with noise, {int(share * 4)}", coupled_chance(share))]


def _predicted(drafter: RowDrafter, context: Context, tokens: Sequence[int], origin: str) -> list[Proposal]:
    """Return those of some tokens whose acceptance the drafter predicts, as proposals with this probability.

    How often it is right is counted by the depth (at most 3) and the tenth of the probability, and apart from tokens
    with other estimates.

    Args:
        drafter: The drafter. Without predictions, it is not called.
        context: The node.
        tokens: Different tokens.
        origin: Where the tokens come from, for the name of the kind.
    """
    if not getattr(drafter, "predicts_acceptance", False):  # a user's row may declare less than the protocol
        return []
    return [
        Proposal(
            (token,),
            f"{drafter.name} head {origin}, {min(context.drafted, 3)}, {int(chance * 10)}",
            chance,
            is_probability=True,
        )
        for token, chance in drafter.acceptances(context, tokens).items()
    ]


def predicted_candidates(
    context: Context, drafter: RowDrafter, chances: Chances, tokens: Sequence[int]
) -> list[Candidate]:
    """Return those of the tokens drawn at a node whose acceptance their drafter predicts.

    Args:
        context: The node.
        drafter: The drafter from whose distribution they were drawn.
        chances: Correct the predictions by how often they were right.
        tokens: The tokens, without repetitions.
    """
    return _ranked(
        context,
        chances,
        {each.tokens[0]: [(each, 0, drafter)] for each in _predicted(drafter, context, tokens, "drawn")},
    )


def coupled_chance(share: float) -> float:
    """Return the prior probability that a token is the row's own draw, if the row's noise selected it.

    The drafter's distribution and the model's are drawn from with the same noise. If the model were certain of its
    token, and the drafter calibrated, the two would agree as often as the drafter's probability says; if they had the
    same distribution, always. The estimate lies between the two. It fits calibrated drafters that agree in 0.6 of all
    draws. How often it is right is counted by quarters of `share`.

    Args:
        share: The drafter's probability of the token.
    """
    return _COUPLED_LEAST + (1 - _COUPLED_LEAST) * math.sqrt(share)


def masked_distribution(context: Context, distribution: object) -> NDArray[np.float64] | None:
    """Return a distribution under the constraint's mask, normalised; None if no allowed token has probability."""
    masked = np.asarray(distribution, dtype=np.float64)
    if context.is_constrained:
        masked = masked * bits_of(context.matcher.mask(), len(masked))
    mass = float(masked.sum())
    return masked / mass if mass > 0 else None


def _ranked(context: Context, chances: Chances, proposed: dict[int, list[_OpenProposal]]) -> list[Candidate]:
    """Return the proposed tokens with their estimated probabilities, the most probable first."""
    ranked = []
    for token, proposals in proposed.items():
        names = {proposal.kind for proposal, _, _ in proposals}
        kind = (
            proposals[0][0].kind if len(names) == 1 else "+".join(sorted(names)),
            min(3, max([index for _, index, _ in proposals])),
            _beginning(context.vocabulary, token),
        )
        prior = max([_prior(proposal, context) for proposal, _, _ in proposals])
        chance = chances.of(kind, prior)
        ranked.append(Candidate(token, kind, chance, proposals))
    ranked.sort(key=_negated_chance)
    return ranked


def _prior(proposal: Proposal, context: Context) -> float:
    return proposal.chance if context.is_constrained or proposal.is_probability else proposal.chance / 2


def _negated_chance(candidate: Candidate) -> float:
    return -candidate.chance


def _beginning(vocabulary: Vocabulary, token: int) -> int:
    """Return 0 if a token continues a word, 1 if it starts with a space, 2 otherwise: copies rarely go beyond words."""
    text = vocabulary.token_bytes(token)
    if not text:
        return 2
    first = text[0]
    return 0 if first >= 128 or chr(first).isalnum() else 1 if first == 32 else 2


def move_to_node(
    tree: DraftTree, source: int, target: int, matcher: TokenMatcher, tokens: list[int], base: int
) -> int:
    """Move the matcher and the tokens from one node to another; return the latter."""
    if source == target:
        return target
    above = set(tree.above(source))
    path = []
    node = target
    while node != ROOT and node not in above:
        path.append(node)
        node = tree.parents[node]
    depth = sum(1 for _ in tree.above(node))
    back = len(tokens) - base - depth
    if back:
        matcher.rollback(back)
        del tokens[len(tokens) - back :]
    for node in reversed(path):
        matcher.advance(tree.tokens[node])
        tokens.append(tree.tokens[node])
    return target
