"""The samplers, as the values of ``sampler=`` by name or by instance; `drawing` runs them.

    Exact()              every draw is from the conditional distribution (constrained adaptive rejection sampling)
    AdaptiveRejection()  the same distribution, learning one refused token at a time
    Rejection()          the same distribution, learning nothing
    ASAp()               weighted draws; the unweighted distribution converges to the conditional one
    LocalMasking()       weighted draws: each step masked and renormalised
    AWRS()               weighted draws; potentials test tokens one by one
    SMC()                particles with either of the last two, or with what ASAp learns, as their proposal
    MH()                 Markov chains, one for each draw, whose distribution converges to the conditional one

Invariant: the draws of each are properly weighted for P(x) * 1[x in L] * exp(potentials); draws of exact
samplers and of `MH` have equal weights. Those of `MH` are right only in the limit of many proposals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from structgen.argument_names import checks_names_of_init
from structgen.errors import OptionError, a_kind

from .metropolis_hastings import CUTS, Cut
from .resampling import RESAMPLING, Resampling
from .token_estimators import ESTIMATORS, Estimator

__all__ = [
    "AWRS",
    "MH",
    "SMC",
    "ASAp",
    "AdaptiveRejection",
    "Exact",
    "LocalMasking",
    "Rejection",
    "Sampler",
    "WalkSampler",
    "sampler_of",
]


@dataclass(frozen=True)
class _ParallelSampler:
    """A sampler of texts that advance together in one batch of the model."""

    parallel: int = 8

    def __post_init__(self) -> None:
        _at_least(self, "parallel", 1)


class WalkSampler(_ParallelSampler):
    """A sampler that walks down a trie of bounds (`walks`).

    Args:
        parallel: The number of walks that advance in one batch of the model.
    """


@checks_names_of_init
@dataclass(frozen=True)
class Exact(WalkSampler):
    """Exact draws from the conditional distribution, by constrained adaptive rejection sampling.

    Some attempts are given up and give no draw; there are fewer of them as the sampler learns. The log weights of
    potentials must be at most 0.

    Args:
        parallel: The number of walks that advance in one batch of the model. The distribution is the same for every
            number. More walks need fewer forward passes, and a few more rows, since each knows less of the others.
    """


@checks_names_of_init
@dataclass(frozen=True)
class AdaptiveRejection(WalkSampler):
    """Exact draws; the constraint only accepts or refuses tokens, one at a time, and computes no masks.

    Args:
        parallel: As in `Exact`.
    """


@checks_names_of_init
@dataclass(frozen=True)
class Rejection(WalkSampler):
    """Exact draws without learning, at a cost of 1 / (probability of the constraint) attempts.

    Args:
        parallel: As in `Exact`.
    """


@checks_names_of_init
@dataclass(frozen=True)
class ASAp(WalkSampler):
    """Weighted draws, whose unweighted distribution converges to the conditional one (Park et al., 2024).

    Args:
        parallel: As in `Exact`.
    """


@checks_names_of_init
@dataclass(frozen=True)
class LocalMasking(_ParallelSampler):
    """Weighted draws: at each step the model's distribution is masked and normalised again.

    Unweighted, the draws do not follow the conditional distribution: texts whose masks allowed little probability come
    too often. The log weight of a draw, the log of the allowed probability summed over its steps, corrects for this.

    Args:
        parallel: The number of texts that grow in one batch of the model.
    """


@checks_names_of_init
@dataclass(frozen=True)
class AWRS:
    """Adaptive weighted rejection sampling: potentials test tokens one by one, under masks (Lipkin et al., 2025).

    Args:
        estimator: How the accepted probability is estimated: "auto" makes as many tests as the weight needs; the others
            are "des_raj", "recursive" and "geometric" (see `token_estimators`).
        probes: Tests after the first acceptance, for the weight; an upper bound for "auto".
        max_checks: The largest number of tests for one token, after which the text has weight 0; None for no limit.
        parallel: The number of texts that grow in one batch of the model.
    """

    estimator: Estimator = "auto"
    probes: int = 4
    max_checks: int | None = None
    parallel: int = 8

    def __post_init__(self) -> None:
        _one_of(self, "estimator", ESTIMATORS)
        for name in ("probes", "parallel", "max_checks"):
            _at_least(self, name, 1)
        if self.estimator == "geometric" and self.max_checks is not None:
            raise OptionError(
                "AWRS(estimator='geometric') takes no max_checks: its weights would be wrong",
                hint="Use 'des_raj' or 'recursive'.",
            )


@checks_names_of_init
@dataclass(frozen=True)
class SMC:
    """Sequential Monte Carlo (Lew et al., 2023).

    Args:
        particles: The number of particles of a run.
        proposal: How tokens are drawn: under masks (`LocalMasking`); tested one by one (`AWRS`); or by what all
            particles have learned so far (`ASAp`), which also steers resampling.
        resampling: How ancestors are drawn: "systematic", "stratified" or "multinomial".
        threshold: Particles are resampled if the effective sample size falls below this fraction of them.
        critic: Returns a log score of a prefix, an estimate of the potentials of the whole text. It steers, and the
            weights correct for it.
    """

    particles: int = 16
    proposal: LocalMasking | AWRS | ASAp = field(default_factory=LocalMasking)
    resampling: Resampling = "systematic"
    threshold: float = 0.5
    critic: Callable[[str], float] | None = None

    def __post_init__(self) -> None:
        _at_least(self, "particles", 1)
        _one_of(self, "resampling", RESAMPLING)
        if not isinstance(self.proposal, LocalMasking | AWRS | ASAp):
            raise OptionError(
                f"the proposal of SMC is {a_kind(self.proposal)}",
                hint="Use LocalMasking(), AWRS() or ASAp() of structgen.inference; samplers that reject whole texts "
                "cannot propose tokens.",
            )
        if not isinstance(self.threshold, int | float) or not 0 <= self.threshold <= 1:
            raise OptionError(f"SMC(threshold={self.threshold!r:.40}) is not a number between 0 and 1")
        if self.critic is not None and not callable(self.critic):
            raise OptionError(f"the critic of SMC is {a_kind(self.critic)}, not a function of a text")


@checks_names_of_init
@dataclass(frozen=True)
class MH:
    """Metropolis-Hastings chains, which cut texts and grow them again (Gonzalez et al., 2025).

    Args:
        proposals: The number of proposals of each chain, its first draw included.
        cut: Where a text is cut: at its start ("restart"), anywhere ("uniform"), or preferably where the masked
            distribution has a high entropy ("priority").
        parallel: The number of chains that advance in one batch of the model.
    """

    proposals: int = 10
    cut: Cut = "restart"
    parallel: int = 4

    def __post_init__(self) -> None:
        for name in ("proposals", "parallel"):
            _at_least(self, name, 1)
        _one_of(self, "cut", CUTS)


Sampler = Exact | AdaptiveRejection | Rejection | ASAp | LocalMasking | AWRS | SMC | MH

_NAMES: dict[str, type[Any]] = {
    "exact": Exact,
    "cars": Exact,
    "adaptive_rejection": AdaptiveRejection,
    "rejection": Rejection,
    "asap": ASAp,
    "local": LocalMasking,
    "masking": LocalMasking,
    "awrs": AWRS,
    "smc": SMC,
    "mh": MH,
}


def sampler_of(chosen: str | Sampler) -> Sampler:
    """Return a sampler by its name, or as it is; raise `OptionError` for anything else."""
    if isinstance(chosen, str) and chosen in _NAMES:
        made: Sampler = _NAMES[chosen]()
        return made
    if isinstance(chosen, type) and issubclass(chosen, Sampler):
        raise OptionError(f"the sampler is the class {chosen.__name__}", hint=f"Write {chosen.__name__}().")
    if not isinstance(chosen, Sampler):
        raise OptionError(
            f"there is no sampler {chosen!r:.60}",
            hint=f"The names are {', '.join(_NAMES)}; structgen.inference.SMC(32) and the like have options.",
        )
    return chosen


_OPTIONAL = ("max_checks",)


def _at_least(of: object, name: str, least: int) -> None:
    value = getattr(of, name)
    if not (value is None and name in _OPTIONAL) and (
        not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least
    ):
        raise OptionError(
            f"{type(of).__name__}({name}={value!r:.40}): {name} must be a whole number of {least} or more"
        )


def _one_of(of: object, name: str, allowed: Sequence[str]) -> None:
    value = getattr(of, name)
    if value not in allowed:
        raise OptionError(
            f"{type(of).__name__}({name}={value!r:.40}): {name} has no such value",
            hint=f"Use one of {', '.join(allowed)}.",
        )
