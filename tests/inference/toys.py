"""The toys of the sampling tests: languages and models small enough to enumerate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product

import numpy as np

from structgen.generation.distributions import StepDistribution, allowed_ids
from structgen.generation.options import SamplingOptions
from structgen.models.memory import DistributionModel
from tests.oracles.naive_matcher import NaiveMatcher, NaiveVocabulary
from tests.oracles.toy_model import Distribution, ToyModel

BITS = NaiveVocabulary([b"0", b"1", None], eos_ids=[2])
ZERO, ONE, END = 0, 1, 2


def t1_distribution(tokens: tuple[int, ...]) -> tuple[float, float, float]:
    """Toy T1: P(0)=.6, P(0|0)=.2, P(0|00)=.1, otherwise .5, the end after three bits."""
    if len(tokens) == 3:
        return (0.0, 0.0, 1.0)
    zero = {(): 0.6, (ZERO,): 0.2, (ZERO, ZERO): 0.1}.get(tokens, 0.5)
    return (zero, 1 - zero, 0.0)


T1_LANGUAGE = [b"000"] + [b"1" + bytes(rest) for rest in product(b"01", repeat=2)]


_T1_MATCHER = NaiveMatcher(T1_LANGUAGE, BITS)


def t1_matcher() -> NaiveMatcher:
    return _T1_MATCHER.fork()


def t1_model(**options: bool) -> ToyModel:
    return ToyModel(BITS, t1_distribution, **options)


def enumerate_distribution(
    model: ToyModel, matcher: NaiveMatcher, options: SamplingOptions
) -> Iterator[tuple[tuple[int, ...], float, float]]:
    """Every text of local masking, its probability, and its log weight, by following all branches."""

    def follow(tokens: tuple[int, ...], probability: float, weight: float) -> Iterator:
        with np.errstate(divide="ignore"):
            logits = np.log(np.asarray(model.distribution(tokens), dtype=np.float64))
        distribution = StepDistribution(logits, allowed_ids(matcher.mask(), model.vocabulary.size), options)
        for token, share in distribution.probabilities().items():
            if token in model.vocabulary.eos_ids:
                yield tokens, probability * share, weight + distribution.log_z
                continue
            assert matcher.advance(token)
            yield from follow((*tokens, token), probability * share, weight + distribution.log_z)
            matcher.rollback(1)

    yield from follow((), 1.0, 0.0)


def chi_square(counts: Iterable[tuple[float, float]]) -> tuple[float, int]:
    """Pearson's statistic of (observed, expected) pairs, and its degrees of freedom."""
    pairs = [(observed, expected) for observed, expected in counts if expected > 0]
    return sum((o - e) ** 2 / e for o, e in pairs), len(pairs) - 1


def chi_square_bound(freedom: int) -> float:
    """The 99.9 % quantile, by Wilson and Hilferty."""
    return freedom * (1 - 2 / (9 * freedom) + 3.0902 * math.sqrt(2 / (9 * freedom))) ** 3


def random_distribution(seed: int, size: int) -> Distribution:
    """A model that is a random function of its last three tokens."""

    @cache
    def distribution(tokens: tuple[int, ...]) -> list[float]:
        rng = np.random.default_rng([seed, len(tokens), *tokens[-3:]])
        return list(rng.dirichlet(np.ones(size)))

    return distribution


def strings(
    model: DistributionModel, matcher: NaiveMatcher, cap: int
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every token sequence of the language within the cap, and its probability."""

    def follow(tokens: tuple[int, ...], probability: float) -> Iterator[tuple[tuple[int, ...], float]]:
        distribution = np.exp(model.log_probabilities(tokens).astype(np.float64))
        if matcher.text in matcher.language:
            yield tokens, probability * distribution[4]
        if len(tokens) == cap:
            return
        for token in range(4):
            if matcher.advance(token):
                yield from follow((*tokens, token), probability * distribution[token])
                matcher.rollback(1)

    yield from follow((), 1.0)
