"""Draws of each sampler: the walks, particles or chains that make them, within limits, with an account.

Invariant: the draws that are given are those of the sampler, in its order, whatever ends it; what ended it is written
down.
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
from structgen.generation.drafting import ReadingAhead
from structgen.generation.potentials import Condition
from structgen.generation.random_streams import UniformRows, uniform_stream

from .bound_trie import BoundTrie
from .metropolis_hastings import Chains
from .normalizing_constant import MassEstimate
from .particles import Particles
from .prefixes import LAWS_KEPT, PrefixBatch, PrefixReader
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

_PATIENCE = 200_000
"""Walks without a text after which exact samplers give up."""


@short_repr
@dataclass
class Draw:
    """One text and what it weighs."""

    tokens: tuple[int, ...]
    """Without the end-of-text token."""
    log_weight: float
    """Towards P(x) * 1[x in L] * exp(potentials): exact samplers give log of their estimate of its mass."""
    log_prob: float
    """log P(x), the end included."""


@dataclass
class Limits:
    """Bounds on time and work; None: none."""

    max_seconds: float | None = None
    max_calls: int | None = None
    max_attempts: int | None = None
    cancel: Callable[[], bool] | None = None


@short_repr
@dataclass
class Account:
    """What it took."""

    calls: int = 0
    """Laws of the model that were asked for, each a row that it read: the same with tokens read ahead or without."""
    passes: int = 0
    """Forward passes; fewer where tokens were read ahead."""
    checks: int = 0
    """Masks that walks made, or texts and tokens that were judged."""
    attempts: int = 0
    """Walks, or particles."""
    resampled: int = 0
    seconds: float = 0.0
    log_z: float = -math.inf
    """log of the mass of all texts (times what potentials say of them), estimated: without bias by particles, by walks
    as `masses` says; nan where the sampler cannot tell (MH)."""
    log_z_bounds: tuple[float, float] = (-math.inf, math.inf)
    """What it is between for certain, as far as the sampler knows."""
    lost: Counter[str] = field(default_factory=Counter)
    """Attempts that came to no text, by cause: "constraint" (a token that it refuses), "refused" by potentials,
    "max_tokens", "no mass", "given up" (exact samplers)."""
    stopped: str | None = None
    """The limit that ended it, if one did; "patience" after 200,000 walks without a text."""


@dataclass
class Task:
    """What is drawn from."""

    model: LanguageModel
    prompt: Sequence[int]
    matcher: TextMatcher
    condition: Condition
    temperature: float
    max_tokens: int
    seed: tuple[int, ...]
    limits: Limits
    trie: BoundTrie | None = None
    drafting: ReadingAhead | None = None
    """What proposes tokens to read ahead; not for `MH`, which comes back to what it knows."""
    account: Account = field(default_factory=Account)
    started: float = field(default_factory=time.perf_counter)
    watch: Callable[[Account], None] | None = None
    """Told of the account from time to time."""

    def tick(self) -> None:
        """Writes down the time."""
        self.account.seconds = time.perf_counter() - self.started
        if self.watch is not None:
            self.watch(self.account)

    def give(self, drawn: Draw) -> Draw:
        """The same; those who draft are told."""
        if self.drafting is not None:
            self.drafting.ended(drawn.tokens)
        return drawn

    def stops(self) -> bool:
        """Has a limit been met? It is written down then."""
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
    """`count` draws, fewer where a limit ends them."""
    if isinstance(sampler, SMC | LocalMasking | AWRS):
        return _by_particles(task, count, sampler)
    if isinstance(sampler, MH):
        return _by_chains(task, count, sampler)
    return _by_walks(task, count, sampler)


def _by_walks(task: Task, count: int, sampler: WalkSampler) -> Iterator[Draw]:
    policy = _POLICIES[type(sampler)]
    reader = PrefixReader(task.model, task.prompt, sampler.lanes, task.temperature, drafting=task.drafting)
    trie = BoundTrie() if task.trie is None else task.trie
    walks = Walks(
        reader,
        task.matcher,
        trie,
        policy,
        lanes=sampler.lanes,
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
        if given == count or task.stops():
            return False
        if trie.root is not None and trie.root.step.bound == -math.inf:
            return False  # there is no such text, under the model
        if since >= _PATIENCE:
            account.stopped = "patience"
        return since < _PATIENCE

    try:
        for walk in walks.run(goes_on):
            account.attempts += 1
            text = (*walk.tokens, walk.end_token or 0) if walk.accepted else None
            masses.add(walk.log_weight, text, walk.log_mass)
            since = 0 if walk.accepted else since + 1
            if walk.accepted:
                given += 1
                yield task.give(_draw_of(walk, policy))
                if given == count:
                    break
            else:
                account.lost[walk.lost] += 1
        goes_on()
    finally:
        # Where potentials may be above 0, what is not known is not bounded.
        is_bounded = policy != "asap" or not task.condition
        high = trie.root.step.bound if is_bounded and trie.root is not None else math.inf
        chosen = given == count
        found = masses.of_weights() if policy == "asap" else masses.of_attempts(high, chosen=chosen)
        account.log_z = min(found, high)
        account.log_z_bounds = (masses.low(), high)


def _draw_of(walk: Walk, policy: Policy) -> Draw:
    return Draw(tuple(walk.tokens), walk.log_weight if policy == "asap" else 0.0, walk.log_prob)


def _by_particles(task: Task, count: int, sampler: SMC | LocalMasking | AWRS) -> Iterator[Draw]:
    smc = sampler if isinstance(sampler, SMC) else SMC(sampler.lanes, sampler, threshold=0.0)
    proposal = _proposal(task, smc.proposal)
    account, given, run = task.account, 0, 0
    masses: list[float] = []
    failure: DeadEnd | None = None
    while given < count and not task.stops():
        most = task.limits.max_attempts
        left = math.inf if most is None else most - account.attempts
        size = smc.particles
        if not isinstance(sampler, SMC):  # these do not depend on one another
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
                if growing and task.stops():
                    return  # what has not ended has no weight, and what has would be the shorter ones
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
                yield task.give(Draw(tuple(particle.tokens), weight, particle.log_prob))
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
    reader = PrefixReader(task.model, task.prompt, sampler.lanes, task.temperature, keep=LAWS_KEPT)
    account = task.account
    account.log_z = math.nan
    limit = task.limits.max_attempts
    chains = Chains(
        reader,
        task.matcher,
        task.condition,
        proposals=sampler.proposals,
        cut=sampler.cut,
        lanes=sampler.lanes,
        max_tokens=task.max_tokens,
        stream=lambda number: uniform_stream(task.seed, number),
    )

    def goes_on() -> bool:
        account.calls, account.passes = reader.calls, reader.passes
        account.checks = task.condition.checks
        return not task.stops()

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
