"""Draws one token under a predicate, with an estimate of the probability that the predicate accepts.

Why: a type checker or a simulator cannot list which of 100,000 tokens it accepts, it only tests one at a time.
What: tokens are tested in the order of sampling without replacement until one is accepted, which is then a draw from p
given acceptance. A few more tests, the *probes*, estimate Z, the accepted probability. Estimate and token belong
together: for every accepted token x, E[weight * 1(x is drawn)] = p(x) (they are *properly weighted*).

    recursive   (1 - rejected mass) times 1 if the next probe is accepted, and q_x if not, q_x = p(x) / (1 - rejected)
    geometric   restores the repeats that drawing with replacement would have shown: before a token is seen for the
                first time, Geometric(1 - seen mass) - 1 draws of what was seen; the weight is
                (accepted - 1) / (draws - 1) at the k-th acceptance
    des_raj     with A and S the accepted and the seen mass, each probe gives t = A + (1 - S) if it is accepted and A if
                not, whose mean is Z given what was seen before; the average of k of them

    auto        des_raj, with a number of probes that is chosen when the first token is accepted. The deviation of one
                probe is at most half of the unseen mass, at a mean of about A + (1 - S) / 2. As many probes follow as
                reduce the relative deviation to a tenth: at least one, at most `probes`

Once all mass has been seen, A is Z itself, and t is A.
The budget: after `max_checks` tests without an acceptance the weight is 0. A token that the very last test accepts has
the weight 1 - (rejected mass), which makes up for the losses, so the estimate stays unbiased. ``geometric`` has no such
rule and takes no budget.
Cost: one test for each probe, and one pass over the vocabulary.
Source: Lipkin et al. 2025 (AWRS); Des Raj 1956.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from structgen.errors import OptionError
from structgen.generation.distributions import sample_index

__all__ = ["ESTIMATORS", "Drawn", "Estimator", "draw_checked"]

Array = NDArray[Any]
Estimator = Literal["auto", "des_raj", "recursive", "geometric"]
ESTIMATORS = ("auto", "des_raj", "recursive", "geometric")

_ROUNDING = 1e-12
"""A total below which only rounding is left."""
_TARGET_DEVIATION = 0.1
"""The relative deviation at which `auto` stops."""
_MAX_REPEATS = 4
"""The number of repeats after which seen tokens are removed from the distribution, by a new cumulative sum."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A drawn token and its weight; no token if none was accepted."""

    token: int | None
    log_weight: float
    checks: int
    low: float
    """A lower bound of the accepted probability, by what was tested."""
    high: float
    """An upper bound of it."""


class _Probes:
    """Draws tokens without replacement and sums up the accepted and the rejected mass."""

    def __init__(self, log_p: Array, accepts: Callable[[int], bool], random: np.random.Generator) -> None:
        masses = np.exp(log_p, dtype=np.float64)
        self._masses = masses / masses.sum()
        self._accepts = accepts
        self._random = random
        self._cumulative = np.cumsum(self._masses)
        self._seen: set[int] = set()
        self._left = int(np.count_nonzero(self._masses))
        self.accepted = 0.0
        self.rejected = 0.0
        self.checks = 0

    @property
    def seen(self) -> float:
        return self.accepted + self.rejected

    @property
    def exhausted(self) -> bool:
        return self._left == 0 or 1 - self.seen < _ROUNDING

    def next(self) -> tuple[int, float, bool]:
        """Draw a new token; return it, its probability, and whether it is accepted."""
        token = self._unseen()
        mass = float(self._masses[token])
        self._seen.add(token)
        self._left -= 1
        self.checks += 1
        taken = self._accepts(token)
        if taken:
            self.accepted += mass
        else:
            self.rejected += mass
        return token, mass, taken

    def _unseen(self) -> int:
        # subtle: skipping the repeats of independent draws is drawing without replacement.
        for _ in range(_MAX_REPEATS):
            token = self._draw()
            if token not in self._seen:
                return token
        left = self._masses.copy()
        left[list(self._seen)] = 0
        self._cumulative = np.cumsum(left)
        return self._draw()

    def _draw(self) -> int:
        return sample_index(self._cumulative, float(self._random.random()))


def draw_checked(
    log_p: Array,
    accepts: Callable[[int], bool],
    random: np.random.Generator,
    *,
    estimator: Estimator = "des_raj",
    probes: int = 2,
    max_checks: int | None = None,
) -> Drawn:
    """Draw a token that `accepts` accepts.

    Args:
        log_p: Log probabilities, ``[vocabulary.size]``, normalised.
        accepts: The predicate, called with indices of `log_p`.
        random: The generator.
        estimator: How the accepted probability is estimated; see the module.
        probes: Tests after the first acceptance: acceptances for "geometric", always one for "recursive", at most this
            many for "auto".
        max_checks: The largest number of tests.

    Raises:
        OptionError: The estimator is unknown, or takes no budget.
    """
    if estimator not in ESTIMATORS:
        raise OptionError(f"unknown estimator {estimator!r}", hint=f"Use one of {', '.join(ESTIMATORS)}.")
    if estimator == "geometric" and max_checks is not None:
        raise OptionError(
            "the estimator 'geometric' takes no max_checks: its weights would be wrong",
            hint="Use 'des_raj' or 'recursive'.",
        )
    seen = _Probes(log_p, accepts, random)
    waits: list[float] = []  # the mass seen before each rejected token
    while True:
        if seen.exhausted or (max_checks is not None and seen.checks >= max_checks):
            high = 0.0 if seen.exhausted else 1 - seen.seen
            return Drawn(None, -math.inf, seen.checks, 0.0, high)
        before = seen.seen
        token, mass, taken = seen.next()
        if taken:
            break
        waits.append(before)
    room = None if max_checks is None else max_checks - seen.checks
    if estimator == "geometric":
        weight = _geometric(seen, [*waits, before], probes + 1, random)
    elif room == 0:
        weight = 1 - before
    elif estimator == "recursive":
        weight = _recursive(seen, before, mass)
    else:
        wanted = _enough_probes(seen, probes) if estimator == "auto" else probes
        weight = _des_raj(seen, wanted if room is None else min(wanted, room))
    log_weight = math.log(weight) if weight > 0 else -math.inf
    high = seen.accepted if seen.exhausted else min(1.0, 1 - seen.rejected)
    return Drawn(token, log_weight, seen.checks, seen.accepted, high)


def _recursive(seen: _Probes, rejected: float, mass: float) -> float:
    if seen.exhausted:
        return mass
    _, _, taken = seen.next()
    return 1 - rejected if taken else mass


def _enough_probes(seen: _Probes, most: int) -> int:
    unseen = max(0.0, 1 - seen.seen)
    deviation = unseen / (2 * seen.accepted + unseen)
    return max(1, min(most, math.ceil((deviation / _TARGET_DEVIATION) ** 2)))


def _des_raj(seen: _Probes, probes: int) -> float:
    total = 0.0
    for i in range(probes):
        if seen.exhausted:
            return total / probes + seen.accepted * (probes - i) / probes
        accepted, unseen = seen.accepted, 1 - seen.seen
        _, _, taken = seen.next()
        total += accepted + unseen if taken else accepted
    return total / probes if probes else seen.accepted


def _geometric(seen: _Probes, waits: list[float], wanted: int, random: np.random.Generator) -> float:
    """Return the weight; `waits` are the masses seen before each new token, up to the first acceptance."""
    # Until then, all repeats are of rejected tokens.
    rejected = len(waits) - 1 + sum(int(random.geometric(1 - mass)) - 1 for mass in waits)
    accepted = 1
    while accepted < wanted:
        if seen.exhausted:
            rejected += int(random.negative_binomial(wanted - accepted, min(1.0, seen.accepted)))
            accepted = wanted
            break
        repeats = int(random.geometric(1 - seen.seen)) - 1
        good, bad = _repeated(repeats, seen.accepted / seen.seen, wanted - accepted, random)
        accepted, rejected = accepted + good, rejected + bad
        if accepted < wanted:
            _, _, taken = seen.next()
            accepted += taken
            rejected += not taken
    return (accepted - 1) / (accepted + rejected - 1)


def _repeated(count: int, share: float, wanted: int, random: np.random.Generator) -> tuple[int, int]:
    """Simulate up to `count` draws, each accepted with probability `share`, until the `wanted`-th acceptance.

    Returns:
        The numbers of accepted and of rejected draws. The time does not depend on `count`.
    """
    if share < 1e-15:  # practically 0; numpy cannot handle smaller ones
        return 0, count
    if share >= 1:
        return min(wanted, count), 0
    rejections = int(random.negative_binomial(wanted, share))
    if rejections + wanted <= count:
        return wanted, rejections
    # Given that there are fewer acceptances, their number is binomial, truncated at `wanted`.
    few = np.arange(min(wanted, count + 1))
    log_masses = np.array([_log_binomial(count, int(k)) for k in few]) + few * math.log(share)
    log_masses += (count - few) * math.log1p(-share)
    accepted = sample_index(np.cumsum(np.exp(log_masses - log_masses.max())), float(random.random()))
    return accepted, count - accepted


def _log_binomial(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
