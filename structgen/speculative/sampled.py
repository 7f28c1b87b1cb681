"""Drafts that are drawn from a law, as verifiers other than `Match` want them.

What: at each node a drafter tells its law q of the next token; the constraint's mask is applied to it, which raises
what is accepted; and the node's children are drawn from it in the way that the verifier is exact for. (A drafter that
draws them itself, `sampled`, says in which way, and is refused if it is another.) Where no drafter has a law, the
likeliest proposal is a child that is no draw from anything, and is verified as by `Match`.
Invariant: what the verifier is told of a node (q and all tokens that were drawn, in order) does not depend on which of
them the model reads, is illegal or ends the text. The draws come from a stream of their own.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from structgen.errors import StructgenError

from .drafters import Context, RowDrafter
from .growth import Chances, Grown, candidates, masked_law, move
from .trees import ROOT, DraftTree
from .verifiers import Drafted

__all__ = ["Draws", "Sampled", "WrongDrafts", "drawn_children", "grow_sampled"]

Array = NDArray[np.float64]
_LEAST = 1e-3
"""What is all but certain not to come is not read. The verifier is told that it was drawn all the same."""


@dataclass(frozen=True)
class Sampled:
    """The children of a node, as they were drawn."""

    law: Array
    """q, over the vocabulary."""
    tokens: tuple[int, ...]
    drafted: Drafted


@dataclass(frozen=True)
class Draws:
    """How children are drawn."""

    drafted: Drafted
    random: np.random.Generator
    width: int
    """At most so many at a node."""


class WrongDrafts(Exception):
    """A drafter drew tokens in a way that the verifier is not exact for."""

    def __init__(self, drafted: Drafted) -> None:
        super().__init__(drafted)
        self.drafted = drafted


def drawn_children(law: Array, drafted: Drafted, count: int, random: np.random.Generator) -> tuple[int, ...]:
    """At most `count` tokens from `law`: one; distinct (Gumbel top-k, which is drawing without replacement);
    independent; or the most probable ones and one of the others."""
    if drafted == "independent":
        return tuple(random.choice(len(law), size=count, p=law).tolist())
    with np.errstate(divide="ignore"):
        scores = np.log(law)
    some = np.flatnonzero(law)
    count = min(count, len(some))
    if drafted == "greedy":
        best = some[np.argsort(-law[some], kind="stable")][: count - 1]
        others = law.copy()
        others[best] = 0
        return (*best.tolist(), int(random.choice(len(law), p=others / others.sum())))
    noisy = scores[some] + random.gumbel(size=len(some))
    return tuple(some[np.argsort(-noisy)][: 1 if drafted == "one" else count].tolist())


def grow_sampled(
    context: Context,
    drafters: Sequence[RowDrafter],
    chances: Chances,
    ends: frozenset[int],
    draws: Draws,
    goes_on: Callable[[Sequence[float]], bool],
    *,
    size: int,
    depth: int,
) -> Grown:
    """A tree of at most `size` nodes whose nodes have drawn children.

    `goes_on` is asked before a node is added, with the chances of all nodes and its own: it cannot know what will be
    drawn there.
    """
    tree = DraftTree()
    grown = Grown(tree)
    waiting: list[tuple[float, int, int, int]] = []
    here, number, node, reach = ROOT, 0, ROOT, 1.0
    matcher, tokens = context.matcher, context.tokens
    base = len(tokens)
    try:
        while True:
            context.reach = reach
            for token, chance in _children(context, drafters, chances, grown, node, draws):
                if context.drafted < depth and token not in ends and reach * chance >= _LEAST:
                    number += 1
                    heapq.heappush(waiting, (-reach * chance, number, node, token))
            while waiting:
                loss, _, parent, token = heapq.heappop(waiting)
                here = move(tree, here, parent, matcher, tokens, base)
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
        return grown  # of a guess nobody has to know; what was drawn so far counts
    finally:
        if len(tokens) > base:
            matcher.rollback(len(tokens) - base)
            del tokens[base:]
        context.drafted = 0


def _children(
    context: Context,
    drafters: Sequence[RowDrafter],
    chances: Chances,
    grown: Grown,
    node: int,
    draws: Draws,
) -> list[tuple[int, float]]:
    """The distinct children of a node with the chance of each, as far as q knows it."""
    for drafter in drafters:
        own = _drawn(drafter, context)
        if own is None:
            continue
        if own.drafted != draws.drafted and len(own.tokens) > 1:
            raise WrongDrafts(own.drafted)
        grown.sampled[node], grown.sampled_by[node] = own, drafter
        return [(token, float(own.law[token]) ** 0.5) for token in dict.fromkeys(own.tokens)]
    told = _masked_law(context, drafters)
    if told is None:
        found = candidates(context, drafters, chances, [])
        grown.candidates[node] = [(one.token, one.kind, one.by) for one in found]
        return [(one.token, one.chance) for one in found[:1]]
    law, grown.sampled_by[node] = told
    tokens = drawn_children(law, draws.drafted, draws.width, draws.random)
    grown.sampled[node] = Sampled(law, tokens, draws.drafted)
    return [(token, float(law[token]) ** 0.5) for token in dict.fromkeys(tokens)]


def _drawn(drafter: RowDrafter, context: Context) -> Sampled | None:
    draw = getattr(drafter, "sampled", None)
    found: Sampled | None = None if draw is None else draw(context)
    return found


def _masked_law(context: Context, drafters: Sequence[RowDrafter]) -> tuple[Array, RowDrafter] | None:
    for drafter in drafters:
        told = getattr(drafter, "law", None)
        law: Any = None if told is None else told(context)
        if law is None:
            continue
        found = masked_law(context, law)
        if found is not None:
            return found, drafter
    return None
