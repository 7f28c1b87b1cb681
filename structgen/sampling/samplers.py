"""The samplers by name and by choice: what a user asks for, and what carries it out.

    Exact()              every draw is from the conditional law (constrained adaptive rejection sampling)
    AdaptiveRejection()  the same law, learning one refused token at a time
    Rejection()          the same law, learning nothing
    ASAp()               weighted draws that tend to the conditional law
    LocalMasking()       weighted draws: each step masked and renormalised
    AWRS()               weighted draws, tokens checked one by one by potentials
    SMC()                particles with either of the last two as their proposal
    MH()                 Markov chains, one for each draw, whose law tends to the conditional one

Invariant: the draws of each are properly weighted for P(x) * 1[x in L] * exp(potentials); exact ones weigh the same.
Those of `MH` do so, too, and are right in the limit of many proposals only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from structgen.errors import DeadEnd, OptionError, a_kind

from .bounds import BoundTrie
from .chains import CUTS, Chains, Cut
from .conditions import Condition
from .estimators import ESTIMATORS, Estimator
from .law import log_sum_exp
from .options import uniform_stream
from .particles import Checking, Particles
from .prefixes import PrefixBatch, PrefixReader
from .resampling import RESAMPLING, Resampling
from .walks import Policy, Walk, Walks

if TYPE_CHECKING:
    from structgen.matcher import Matcher
    from structgen.models.base import LanguageModel

__all__ = [
    "AWRS",
    "MH",
    "SMC",
    "ASAp",
    "Account",
    "AdaptiveRejection",
    "Draw",
    "Exact",
    "Limits",
    "LocalMasking",
    "Rejection",
    "Sampler",
    "Task",
    "draw",
    "sampler_of",
]


@dataclass(frozen=True)
class _OfWalks:
    lanes: int = 1
    """Walks that are under way at a time, in one batch of the model."""

    def __post_init__(self) -> None:
        _at_least(self, "lanes", 1)


@dataclass(frozen=True)
class Exact(_OfWalks):
    """Every draw is from the conditional law."""


@dataclass(frozen=True)
class AdaptiveRejection(_OfWalks):
    """Every draw is from the conditional law; the constraint is asked token by token, never for a mask."""


@dataclass(frozen=True)
class Rejection(_OfWalks):
    """Every draw is from the conditional law, at the cost of one over the mass of the constraint."""


@dataclass(frozen=True)
class ASAp(_OfWalks):
    """Weighted draws whose law tends to the conditional one."""


@dataclass(frozen=True)
class LocalMasking:
    """Weighted draws by masking each step."""

    lanes: int = 8
    """Texts that grow side by side."""

    def __post_init__(self) -> None:
        _at_least(self, "lanes", 1)


@dataclass(frozen=True)
class AWRS:
    """Adaptive weighted rejection sampling: tokens are checked one by one, by masks first and then by potentials."""

    estimator: Estimator = "des_raj"
    probes: int = 2
    """Checks after the first acceptance, for the weight."""
    max_checks: int | None = None
    """Checks for one token at most; past it the text has the weight 0."""
    lanes: int = 8

    def __post_init__(self) -> None:
        _one_of(self, "estimator", ESTIMATORS)
        for name in ("probes", "lanes", "max_checks"):
            _at_least(self, name, 1)
        if self.estimator == "geometric" and self.max_checks is not None:
            raise OptionError(
                "AWRS(estimator='geometric') takes no max_checks: its weights would be wrong",
                hint="Use 'des_raj' or 'recursive'.",
            )


@dataclass(frozen=True)
class SMC:
    """Sequential Monte Carlo."""

    particles: int = 16
    proposal: LocalMasking | AWRS = field(default_factory=LocalMasking)
    resampling: Resampling = "systematic"
    threshold: float = 0.5
    """Resample where the effective sample size falls below this share of the particles."""
    critic: Callable[[str], float] | None = None
    """A log score of beginnings that steers; it leaves no trace in the weights."""

    def __post_init__(self) -> None:
        _at_least(self, "particles", 1)
        _one_of(self, "resampling", RESAMPLING)
        if not isinstance(self.proposal, LocalMasking | AWRS):
            raise OptionError(
                f"the proposal of SMC is {a_kind(self.proposal)}",
                hint="It is structgen.LocalMasking() or structgen.AWRS().",
            )
        if not 0 <= self.threshold <= 1:
            raise OptionError(f"SMC(threshold={self.threshold!r}) is not between 0 and 1")
        if self.critic is not None and not callable(self.critic):
            raise OptionError(f"the critic of SMC is {a_kind(self.critic)}, not a function of a text")


@dataclass(frozen=True)
class MH:
    """Metropolis-Hastings chains by cutting texts and growing them again."""

    proposals: int = 10
    """Of each chain, the first draw among them."""
    cut: Cut = "restart"
    lanes: int = 4
    """Chains that grow side by side."""

    def __post_init__(self) -> None:
        for name in ("proposals", "lanes"):
            _at_least(self, name, 1)
        _one_of(self, "cut", CUTS)


_PATIENCE = 200_000
"""Walks without a text after which exact samplers give up."""

Sampler = Exact | AdaptiveRejection | Rejection | ASAp | LocalMasking | AWRS | SMC | MH

_POLICIES: dict[type, Policy] = {
    Exact: "cars",
    AdaptiveRejection: "adaptive_rejection",
    Rejection: "rejection",
    ASAp: "asap",
}
_NAMES: dict[str, type[Any]] = {
    "exact": Exact,
    "cars": Exact,
    "adaptive_rejection": AdaptiveRejection,
    "rejection": Rejection,
    "asap": ASAp,
    "local": LocalMasking,
    "awrs": AWRS,
    "smc": SMC,
    "mh": MH,
}


def sampler_of(chosen: str | Sampler) -> Sampler:
    """A sampler by its name, or as it is."""
    if isinstance(chosen, str) and chosen in _NAMES:
        made: Sampler = _NAMES[chosen]()
        return made
    if not isinstance(chosen, Sampler):
        raise OptionError(
            f"there is no sampler {chosen!r:.60}",
            hint=f"The names are {', '.join(_NAMES)}; structgen.SMC(32) and the like say more.",
        )
    return chosen


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


@dataclass
class Account:
    """What it took."""

    calls: int = 0
    """Rows that the model read."""
    passes: int = 0
    """Forward passes."""
    checks: int = 0
    """Masks that walks made, or texts and tokens that were judged."""
    attempts: int = 0
    """Walks, or particles."""
    resampled: int = 0
    seconds: float = 0.0
    log_z: float = -math.inf
    """An unbiased estimate (its log) of the mass of all texts."""
    stopped: str | None = None
    """The limit that ended it, if one did."""


@dataclass
class Task:
    """What is drawn from."""

    model: LanguageModel
    prompt: Sequence[int]
    matcher: Matcher
    condition: Condition
    temperature: float
    max_tokens: int
    seed: tuple[int, ...]
    limits: Limits
    trie: BoundTrie | None = None
    account: Account = field(default_factory=Account)
    started: float = field(default_factory=time.perf_counter)

    def stops(self) -> bool:
        """Has a limit been met? It is written down then."""
        account, limits = self.account, self.limits
        account.seconds = time.perf_counter() - self.started
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


def _by_walks(task: Task, count: int, sampler: _OfWalks) -> Iterator[Draw]:
    policy = _POLICIES[type(sampler)]
    reader = PrefixReader(task.model, task.prompt, sampler.lanes, task.temperature)
    walks = Walks(
        reader,
        task.matcher,
        BoundTrie() if task.trie is None else task.trie,
        policy,
        lanes=sampler.lanes,
        max_tokens=task.max_tokens,
        condition=task.condition,
        stream=lambda number: uniform_stream(task.seed, number),
    )
    account, given = task.account, 0
    calls, passes = account.calls, account.passes
    masses: list[float] = []

    trie = walks.trie
    since = 0  # walks since the last text

    def goes_on() -> bool:
        account.calls, account.passes = calls + reader.calls, passes + reader.passes
        account.checks = walks.checks + task.condition.checks
        if given == count or task.stops():
            return False
        if trie.root is not None and trie.root.bound == -math.inf:
            return False  # there is no such text, under the model
        if since >= _PATIENCE:
            account.stopped = "max_attempts"
        return since < _PATIENCE

    for walk in walks.run(goes_on):
        account.attempts += 1
        masses.append(walk.log_weight if walk.accepted else -math.inf)
        account.log_z = log_sum_exp(np.array(masses)) - math.log(len(masses))
        since = 0 if walk.accepted else since + 1
        if walk.accepted:
            given += 1
            yield _draw_of(walk, policy)
            if given == count:
                break
    goes_on()


def _draw_of(walk: Walk, policy: Policy) -> Draw:
    return Draw(tuple(walk.tokens), walk.log_weight if policy == "asap" else 0.0, walk.log_prob)


def _by_particles(task: Task, count: int, sampler: SMC | LocalMasking | AWRS) -> Iterator[Draw]:
    smc = sampler if isinstance(sampler, SMC) else SMC(sampler.lanes, sampler, threshold=0.0)
    checked = smc.proposal if isinstance(smc.proposal, AWRS) else None
    checking = None
    if checked is not None:
        checking = Checking(checked.estimator, checked.probes, checked.max_checks)
    account, given, run = task.account, 0, 0
    masses: list[float] = []
    failure: DeadEnd | None = None
    while given < count and not task.stops():
        size = smc.particles if isinstance(sampler, SMC) else min(smc.particles, count - given)
        batch = PrefixBatch(task.model, task.prompt, task.temperature)
        particles = Particles(
            batch,
            task.matcher,
            task.condition,
            uniform_stream(task.seed, run),
            count=size,
            checking=checking,
            resampling=smc.resampling,
            threshold=smc.threshold,
            critic=smc.critic,
            max_tokens=task.max_tokens,
        )
        run += 1
        calls, passes = account.calls, account.passes
        try:
            for _ in particles.run():
                account.calls, account.passes = calls + batch.calls, passes + batch.passes
                account.checks = task.condition.checks
                if task.stops():
                    return  # what has not ended has no weight, and what has would be the shorter ones
        except DeadEnd as error:
            failure = error
        account.attempts += size
        account.resampled += particles.resampled
        masses.append(particles.total() + math.log(size))
        account.log_z = log_sum_exp(np.array(masses)) - math.log(account.attempts)
        for particle in particles.particles:
            given += 1
            if not particle.dead:
                weight = particles.log_z + particle.log_weight
                yield Draw(tuple(particle.tokens), weight, particle.log_prob)
    if account.log_z == -math.inf and failure is not None:
        raise failure
    task.stops()
    if given >= count:
        account.stopped = None


_LAWS_KEPT = 64 << 20


def _by_chains(task: Task, count: int, sampler: MH) -> Iterator[Draw]:
    reader = PrefixReader(task.model, task.prompt, sampler.lanes, task.temperature, keep=_LAWS_KEPT)
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
    account = task.account

    def goes_on() -> bool:
        account.calls, account.passes = reader.calls, reader.passes
        account.checks = task.condition.checks
        return not task.stops()

    for text in chains.run(count, goes_on):
        account.attempts += 1
        if text.log_weight > -math.inf:
            yield Draw(tuple(text.tokens), 0.0, text.log_prob)
    goes_on()
    if account.attempts >= count:
        account.stopped = None


def _at_least(of: Any, name: str, least: int) -> None:
    value = getattr(of, name)
    if value is not None and (
        not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least
    ):
        raise OptionError(f"{type(of).__name__}({name}={value!r:.40}) is no whole number of {least} or more")


def _one_of(of: Any, name: str, allowed: Sequence[str]) -> None:
    value = getattr(of, name)
    if value not in allowed:
        raise OptionError(
            f"{type(of).__name__}({name}={value!r:.40}) is not known",
            hint=f"It is one of {', '.join(allowed)}.",
        )
