"""Drafts that are drawn from a distribution, for verifiers other than `Match`.

What: at each node a drafter gives its distribution q of the next token. The constraint's mask is applied to q, which
raises the acceptance rate. The node's children are drawn from it in the way for which the verifier is exact. (A drafter
that draws them itself, `sampled`, says in which way, and is refused if the verifier needs another.) If no drafter has a
distribution, the most probable proposal is the only child; it is not a draw, and is verified as by `Match`.
Which children the model reads follows from estimates of their acceptance. A drafter's acceptance head gives the number
for its first-ranked token, and how often such numbers were right in earlier passes corrects it (SpecDec++). For other
children the estimate is the root of q.
Invariant: what the verifier gets for a node (q and all drawn tokens, in order) does not depend on which of them the
model reads, the constraint refuses or end the text. The draws come from a random stream of their own.

Why estimates may depend on tokens that were drawn. At each node, two things must hold for a verifier to be exact:

1. Whether children are drawn there does not depend on what is drawn. A node's children are drawn once the node is in
   the tree. Up to then, only its path and children of other nodes are known, which are independent draws.
2. Drawn children always reach the verifier, all of them and in their order. An estimate decides only whether the model
   reads a child in the same pass. If it does not, and the verifier accepts the child, the pass ends with this token.

So no estimate reaches `Verifier.outcome`, whose arguments are p, q and the drawn tokens:

    Rejection         the token is accepted with min(1, p / q), read or not
    Recursive         p and q lose every rejected token in the order of the draws, also those that are not read
    KSeq              g follows from the number of draws, which is that of `Draws.width`, repeated tokens included
    GreedyTransport   q alone says which tokens are its most probable ones; the last one is the draw, read or not

Dropping an unlikely child before the verifier would be wrong: the residual distribution would be that of other draws.
Source: Huang et al. 2024 (SpecDec++).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from structgen.errors import StructgenError

from .drafters import Context, RowDrafter
from .growth import (
    Chances,
    GrownTree,
    candidates,
    masked_distribution,
    move_to_node,
    predicted_candidates,
    remove_drafts,
)
from .trees import ROOT, DraftTree
from .verifiers import Drafted

__all__ = ["Draws", "Sampled", "WrongDrafts", "drawn_children", "grow_sampled_tree"]

Array = NDArray[np.float64]
_MIN_REACH = 1e-3
"""Nodes below this probability are not read. The verifier still learns that they were drawn."""


@dataclass(frozen=True)
class Sampled:
    """The children of a node, as they were drawn."""

    distribution: Array
    """q, ``[vocabulary.size]``, normalised."""
    tokens: tuple[int, ...]
    drafted: Drafted


@dataclass(frozen=True)
class Draws:
    """How the children of a node are drawn."""

    drafted: Drafted
    random: np.random.Generator
    width: int
    """The largest number of children."""


class WrongDrafts(Exception):
    """A drafter drew tokens in a way for which the verifier is not exact."""

    def __init__(self, drafted: Drafted) -> None:
        super().__init__(drafted)
        self.drafted = drafted


def drawn_children(
    distribution: Array, drafted: Drafted, count: int, random: np.random.Generator
) -> tuple[int, ...]:
    """Draw at most `count` tokens from a distribution.

    Args:
        distribution: Probabilities, ``[vocabulary.size]``.
        drafted: "one"; "distinct" (without replacement, by Gumbel top-k); "independent"; or "greedy": the most probable
            tokens and a draw of one of the others.
        count: The number of tokens.
        random: The generator.
    """
    if drafted == "independent":
        return tuple(random.choice(len(distribution), size=count, p=distribution).tolist())
    with np.errstate(divide="ignore"):
        scores = np.log(distribution)
    some = np.flatnonzero(distribution)
    count = min(count, len(some))
    if drafted == "greedy":
        best = some[np.argsort(-distribution[some], kind="stable")][: count - 1]
        others = distribution.copy()
        others[best] = 0
        return (*best.tolist(), int(random.choice(len(distribution), p=others / others.sum())))
    noisy = scores[some] + random.gumbel(size=len(some))
    return tuple(some[np.argsort(-noisy)][: 1 if drafted == "one" else count].tolist())


def grow_sampled_tree(
    context: Context,
    drafters: Sequence[RowDrafter],
    chances: Chances,
    ends: frozenset[int],
    draws: Draws,
    goes_on: Callable[[Sequence[float]], bool],
    *,
    size: int,
    depth: int,
) -> GrownTree:
    """Grow a draft tree whose nodes have drawn children.

    `goes_on` decides whether another node is added, from the probabilities of all nodes and its own. It must not depend
    on what is drawn there. The other arguments are those of `grow_tree`; `chances` also correct acceptance heads.
    """
    tree = DraftTree()
    grown = GrownTree(tree)
    waiting: list[tuple[float, int, int, int]] = []
    here, number, node, reach = ROOT, 0, ROOT, 1.0
    matcher, tokens = context.matcher, context.tokens
    base = len(tokens)
    try:
        while True:
            context.reach = reach
            for token, chance in _children(context, drafters, chances, grown, node, draws):
                if context.drafted < depth and token not in ends and reach * chance >= _MIN_REACH:
                    number += 1
                    heapq.heappush(waiting, (-reach * chance, number, node, token))
            while waiting:
                loss, _, parent, token = heapq.heappop(waiting)
                here = move_to_node(tree, here, parent, matcher, tokens, base)
                context.drafted = len(tokens) - base
                if matcher.advance(token):
                    break
            else:
                return grown
            reach = -loss
            if not goes_on([*tree.reach, reach]):
                matcher.rollback(1)
                return grown
            here = node = tree.add(parent, token, reach)
            tokens.append(token)
            context.drafted = len(tokens) - base
            if len(tree) == size:
                return grown
    except StructgenError:
        return grown  # the draft ends here; what was drawn so far counts
    finally:
        remove_drafts(context, base)


def _children(
    context: Context,
    drafters: Sequence[RowDrafter],
    chances: Chances,
    grown: GrownTree,
    node: int,
    draws: Draws,
) -> list[tuple[int, float]]:
    """Return the distinct children of a node with estimates of their probabilities."""
    for drafter in drafters:
        own: Sampled | None = drafter.sampled(context)
        if own is None:
            continue
        if own.drafted != draws.drafted and len(own.tokens) > 1:
            raise WrongDrafts(own.drafted)
        return _drawn(context, drafter, chances, grown, node, own)
    source = _first_distribution(context, drafters)
    if source is None:
        children = candidates(context, drafters, chances, [])
        grown.candidates[node] = children
        return [(child.token, child.chance) for child in children[:1]]
    distribution, drafter = source
    tokens = drawn_children(distribution, draws.drafted, draws.width, draws.random)
    return _drawn(context, drafter, chances, grown, node, Sampled(distribution, tokens, draws.drafted))


def _drawn(
    context: Context,
    drafter: RowDrafter,
    chances: Chances,
    grown: GrownTree,
    node: int,
    sampled: Sampled,
) -> list[tuple[int, float]]:
    """Record the children that were drawn at a node; return the distinct ones with estimates of their acceptance."""
    # subtle: they are recorded before the drafter sees them. Should it fail then, they count all the same.
    grown.sampled[node], grown.sampled_by[node] = sampled, drafter
    distinct = list(dict.fromkeys(sampled.tokens))
    predicted = predicted_candidates(context, drafter, chances, distinct)
    if predicted:
        grown.candidates[node] = predicted
    known = {candidate.token: candidate.chance for candidate in predicted}
    return [
        (token, known[token] if token in known else float(sampled.distribution[token]) ** 0.5)
        for token in distinct
    ]


def _first_distribution(context: Context, drafters: Sequence[RowDrafter]) -> tuple[Array, RowDrafter] | None:
    for drafter in drafters:
        distribution = drafter.distribution(context)
        if distribution is None:
            continue
        masked = masked_distribution(context, distribution)
        if masked is not None:
            return masked, drafter
    return None
