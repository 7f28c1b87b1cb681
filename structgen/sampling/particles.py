"""Sequential Monte Carlo: particles that grow token by token, weighted, and go on by their weights.

What: each particle is a text so far with a weight. A step draws a token by a *proposal* (local masking; or checked
draws, where potentials judge beginnings) whose weight makes the particle's right. Where the weights have become too
unequal (effective sample size below `threshold` * particles), ancestors are drawn anew in proportion to them and all
weigh the same from there on. A critic's score of the beginning is multiplied in and divided out on the next step, so
that it steers and leaves no trace. Particles that have ended take part without growing.
The cap: a text has at most `max_tokens` tokens before its end; a particle that cannot end there has the weight 0.
Invariant: the weights of the particles that are returned, with `log_z`, are proper: for every text x the expected sum
of exp(log_weight) over those that are x, divided by their number, is P(x) * 1[x in L] * exp(potentials of x); hence
`log_z` is the log of an unbiased estimate of the mass of all texts.
Cost: one row of the model for each distinct beginning and step.
Source: Lew et al. 2023 (SMC steering), Lipkin et al. 2025.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from structgen.errors import DeadEnd, GenerationError

from .conditions import Condition
from .estimators import Estimator, draw_checked
from .law import log_sum_exp, next_ids, place_of
from .prefixes import PrefixBatch
from .resampling import Resampling, effective_size, resample

if TYPE_CHECKING:
    from structgen.matcher import Matcher

__all__ = ["Checking", "Particle", "Particles"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Checking:
    """How tokens are drawn that are checked one by one; None of it: by the mask alone."""

    estimator: Estimator = "des_raj"
    probes: int = 2
    max_checks: int | None = None


@dataclass
class Particle:
    """One text so far."""

    tokens: list[int] = field(default_factory=list)
    """Without the end-of-text token."""
    log_weight: float = 0.0
    """Since the last resampling, the critic's score in it while the particle grows."""
    log_prob: float = 0.0
    end_token: int | None = None
    score: float = 0.0
    """The critic's, of the text so far."""
    checks: int = 0

    @property
    def dead(self) -> bool:
        """Has it no weight?"""
        return self.log_weight == -math.inf

    @property
    def grows(self) -> bool:
        """Will it be read further?"""
        return self.end_token is None and not self.dead

    def copy(self) -> Particle:
        """Another one, of the same text."""
        return Particle(
            list(self.tokens), self.log_weight, self.log_prob, self.end_token, self.score, self.checks
        )


class Particles:
    """`count` of them under one prompt."""

    def __init__(
        self,
        batch: PrefixBatch,
        matcher: Matcher,
        condition: Condition,
        random: np.random.Generator,
        *,
        count: int,
        checking: Checking | None = None,
        resampling: Resampling = "systematic",
        threshold: float = 0.5,
        critic: Callable[[str], float] | None = None,
        max_tokens: int = 512,
    ) -> None:
        self._batch = batch
        self._condition = condition
        self._random = random
        self._checking = checking
        self._resampling: Resampling = resampling
        self._threshold = threshold
        self._critic = critic
        self._max_tokens = max_tokens
        self._eos = frozenset(matcher.vocabulary.eos_ids)
        self._matchers = [matcher.fork() for _ in range(count)]
        self.particles = [Particle() for _ in range(count)]
        self.log_z = 0.0
        """Up to the last resampling; `total` adds the rest."""
        self.resampled = 0
        self.steps = 0

    def run(self) -> Iterator[int]:
        """Grows all of them to their ends; after each step, how many still grow."""
        if self._critic is not None:
            score = self._judge(b"")
            for particle in self.particles:
                particle.score = score
                particle.log_weight += score
        while any(particle.grows for particle in self.particles):
            self._step()
            growing = sum(particle.grows for particle in self.particles)
            if growing:
                self._resample()
            yield growing
        if all(particle.dead for particle in self.particles):
            self._refuse()

    def total(self) -> float:
        """log of the unbiased estimate of the mass of all texts, once all have ended."""
        return self.log_z + self._mean()

    # -- steps

    def _step(self) -> None:
        self.steps += 1
        growing = [i for i, particle in enumerate(self.particles) if particle.grows]
        laws = self._batch.read([tuple(self.particles[i].tokens) for i in growing])
        for i in growing:
            self._grow(self.particles[i], self._matchers[i], laws[tuple(self.particles[i].tokens)])

    def _grow(self, particle: Particle, matcher: Matcher, log_p: Array) -> None:
        ids = next_ids(matcher, at_cap=len(particle.tokens) >= self._max_tokens)
        allowed = log_p[ids].astype(np.float64)
        mass = log_sum_exp(allowed)
        if mass == -math.inf:
            particle.log_weight = -math.inf
            return
        law = allowed - mass
        place, weight = self._draw(particle, matcher, ids, law)
        particle.log_weight += min(0.0, mass) + weight - particle.score
        particle.score = 0.0
        if place is None or particle.dead:
            particle.log_weight = -math.inf
            return
        token = int(ids[place])
        particle.log_prob += float(log_p[token])
        matcher.advance(token)
        if token in self._eos:
            particle.end_token = token
            if not self._checked:
                particle.log_weight += self._condition.of_text(matcher.text)
            return
        particle.tokens.append(token)
        if self._critic is not None and not particle.dead:
            particle.score = self._judge(matcher.text)
            particle.log_weight += particle.score

    @property
    def _checked(self) -> bool:
        return self._checking is not None and bool(self._condition)

    def _draw(self, particle: Particle, matcher: Matcher, ids: Array, law: Array) -> tuple[int | None, float]:
        """Where the next token stands in `ids`, and what it weighs beside the mask."""
        if not self._checked:
            return place_of(np.cumsum(np.exp(law)), float(self._random.random())), 0.0
        assert self._checking is not None
        verdicts: dict[int, float] = {}

        def accepts(place: int) -> bool:
            verdicts[place] = self._verdict(matcher, int(ids[place]))
            return verdicts[place] > -math.inf

        drawn = draw_checked(
            law,
            accepts,
            self._random,
            estimator=self._checking.estimator,
            probes=self._checking.probes,
            max_checks=self._checking.max_checks,
        )
        particle.checks += drawn.checks
        if drawn.token is None:
            return None, -math.inf
        # What a soft potential says of a whole text is its weight.
        ended = int(ids[drawn.token]) in self._eos
        return drawn.token, drawn.log_weight + (verdicts[drawn.token] if ended else 0.0)

    def _verdict(self, matcher: Matcher, token: int) -> float:
        if token in self._eos:
            return self._condition.of_text(matcher.text)
        if not self._condition.judges_prefixes:
            return 0.0
        return self._condition.of_prefix(matcher.text + (matcher.vocabulary.token_bytes(token) or b""))

    def _judge(self, text: bytes) -> float:
        assert self._critic is not None
        try:
            score = float(self._critic(text.decode("utf-8", "ignore")))
        except Exception as error:
            raise GenerationError(
                f"the critic failed on a beginning: {type(error).__name__}: {error}",
                text=text.decode("utf-8", "replace"),
                hint="It is asked of every beginning, the empty one too, and gives a log score.",
            ) from error
        # subtle: a score of -inf could never be taken back again.
        return -1e6 if math.isnan(score) else max(-1e6, min(1e6, score))

    # -- weights

    def _mean(self) -> float:
        weights = np.array([particle.log_weight for particle in self.particles])
        return log_sum_exp(weights) - math.log(len(weights))

    def _resample(self) -> None:
        weights = np.array([particle.log_weight for particle in self.particles])
        size = effective_size(weights)
        if size == 0:
            return  # all are dead; `run` says so
        if size >= self._threshold * len(weights):
            return
        chosen = resample(weights, len(weights), self._resampling, self._random)
        self.log_z += self._mean()
        self.resampled += 1
        matchers, particles = self._matchers, self.particles
        taken: set[int] = set()
        self._matchers, self.particles = [], []
        for i in map(int, chosen):
            particle = particles[i].copy()
            particle.log_weight = 0.0
            self.particles.append(particle)
            self._matchers.append(matchers[i].fork() if i in taken else matchers[i])
            taken.add(i)

    def _refuse(self) -> None:
        text = max((matcher.text for matcher in self._matchers), key=len).decode("utf-8", "replace")
        raise DeadEnd(
            f"all {len(self.particles)} particles died by step {self.steps}; the longest had written {text[-60:]!r}",
            text=text,
            hint="Take more particles, let potentials judge beginnings (prefix=...), or raise max_tokens.",
        )
