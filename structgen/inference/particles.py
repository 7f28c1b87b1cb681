"""Sequential Monte Carlo: particles that grow token by token, weighted, and go on by their weights.

What: each particle is a text so far with a weight. A step draws a token by a *proposal* (`proposals`), whose weight
makes the particle's right. Where the weights have become too unequal (effective sample size below `threshold` *
particles), ancestors are drawn anew. Particles that have ended take part without growing.
Steering: a *score* says what is expected of a beginning: the critic's, what potentials say of beginnings, the bound
that a learning proposal knows. Ancestors are drawn in proportion to weight * exp(score), a hundredth of them to the
weight alone, and the weights make up for it: a score steers, and leaves no trace even where it is -inf.
What potentials say of a whole text is multiplied in when all have ended, and counts as its score where others are
scored, too. (If it counted at once and growing texts had no score, those that have not yet paid would replace all that
have.) A text that is refused dies at once.
The cap: a text has at most `max_tokens` tokens before its end; a particle that cannot end there has the weight 0.
Invariant: the weights of the particles that are returned, with `log_z`, are proper: for every text x the expected sum
of exp(log_weight) over those that are x, divided by their number, is P(x) * 1[x in L] * exp(potentials of x); hence
`log_z` is the log of an unbiased estimate of the mass of all texts.
Cost: one row of the model for each distinct beginning and step; no pass where all were read ahead.
Source: Lew et al. 2023 (SMC steering), Lipkin et al. 2025.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from structgen.errors import DeadEnd, GenerationError
from structgen.generation.distributions import log_sum_exp
from structgen.generation.potentials import Condition

from .prefixes import Law, PrefixBatch
from .proposals import Proposal, Site
from .resampling import Resampling, effective_size, resample

if TYPE_CHECKING:
    from structgen.protocols import TextMatcher

__all__ = ["Particle", "Particles"]

_BLIND = 0.01
"""The share of ancestors that is drawn without regard to scores."""


@dataclass
class Particle:
    """One text so far."""

    site: Site
    log_weight: float = 0.0
    """Since the last resampling; without scores, and without `final`."""
    log_prob: float = 0.0
    end_token: int | None = None
    score: float = 0.0
    """The log of what is expected of the text so far."""
    final: float = 0.0
    """What potentials say of the whole text."""
    lost: str = ""
    """What it died of: "refused" by potentials, "max_tokens", "no mass"."""

    @property
    def tokens(self) -> list[int]:
        """Without the end-of-text token."""
        return self.site.tokens

    @property
    def dead(self) -> bool:
        """Has it no weight?"""
        return self.log_weight == -math.inf

    @property
    def grows(self) -> bool:
        """Will it be read further?"""
        return self.end_token is None and not self.dead


class Particles:
    """`count` of them under one prompt."""

    def __init__(
        self,
        batch: PrefixBatch,
        matcher: TextMatcher,
        condition: Condition,
        random: np.random.Generator,
        *,
        count: int,
        proposal: Proposal,
        resampling: Resampling = "systematic",
        threshold: float = 0.5,
        critic: Callable[[str], float] | None = None,
        max_tokens: int = 512,
    ) -> None:
        self._batch = batch
        self._condition = condition
        self._random = random
        self._proposal = proposal
        self._resampling: Resampling = resampling
        self._threshold = threshold
        self._critic = critic
        self._max_tokens = max_tokens
        self._eos = frozenset(matcher.vocabulary.eos_ids)
        self._scores = critic is not None or condition.judges_prefixes
        self.particles = [Particle(Site(matcher.fork())) for _ in range(count)]
        self.log_z = 0.0
        """Up to the last resampling; `total` adds the rest."""
        self.resampled = 0
        self.steps = 0

    def run(self) -> Iterator[int]:
        """Grows all of them to their ends; after each step, how many still grow."""
        while any(particle.grows for particle in self.particles):
            self._step()
            growing = sum(particle.grows for particle in self.particles)
            if growing:
                self._resample()
            yield growing
        for particle in self.particles:
            particle.log_weight += particle.final
        if all(particle.dead for particle in self.particles):
            self._refuse()

    def total(self) -> float:
        """log of the unbiased estimate of the mass of all texts, once all have ended."""
        return self.log_z + self._mean()

    # -- steps

    def _step(self) -> None:
        self.steps += 1
        growing = [particle for particle in self.particles if particle.grows]
        matchers = {tuple(particle.tokens): particle.site.matcher for particle in growing}
        laws = self._batch.read(list(matchers), matchers)
        for particle in growing:
            self._grow(particle, laws[tuple(particle.tokens)])

    def _grow(self, particle: Particle, law: Law) -> None:
        site = particle.site
        at_cap = len(site.tokens) >= self._max_tokens
        drawn = self._proposal.draw(site, law, self._random, at_cap=at_cap)
        if drawn.token is None:
            self._die(particle, "max_tokens" if at_cap else drawn.lost)
            return
        particle.log_weight += drawn.log_weight
        particle.log_prob += float(law.log_p[drawn.token])
        particle.score = drawn.score
        site.matcher.advance(drawn.token)
        if drawn.token in self._eos:
            particle.end_token = drawn.token
            particle.final = self._condition.of_text(site.matcher.text)
            particle.score = particle.final if self._scores or self._proposal.scores else 0.0
            self._proposal.learn(site, particle.final)
            if particle.final == -math.inf:
                self._die(particle, "refused")
            return
        site.tokens.append(drawn.token)
        if self._scores:
            score = self._condition.of_prefix(site.matcher.text)
            if score == -math.inf:
                self._proposal.learn(site, score)
                self._die(particle, "refused")
                return
            particle.score += score + self._judge(site.matcher.text)

    def _die(self, particle: Particle, cause: str) -> None:
        particle.log_weight, particle.lost = -math.inf, cause

    def _judge(self, text: bytes) -> float:
        if self._critic is None:
            return 0.0
        try:
            score = float(self._critic(text.decode("utf-8", "ignore")))
        except Exception as error:
            raise GenerationError(
                f"the critic failed on a beginning: {type(error).__name__}: {error}",
                text=text.decode("utf-8", "replace"),
                hint="It is asked of every beginning, and gives a log score.",
            ) from error
        if math.isnan(score) or score == math.inf:
            raise GenerationError(
                f"the critic gives {score} to a beginning",
                text=text.decode("utf-8", "replace"),
                hint="It gives a log score: a number, or -inf.",
            )
        return score

    # -- weights

    def _mean(self) -> float:
        weights = np.array([particle.log_weight for particle in self.particles])
        return log_sum_exp(weights) - math.log(len(weights))

    def _resample(self) -> None:
        weights = np.array([particle.log_weight for particle in self.particles])
        if not (weights > -math.inf).any():
            return  # all are dead; `run` says so
        steered = weights + np.array([particle.score for particle in self.particles])
        scored = bool((steered > -math.inf).any())
        if scored and effective_size(steered) >= self._threshold * len(weights):
            return
        # What ancestors are drawn in proportion to, normalised; and what they weigh then is their weight over it.
        drawn = weights - log_sum_exp(weights)
        if scored and (steered != weights).any():
            drawn = np.logaddexp(
                math.log(_BLIND) + drawn, math.log1p(-_BLIND) + steered - log_sum_exp(steered)
            )
        chosen = resample(drawn, len(weights), self._resampling, self._random)
        mean = self._mean()
        self.log_z += mean
        self.resampled += 1
        taken: set[int] = set()
        survivors = []
        for i in map(int, chosen):
            particle = self.particles[i]
            weight = float(weights[i] - math.log(len(weights)) - mean - drawn[i])
            site = particle.site.copy() if i in taken else particle.site
            survivors.append(replace(particle, site=site, log_weight=weight))
            taken.add(i)
        self.particles = survivors

    def _refuse(self) -> None:
        text = max((one.site.matcher.text for one in self.particles), key=len).decode("utf-8", "replace")
        raise DeadEnd(
            f"all {len(self.particles)} particles died by step {self.steps}; the longest had written {text[-60:]!r}",
            text=text,
            hint="Take more particles, let potentials judge beginnings (prefix=...), or raise max_tokens.",
        )
