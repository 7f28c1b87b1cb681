"""The draws of each sampler, by walks, particles or chains, within limits, with an account of the work.

Invariant: the draws are those of the sampler, in its order, wherever a limit ends it. The account names that limit.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from structgen.brief import short_repr
from structgen.errors import DeadEnd
from structgen.generation.distributions import log_sum_exp
from structgen.generation.drafting import PrefixDrafting
from structgen.generation.potentials import Condition
from structgen.generation.random_streams import UniformRows, uniform_stream

from .bound_trie import BoundTrie
from .metropolis_hastings import Chains
from .normalizing_constant import MassEstimate
from .particles import Particles
from .prefixes import MAX_DISTRIBUTION_BYTES, PrefixBatch, PrefixReader
from .proposals import Checked, Learned, Masked, Proposal
from .samplers import (
    AWRS,
    MH,
    SMC,
    AdaptiveRejection,
    ASAp,
    Exact,
    LocalMasking,
    Rejection,
    Sampler,
    WalkSampler,
)
from .walks import Policy, Walk, Walks

if TYPE_CHECKING:
    from structgen.protocols import LanguageModel, TextMatcher

__all__ = ["Account", "Draw", "Limits", "Task", "draw"]

_POLICIES: dict[type, Policy] = {
    Exact: "cars",
    AdaptiveRejection: "adaptive_rejection",
    Rejection: "rejection",
    ASAp: "asap",
}

_MAX_WALKS_WITHOUT_TEXT = 200_000
"""The number of walks without a text after which exact samplers give up."""


@short_repr
@dataclass
class Draw:
    """A drawn text and its weight."""

    tokens: tuple[int, ...]
    """The tokens of the text, without the end-of-sequence token."""
    log_weight: float
    """The log weight for P(x) * 1[x in L] * exp(potentials); 0 for exact samplers."""
    log_prob: float
    """log P(x), the end-of-sequence token included."""


@dataclass
class Limits:
    """Limits of time and work; None means no limit."""

    max_seconds: float | None = None
    max_calls: int | None = None
    max_attempts: int | None = None
    cancel: Callable[[], bool] | None = None


@short_repr
@dataclass
class Account:
    """The work of a sampler, and its estimates."""

    calls: int = 0
    """Next-token distributions that were requested, each one row of a pass; the same with and without drafts."""
    passes: int = 0
    """The number of forward passes; drafts make it smaller."""
    checks: int = 0
    """Masks that walks computed, or texts and tokens that potentials judged."""
    attempts: int = 0
    """The number of walks, particles or chains."""
    resampled: int = 0
    seconds: float = 0.0
    log_z: float = -math.inf
    """The log of the estimated probability of the constraint's texts, times exp(potentials). Unbiased for particles;
    for walks see `normalizing_constant`; nan for MH, which has no estimate."""
    log_z_bounds: tuple[float, float] = (-math.inf, math.inf)
    """Bounds of the true value that hold with certainty, as far as the sampler knows."""
    lost: Counter[str] = field(default_factory=Counter)
    """Attempts without a text, by cause: "constraint" (a token that it refuses), "refused" by potentials, "max_tokens",
    "no mass" (no allowed token has probability), "given up" (exact samplers)."""
    stopped: str | None = None
    """The limit that ended the sampler, if one did; "patience" after 200,000 walks without a text."""


@dataclass
class Task:
    """One call of a sampler: what it draws from, and the work so far."""

    model: LanguageModel
    prompt: Sequence[int]
    matcher: TextMatcher
    condition: Condition
    temperature: float
    max_tokens: int
    seed: tuple[int, ...]
    limits: Limits
    trie: BoundTrie | None = None
    drafting: PrefixDrafting | None = None
    """Proposes draft tokens; not for `MH`, which caches distributions."""
    account: Account = field(default_factory=Account)
    started: float = field(default_factory=time.perf_counter)
    watch: Callable[[Account], None] | None = None
    """Called with the account from time to time."""

    def tick(self) -> None:
        """Update the time of the account."""
        self.account.seconds = time.perf_counter() - self.started
        if self.watch is not None:
            self.watch(self.account)

    def report(self, drawn: Draw) -> Draw:
        """Return the draw, after reporting it to the drafters."""
        if self.drafting is not None:
            self.drafting.on_end(drawn.tokens)
        return drawn

    def limit_reached(self) -> bool:
        """Return whether a limit has been met; if so, note it in the account."""
        account, limits = self.account, self.limits
        self.tick()
        met = {
            "max_seconds": limits.max_seconds is not None and account.seconds >= limits.max_seconds,
            "max_calls": limits.max_calls is not None and account.calls >= limits.max_calls,
            "max_attempts": limits.max_attempts is not None and account.attempts >= limits.max_attempts,
            "cancel": limits.cancel is not None and limits.cancel(),
        }
        account.stopped = next((name for name, is_met in met.items() if is_met), None)
        return account.stopped is not None


def draw(task: Task, count: int, sampler: Sampler) -> Iterator[Draw]:
    """Yield `count` draws; fewer if a limit ends the sampler."""
    if isinstance(sampler, SMC | LocalMasking | AWRS):
        return _by_particles(task, count, sampler)
    if isinstance(sampler, MH):
        return _by_chains(task, count, sampler)
    return _by_walks(task, count, sampler)


def _by_walks(task: Task, count: int, sampler: WalkSampler) -> Iterator[Draw]:
    policy = _POLICIES[type(sampler)]
    reader = PrefixReader(task.model, task.prompt, sampler.parallel, task.temperature, drafting=task.drafting)
    trie = BoundTrie() if task.trie is None else task.trie
    walks = Walks(
        reader,
        task.matcher,
        trie,
        policy,
        parallel=sampler.parallel,
        max_tokens=task.max_tokens,
        max_walks=task.limits.max_attempts,
        condition=task.condition,
        uniforms=UniformRows(task.seed),
    )
    account, given = task.account, 0
    calls, passes = account.calls, account.passes
    masses = MassEstimate()
    since = 0  # walks since the last text

    def goes_on() -> bool:
        account.calls, account.passes = calls + reader.calls, passes + reader.passes
        account.checks = walks.checks + task.condition.checks
        task.tick()
        if given == count or task.limit_reached():
            return False
        if trie.root is not None and trie.root.step.bound == -math.inf:
            return False  # the model gives no text of the constraint any probability
        if since >= _MAX_WALKS_WITHOUT_TEXT:
            account.stopped = "patience"
        return since < _MAX_WALKS_WITHOUT_TEXT

    try:
        for walk in walks.run(goes_on):
            account.attempts += 1
            text = (*walk.tokens, walk.end_token or 0) if walk.accepted else None
            masses.add(walk.log_weight, text, walk.log_mass)
            since = 0 if walk.accepted else since + 1
            if walk.accepted:
                given += 1
                yield task.report(_draw_of(walk, policy))
                if given == count:
                    break
            else:
                account.lost[walk.lost] += 1
        goes_on()
    finally:
        # With potentials above 0, nothing bounds what is not known.
        is_bounded = policy != "asap" or not task.condition
        high = trie.root.step.bound if is_bounded and trie.root is not None else math.inf
        chosen = given == count
        estimate = masses.of_weights() if policy == "asap" else masses.of_attempts(high, chosen=chosen)
        account.log_z = min(estimate, high)
        account.log_z_bounds = (masses.low(), high)


def _draw_of(walk: Walk, policy: Policy) -> Draw:
    return Draw(tuple(walk.tokens), walk.log_weight if policy == "asap" else 0.0, walk.log_prob)


def _by_particles(task: Task, count: int, sampler: SMC | LocalMasking | AWRS) -> Iterator[Draw]:
    smc = sampler if isinstance(sampler, SMC) else SMC(sampler.parallel, sampler, threshold=0.0)
    proposal = _proposal(task, smc.proposal)
    account, given, run = task.account, 0, 0
    masses: list[float] = []
    failure: DeadEnd | None = None
    while given < count and not task.limit_reached():
        most = task.limits.max_attempts
        left = math.inf if most is None else most - account.attempts
        size = smc.particles
        if not isinstance(sampler, SMC):  # these particles are independent of one another
            size = int(min(size, count - given, left))
        if size > left:
            account.stopped = "max_attempts"
            break
        batch = PrefixBatch(task.model, task.prompt, task.temperature, task.drafting)
        particles = Particles(
            batch,
            task.matcher,
            task.condition,
            uniform_stream(task.seed, run),
            count=size,
            proposal=proposal,
            resampling=smc.resampling,
            threshold=smc.threshold,
            critic=smc.critic,
            max_tokens=task.max_tokens,
        )
        run += 1
        calls, passes = account.calls, account.passes
        try:
            for growing in particles.run():
                account.calls, account.passes = calls + batch.calls, passes + batch.passes
                account.checks = task.condition.checks
                if growing and task.limit_reached():
                    return  # unfinished particles have no weight, and the finished ones would be the shorter texts
        except DeadEnd as error:
            account.calls, account.passes = calls + batch.calls, passes + batch.passes
            account.checks = task.condition.checks
            failure = error
        account.attempts += size
        account.resampled += particles.resampled
        account.lost.update(particle.lost for particle in particles.particles if particle.dead)
        masses.append(particles.total() + math.log(size))
        account.log_z = log_sum_exp(np.array(masses)) - math.log(account.attempts)
        for particle in particles.particles:
            given += 1
            if not particle.dead:
                weight = particles.log_z + particle.log_weight
                yield task.report(Draw(tuple(particle.tokens), weight, particle.log_prob))
        if isinstance(proposal, Learned) and proposal.trie.memory > proposal.trie.limit:
            proposal.trie.trim()
    if account.log_z == -math.inf and failure is not None:
        raise failure
    task.tick()
    if given >= count:
        account.stopped = None


def _proposal(task: Task, chosen: LocalMasking | AWRS | ASAp) -> Proposal:
    if isinstance(chosen, ASAp):
        return Learned()
    if isinstance(chosen, AWRS) and task.condition:
        return Checked(task.condition, chosen.estimator, chosen.probes, chosen.max_checks)
    return Masked()


def _by_chains(task: Task, count: int, sampler: MH) -> Iterator[Draw]:
    reader = PrefixReader(
        task.model, task.prompt, sampler.parallel, task.temperature, keep=MAX_DISTRIBUTION_BYTES
    )
    account = task.account
    account.log_z = math.nan
    limit = task.limits.max_attempts
    chains = Chains(
        reader,
        task.matcher,
        task.condition,
        proposals=sampler.proposals,
        cut=sampler.cut,
        parallel=sampler.parallel,
        max_tokens=task.max_tokens,
        stream=lambda number: uniform_stream(task.seed, number),
    )

    def goes_on() -> bool:
        account.calls, account.passes = reader.calls, reader.passes
        account.checks = task.condition.checks
        return not task.limit_reached()

    for text in chains.run(count if limit is None else min(count, limit), goes_on):
        account.attempts += 1
        if text.log_weight > -math.inf:
            yield Draw(tuple(text.tokens), 0.0, text.log_prob)
            continue
        account.lost[text.lost] += 1
        if account.lost.total() == account.attempts:
            break
    goes_on()
    if account.attempts >= count:
        account.stopped = None
