"""Verifiers: which draft token is accepted at a node, such that the output has the model's distribution.

What: at a node of a draft, p is the target (the distribution of the plain sampler's draw: mask, temperature,
truncation), and the node's children are tokens that a drafter proposed from q. A verifier returns an `Outcome`: the
probability with which each child is accepted, and the distribution of the token otherwise. One uniform number decides.
Invariant: averaged over the drafts as they were *really* drawn, the outcomes are p. Each verifier is exact for one way
of drafting (`drafted`), and wrong for others.

    Match             "any"           y is drawn from p, and accepted whether or not it is a child: exact for every
                                      drafter. With the uniform number of the position it is the plain sampler's own
                                      token
    Rejection         "one"           x ~ q: accepted with min(1, p(x) / q(x)), otherwise y ~ (p - q)+
    Recursive         "distinct"      x1, x2, ... ~ q without replacement: after each rejection p becomes (p - q)+, and
                                      q loses the token
    KSeq              "independent"   x1 ... xk ~ q: each is accepted with min(1, p(x) / (g q(x))), where g solves
                                      1 - (1 - b)^k = g b, b(g) = sum of min(p / g, q); otherwise the rest of p
    GreedyTransport   "greedy"        the k - 1 most probable of q and one z ~ q without these: z as by `Rejection`
                                      against q without them; what is drawn otherwise is often one of them

Cost: a few passes over the vocabulary for each child.
Source: Leviathan et al. 2023; Chen et al. 2023 (Rejection); Jeon et al. 2024 (RSD); Sun et al. 2023 (SpecTr);
Hu et al. 2025 (MDSD).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from structgen.generation.distributions import sample_index

__all__ = ["Drafted", "GreedyTransport", "KSeq", "Match", "Outcome", "Recursive", "Rejection", "Verifier"]

Array = NDArray[Any]
Drafted = Literal["any", "one", "distinct", "independent", "greedy"]
"""How the children of a node were drawn from q."""

_BISECTION_STEPS = 52
"""Steps of a bisection, down to the rounding of float64."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a node: the probabilities of `accepted` and of `rest` sum to 1."""

    accepted: tuple[tuple[int, float], ...]
    """Children in the order in which they are tried, each with the probability that it is the outcome."""
    rest: Array
    """The probability of every token as the outcome after all children were rejected, ``[vocabulary.size]``."""

    def distribution(self) -> Array:
        """Return the distribution of the outcome, ``[vocabulary.size]``."""
        whole = self.rest.copy()
        for token, probability in self.accepted:
            whole[token] += probability
        return whole

    def draw(self, uniform: float) -> int:
        """Return the token that `uniform` in [0, 1) selects."""
        for token, probability in self.accepted:
            if uniform < probability:
                return token
            uniform -= probability
        cumulative = np.cumsum(self.rest, dtype=np.float64)
        left = float(cumulative[-1])
        if left <= 0:  # only rounding leads here
            return self.accepted[-1][0]
        return sample_index(cumulative, min(1.0, uniform / left))


class Verifier(Protocol):
    """A rule of acceptance."""

    @property
    def drafted(self) -> Drafted:
        """The drafts for which it is exact."""
        ...

    def outcome(self, target: Array, draft: Array | None, children: Sequence[int]) -> Outcome:
        """Return the outcome of a node.

        Args:
            target: p, float64 ``[vocabulary.size]``, normalised.
            draft: q, likewise; None if `drafted` is "any".
            children: The tokens drawn from q, in order.
        """
        ...


@dataclass(frozen=True)
class Match:
    """Exact for every drafter: the plain sampler's own token, with its own noise."""

    drafted: Drafted = field(default="any", init=False)

    def outcome(self, target: Array, draft: Array | None, children: Sequence[int]) -> Outcome:
        """See `Verifier`."""
        return Outcome((), target)


@dataclass(frozen=True)
class Rejection:
    """Rejection sampling of a chain: one child per node."""

    drafted: Drafted = field(default="one", init=False)

    def outcome(self, target: Array, draft: Array | None, children: Sequence[int]) -> Outcome:
        """See `Verifier`."""
        assert draft is not None and len(children) == 1
        return _rejected(target, draft, children[0])


@dataclass(frozen=True)
class Recursive:
    """Recursive rejection sampling without replacement."""

    drafted: Drafted = field(default="distinct", init=False)

    def outcome(self, target: Array, draft: Array | None, children: Sequence[int]) -> Outcome:
        """See `Verifier`."""
        assert draft is not None
        target, draft, open_ = target, draft.copy(), 1.0
        accepted = []
        for token in children:
            chance = min(1.0, float(target[token]) / float(draft[token]))
            accepted.append((token, open_ * chance))
            open_ *= 1 - chance
            if open_ <= 0:
                break
            target = _positive(target - draft)
            draft[token] = 0
            mass = float(draft.sum())
            if mass <= 0:
                break
            draft /= mass
        return Outcome(tuple(accepted), open_ * target)


@dataclass(frozen=True)
class KSeq:
    """Independent drafts, each against the same threshold."""

    drafted: Drafted = field(default="independent", init=False)

    def outcome(self, target: Array, draft: Array | None, children: Sequence[int]) -> Outcome:
        """See `Verifier`."""
        assert draft is not None
        count = len(children)
        factor = _factor(target, draft, count)
        overlap = np.minimum(target / factor, draft)
        mass = float(overlap.sum())
        accepted, open_ = [], 1.0
        for token in children:
            chance = min(1.0, float(target[token]) / (factor * float(draft[token])))
            accepted.append((token, open_ * chance))
            open_ *= 1 - chance
        share = (1 - (1 - mass) ** count) / mass if mass > 0 else 0.0
        return Outcome(tuple(accepted), open_ * _positive(target - overlap * share))


@dataclass(frozen=True)
class GreedyTransport:
    """The most probable tokens, and a draw of one of the others; `children` are in this order."""

    drafted: Drafted = field(default="greedy", init=False)

    def outcome(self, target: Array, draft: Array | None, children: Sequence[int]) -> Outcome:
        """See `Verifier`."""
        assert draft is not None
        others = draft.copy()
        others[list(children[:-1])] = 0
        mass = float(others.sum())
        return _rejected(target, others / mass, children[-1]) if mass > 0 else Outcome((), target)


def _rejected(target: Array, draft: Array, token: int) -> Outcome:
    chance = min(1.0, float(target[token]) / float(draft[token]))
    if chance >= 1:
        return Outcome(((token, 1.0),), np.zeros_like(target))
    return Outcome(((token, chance),), (1 - chance) * _positive(target - draft))


def _positive(difference: Array) -> Array:
    """Return the positive part, normalised."""
    positive = np.maximum(difference, 0.0)
    mass = float(positive.sum())
    return positive / mass if mass > 0 else positive


def _factor(target: Array, draft: Array, count: int) -> float:
    """Return g between 1 and k with 1 - (1 - b)^k = g b, where b is the sum of min(p / g, q), by bisection."""
    low, high = 1.0, float(count)
    for _ in range(_BISECTION_STEPS):
        middle = (low + high) / 2
        mass = float(np.minimum(target / middle, draft).sum())
        low, high = (middle, high) if 1 - (1 - mass) ** count > middle * mass else (low, middle)
    return high
