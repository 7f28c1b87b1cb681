"""With drafts or without, the same tokens, weights and ends: any draft, any constraint, any noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.constraints.choice import choice
from structgen.matcher import Matcher
from structgen.sampling import Generation, SamplingOptions, generate_tokens
from structgen.speculative.controllers import Fixed
from structgen.speculative.drafters import Context, ForcedBytes, Guessed, PromptLookup
from structgen.speculative.driver import Speculation
from tests.oracles.naive_matcher import NaiveMatcher
from tests.oracles.toy_model import ToyModel
from tests.sampling.test_engine import NAIVE, REAL, WORDS
from tests.sampling.toys import random_law

OPTIONS = st.builds(
    SamplingOptions,
    temperature=st.sampled_from([0, 1.0, 0.7]),
    top_k=st.none() | st.integers(1, 3),
    seed=st.integers(0, 99),
    max_tokens=st.sampled_from([4, 20]),
    forced=st.booleans(),
    exact_weight=st.booleans(),
    max_retries=st.sampled_from([0, 64]),
)


class Guess:
    """Drafts by chance, often what the plain sampler will draw."""

    def __init__(self, seed: int, told: Sequence[int], start: int) -> None:
        self._random = np.random.default_rng(seed)
        self._told = list(told)
        self._start = start

    def propose(self, context: Context, most: int) -> Guessed:
        drawn = len(context.tokens) - self._start
        draft = self._told[drawn : drawn + most]
        for place in range(len(draft)):
            if self._random.random() < 0.25:
                draft[place] = int(self._random.integers(14))
        return Guessed(draft[: int(self._random.integers(0, most + 1))], "guess")


def same(one: Generation, other: Generation) -> None:
    mine, theirs = asdict(one), asdict(other)
    for name in ("timing", "logprob", "log_weight", "error"):
        mine.pop(name), theirs.pop(name)
    assert mine == theirs
    if one.logprob is not None:  # what was read ahead is scored, which plain drawing may have been spared
        assert one.logprob == pytest.approx(other.logprob)
    if one.log_weight is not None:
        assert one.log_weight == pytest.approx(other.log_weight)
    assert str(one.error) == str(other.error)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(WORDS, WORDS, OPTIONS), min_size=1, max_size=3), st.integers(0, 99), st.integers(1, 6)
)
def test_drafts_change_nothing(
    rows: list[tuple[list[str], list[str], SamplingOptions]], seed: int, most: int
) -> None:
    """Also where masks promise what there is not (`optimistic`), so that rows go back from dead ends."""
    model = ToyModel(NAIVE, random_law(seed, 14))
    each = [options for _, _, options in rows]

    def matchers() -> list[Any]:
        return [
            NaiveMatcher([word.encode() for word in words], NAIVE, [word.encode() for word in dead])
            for words, dead, _ in rows
        ]

    prompts = [[0]] * len(rows)
    plain = generate_tokens(model, prompts, matchers(), each)
    told = max((one.tokens for one in plain), key=len)
    drafting = Speculation(NAIVE, [Guess(seed, told, 1)], Fixed(), most)
    for one, other in zip(
        plain, generate_tokens(model, prompts, matchers(), each, drafting=drafting), strict=True
    ):
        same(one, other)
    assert drafting.taken <= drafting.drafted


@settings(max_examples=100, deadline=None)
@given(WORDS, OPTIONS, st.integers(0, 20), st.booleans())
def test_drafters_change_nothing(words: list[str], options: SamplingOptions, law: int, closes: bool) -> None:
    model = ToyModel(REAL, random_law(law, 14))
    options = options.replace(close_within_budget=closes)
    (plain,) = generate_tokens(model, [[0, 1, 0, 1, 2]], [Matcher(choice(words), REAL)], options)
    drafting = Speculation(REAL, [ForcedBytes(), PromptLookup()])
    (drafted,) = generate_tokens(
        model, [[0, 1, 0, 1, 2]], [Matcher(choice(words), REAL)], options, drafting=drafting
    )
    same(plain, drafted)
