"""Sequential Monte Carlo: weighted particles that grow token by token and are resampled by their weights.

What: each particle is a prefix with a weight. A step draws a token by a *proposal* (`proposals`), which keeps the
weights proper. If the weights become too unequal (effective sample size below `threshold` * particles), ancestors are
drawn in proportion to them. Particles that have ended take part without growing.
Steering: a *score* estimates the weight to come after a prefix: from the critic, from potentials of prefixes, or from
the bound of a proposal that learns. Ancestors are drawn in proportion to weight * exp(score), one hundredth of them in
proportion to the weight alone, and the weights correct for it: a score steers without bias, even if it is -inf.
The potential of a whole text is multiplied in when all particles have ended. Until then it counts as the score, if
others have scores. (If it counted at once and growing texts had no score, particles that have not paid yet would
replace all that have.) A text that is rejected dies at once.
The cap: a text has at most `max_tokens` tokens before its end; a particle that cannot end there has weight 0.
Invariant: the returned weights, with `log_z`, are proper. For every text x, the expected sum of exp(log_weight) over
the particles that are x, divided by their number, is P(x) * 1[x in L] * exp(potentials of x). Hence `log_z` is the log
of an unbiased estimate of the normalising constant.
Cost: one row of the model for each distinct prefix and step; no forward pass if drafts have read all of them.
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

from .prefixes import Distribution, PrefixBatch
from .proposals import Proposal, Site
from .resampling import Resampling, effective_size, resample

if TYPE_CHECKING:
    from structgen.protocols import TextMatcher

__all__ = ["Particle", "Particles"]

_UNSCORED_FRACTION = 0.01
"""The fraction of ancestors that are drawn without regard to scores."""


@dataclass
class Particle:
    """One prefix and its weight."""

    site: Site
    log_weight: float = 0.0
    """Since the last resampling; without score and `final`."""
    log_prob: float = 0.0
    end_token: int | None = None
    score: float = 0.0
    """The log of the expected weight after the prefix."""
    final: float = 0.0
    """The sum of the potentials of the whole text."""
    lost: str = ""
    """Why it died: "refused" by potentials, "max_tokens", "no mass"."""

    @property
    def tokens(self) -> list[int]:
        """The tokens of the text, without the end-of-sequence token."""
        return self.site.tokens

    @property
    def dead(self) -> bool:
        """Whether its weight is 0."""
        return self.log_weight == -math.inf

    @property
    def grows(self) -> bool:
        """Whether it is neither dead nor complete."""
        return self.end_token is None and not self.dead


class Particles:
    """`count` particles under one prompt."""

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
        """The log of the estimate up to the last resampling; `total` adds the rest."""
        self.resampled = 0
        self.steps = 0

    def run(self) -> Iterator[int]:
        """Grow all particles to their ends; after each step, yield how many still grow."""
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
        """Return the log of the unbiased estimate of the normalising constant, once all particles have ended."""
        return self.log_z + self._mean()

    # -- steps

    def _step(self) -> None:
        self.steps += 1
        growing = [particle for particle in self.particles if particle.grows]
        matchers = {tuple(particle.tokens): particle.site.matcher for particle in growing}
        distributions = self._batch.read(list(matchers), matchers)
        for particle in growing:
            self._grow(particle, distributions[tuple(particle.tokens)])

    def _grow(self, particle: Particle, distribution: Distribution) -> None:
        site = particle.site
        at_cap = len(site.tokens) >= self._max_tokens
        drawn = self._proposal.draw(site, distribution, self._random, at_cap=at_cap)
        if drawn.token is None:
            self._die(particle, "max_tokens" if at_cap else drawn.lost)
            return
        particle.log_weight += drawn.log_weight
        particle.log_prob += float(distribution.log_p[drawn.token])
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
                f"the critic failed on a prefix: {type(error).__name__}: {error}",
                text=text.decode("utf-8", "replace"),
                hint="It is called with every prefix, and returns a log score.",
            ) from error
        if math.isnan(score) or score == math.inf:
            raise GenerationError(
                f"the critic returned {score} for a prefix",
                text=text.decode("utf-8", "replace"),
                hint="It returns a log score: a number, or -inf.",
            )
        return score

    # -- weights

    def _mean(self) -> float:
        weights = np.array([particle.log_weight for particle in self.particles])
        return log_sum_exp(weights) - math.log(len(weights))

    def _resample(self) -> None:
        weights = np.array([particle.log_weight for particle in self.particles])
        if not (weights > -math.inf).any():
            return  # all are dead; `run` raises
        steered = weights + np.array([particle.score for particle in self.particles])
        scored = bool((steered > -math.inf).any())
        if scored and effective_size(steered) >= self._threshold * len(weights):
            return
        # Ancestors are drawn in proportion to `drawn`, normalised; their weight is divided by it.
        drawn = weights - log_sum_exp(weights)
        if scored and (steered != weights).any():
            drawn = np.logaddexp(
                math.log(_UNSCORED_FRACTION) + drawn,
                math.log1p(-_UNSCORED_FRACTION) + steered - log_sum_exp(steered),
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
        text = max((particle.site.matcher.text for particle in self.particles), key=len).decode(
            "utf-8", "replace"
        )
        raise DeadEnd(
            f"all {len(self.particles)} particles died by step {self.steps}; the longest had written {text[-60:]!r}",
            text=text,
            hint="Use more particles, let potentials judge prefixes (prefix=...), or raise max_tokens.",
        )
