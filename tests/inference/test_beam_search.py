"""Beam search against the enumerated distribution of small languages."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import structgen as sg
from structgen.inference.beam_search import Beam, beam_search
from structgen.inference.prefixes import PrefixBatch
from structgen.matcher import Matcher
from structgen.models.memory import DistributionModel
from structgen.vocabulary import Vocabulary
from tests.inference.toys import random_distribution, strings
from tests.oracles.naive_matcher import NaiveMatcher, NaiveVocabulary

PIECES = [b"a", b"b", b"ab", b"ba", None]
VOCABULARY = Vocabulary.from_tokens(PIECES, [4])


def languages(seed: int) -> tuple[DistributionModel, list[str]]:
    random = np.random.default_rng(seed)
    words = ["".join(w) for n in range(1, 5) for w in product("ab", repeat=n)]
    return DistributionModel(VOCABULARY, random_distribution(seed, 5)), [
        w for w in words if random.random() < 0.4
    ] or ["ab"]


def text_of(tokens: tuple[int, ...]) -> bytes:
    return VOCABULARY.decode(tokens)


def search(seed: int, cap: int = 4, **options: float) -> tuple[list[Beam], dict[bytes, float]]:
    """The results, and the distribution of texts over all tokenizations."""
    model, language = languages(seed)
    matcher = Matcher(sg.choice(language), VOCABULARY)
    naive = NaiveMatcher([word.encode() for word in language], NaiveVocabulary(PIECES, [4]))
    found = beam_search(PrefixBatch(model, [0]), matcher, max_tokens=cap, **options)  # type: ignore[arg-type]
    distribution: dict[bytes, float] = {}
    for tokens, mass in strings(model, naive, cap):
        distribution[text_of(tokens)] = distribution.get(text_of(tokens), 0.0) + mass
    return found, distribution


@pytest.mark.parametrize("seed", range(12))
def test_a_wide_beam_finds_the_best(seed: int) -> None:
    found, distribution = search(seed, width=200)
    best = sorted(distribution.items(), key=lambda item: -item[1])
    assert [text_of(beam.tokens) for beam in found][:5] == [text for text, _ in best][:5]
    assert len(found) == len(distribution)
    for beam in found:
        assert np.exp(beam.log_prob) == pytest.approx(distribution[text_of(beam.tokens)], rel=1e-4)
        assert beam.score == beam.log_prob


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("seed", range(6))
def test_narrow_beams_find_texts_of_the_language(seed: int, width: int) -> None:
    found, distribution = search(seed, width=width)
    assert 0 < len(found) <= width
    texts = [text_of(beam.tokens) for beam in found]
    assert set(texts) <= set(distribution) and len(set(texts)) == len(texts)
    scores = [beam.score for beam in found]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("seed", range(6))
def test_groups_differ(seed: int) -> None:
    alike, _ = search(seed, width=3, groups=3)  # all find the same; each text is listed once
    assert len({text_of(beam.tokens) for beam in alike}) == len(alike)
    apart, distribution = search(seed, width=3, groups=3, diversity=50.0)
    firsts = {text[:1] for text in distribution}
    assert len({text_of(beam.tokens) for beam in apart}) >= len(firsts)
    assert {text_of(beam.tokens) for beam in apart} <= set(distribution)


def test_a_length_penalty_prefers_long_texts() -> None:
    short, _ = search(3, width=200)
    long, _ = search(3, width=200, length_penalty=3.0)
    assert len(long[0].tokens) >= len(short[0].tokens)
    assert long[0].score == pytest.approx(long[0].log_prob / (len(long[0].tokens) + 1) ** 3)


def test_ends_and_tokens_of_one_text_are_one() -> None:
    """Two tokens that end a text, and "ab" as one token or as two."""
    vocabulary = Vocabulary.from_tokens([b"a", b"b", b"ab", None, None], [3, 4])
    model = DistributionModel(vocabulary, lambda tokens: (0.3, 0.2, 0.1, 0.1, 0.3))
    matcher = Matcher(sg.choice(["ab", "b"]), vocabulary)
    found = beam_search(PrefixBatch(model, [0]), matcher, width=4, max_tokens=4)
    assert [text_of(beam.tokens) for beam in found] == [b"b", b"ab"] or len(found) == 2
    masses = {vocabulary.decode(beam.tokens): np.exp(beam.log_prob) for beam in found}
    assert masses == pytest.approx({b"b": 0.2 * 0.4, b"ab": 0.1 * 0.4 + 0.3 * 0.2 * 0.4})
    assert {beam.tokens for beam in found} == {(1,), (2,)}


@pytest.mark.parametrize("options", [{"length_penalty": 0.7}, {"groups": 2, "diversity": 0.5}])
def test_a_search_ends_when_nothing_better_can_come(options: dict[str, float]) -> None:
    """Of an endless language, in which texts get less probable by a half with each letter."""
    vocabulary = Vocabulary.from_tokens([b"a", None], [1])
    model = DistributionModel(vocabulary, lambda tokens: (0.1, 0.9))
    batch = PrefixBatch(model, [0])
    found = beam_search(batch, Matcher(sg.regex("a*"), vocabulary), width=2, max_tokens=400, **options)  # type: ignore[arg-type]
    assert found[0].tokens == () and batch.passes < 60


def test_nothing_within_the_cap() -> None:
    model, _ = languages(0)
    matcher = Matcher(sg.choice(["aaaa"]), VOCABULARY)
    assert beam_search(PrefixBatch(model, [0]), matcher, width=3, max_tokens=2) == []
