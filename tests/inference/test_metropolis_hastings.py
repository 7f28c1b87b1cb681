"""Metropolis-Hastings on toy T1 and on random languages: the distribution after k proposals, and its limit.

Shares are within five standard errors for a fixed seed.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import structgen as sg
from structgen.errors import DeadEnd, LimitExceeded
from structgen.inference.metropolis_hastings import CUTS, Cut
from structgen.models.memory import DistributionModel
from structgen.vocabulary import Vocabulary
from tests.inference.toys import END, T1_LANGUAGE, random_distribution, t1_distribution

BITS = Vocabulary.from_tokens([b"0", b"1", None], [END])
LANGUAGE = sg.choice(sorted(text.decode() for text in T1_LANGUAGE))
COUNT = 500


def model() -> DistributionModel:
    return DistributionModel(BITS, t1_distribution)


def share_of_zeros(sampler: sg.inference.MH, **options: object) -> float:
    posterior = sg.sample(model(), "", LANGUAGE, n=COUNT, sampler=sampler, seed=8, **options)  # type: ignore[arg-type]
    return posterior.probability(lambda text: text == "000")


def margin(q: float) -> float:
    return 5 * math.sqrt(q * (1 - q) / COUNT)


@pytest.mark.parametrize("proposals", [1, 2, 3, 5, 10])
def test_restart_on_toy_t1(proposals: int) -> None:
    expected = 0.029126 + 0.570874 * 0.588 ** (proposals - 1)
    assert share_of_zeros(sg.inference.MH(proposals)) == pytest.approx(expected, abs=margin(expected))


@pytest.mark.parametrize("cut", CUTS)
def test_every_cut_tends_to_the_conditional_distribution(cut: Cut) -> None:
    assert share_of_zeros(sg.inference.MH(45, cut)) == pytest.approx(0.029126, abs=margin(0.029126))


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("seed", range(3))
def test_random_languages(cut: Cut, seed: int) -> None:
    """Several tokenisations of a text, texts of several lengths, and a cap that cuts some off."""
    vocabulary = Vocabulary.from_tokens([b"a", b"b", b"ab", b"ba", None], [4])
    distribution = DistributionModel(vocabulary, random_distribution(seed, 5))
    random = np.random.default_rng(seed)
    words = ["".join(w) for n in range(1, 5) for w in product("ab", repeat=n)]
    language = [word for word in words if random.random() < 0.3] or ["ab"]
    constraint = sg.choice(language)
    exact = sg.sample(distribution, "", constraint, n=4000, seed=1, max_tokens=3)
    chains = sg.sample(
        distribution, "", constraint, n=COUNT, sampler=sg.inference.MH(40, cut), seed=2, max_tokens=3
    )
    for word in language:
        q = exact.probability(lambda text, word=word: text == word)
        found = chains.probability(lambda text, word=word: text == word)
        assert found == pytest.approx(q, abs=6 * math.sqrt(max(q, 1e-3) / COUNT)), word


@pytest.mark.parametrize("cut", CUTS)
def test_potentials(cut: Cut) -> None:
    def condition(text: str) -> float:
        return -math.inf if text == "111" else -1.0 * text.count("1")

    masses = {text.decode(): (0.012 if text == b"000" else 0.1) for text in T1_LANGUAGE}
    masses = {text: mass * math.exp(condition(text)) for text, mass in masses.items()}
    posterior = sg.sample(
        model(),
        "",
        LANGUAGE,
        n=COUNT,
        sampler=sg.inference.MH(45, cut),
        potentials=sg.inference.potential(condition),
        seed=4,
    )
    for text, mass in masses.items():
        q = mass / sum(masses.values())
        assert posterior.probability(lambda value, text=text: value == text) == pytest.approx(
            q, abs=margin(q)
        )


def test_nothing_to_find() -> None:
    with pytest.raises(DeadEnd):
        share_of_zeros(sg.inference.MH(3), potentials=sg.inference.potential(lambda text: False))
    with pytest.raises(LimitExceeded, match="takes 3 tokens"):
        share_of_zeros(sg.inference.MH(3), max_tokens=2)
