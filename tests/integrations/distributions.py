"""Exact distributions of sampled tokens, and a test of whether draws have them. Nothing here is taken from an engine.

Error rate: `check_draws` refuses right draws with a probability of about `ERROR_RATE`. The tests that use it have fixed
seeds, so they do not fail from time to time; the rate says what a failure after a change means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["ERROR_RATE", "check_draws", "p_value", "penalised", "token_probabilities"]

ERROR_RATE = 1e-6
"""The probability with which right draws are refused."""
_LEAST_EXPECTED = 10.0
"""Outcomes that are expected fewer times than this count as one."""


def token_probabilities(
    logits: NDArray[np.floating], temperature: float, top_k: int = 0, top_p: float = 1.0
) -> NDArray[np.float64]:
    """Return the distribution of a token. At temperature 0 the likeliest token has all of it.

    Args:
        logits: The logits, ``[vocabulary]``; minus infinity for forbidden tokens.
        temperature: Divides the logits.
        top_k: The number of likeliest tokens that are kept; 0 keeps all.
        top_p: Then keeps the likeliest tokens that have this probability together.
    """
    values = logits.astype(np.float64)
    if temperature == 0:
        return np.eye(len(values))[values.argmax()]
    values = values / temperature
    ranked = np.argsort(-values, kind="stable")
    if top_k:
        values[ranked[top_k:]] = -np.inf
    found = np.exp(values - values.max())
    found /= found.sum()
    before = np.cumsum(found[ranked]) - found[ranked]
    found[ranked[before >= top_p]] = 0.0
    return found / found.sum()


def penalised(
    logits: NDArray[np.float32],
    prompt: Sequence[int],
    output: Sequence[int],
    presence: float = 0.0,
    frequency: float = 0.0,
    repetition: float = 1.0,
) -> NDArray[np.float64]:
    """Return the logits with penalties; `repetition` also counts tokens of the prompt."""
    made = logits.astype(np.float64)
    for token in {*prompt, *output}:
        made[token] *= repetition if made[token] < 0 else 1 / repetition
    for token, count in Counter(output).items():
        made[token] -= frequency * count + presence
    return made


def p_value(counts: Mapping[Hashable, int], expected: Mapping[Hashable, float]) -> float:
    """Return the probability with which right draws deviate from their distribution as much as these (chi-square).

    Args:
        counts: How often each outcome was drawn.
        expected: The probability of each outcome. What is missing to 1 belongs to outcomes that are not listed.
    """
    total = sum(counts.values())
    if any(counts[outcome] and not chance for outcome, chance in expected.items()):
        return 0.0
    cells = {outcome for outcome, chance in expected.items() if total * chance >= _LEAST_EXPECTED}
    drawn = [float(counts[outcome]) for outcome in cells]
    means = [total * expected[outcome] for outcome in cells]
    rest, mean = total - sum(drawn), total - sum(means)
    if mean >= _LEAST_EXPECTED or not cells:
        drawn.append(rest)
        means.append(mean)
    elif rest > _most_of(mean):
        return 0.0
    if len(means) < 2:
        return 1.0
    statistic = sum((one - mean) ** 2 / mean for one, mean in zip(drawn, means, strict=True))
    return float(
        torch.special.gammaincc(torch.tensor((len(means) - 1) / 2.0).double(), torch.tensor(statistic / 2))
    )


def _most_of(mean: float) -> float:
    """Return a number that a Poisson variable of this mean exceeds with less than `ERROR_RATE`."""
    most = 0
    while (
        float(torch.special.gammainc(torch.tensor(most + 1.0).double(), torch.tensor(max(mean, 1e-6))))
        > ERROR_RATE
    ):
        most += 1
    return most


def check_draws(
    draws: Mapping[str, tuple[Counter[Hashable], Mapping[Hashable, float]]], error_rate: float = ERROR_RATE
) -> None:
    """Assert that draws have their distributions.

    Args:
        draws: By a name: how often each outcome was drawn, and the probability of each.
        error_rate: The probability with which right draws are refused, all of them together.
    """
    values = {name: p_value(counts, expected) for name, (counts, expected) in draws.items()}
    wrong = {name: value for name, value in values.items() if not value > error_rate / len(values)}
    assert not wrong, f"p-values of wrong distributions: {wrong}"
