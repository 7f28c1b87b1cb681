"""How a particle's next token is drawn, and what it weighs for that.

What: each proposal draws a token of those that the mask allows, with a log weight that makes it properly weighted: the
expectation of exp(weight) * 1[token is a] is p(a), for every token a that goes on.

    Masked    by the model's law under the mask; the weight is the mass that the mask leaves
    Checked   by the same law, among tokens that potentials take, which are asked one by one (`estimators`)
    Learned   by p * theta, theta being what is known of the mass behind each token (`bounds`); the weight is the bound
              of the step over theta, and theta is the score

Source: Lew et al. 2023; Lipkin et al. 2025 (AWRS); Park et al. 2024 (ASAp), whose bounds are a twist here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from structgen.generation.distributions import allowed_words, log_sum_exp, next_ids, place_of
from structgen.generation.potentials import Condition

from .bound_trie import TAIL, BoundTrie, Node, rare_token
from .prefixes import Law
from .token_estimators import Estimator, draw_checked

if TYPE_CHECKING:
    from structgen.protocols import TextMatcher

__all__ = ["Checked", "Learned", "Masked", "Proposal", "Proposed", "Site"]

Array = NDArray[Any]


@dataclass
class Site:
    """Where a particle stands."""

    matcher: TextMatcher
    tokens: list[int] = field(default_factory=list)
    """Without the end-of-text token."""
    path: list[tuple[Node, int]] = field(default_factory=list)
    """Of a proposal that learns: the nodes on its way, with the token that was taken at each."""

    def copy(self) -> Site:
        """Another one at the same place."""
        return Site(self.matcher.fork(), list(self.tokens), list(self.path))


@dataclass(frozen=True, slots=True)
class Proposed:
    """A token, and what it weighs; no token where none goes on."""

    token: int | None
    log_weight: float = 0.0
    score: float = 0.0
    """The log of what is expected behind it, as far as the proposal knows."""
    lost: str = "no mass"
    """What is to blame where there is no token."""


class Proposal(Protocol):
    """A way to draw a token."""

    @property
    def scores(self) -> bool:
        """Does it tell what is expected behind a token?"""
        ...

    def draw(self, site: Site, law: Law, random: np.random.Generator, *, at_cap: bool) -> Proposed:
        """A token after a place, under the model's law there."""
        ...

    def learn(self, site: Site, log_weight: float) -> None:
        """The text has ended, or was refused (minus infinity)."""
        ...


@dataclass(frozen=True)
class Masked:
    """By the mask alone."""

    scores: bool = field(default=False, init=False)

    def draw(self, site: Site, law: Law, random: np.random.Generator, *, at_cap: bool) -> Proposed:
        """See `Proposal`."""
        ids, shares, mass = _masked(site, law, at_cap)
        if mass == -math.inf:
            return Proposed(None)
        place = place_of(np.cumsum(np.exp(shares)), float(random.random()))
        return Proposed(int(ids[place]), min(0.0, mass))

    def learn(self, site: Site, log_weight: float) -> None:
        """Nothing."""


@dataclass(frozen=True)
class Checked:
    """By the mask, then token by token."""

    condition: Condition
    estimator: Estimator = "auto"
    probes: int = 4
    max_checks: int | None = None
    scores: bool = field(default=False, init=False)

    def draw(self, site: Site, law: Law, random: np.random.Generator, *, at_cap: bool) -> Proposed:
        """See `Proposal`."""
        ids, shares, mass = _masked(site, law, at_cap)
        if mass == -math.inf:
            return Proposed(None)
        drawn = draw_checked(
            shares,
            lambda place: self._accepts(site.matcher, int(ids[place])),
            random,
            estimator=self.estimator,
            probes=self.probes,
            max_checks=self.max_checks,
        )
        if drawn.token is None or drawn.log_weight == -math.inf:
            return Proposed(None, lost="refused")
        return Proposed(int(ids[drawn.token]), min(0.0, mass) + drawn.log_weight)

    def learn(self, site: Site, log_weight: float) -> None:
        """Nothing."""

    def _accepts(self, matcher: TextMatcher, token: int) -> bool:
        if token in matcher.vocabulary.eos_ids:
            return self.condition.of_text(matcher.text) > -math.inf
        text = matcher.text + (matcher.vocabulary.token_bytes(token) or b"")
        return self.condition.of_prefix(text) > -math.inf


@dataclass(frozen=True)
class Learned:
    """By the mask and by what all particles have learned so far."""

    trie: BoundTrie = field(default_factory=BoundTrie)
    scores: bool = field(default=True, init=False)

    def draw(self, site: Site, law: Law, random: np.random.Generator, *, at_cap: bool) -> Proposed:
        """See `Proposal`."""
        parent, last = site.path[-1] if site.path else (None, 0)
        node = self.trie.root if parent is None else parent.children.get(last)
        if node is None:
            node = self.trie.add(parent, last, allowed_words(site.matcher, at_cap=at_cap), law)
            self.trie.learn(site.path, node, 0.0)
        self.trie.touch(node)
        bound = node.step.bound
        if bound == -math.inf:
            return Proposed(None)
        token = node.step.draw(float(random.random()))
        if token == TAIL:
            token = self._rare(node, site.matcher, law, random, at_cap)
        theta = node.step.bound_of(token)
        site.path.append((node, token))
        return Proposed(token, bound - theta, theta)

    def learn(self, site: Site, log_weight: float) -> None:
        """What is behind the last token is known."""
        self.trie.learn(site.path, None, log_weight)

    def _rare(
        self, node: Node, matcher: TextMatcher, law: Law, random: np.random.Generator, at_cap: bool
    ) -> int:
        """A token that the node does not hold."""
        allowed = allowed_words(matcher, at_cap=at_cap)
        token = rare_token(law, allowed, node.step.tokens, float(random.random()))
        self.trie.hold(node, token, allowed, law)
        return token


def _masked(site: Site, law: Law, at_cap: bool) -> tuple[Array, Array, float]:
    """The tokens allowed, the log of their shares, and the log of their mass."""
    ids = next_ids(site.matcher, at_cap=at_cap)
    allowed = law.log_p[ids].astype(np.float64)
    mass = log_sum_exp(allowed)
    return ids, allowed - mass if mass > -math.inf else allowed, mass
