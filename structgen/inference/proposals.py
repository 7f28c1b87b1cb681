"""How the next token of a particle is drawn, and the weight of the draw.

What: each proposal draws one of the allowed tokens, with a log weight that makes it properly weighted: the expectation
of exp(weight) * 1[token is a] is p(a), for every token a that can be drawn.

    Masked    from the model's distribution under the mask; the weight is the allowed probability
    Checked   from the same distribution, among tokens that potentials accept, which are tested one by one
              (`token_estimators`)
    Learned   from p * theta, where theta bounds the probability of completions after each token (`bound_trie`); the
              weight is the bound of the step over theta, and theta is the score

Source: Lew et al. 2023; Lipkin et al. 2025 (AWRS); Park et al. 2024 (ASAp), whose bounds serve as a twist here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from structgen.generation.distributions import allowed_words, log_sum_exp, next_ids, sample_index
from structgen.generation.potentials import Condition

from .bound_trie import TAIL, BoundTrie, Node, rare_token
from .prefixes import Distribution
from .token_estimators import Estimator, draw_checked

if TYPE_CHECKING:
    from structgen.protocols import TextMatcher

__all__ = ["Checked", "Learned", "Masked", "Proposal", "Proposed", "Site"]

Array = NDArray[Any]


@dataclass
class Site:
    """The state of a particle."""

    matcher: TextMatcher
    tokens: list[int] = field(default_factory=list)
    """The tokens of the text, without the end-of-sequence token."""
    path: list[tuple[Node, int]] = field(default_factory=list)
    """For a proposal that learns: the nodes on the path, with the token that was taken at each."""

    def copy(self) -> Site:
        """Return an independent copy."""
        return Site(self.matcher.fork(), list(self.tokens), list(self.path))


@dataclass(frozen=True, slots=True)
class Proposed:
    """A drawn token and its weight; no token if none can follow."""

    token: int | None
    log_weight: float = 0.0
    score: float = 0.0
    """The log of the expected weight after it, as far as the proposal knows."""
    lost: str = "no mass"
    """The cause if there is no token (see `Account.lost`)."""


class Proposal(Protocol):
    """A way to draw a token."""

    @property
    def scores(self) -> bool:
        """Whether `Proposed.score` is an estimate of the weight to come."""
        ...

    def draw(
        self, site: Site, distribution: Distribution, random: np.random.Generator, *, at_cap: bool
    ) -> Proposed:
        """Draw the token after a state, given the model's distribution there."""
        ...

    def learn(self, site: Site, log_weight: float) -> None:
        """Note that the text has ended with a log weight, or was rejected (minus infinity)."""
        ...


@dataclass(frozen=True)
class Masked:
    """Draws under the mask."""

    scores: bool = field(default=False, init=False)

    def draw(
        self, site: Site, distribution: Distribution, random: np.random.Generator, *, at_cap: bool
    ) -> Proposed:
        """See `Proposal`."""
        ids, shares, mass = _masked(site, distribution, at_cap)
        if mass == -math.inf:
            return Proposed(None)
        index = sample_index(np.cumsum(np.exp(shares)), float(random.random()))
        return Proposed(int(ids[index]), min(0.0, mass))

    def learn(self, site: Site, log_weight: float) -> None:
        """Learn nothing."""


@dataclass(frozen=True)
class Checked:
    """Draws under the mask, and tests tokens one by one."""

    condition: Condition
    estimator: Estimator = "auto"
    probes: int = 4
    max_checks: int | None = None
    scores: bool = field(default=False, init=False)

    def draw(
        self, site: Site, distribution: Distribution, random: np.random.Generator, *, at_cap: bool
    ) -> Proposed:
        """See `Proposal`."""
        ids, shares, mass = _masked(site, distribution, at_cap)
        if mass == -math.inf:
            return Proposed(None)
        drawn = draw_checked(
            shares,
            lambda index: self._accepts(site.matcher, int(ids[index])),
            random,
            estimator=self.estimator,
            probes=self.probes,
            max_checks=self.max_checks,
        )
        if drawn.token is None or drawn.log_weight == -math.inf:
            return Proposed(None, lost="refused")
        return Proposed(int(ids[drawn.token]), min(0.0, mass) + drawn.log_weight)

    def learn(self, site: Site, log_weight: float) -> None:
        """Learn nothing."""

    def _accepts(self, matcher: TextMatcher, token: int) -> bool:
        if token in matcher.vocabulary.eos_ids:
            return self.condition.of_text(matcher.text) > -math.inf
        text = matcher.text + (matcher.vocabulary.token_bytes(token) or b"")
        return self.condition.of_prefix(text) > -math.inf


@dataclass(frozen=True)
class Learned:
    """Draws under the mask, weighted by what all particles have learned."""

    trie: BoundTrie = field(default_factory=BoundTrie)
    scores: bool = field(default=True, init=False)

    def draw(
        self, site: Site, distribution: Distribution, random: np.random.Generator, *, at_cap: bool
    ) -> Proposed:
        """See `Proposal`."""
        parent, last = site.path[-1] if site.path else (None, 0)
        node = self.trie.root if parent is None else parent.children.get(last)
        if node is None:
            node = self.trie.add(parent, last, allowed_words(site.matcher, at_cap=at_cap), distribution)
            self.trie.learn(site.path, node, 0.0)
        self.trie.touch(node)
        bound = node.step.bound
        if bound == -math.inf:
            return Proposed(None)
        token = node.step.draw(float(random.random()))
        if token == TAIL:
            token = self._rare(node, site.matcher, distribution, random, at_cap)
        theta = node.step.bound_of(token)
        site.path.append((node, token))
        return Proposed(token, bound - theta, theta)

    def learn(self, site: Site, log_weight: float) -> None:
        """Update the bounds after the last token."""
        self.trie.learn(site.path, None, log_weight)

    def _rare(
        self,
        node: Node,
        matcher: TextMatcher,
        distribution: Distribution,
        random: np.random.Generator,
        at_cap: bool,
    ) -> int:
        """Return a token that the node does not hold."""
        allowed = allowed_words(matcher, at_cap=at_cap)
        token = rare_token(distribution, allowed, node.step.tokens, float(random.random()))
        self.trie.hold(node, token, allowed, distribution)
        return token


def _masked(site: Site, distribution: Distribution, at_cap: bool) -> tuple[Array, Array, float]:
    """Return the allowed tokens, their log probabilities after normalisation, and the log of their total."""
    ids = next_ids(site.matcher, at_cap=at_cap)
    allowed = distribution.log_p[ids].astype(np.float64)
    mass = log_sum_exp(allowed)
    return ids, allowed - mass if mass > -math.inf else allowed, mass
