"""Shortened prompts of draft models: what stays, by the definition of BM25; the texts are the same."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.errors import OptionError
from structgen.generation import SamplingOptions, generate_tokens
from structgen.speculative.model_drafters import DraftModel
from structgen.speculative.short_prompts import bm25_scores, shorten_prompt
from structgen.vocabulary import Vocabulary
from tests.oracles.toy_model import ToySession

from .test_model_drafters import Whole, speculating

tokens = st.lists(st.integers(0, 6), max_size=12)


@given(chunks=st.lists(tokens.filter(bool), min_size=1, max_size=6), query=tokens)
@settings(deadline=None)
def test_scores_follow_the_definition(chunks: list[list[int]], query: list[int]) -> None:
    mean = sum(len(chunk) for chunk in chunks) / len(chunks)
    for chunk, score in zip(chunks, bm25_scores(chunks, query), strict=True):
        expected = 0.0
        for token in set(query):
            holding = sum(token in other for other in chunks)
            weight = math.log(1 + (len(chunks) - holding + 0.5) / (holding + 0.5))
            count = chunk.count(token)
            expected += weight * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(chunk) / mean))
        assert score == pytest.approx(expected)


@given(
    length=st.integers(0, 400), most=st.integers(16, 200), chunk=st.integers(1, 64), seed=st.integers(0, 9)
)
@settings(deadline=None)
def test_the_beginning_and_the_end_stay_in_order(length: int, most: int, chunk: int, seed: int) -> None:
    positions = list(range(length))  # all tokens differ, so they are their own positions
    short = shorten_prompt(positions, most, chunk)
    assert len(short) <= most and short == sorted(set(short))
    assert short[: most // 8] == positions[: most // 8]
    assert short[len(short) - min(length, most // 4) :] == positions[length - min(length, most // 4) :]
    if length <= most:
        assert short == positions
    words = np.random.default_rng(seed).integers(0, 9, length).tolist()
    assert len(shorten_prompt(words, most, chunk)) == len(short) or length > most


def test_the_chunk_that_matches_the_end_stays() -> None:
    prompt = list(np.random.default_rng(1).integers(0, 50, 4000))
    prompt[1500:1520] = range(100, 120)
    prompt[-20:-10] = range(100, 110)
    assert set(range(110, 120)) <= set(shorten_prompt(prompt, 400))


WORDS = Vocabulary.from_tokens([*(bytes([65 + i]) for i in range(40)), None], [40])


def copying(text: tuple[int, ...]) -> list[float]:
    """Goes on as after the last token when it came for the first time, if anywhere."""
    p = np.full(41, 1e-4)
    before = [i for i, token in enumerate(text[:-1]) if token == text[-1]]
    p[text[before[0] + 1] if before else 39] += 1
    return list(p / p.sum())


class Noting(Whole):
    """Notes the lengths of its texts."""

    longest = 0

    def start(self, prompts: Sequence[Sequence[int]]) -> ToySession:
        self.longest = max(self.longest, *map(len, prompts))
        return super().start(prompts)


PROMPT = [*np.random.default_rng(3).integers(0, 15, 600).tolist(), 20, *range(21, 38), 20]
PROMPT = [*PROMPT, *np.random.default_rng(4).integers(0, 15, 600).tolist(), *range(30, 36), 20]


def test_texts_are_the_same_and_the_retrieved_chunk_is_drafted() -> None:
    model, accepted = Whole(WORDS, copying), {}
    options = SamplingOptions(temperature=0, max_tokens=14)
    (plain,) = generate_tokens(model, [PROMPT], [None], options)
    assert plain.tokens[:3] == [21, 22, 23]
    for name, limits in (("context", {"context": 128}), ("window", {"window": 128})):
        draft = Noting(WORDS, copying)
        speculation = speculating(DraftModel(draft, least=0.0, **limits))
        (found,) = generate_tokens(model, [PROMPT], [None], options, drafting=speculation.start(model))
        assert found.tokens == plain.tokens
        accepted[name] = found.accepted_tokens
        assert draft.longest <= (128 + 20 if name == "context" else 4 + 192)
    assert accepted["context"] > 8 > accepted["window"]


def test_with_another_vocabulary() -> None:
    pieces = [*(bytes([65 + i]) for i in range(40)), None]
    model = Whole(
        Vocabulary(pieces, [40], encoder=lambda text: [ord(letter) - 65 for letter in text]), copying
    )
    other = Vocabulary([*pieces, b"~~"], [40], encoder=lambda text: [ord(letter) - 65 for letter in text])
    draft = Noting(other, lambda text: [*copying(text), 0.0])
    options = SamplingOptions(temperature=0, max_tokens=14)
    (plain,) = generate_tokens(model, [PROMPT], [None], options)
    speculation = speculating(DraftModel(draft, least=0.0, context=128))
    (found,) = generate_tokens(model, [PROMPT], [None], options, drafting=speculation.start(model))
    assert found.tokens == plain.tokens and found.accepted_tokens > 4
    assert draft.longest <= 128 + 20


def test_a_bad_bound_is_refused() -> None:
    with pytest.raises(OptionError, match="it must be a whole number from 16"):
        DraftModel(Whole(WORDS, copying), context=4)
