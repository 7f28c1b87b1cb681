"""Penalties and biases against their definition on dicts, and against a model whose probabilities have them already."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.errors import OptionError
from structgen.generation import SamplingOptions, generate_tokens
from structgen.generation.options import make_options
from structgen.generation.penalties import TokenPenalties
from tests.generation.small_vocabulary import NAIVE, WORDS
from tests.inference.toys import (
    chi_square,
    chi_square_bound,
    enumerate_distribution,
    random_distribution,
)
from tests.oracles.naive_matcher import NaiveMatcher
from tests.oracles.toy_model import Distribution, ToyModel

SIZE = 14
BIASES = st.dictionaries(
    st.integers(0, SIZE - 1), st.floats(-5, 5) | st.sampled_from([-100.0, 100.0]), max_size=3
)
PENALTIES = st.fixed_dictionaries(
    {},
    optional={
        "frequency_penalty": st.floats(-2, 2),
        "presence_penalty": st.floats(-2, 2),
        "repetition_penalty": st.floats(0.5, 2),
        "logit_bias": BIASES,
    },
)


def slow_logits(
    logits: Sequence[float], prompt: Sequence[int], tokens: Sequence[int], options: SamplingOptions
) -> list[float]:
    """Bias, repetition penalty, frequency penalty, presence penalty, one token after the other."""
    changed = []
    for token, logit in enumerate(logits):
        score = logit + (options.logit_bias or {}).get(token, 0.0)
        if token in prompt or token in tokens:
            score = score / options.repetition_penalty if score > 0 else score * options.repetition_penalty
        count = sum(one == token for one in tokens)
        score -= count * options.frequency_penalty
        score -= options.presence_penalty if count else 0.0
        changed.append(score)
    return changed


def penalised(distribution: Distribution, prompt: Sequence[int], options: SamplingOptions) -> Distribution:
    """Return the probabilities of the model whose logits have the penalties."""

    def changed(tokens: tuple[int, ...]) -> list[float]:
        logits = [math.log(share) if share else -math.inf for share in distribution(tokens)]
        scores = slow_logits(logits, prompt, tokens, options)
        masses = [math.exp(score - max(scores)) for score in scores]
        return [mass / sum(masses) for mass in masses]

    return changed


@given(
    st.lists(st.floats(-20, 20) | st.just(-math.inf), min_size=SIZE, max_size=SIZE),
    st.lists(st.integers(0, SIZE - 1), max_size=6),
    st.lists(st.integers(0, SIZE - 1), max_size=12),
    PENALTIES,
)
def test_logits_are_changed_as_defined(
    logits: list[float], prompt: list[int], tokens: list[int], given: dict[str, Any]
) -> None:
    options = SamplingOptions(**given)
    row = np.array(logits)
    found = TokenPenalties(options, prompt, SIZE).adjusted(row, tokens)
    assert found == pytest.approx(slow_logits(logits, prompt, tokens, options))
    assert row.tolist() == logits  # the logits of the session stay as they are


@settings(max_examples=200, deadline=None)
@given(
    WORDS,
    PENALTIES,
    st.sampled_from(
        [{}, {"temperature": 0.7}, {"top_k": 2}, {"top_p": 0.8}, {"min_p": 0.2}, {"temperature": 0}]
    ),
    st.booleans(),
    st.integers(0, 99),
)
def test_rows_are_those_of_a_model_with_the_penalties(
    words: list[str], given: dict[str, Any], drawing: dict[str, Any], forced: bool, seed: int
) -> None:
    """Text, `logprob` and `log_weight`, with forced tokens and without."""
    prompt, distribution = [1, 0], random_distribution(seed, SIZE)
    plain = SamplingOptions(seed=seed, forced=forced, **drawing)
    options = plain.replace(**given)
    language = [word.encode() for word in words]
    (found,) = generate_tokens(
        ToyModel(NAIVE, distribution), [prompt], [NaiveMatcher(language, NAIVE)], options
    )
    model = ToyModel(NAIVE, penalised(distribution, prompt, options))
    (expected,) = generate_tokens(model, [prompt], [NaiveMatcher(language, NAIVE)], plain)
    assert (found.tokens, found.finish) == (expected.tokens, expected.finish)
    assert found.logprob == pytest.approx(expected.logprob)
    assert found.log_weight == pytest.approx(expected.log_weight)
    assert found.forced_tokens == expected.forced_tokens


@pytest.mark.parametrize(
    "given",
    [
        {"frequency_penalty": 1.5},
        {"presence_penalty": -2},
        {"repetition_penalty": 1.8},
        {"logit_bias": {0: 2.0, 3: -3.0}},
    ],
)
def test_draws_and_weights_are_those_of_an_enumeration(given: dict[str, Any]) -> None:
    """The sum of p(text) exp(log_weight) is the changed model's probability of the language."""
    prompt, distribution, words = [1, 0], random_distribution(5, SIZE), [b"abab", b"aaaa", b"bca", b"b"]
    plain = SamplingOptions(temperature=1, seed=3)
    options = plain.replace(**given)
    changed = penalised(distribution, prompt, options)
    shares: Counter[tuple[int, ...]] = Counter()
    weights, mass = {}, 0.0
    for tokens, share, weight in enumerate_distribution(
        ToyModel(NAIVE, changed), NaiveMatcher(words, NAIVE), plain
    ):
        shares[tokens] += share
        weights[tokens] = weight
        mass += share * math.exp(weight)
    assert mass == pytest.approx(
        sum(
            math.prod(changed(tokens[:n])[token] for n, token in enumerate(tokens))
            * sum(changed(tokens)[end] for end in NAIVE.eos_ids)
            for tokens in shares
        )
    )
    count = 600
    model, matchers = ToyModel(NAIVE, distribution), [NaiveMatcher(words, NAIVE) for _ in range(count)]
    draws = generate_tokens(model, [prompt] * count, matchers, options)
    for draw in draws:
        assert draw.log_weight == pytest.approx(weights[tuple(draw.tokens)])
    counts = Counter(tuple(draw.tokens) for draw in draws)
    statistic, freedom = chi_square((counts[tokens], count * share) for tokens, share in shares.items())
    assert statistic < chi_square_bound(freedom)


def test_what_is_forbidden_stays_forbidden_and_what_is_forced_stays_forced() -> None:
    bias = {0: -100.0, 1: -100.0, 2: 100.0}
    model = ToyModel(NAIVE, random_distribution(1, SIZE))
    for forced in (True, False):
        options = SamplingOptions(logit_bias=bias, forced=forced)
        (draw,) = generate_tokens(model, [[0]], [NaiveMatcher([b"aba"], NAIVE)], options)
        assert draw.text == "aba" and draw.finish == "complete"


def test_greedy_draws_obey_penalties() -> None:
    model = ToyModel(NAIVE, lambda tokens: [0.4, 0.3, 0.2, *[0.01] * 7, 0.03, 0, 0, 0])
    (plain,) = generate_tokens(model, [[0]], [None], SamplingOptions(max_tokens=6))
    assert plain.text == "aaaaaa"
    (varied,) = generate_tokens(model, [[9]], [None], SamplingOptions(max_tokens=6, frequency_penalty=1))
    assert varied.text == "abcabc"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"frequency_penalty": 2.5}, "'frequency_penalty' is 2.5; it must be a number from -2 to 2"),
        ({"presence_penalty": True}, "'presence_penalty' is True"),
        ({"presence_penalty": None}, "'presence_penalty' is None; it must be a number"),
        ({"repetition_penalty": 0}, "'repetition_penalty' is 0; it must be a number from 0.01 to 100"),
        ({"frequency_penalty": math.nan}, "'frequency_penalty' is nan"),
        ({"logit_bias": [1, 2]}, "'logit_bias' is [1, 2]; it must be a mapping"),
        ({"logit_bias": {"a": 1}}, "a token id is a whole number of 0 or more"),
        (
            {"logit_bias": {1: 101}},
            "'logit_bias' has 101 for the token 1; it must be a number from -100 to 100",
        ),
        ({"logit_bias": {1: math.nan}}, "'logit_bias' has nan for the token 1"),
        (
            {"logit_bias": dict.fromkeys(range(1025), 1)},
            "'logit_bias' has 1025 tokens; it must have 1024 at most",
        ),
    ],
)
def test_wrong_values_are_named(given: dict[str, Any], named: str) -> None:
    with pytest.raises(OptionError) as caught:
        make_options(given)
    assert named in str(caught.value)


def test_a_bias_of_an_unknown_token_is_refused() -> None:
    model = ToyModel(NAIVE, random_distribution(1, SIZE))
    with pytest.raises(OptionError, match="the token 14; the vocabulary has 14 tokens"):
        generate_tokens(model, [[0]], [None], SamplingOptions(logit_bias={14: 1}))
