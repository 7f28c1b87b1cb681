"""The samplers by name and by choice: what a user asks for; `drawing` carries it out.

    Exact()              every draw is from the conditional law (constrained adaptive rejection sampling)
    AdaptiveRejection()  the same law, learning one refused token at a time
    Rejection()          the same law, learning nothing
    ASAp()               weighted draws that tend to the conditional law
    LocalMasking()       weighted draws: each step masked and renormalised
    AWRS()               weighted draws, tokens checked one by one by potentials
    SMC()                particles with either of the last two, or with what ASAp learns, as their proposal
    MH()                 Markov chains, one for each draw, whose law tends to the conditional one

Invariant: the draws of each are properly weighted for P(x) * 1[x in L] * exp(potentials); exact ones weigh the same.
Those of `MH` do so, too, and are right in the limit of many proposals only.
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
class WalkSampler:
    """Draws by walks down a trie of what is known; `lanes` as in `Exact`."""

    lanes: int = 8

    def __post_init__(self) -> None:
        _at_least(self, "lanes", 1)


@checks_names_of_init
@dataclass(frozen=True)
class Exact(WalkSampler):
    """Every draw is from the conditional law (constrained adaptive rejection sampling).

    lanes  walks that are under way at a time, in one batch of the model. The law is the same for every number; more
           take fewer forward passes, and a few rows more, since each knows less of the others
    """


@checks_names_of_init
@dataclass(frozen=True)
class AdaptiveRejection(WalkSampler):
    """Every draw is from the conditional law; the constraint is asked token by token, never for a mask.

    lanes  as in `Exact`
    """


@checks_names_of_init
@dataclass(frozen=True)
class Rejection(WalkSampler):
    """Every draw is from the conditional law, at the cost of one over the mass of the constraint.

    lanes  as in `Exact`
    """


@checks_names_of_init
@dataclass(frozen=True)
class ASAp(WalkSampler):
    """Weighted draws whose law tends to the conditional one.

    lanes  as in `Exact`
    """


@checks_names_of_init
@dataclass(frozen=True)
class LocalMasking:
    """Weighted draws by masking each step.

    lanes  texts that grow side by side
    """

    lanes: int = 8

    def __post_init__(self) -> None:
        _at_least(self, "lanes", 1)


@checks_names_of_init
@dataclass(frozen=True)
class AWRS:
    """Adaptive weighted rejection sampling: tokens are checked one by one, by masks first and then by potentials.

    estimator   how the mass that is left is estimated: "auto" makes as many checks as the weight needs; the others are
                "des_raj", "recursive" and "geometric"
    probes      checks after the first acceptance, for the weight; of "auto" at most
    max_checks  checks for one token at most; past it the text has the weight 0
    lanes       texts that grow side by side
    """

    estimator: Estimator = "auto"
    probes: int = 4
    max_checks: int | None = None
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


@checks_names_of_init
@dataclass(frozen=True)
class SMC:
    """Sequential Monte Carlo.

    particles   of a run
    proposal    how tokens are drawn: under masks (`LocalMasking`); checked one by one (`AWRS`); or by what all
                particles have learned so far (`ASAp`), which is also what they are compared by
    resampling  how ancestors are drawn: "systematic", "stratified" or "multinomial"
    threshold   they are, where the effective sample size falls below this share of the particles
    critic      a log score of beginnings, as a guess at what potentials will say of the whole; it steers, and the
                weights make up for it
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
                hint="It is structgen.LocalMasking(), structgen.AWRS() or structgen.ASAp(); samplers that refuse whole "
                "texts are none.",
            )
        if not isinstance(self.threshold, int | float) or not 0 <= self.threshold <= 1:
            raise OptionError(f"SMC(threshold={self.threshold!r:.40}) is not a number between 0 and 1")
        if self.critic is not None and not callable(self.critic):
            raise OptionError(f"the critic of SMC is {a_kind(self.critic)}, not a function of a text")


@checks_names_of_init
@dataclass(frozen=True)
class MH:
    """Metropolis-Hastings chains by cutting texts and growing them again.

    proposals  of each chain, the first draw among them
    cut        where a text is cut: at its beginning ("restart"), anywhere ("uniform"), or rather where much could have
               been otherwise ("priority")
    lanes      chains that grow side by side
    """

    proposals: int = 10
    cut: Cut = "restart"
    lanes: int = 4

    def __post_init__(self) -> None:
        for name in ("proposals", "lanes"):
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
    """A sampler by its name, or as it is."""
    if isinstance(chosen, str) and chosen in _NAMES:
        made: Sampler = _NAMES[chosen]()
        return made
    if isinstance(chosen, type) and issubclass(chosen, Sampler):
        raise OptionError(f"the sampler is the class {chosen.__name__}", hint=f"Write {chosen.__name__}().")
    if not isinstance(chosen, Sampler):
        raise OptionError(
            f"there is no sampler {chosen!r:.60}",
            hint=f"The names are {', '.join(_NAMES)}; structgen.SMC(32) and the like say more.",
        )
    return chosen


_OPTIONAL = ("max_checks",)


def _at_least(of: Any, name: str, least: int) -> None:
    value = getattr(of, name)
    if not (value is None and name in _OPTIONAL) and (
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
