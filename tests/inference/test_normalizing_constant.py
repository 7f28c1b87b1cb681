"""What attempts under falling bounds tell about the mass of a language."""

from __future__ import annotations

import math

import numpy as np
import pytest

from structgen.inference.normalizing_constant import MassEstimate

MASS = 0.05


def estimates(count: int, bound_of: str, rounds: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Estimates of `rounds` runs that stop at the `count`-th text, and the mean of bound * 1[text] of each."""
    random = np.random.default_rng([count, len(bound_of)])
    found, means = [], []
    for _ in range(rounds):
        estimate, each, ended, attempt = MassEstimate(), [], 0, 0
        while ended < count:
            bound = 1.0 if bound_of == "stays" else MASS + (1 - MASS) * 0.8**attempt
            attempt += 1
            is_text = random.random() < MASS / bound
            ended += is_text
            # Texts without a mass of their own, so that what is certain says nothing.
            estimate.add(math.log(bound), (attempt,) if is_text else None, -math.inf)
            each.append(bound * is_text)
        found.append(math.exp(estimate.of_attempts(0.0, chosen=True)))
        means.append(np.mean(each))
    return np.array(found), np.array(means)


@pytest.mark.parametrize("count", [2, 3, 10])
def test_inverse_sampling_is_without_bias(count: int) -> None:
    """Under a bound that stays it is (n - 1) / (attempts - 1); the mean over all attempts is too high."""
    found, means = estimates(count, "stays")
    error = 5 * found.std() / math.sqrt(len(found))
    assert found.mean() == pytest.approx(MASS, abs=error)
    assert means.mean() > MASS * (1 + 0.5 / count)


@pytest.mark.parametrize("count", [2, 5, 20, 50])
def test_falling_bounds(count: int) -> None:
    """Nearer to the truth than the mean, and not far from it on the average."""
    found, means = estimates(count, "falls")
    assert np.sqrt(np.mean(np.log(found / MASS) ** 2)) <= np.sqrt(np.mean(np.log(means / MASS) ** 2))
    assert found.mean() == pytest.approx(MASS, rel=1 / count)


def test_a_small_language_that_is_known_soon() -> None:
    """After 40 attempts that tell nothing every one ends in a text: the estimate is right."""
    estimate = MassEstimate()
    for attempt in range(400):
        bound = 1.0 if attempt < 40 else 1e-7 * (1 + 0.5**attempt)
        estimate.add(math.log(bound), (attempt,) if attempt >= 40 else None, -math.inf)
    assert estimate.of_attempts(math.log(1e-7), chosen=True) == pytest.approx(math.log(1e-7), abs=1e-6)


def test_nothing_and_texts_that_are_certain() -> None:
    estimate = MassEstimate()
    assert estimate.of_attempts(0.0, chosen=True) == estimate.of_weights() == estimate.low() == -math.inf
    for number in range(3):
        estimate.add(0.0, None, -math.inf)
        estimate.add(0.0, (number % 2,), math.log(0.3))
    assert estimate.low() == pytest.approx(math.log(0.6))
    assert estimate.of_attempts(0.0, chosen=True) == pytest.approx(math.log(0.6))  # attempts alone say less
