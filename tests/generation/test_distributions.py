"""The distribution of one step against its definition, computed slowly."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.errors import ModelError, OptionError
from structgen.generation.distributions import (
    StepDistribution,
    allowed_ids,
    log_sum_exp,
    sample_index,
    sample_index_by_blocks,
)
from structgen.generation.options import SamplingOptions, make_options
from structgen.generation.random_streams import GumbelNoise


def slow_distribution(
    logits: list[float], ids: list[int], options: SamplingOptions
) -> tuple[dict[int, float], float]:
    """Mask, temperature, top-k, top-p, min-p, one after the other, on a dict."""
    temperature = options.effective_temperature
    scale = temperature or 1.0
    weights = {t: math.exp(x / scale) for t, x in enumerate(logits)}
    mass = sum(weights.values())
    distribution = {t: weights[t] / mass for t in ids}
    z = sum(distribution.values())
    if temperature == 0:
        return {max(distribution, key=lambda t: (distribution[t], -t)): 1.0}, z

    def norm(part: dict[int, float]) -> dict[int, float]:
        whole = sum(part.values())
        return {t: p / whole for t, p in part.items()}

    order = sorted(distribution, key=lambda t: (-distribution[t], t))
    if options.top_k is not None:
        order = order[: options.top_k]
    distribution = norm({t: distribution[t] for t in order})
    if options.top_p is not None:
        count, held = 0, 0.0
        while count < len(order) and held < options.top_p * (1 - 1e-12):
            held += distribution[order[count]]
            count += 1
        distribution = norm({t: distribution[t] for t in order[:count]})
    if options.min_p:
        floor = max(distribution.values()) * options.min_p
        distribution = norm({t: p for t, p in distribution.items() if p >= floor * (1 - 1e-12)})
    return distribution, z


@st.composite
def steps(draw: st.DrawFn) -> tuple[list[float], list[int], SamplingOptions]:
    size = draw(st.integers(1, 40))
    # Integers, so that ties are common; distinct values are at least 0.25 apart.
    logits = [x / 4 for x in draw(st.lists(st.integers(-20, 20), min_size=size, max_size=size))]
    ids = sorted(draw(st.sets(st.integers(0, size - 1), min_size=1)))
    options = SamplingOptions(
        temperature=draw(st.sampled_from([None, 0, 0.5, 1, 2])),
        top_k=draw(st.none() | st.integers(1, 12)),
        top_p=draw(st.none() | st.floats(0.05, 1)),
        min_p=draw(st.none() | st.sampled_from([0.0, 0.07, 0.31])),
        seed=draw(st.none() | st.just(3)),
    )
    return logits, ids, options


@settings(max_examples=300, deadline=None)
@given(steps())
def test_every_option_follows_its_definition(step: tuple[list[float], list[int], SamplingOptions]) -> None:
    logits, ids, options = step
    distribution = StepDistribution(np.array(logits), np.array(ids), options)
    expected, z = slow_distribution(logits, ids, options)
    assert distribution.probabilities() == pytest.approx(expected, abs=1e-12)
    assert math.exp(distribution.log_z) == pytest.approx(z, abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(steps(), st.floats(0, 1, exclude_max=True))
def test_draw_inverts_the_cumulative_sum(
    step: tuple[list[float], list[int], SamplingOptions], uniform: float
) -> None:
    logits, ids, options = step
    distribution = StepDistribution(np.array(logits), np.array(ids), options)
    token, masses = distribution.draw(uniform), distribution.probabilities()
    below = sum(p for t, p in masses.items() if t < token)
    assert masses[token] > 0
    assert below - 1e-9 <= uniform < below + masses[token] + 1e-9 or options.effective_temperature == 0


def test_nucleus_of_a_large_vocabulary_is_the_sorted_one() -> None:
    rng = np.random.default_rng(5)
    for spread in (0.1, 1.0, 5.0):
        logits = rng.normal(0, spread, 20_000)
        options = SamplingOptions(top_p=0.9)
        distribution = StepDistribution(logits, None, options).probabilities()
        expected, _ = slow_distribution(list(logits), list(range(20_000)), options)
        assert distribution.keys() == expected.keys()


def test_no_mask_means_every_token() -> None:
    logits = np.log(np.array([0.5, 0.25, 0.25]))
    distribution = StepDistribution(logits, None, SamplingOptions(temperature=1))
    assert distribution.probabilities() == pytest.approx({0: 0.5, 1: 0.25, 2: 0.25})
    assert distribution.log_z == 0


def test_excluding_a_token_renormalises_and_leaves_the_logits_alone() -> None:
    logits = np.log(np.array([0.5, 0.25, 0.25]))
    before = logits.copy()
    for ids in (None, np.array([0, 1, 2])):
        distribution = StepDistribution(logits, ids, SamplingOptions(temperature=1))
        distribution.exclude(0)
        assert distribution.probabilities() == pytest.approx({1: 0.5, 2: 0.5})
        distribution.exclude(1)
        distribution.exclude(2)
        assert distribution.is_empty
    assert (logits == before).all()


def test_extreme_logits_stay_finite() -> None:
    logits = np.array([1e4, -1e4, -np.inf, 9.9e3], dtype=np.float32)
    distribution = StepDistribution(logits, np.array([1, 2, 3]), SamplingOptions(temperature=0.01, seed=1))
    assert distribution.log_z == pytest.approx(-1e4, rel=1e-3)
    assert distribution.draw(0.999999) == 3
    assert StepDistribution(logits, np.array([2]), SamplingOptions()).is_empty
    assert log_sum_exp(np.array([])) == -math.inf


def test_logits_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(ModelError, match="not a number"):
        StepDistribution(np.array([0.0, np.nan]), None, SamplingOptions())


@given(st.sets(st.integers(0, 99)))
def test_allowed_ids_reads_the_packed_mask(ids: set[int]) -> None:
    bits = np.zeros(128, dtype=np.uint8)
    bits[list(ids)] = 1
    bits[110] = 1  # beyond the vocabulary
    mask = np.packbits(bits, bitorder="little").view(np.int32)
    assert allowed_ids(mask, 100).tolist() == sorted(ids)


def test_temperature_follows_from_other_options() -> None:
    assert SamplingOptions().effective_temperature == 0
    assert SamplingOptions(seed=7).effective_temperature == 1
    assert SamplingOptions(top_p=0.9).effective_temperature == 1
    assert SamplingOptions(seed=7, temperature=0).effective_temperature == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -1),
        ("temperature", math.nan),
        ("top_k", 0),
        ("top_p", 0),
        ("top_p", 1.5),
        ("min_p", -0.1),
        ("max_tokens", -1),
        ("max_backtracks", -1),
        ("seed", -3),
        ("seed", ()),
        ("seed", "7"),
        ("temperature", "hot"),
        ("temperature", math.inf),
        ("max_tokens", 2.5),
        ("max_tokens", None),
        ("top_k", True),
        ("close_within_budget", "no"),
        ("exact_weight", None),
        ("forced", 1),
    ],
)
def test_bad_options_name_themselves(name: str, value: object) -> None:
    with pytest.raises(OptionError, match=name):
        make_options({name: value})


def test_unknown_options_list_the_known_ones() -> None:
    with pytest.raises(OptionError, match="'temprature'.*temperature"):
        make_options({"temprature": 1})


def test_a_place_is_drawn_in_blocks_as_at_once() -> None:
    rng = np.random.default_rng(8)
    for size in (1, 5, 511, 512, 513, 3000):
        masses = rng.random(size).astype(np.float32) * (rng.random(size) < 0.3)
        masses[rng.integers(size)] = 0.5
        cumulative = np.cumsum(masses, dtype=np.float64)
        for uniform in [0.0, np.nextafter(1.0, 0.0), *rng.random(200)]:
            place = sample_index_by_blocks(masses, float(uniform))
            assert masses[place] > 0
            wanted = sample_index(cumulative, float(uniform))
            assert (
                place == wanted
                or abs(float(uniform) * cumulative[-1] - cumulative[min(place, wanted)]) < 1e-9
            )


@pytest.mark.parametrize("count", [1, 3, 7, 50])
def test_the_most_probable_tokens(count: int) -> None:
    logits = np.array([1.0, 5.0, -np.inf, 5.0, 2.0, 0.5, 9.0], dtype=np.float32)  # the last one is padding
    distribution = StepDistribution(logits, np.array([2]), SamplingOptions(temperature=3.0))
    found = distribution.most_probable(count, 6)
    assert [token for token, _ in found] == [1, 3, 4, 0, 5, 2][:count]
    assert [score for _, score in found] == [distribution.logprob(token) for token, _ in found]


LOGITS = np.array([3, -2, 41.5, 41.25, 41.5, -7, 0], dtype=np.float32)


@pytest.mark.parametrize("temperature", [1e-3, 1e-5, 1e-8, 1e-38, 1e-45, 1e-300])
@pytest.mark.parametrize("truncated", [{}, {"top_p": 0.9}, {"top_k": 10**30}, {"min_p": 0.5}])
@pytest.mark.parametrize("ids", [None, [1, 3, 5], [2, 3, 4], [0]])
def test_a_temperature_near_0_draws_the_most_probable_token(
    temperature: float, truncated: dict[str, float], ids: list[int] | None
) -> None:
    """Many clients send 1e-8 for greedy draws."""
    allowed = None if ids is None else np.array(ids, dtype=np.int64)
    options = SamplingOptions(temperature=temperature, **truncated)
    best = {0: 0, 1: 3, 2: None}.get(-1 if ids is None else ids[0])
    tokens = set()
    for position in range(40):
        step = StepDistribution(LOGITS, allowed, options)
        noise = GumbelNoise((5, 0))
        drawn = step.draw_noisy(partial(noise.best, position=position))
        assert step.draw(0.3) in ((best,) if best is not None else (2, 4))
        assert step.log_z <= 0.0 and not math.isnan(step.log_z)
        tokens.add(drawn)
    # Tokens that tie are drawn with the same probability.
    assert tokens == ({2, 4} if best is None else {best})


def test_the_allowed_probability_at_a_low_temperature() -> None:
    step = StepDistribution(LOGITS, np.array([3, 5]), SamplingOptions(temperature=1e-4))
    assert step.log_z == pytest.approx(-2500 - math.log(2))
    assert StepDistribution(LOGITS, np.array([2, 4]), SamplingOptions(temperature=1e-8)).log_z == 0.0
