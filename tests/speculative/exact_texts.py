"""The texts of a small language with their exact probabilities, and a chi-squared test of drawn ones."""

from __future__ import annotations

from collections import Counter

import numpy as np

import structgen as sg
from structgen.generation import SamplingOptions, generate_tokens
from structgen.matcher import Matcher
from structgen.speculative.speculation import Speculation
from structgen.vocabulary import Vocabulary
from tests.inference.toys import random_distribution
from tests.oracles.toy_model import ToyModel

PIECES = [b"a", b"b", b"c", b"ab", b"ba", None]
VOCABULARY = Vocabulary.from_tokens(PIECES, [5])
CONSTRAINT = sg.regex("(a|b|c){2,3}")
MODEL = ToyModel(VOCABULARY, random_distribution(7, 6))
DRAWS = 2_000
ROWS = 20
"""Number of rows per generation. The time to grow draft trees is quadratic in it."""


def texts(
    speculation: Speculation | None, count: int = DRAWS, noise: str = "uniform", rows: int = ROWS
) -> Counter[tuple[int, ...]]:
    options = [
        SamplingOptions(temperature=1.0, seed=(11, row), max_tokens=3, noise=noise) for row in range(count)
    ]
    found: Counter[tuple[int, ...]] = Counter()
    for start in range(0, count, rows):
        batch = options[start : start + rows]
        made = generate_tokens(
            MODEL,
            [[0]] * len(batch),
            [Matcher(CONSTRAINT, VOCABULARY) for _ in batch],
            batch,
            drafting=None if speculation is None else speculation.start(MODEL),
        )
        found.update((*one.tokens, one.finish == "complete") for one in made)
    return found


def exact() -> dict[tuple[int, ...], float]:
    """The distribution of texts by following every token of every mask."""
    distribution: dict[tuple[int, ...], float] = {}

    def follow(tokens: tuple[int, ...], probability: float) -> None:
        matcher = Matcher(CONSTRAINT, VOCABULARY)
        assert matcher.accepts(tokens) == len(tokens)
        for token in tokens:
            matcher.advance(token)
        bits = np.unpackbits(matcher.mask().view(np.uint8), count=6, bitorder="little").astype(float)
        p = np.array(MODEL.distribution(tokens)) * bits
        p /= p.sum()
        for token in np.flatnonzero(p).tolist():
            if token == 5:
                distribution[(*tokens, True)] = probability * p[5]
            elif len(tokens) == 3:
                distribution[(*tokens, False)] = (
                    distribution.get((*tokens, False), 0.0) + probability * p[token]
                )
            else:
                follow((*tokens, token), probability * p[token])

    follow((), 1.0)
    return distribution


def chi_squared(found: Counter[tuple[int, ...]]) -> tuple[float, int]:
    """The statistic and its degrees of freedom; rare texts are counted together."""
    distribution, total = exact(), found.total()
    assert set(found) <= set(distribution)
    cells = [(found[text], total * p) for text, p in distribution.items() if total * p >= 5]
    rest = (total - sum(count for count, _ in cells), total - sum(mean for _, mean in cells))
    cells += [rest] if rest[1] > 1 else []
    return sum((count - mean) ** 2 / mean for count, mean in cells), len(cells) - 1
