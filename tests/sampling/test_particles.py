"""Sequential Monte Carlo on toy T1: proper weights under every option, and what dead particles come to.

Means are within five of their standard errors for a fixed seed (a chance of 6e-7 each for another one).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import structgen
from structgen.errors import DeadEnd
from structgen.matcher import Matcher
from structgen.models.memory import DistributionModel
from structgen.sampling.conditions import Condition, Potential, potential
from structgen.sampling.particles import Checking, Particles
from structgen.sampling.prefixes import PrefixBatch
from structgen.sampling.resampling import RESAMPLING, Resampling, effective_size, resample
from structgen.vocabulary import Vocabulary
from tests.sampling.toys import END, T1_LANGUAGE, t1_law

VOCABULARY = Vocabulary.from_tokens([b"0", b"1", None], [END])
MODEL = DistributionModel(VOCABULARY, t1_law)
TEXTS = {text.decode() for text in T1_LANGUAGE}
EXACT = {text: 0.012 if text == "000" else 0.1 for text in TEXTS}
MASKED = Matcher(structgen.choice(sorted(TEXTS)), VOCABULARY)
FREE = Matcher(structgen.regex("[01]*"), VOCABULARY)


def inside(text: str) -> bool:
    return text in TEXTS


def leads_on(text: str) -> bool:
    return any(one.startswith(text) for one in TEXTS)


def properly_weighted(
    matcher: Matcher, potentials: tuple[Potential, ...], expected: dict[str, float], **options: Any
) -> None:
    runs, count = 600, 6
    estimates: dict[str, list[float]] = {text: [] for text in expected}
    totals = []
    for run in range(runs):
        batch = PrefixBatch(MODEL, [0])
        particles = Particles(
            batch,
            matcher,
            Condition(potentials),
            np.random.default_rng([7, run]),
            count=count,
            max_tokens=8,
            **options,
        )
        sums: Counter[str] = Counter()
        try:
            for _ in particles.run():
                pass
        except DeadEnd:
            totals.append(0.0)
        else:
            totals.append(math.exp(particles.total()))
            for one in particles.particles:
                if not one.dead:
                    weight = math.exp(particles.log_z + one.log_weight) / count
                    sums["".join(map(str, one.tokens))] += weight  # type: ignore[assignment]
        assert set(sums) <= set(expected)
        for text, found in estimates.items():
            found.append(sums[text])
    for text, mass in [*expected.items(), ("", sum(expected.values()))]:
        values = estimates.get(text, totals)
        error = max(np.std(values), mass / 10) / math.sqrt(runs)
        assert np.mean(values) == pytest.approx(mass, abs=5 * error), (text, options)


@pytest.mark.parametrize("threshold", [0, 0.5, 1])
@pytest.mark.parametrize("method", RESAMPLING)
def test_local_masking_as_proposal(threshold: float, method: Resampling) -> None:
    properly_weighted(MASKED, (), EXACT, threshold=threshold, resampling=method)


@pytest.mark.parametrize(
    "checking",
    [
        Checking(),
        Checking("recursive"),
        Checking("geometric"),
        Checking("des_raj", 1, 1),
        Checking("recursive", 1, 2),
    ],
)
def test_checked_draws_as_proposal(checking: Checking) -> None:
    properly_weighted(FREE, (potential(inside, prefix=leads_on),), EXACT, checking=checking)


def test_potentials_that_only_judge_whole_texts() -> None:
    properly_weighted(FREE, (potential(inside),), EXACT, checking=Checking())
    properly_weighted(FREE, (potential(inside),), EXACT)


@pytest.mark.parametrize("checking", [None, Checking()])
def test_soft_potentials_weigh(checking: Checking | None) -> None:
    def likes_zeros(text: str) -> float:
        return math.log(3) * (text == "000") - 0.5 * text.count("1")

    expected = {text: mass * math.exp(likes_zeros(text)) for text, mass in EXACT.items()}
    properly_weighted(MASKED, (potential(likes_zeros),), expected, checking=checking)


@pytest.mark.parametrize("critic", [lambda text: 1.5 * text.count("1"), lambda text: -math.inf])
def test_a_critic_leaves_no_trace(critic: Callable[[str], float]) -> None:
    properly_weighted(MASKED, (), EXACT, critic=critic)


def test_particles_share_rows() -> None:
    batch = PrefixBatch(MODEL, [0])
    particles = Particles(batch, MASKED, Condition(), np.random.default_rng(0), count=50)
    for _ in particles.run():
        pass
    assert batch.calls <= 11  # distinct beginnings of the language
    assert batch.passes <= 4


def test_all_dead_is_an_error_that_says_so() -> None:
    particles = Particles(
        PrefixBatch(MODEL, [0]),
        FREE,
        Condition([potential(lambda text: False)]),
        np.random.default_rng(0),
        count=5,
        max_tokens=8,
    )
    with pytest.raises(DeadEnd, match="all 5 particles died by step 4"):
        list(particles.run())
    capped = Particles(
        PrefixBatch(MODEL, [0]), MASKED, Condition(), np.random.default_rng(0), count=3, max_tokens=2
    )
    with pytest.raises(DeadEnd, match="all 3 particles died"):
        list(capped.run())


@pytest.mark.parametrize("method", RESAMPLING)
def test_resampling_keeps_expectations(method: Resampling) -> None:
    random = np.random.default_rng(3)
    weights = np.array([math.log(0.5), -math.inf, math.log(0.3), math.log(0.15), math.log(0.05)])
    counts = np.zeros(5)
    rounds = 4000
    for _ in range(rounds):
        chosen = resample(weights, 7, method, random)
        counts += np.bincount(chosen, minlength=5)
        if method == "systematic":
            offspring = np.bincount(chosen, minlength=5)
            assert (abs(offspring - 7 * np.exp(weights)) < 1).all()
    assert counts[1] == 0
    assert counts / rounds == pytest.approx(7 * np.exp(weights), abs=0.12)


def test_effective_sizes() -> None:
    assert effective_size(np.zeros(8)) == pytest.approx(8)
    assert effective_size(np.array([0.0, -math.inf])) == pytest.approx(1)
    assert effective_size(np.array([-math.inf])) == 0
