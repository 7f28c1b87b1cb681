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
from structgen.errors import DeadEnd, GenerationError
from structgen.generation.potentials import Condition, Potential, potential
from structgen.inference.particles import Particles
from structgen.inference.prefixes import PrefixBatch
from structgen.inference.proposals import Checked, Learned, Masked, Proposal
from structgen.inference.resampling import RESAMPLING, Resampling, effective_size, resample
from structgen.matcher import Matcher
from structgen.models.memory import DistributionModel
from structgen.vocabulary import Vocabulary
from tests.inference.toys import END, T1_LANGUAGE, t1_distribution

VOCABULARY = Vocabulary.from_tokens([b"0", b"1", None], [END])
MODEL = DistributionModel(VOCABULARY, t1_distribution)
TEXTS = {text.decode() for text in T1_LANGUAGE}
EXACT = {text: 0.012 if text == "000" else 0.1 for text in TEXTS}
MASKED = Matcher(structgen.choice(sorted(TEXTS)), VOCABULARY)
FREE = Matcher(structgen.regex("[01]*"), VOCABULARY)

MASKS = Masked()


def inside(text: str) -> bool:
    return text in TEXTS


def leads_on(text: str) -> bool:
    return any(one.startswith(text) for one in TEXTS)


def properly_weighted(
    matcher: Matcher,
    potentials: tuple[Potential, ...],
    expected: dict[str, float],
    proposal: Proposal | Callable[[Condition], Proposal] = MASKS,
    runs: int = 600,
    **options: Any,
) -> None:
    count = 6
    condition = Condition(potentials)
    estimates: dict[str, list[float]] = {text: [] for text in expected}
    totals = []
    for run in range(runs):
        batch = PrefixBatch(MODEL, [0])
        particles = Particles(
            batch,
            matcher,
            condition,
            np.random.default_rng([7, run]),
            count=count,
            max_tokens=8,
            proposal=proposal(condition) if callable(proposal) else proposal,
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
    "options",
    [("des_raj", 2), ("auto", 4), ("recursive",), ("geometric", 2), ("des_raj", 1, 1), ("recursive", 1, 2)],
)
def test_checked_draws_as_proposal(options: tuple[Any, ...]) -> None:
    judged = (potential(inside, prefix=leads_on),)
    properly_weighted(FREE, judged, EXACT, proposal=lambda condition: Checked(condition, *options))


def test_potentials_that_only_judge_whole_texts() -> None:
    properly_weighted(FREE, (potential(inside),), EXACT, proposal=Checked)
    properly_weighted(FREE, (potential(inside),), EXACT)


def test_masks_alone_use_potentials_of_prefixes() -> None:
    asked = []

    def begins(text: str) -> bool:
        asked.append(text)
        return leads_on(text)

    properly_weighted(FREE, (potential(prefix=begins), potential(inside)), EXACT)
    assert "01" in asked and "011" not in asked


@pytest.mark.parametrize("threshold", [0, 0.5, 1])
@pytest.mark.parametrize("runs", [1, 600], ids=["new", "shared"])
def test_learned_bounds_as_proposal(threshold: float, runs: int) -> None:
    """Under bounds that all runs share (most of them know all), and under those that each begins with."""
    shared = Learned()
    properly_weighted(
        MASKED, (), EXACT, proposal=shared if runs > 1 else lambda _: Learned(), threshold=threshold
    )
    judged = (potential(lambda text: -0.5 * text.count("1") if inside(text) else False, prefix=leads_on),)
    expected = {text: mass * math.exp(-0.5 * text.count("1")) for text, mass in EXACT.items()}
    properly_weighted(
        FREE, judged, expected, proposal=Learned() if runs > 1 else lambda _: Learned(), threshold=threshold
    )


def likes_zeros(text: str) -> float:
    return math.log(3) * (text == "000") - 0.5 * text.count("1")


LIKED = {text: mass * math.exp(likes_zeros(text)) for text, mass in EXACT.items()}


@pytest.mark.parametrize("proposal", [Masked(), Checked, Learned()], ids=["masked", "checked", "learned"])
def test_soft_potentials_weigh(proposal: Any) -> None:
    properly_weighted(MASKED, (potential(likes_zeros),), LIKED, proposal=proposal)


@pytest.mark.parametrize("proposal", [Masked(), Checked, Learned()], ids=["masked", "checked", "learned"])
def test_what_potentials_say_of_beginnings_steers(proposal: Any) -> None:
    steered = potential(likes_zeros, prefix=lambda text: -1.0 * text.count("1"))
    properly_weighted(MASKED, (steered,), LIKED, proposal=proposal, threshold=0.9)


def test_texts_that_have_paid_are_not_replaced_by_those_that_have_not() -> None:
    """Each letter costs a nat, in the end: half of the texts are one letter long, independently of the others."""
    model = DistributionModel(VOCABULARY, lambda tokens: (0.5, 0, 0.5) if tokens else (1.0, 0, 0))
    condition = Condition([potential(lambda text: -1.0 * len(text))])
    short = []
    for run in range(20):
        particles = Particles(
            PrefixBatch(model, [0]), Matcher(structgen.regex("0+"), VOCABULARY), condition,
            np.random.default_rng(run), count=32, proposal=Masked(), max_tokens=40,
        )  # fmt: skip
        list(particles.run())
        weights = np.exp([one.log_weight for one in particles.particles])
        lengths = np.array([len(one.tokens) for one in particles.particles])
        short.append(weights[lengths == 1].sum() / weights.sum())
    assert np.mean(short) == pytest.approx(1 - math.exp(-1) / 2, abs=0.05)


@pytest.mark.parametrize(
    ("critic", "runs"),
    [
        (lambda text: 1.5 * text.count("1"), 600),
        (lambda text: -math.inf, 600),
        (lambda text: -math.inf if text == "0" else 0.0, 3000),
        (lambda text: -800.0 if text == "11" else 0.0, 3000),
    ],
)
def test_a_critic_leaves_no_trace(critic: Callable[[str], float], runs: int) -> None:
    properly_weighted(MASKED, (), EXACT, critic=critic, runs=runs, threshold=0.9)


def test_critics_that_say_no_number() -> None:
    for said in (math.nan, math.inf):
        particles = Particles(
            PrefixBatch(MODEL, [0]), MASKED, Condition(), np.random.default_rng(0), count=2, proposal=Masked(),
            critic=lambda text, said=said: said,
        )  # fmt: skip
        with pytest.raises(GenerationError, match=f"the critic returned {said}"):
            list(particles.run())


def test_particles_share_rows() -> None:
    batch = PrefixBatch(MODEL, [0])
    particles = Particles(batch, MASKED, Condition(), np.random.default_rng(0), count=50, proposal=Masked())
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
        proposal=Masked(),
    )
    with pytest.raises(DeadEnd, match="all 5 particles died by step 4"):
        list(particles.run())
    capped = Particles(
        PrefixBatch(MODEL, [0]), MASKED, Condition(), np.random.default_rng(0), count=3, max_tokens=2,
        proposal=Masked(),
    )  # fmt: skip
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
