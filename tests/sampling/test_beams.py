"""Beam search against the enumerated law of small languages."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import structgen as sg
from structgen.matcher import Matcher
from structgen.models.memory import DistributionModel
from structgen.sampling.beams import Beam, beam_search
from structgen.sampling.prefixes import PrefixBatch
from structgen.vocabulary import Vocabulary
from tests.oracles.naive_matcher import NaiveMatcher, NaiveVocabulary
from tests.sampling.test_walks import strings
from tests.sampling.toys import random_law

PIECES = [b"a", b"b", b"ab", b"ba", None]
VOCABULARY = Vocabulary.from_tokens(PIECES, [4])


def languages(seed: int) -> tuple[DistributionModel, list[str]]:
    random = np.random.default_rng(seed)
    words = ["".join(w) for n in range(1, 5) for w in product("ab", repeat=n)]
    return DistributionModel(VOCABULARY, random_law(seed, 5)), [
        w for w in words if random.random() < 0.4
    ] or ["ab"]


def search(seed: int, cap: int = 4, **options: float) -> tuple[list[Beam], dict[tuple[int, ...], float]]:
    model, language = languages(seed)
    matcher = Matcher(sg.choice(language), VOCABULARY)
    naive = NaiveMatcher([word.encode() for word in language], NaiveVocabulary(PIECES, [4]))
    found = beam_search(PrefixBatch(model, [0]), matcher, max_tokens=cap, **options)  # type: ignore[arg-type]
    return found, dict(strings(model, naive, cap))


@pytest.mark.parametrize("seed", range(12))
def test_a_wide_beam_finds_the_best(seed: int) -> None:
    found, law = search(seed, width=200)
    best = sorted(law.items(), key=lambda item: -item[1])
    assert [beam.tokens for beam in found][:5] == [tokens for tokens, _ in best][:5]
    assert len(found) == len(law)
    for beam in found:
        assert np.exp(beam.log_prob) == pytest.approx(law[beam.tokens], rel=1e-4)
        assert beam.score == beam.log_prob


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("seed", range(6))
def test_narrow_beams_find_texts_of_the_language(seed: int, width: int) -> None:
    found, law = search(seed, width=width)
    assert 0 < len(found) <= width
    assert {beam.tokens for beam in found} <= set(law)
    scores = [beam.score for beam in found]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("seed", range(6))
def test_groups_differ(seed: int) -> None:
    alike, _ = search(seed, width=3, groups=3)
    assert len({beam.tokens for beam in alike}) == 1
    apart, law = search(seed, width=3, groups=3, diversity=50.0)
    firsts = {tokens[0] for tokens in law if tokens}
    assert len({beam.tokens for beam in apart}) == min(3, len(firsts)) or len(firsts) < 3
    assert {beam.tokens for beam in apart} <= set(law)


def test_a_length_penalty_prefers_long_texts() -> None:
    short, _ = search(3, width=200)
    long, _ = search(3, width=200, length_penalty=3.0)
    assert len(long[0].tokens) >= len(short[0].tokens)
    assert long[0].score == pytest.approx(long[0].log_prob / (len(long[0].tokens) + 1) ** 3)


def test_nothing_within_the_cap() -> None:
    model, _ = languages(0)
    matcher = Matcher(sg.choice(["aaaa"]), VOCABULARY)
    assert beam_search(PrefixBatch(model, [0]), matcher, width=3, max_tokens=2) == []
