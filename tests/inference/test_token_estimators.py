"""Checked draws: toy T2 to its printed digits, by enumeration of every order, and weights that fit their tokens."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.errors import OptionError
from structgen.inference.token_estimators import ESTIMATORS, Drawn, Estimator, _repeated, draw_checked

T2 = (0.5, 0.3, 0.15, 0.05)
ACCEPTED = frozenset([1, 3])
Z = 0.35


class Scripted:
    """A generator whose uniform numbers select given tokens, one after the other."""

    def __init__(self, tokens: tuple[int, ...], distribution: tuple[float, ...]) -> None:
        self.tokens = list(tokens)
        self.distribution = distribution
        self.gone: set[int] = set()

    def random(self) -> float:
        """The middle of the token's share among those that are left."""
        token = self.tokens.pop(0)
        before = sum(self.distribution[:token])
        return before + self.distribution[token] / 2


def orders(distribution: tuple[float, ...]) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every order of sampling without replacement, and its probability."""
    for order in itertools.permutations(range(len(distribution))):
        probability, left = 1.0, 1.0
        for token in order:
            probability *= distribution[token] / left if left > 1e-12 else 1.0
            left -= distribution[token]
        yield order, probability


def enumerated(
    estimator: Estimator, distribution: tuple[float, ...], accepted: frozenset[int], **options: Any
) -> list[tuple[float, Drawn]]:
    """All outcomes of an estimator that draws nothing except the order."""
    log_p = np.log(np.array(distribution))
    return [
        (
            p,
            draw_checked(
                log_p, accepted.__contains__, Scripted(order, distribution), estimator=estimator, **options
            ),
        )  # type: ignore[arg-type]
        for order, p in orders(distribution)
    ]


def moments(outcomes: list[tuple[float, Drawn]], size: int) -> tuple[list[float], float, float]:
    """E[w * 1(x)] for each x, the relative variance of w, and the mean number of checks."""
    each = [0.0] * size
    square = checks = 0.0
    for p, drawn in outcomes:
        checks += p * drawn.checks
        if drawn.token is not None:
            weight = math.exp(drawn.log_weight)
            each[drawn.token] += p * weight
            square += p * weight * weight
    return each, square / sum(each) ** 2 - 1 if any(each) else 0.0, checks


@pytest.mark.parametrize(
    ("estimator", "variance", "checks"), [("recursive", 0.2175, 2.89), ("des_raj", 0.066, 3.65)]
)
def test_toy_t2_by_enumeration(estimator: Estimator, variance: float, checks: float) -> None:
    each, found, mean_checks = moments(enumerated(estimator, T2, ACCEPTED), 4)
    assert each == pytest.approx([0, 0.3, 0, 0.05])
    assert found == pytest.approx(variance, abs=5e-4)
    assert mean_checks == pytest.approx(checks, abs=5e-3)


@pytest.mark.parametrize(("acceptances", "variance"), [(2, 0.615), (3, 0.338), (5, 0.170)])
def test_toy_t2_geometric(acceptances: int, variance: float) -> None:
    """Sampled; each mean within five of its standard errors, which fails once in 600,000 runs of another seed."""
    random = np.random.default_rng(acceptances)
    count = 40_000
    weights = np.zeros((count, 4))
    for row in weights:
        drawn = draw_checked(
            np.log(np.array(T2)), ACCEPTED.__contains__, random, estimator="geometric", probes=acceptances - 1
        )
        assert drawn.token is not None
        row[drawn.token] = math.exp(drawn.log_weight)
    means, errors = weights.mean(axis=0), weights.std(axis=0) / math.sqrt(count)
    assert (abs(means - [0, 0.3, 0, 0.05]) <= 5 * errors).all()
    total = weights.sum(axis=1)
    assert total.var() / Z**2 == pytest.approx(variance, rel=0.06)


distributions = st.lists(st.integers(1, 20), min_size=1, max_size=5).map(
    lambda parts: tuple(part / sum(parts) for part in parts)
)


@given(distributions, st.sets(st.integers(0, 4)), st.sampled_from(["recursive", "des_raj", "auto"]), st.integers(1, 3),
       st.none() | st.integers(1, 5))  # fmt: skip
@settings(deadline=None)
def test_weights_fit_their_tokens(
    distribution: tuple[float, ...], chosen: set[int], estimator: Estimator, probes: int, budget: int | None
) -> None:
    accepted = frozenset(i for i in chosen if i < len(distribution))
    outcomes = enumerated(estimator, distribution, accepted, probes=probes, max_checks=budget)
    each, _, _ = moments(outcomes, len(distribution))
    assert each == pytest.approx([p if i in accepted else 0 for i, p in enumerate(distribution)])
    mass = sum(distribution[i] for i in accepted)
    for _, drawn in outcomes:
        assert drawn.low - 1e-9 <= mass <= drawn.high + 1e-9
        assert budget is None or drawn.checks <= budget
        assert (drawn.token is None) == (drawn.log_weight == -math.inf)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_extremes(estimator: Estimator) -> None:
    random = np.random.default_rng(0)

    def draw(log_p: list[float], accepts: Callable[[int], bool]) -> Drawn:
        return draw_checked(np.array(log_p), accepts, random, estimator=estimator)

    none = draw(list(np.log(T2)), lambda token: False)
    assert none.token is None and (none.low, none.high, none.checks) == (0.0, 0.0, 4)
    sure = draw([-math.inf, 0.0], lambda token: True)
    assert sure.token == 1 and sure.log_weight == pytest.approx(0)
    rare = draw([math.log1p(-1e-9), math.log(1e-9)], lambda token: token == 1)
    assert rare.token == 1


def test_there_are_as_many_probes_as_the_unseen_mass_needs() -> None:
    """A token of nearly all the mass needs one probe, one among equals all that there may be."""
    random = np.random.default_rng(1)
    for distribution, checks in (((0.96, 0.02, 0.02), 2), ((0.2,) * 5, 5)):
        draws = [draw_checked(np.log(np.array(distribution)), lambda token: True, random, estimator="auto", probes=4)
                 for _ in range(20)]  # fmt: skip
        assert np.median([drawn.checks for drawn in draws]) == checks


@pytest.mark.parametrize("share", [0.001, 0.3, 1.0])
def test_repeats_at_once_are_as_repeats_one_by_one(share: float) -> None:
    """Counts of accepted and rejected attempts, by chi-squared on 20,000 draws of each; fixed seed, p above 1e-6."""
    random = np.random.default_rng(5)

    def slowly(count: int, wanted: int) -> tuple[int, int]:
        good = bad = 0
        while good < wanted and good + bad < count:
            if random.random() < share:
                good += 1
            else:
                bad += 1
        return good, bad

    for count, wanted in ((0, 2), (1, 3), (6, 2), (40, 3)):
        rounds = 20_000
        fast = Counter(_repeated(count, share, wanted, random) for _ in range(rounds))
        slow = Counter(slowly(count, wanted) for _ in range(rounds))
        cells = [one for one in {*fast, *slow} if fast[one] + slow[one] >= 20]
        statistic = sum((fast[one] - slow[one]) ** 2 / (fast[one] + slow[one]) for one in cells)
        assert statistic < len(cells) + 5 * math.sqrt(2 * len(cells)) + 10


def test_geometric_waits_for_nothing() -> None:
    """What is accepted has a mass of 1e-9: drawing with replacement would show the rest a billion times."""
    distribution = np.array([1 - 1e-9, *[1e-10] * 10])
    random = np.random.default_rng(0)
    drawn = draw_checked(
        np.log(distribution), lambda token: token > 0, random, estimator="geometric", probes=4
    )
    assert drawn.token and drawn.log_weight < -15


def test_what_cannot_be_requested() -> None:
    random = np.random.default_rng(0)
    with pytest.raises(OptionError, match="unknown estimator 'best'"):
        draw_checked(np.zeros(1), bool, random, estimator="best")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="takes no max_checks"):
        draw_checked(np.zeros(1), bool, random, estimator="geometric", max_checks=3)
