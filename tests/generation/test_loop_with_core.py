"""The real matcher against the naive one: over any finite language both draw the same text with the same weight."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.constraints.choice import choice
from structgen.generation import SamplingOptions, generate_tokens
from structgen.matcher import Matcher
from tests.generation.small_vocabulary import NAIVE, REAL, WORDS
from tests.inference.toys import random_distribution
from tests.oracles.naive_matcher import NaiveMatcher
from tests.oracles.toy_model import ToyModel

OPTIONS = st.builds(
    SamplingOptions,
    temperature=st.sampled_from([None, 1.0, 0.7]),
    top_k=st.none() | st.integers(1, 3),
    seed=st.integers(0, 99),
    max_tokens=st.sampled_from([2, 4, 20]),
    forced=st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(WORDS, OPTIONS, st.integers(0, 20))
def test_both_matchers_draw_the_same(words: list[str], options: SamplingOptions, distribution: int) -> None:
    model = ToyModel(REAL, random_distribution(distribution, 14))
    real = Matcher(choice(words), REAL)
    naive = NaiveMatcher([word.encode() for word in words], NAIVE)
    one, other = generate_tokens(model, [[0]] * 2, [real, naive], [options, options])
    assert one.tokens == other.tokens
    assert (one.text, one.finish, one.end_token) == (other.text, other.finish, other.end_token)
    assert one.forced_tokens == other.forced_tokens
    assert one.log_weight == pytest.approx(other.log_weight)
    assert one.finish in ("length", "failed") or one.text in words
    assert (one.finish == "failed") == ((naive.least_tokens(0) or 0) > options.max_tokens)


@settings(max_examples=100, deadline=None)
@given(WORDS, st.integers(1, 5), st.integers(0, 20))
def test_budgets_close_what_can_be_closed(words: list[str], budget: int, distribution: int) -> None:
    naive = NaiveMatcher([word.encode() for word in words], NAIVE)
    if naive.witness(budget) is None:
        return
    model = ToyModel(REAL, random_distribution(distribution, 14))
    options = SamplingOptions(seed=distribution, max_tokens=budget, close_within_budget=True)
    (draw,) = generate_tokens(model, [[0]], [Matcher(choice(words), REAL)], options)
    assert draw.finish == "complete" and draw.text in words and len(draw.tokens) <= budget
