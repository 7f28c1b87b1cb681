"""Distributions of one step under bounds: the core's compared with a few lines of Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen._core import StepBounds

NOTHING = -math.inf


class SlowBounds:
    """Every token by itself; `held` are the tokens whose probabilities are exact."""

    def __init__(
        self, log_p: np.ndarray, masses: np.ndarray, allowed: list[int], least: float, few: int
    ) -> None:
        self.log_p = {token: float(log_p[token]) for token in allowed}
        self.masses = {token: float(masses[token]) for token in allowed}
        total = math.fsum(self.masses.values())
        self.held = {token: 0.0 for token in allowed if masses[token] >= least * total and len(allowed) > few}
        if len(allowed) <= 2 * len(self.held) + few:
            self.held = {token: 0.0 for token in allowed if log_p[token] > NOTHING}

    def parts(self) -> list[tuple[int, float]]:
        """Tokens with what they are drawn in proportion to; -1 for all that are not held."""
        rest = math.fsum(mass for token, mass in self.masses.items() if token not in self.held)
        tokens = [(token, math.exp(self.log_p[token] + self.held[token])) for token in sorted(self.held)]
        return [*tokens, (-1, rest)]

    def draw(self, uniform: float) -> set[int]:
        """The token of a uniform number; of a number between two of them either."""
        parts = [(token, mass) for token, mass in self.parts() if mass > 0]
        total, before, found = math.fsum(mass for _, mass in parts), 0.0, set()
        for token, mass in parts:
            if before - 1e-6 * total <= uniform * total <= before + mass + 1e-6 * total:
                found.add(token)
            before += mass
        return found


def words(allowed: list[int], size: int) -> np.ndarray:
    bits = np.zeros(-(-size // 32) * 32, np.uint8)
    bits[allowed] = 1
    return np.packbits(bits, bitorder="little").view(np.int32)


@given(st.data())
def test_bounds_against_every_token(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 200))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    scores = random.normal(size=size) * data.draw(st.sampled_from([0.1, 3, 10]))
    scores[random.random(size) < data.draw(st.sampled_from([0, 0.3]))] = NOTHING
    peak = scores.max()
    if peak == NOTHING:
        scores[0] = peak = 0.0
    log_p = (scores - peak - math.log(np.exp(scores - peak).sum())).astype(np.float32)
    masses = np.exp(log_p)  # of everything: what is allowed may be as good as nothing of it
    share = data.draw(st.sampled_from([0, 0.05, 0.5, 1]))
    allowed = [token for token in range(size) if random.random() < share]
    mask = None if share == 1 else words(allowed, size)
    least, few = data.draw(
        st.sampled_from([(2.0**-10, 32), (0.0203, 0), (0.0203, -1000), (2.0, 0), (2.0, -1000)])
    )
    fast = StepBounds(log_p, masses, mask, least, few)
    slow = SlowBounds(log_p, masses, allowed, least, few)
    for _ in range(data.draw(st.integers(0, 6))):
        what = data.draw(st.sampled_from(["learn", "hold", "forget"]))
        if what == "hold" and allowed:
            token = data.draw(st.sampled_from(allowed))
            fast.store(token, log_p, masses, mask)
            slow.held.setdefault(token, 0.0)
        elif what != "hold" and slow.held:
            token = data.draw(st.sampled_from(sorted(slow.held)))
            slow.held[token] = (
                0.0 if what == "forget" else data.draw(st.sampled_from([NOTHING, -0.5, -30.0, 3.0]))
            )
            assert fast.learn(token, slow.held[token]) == fast.bound
        held = sorted(slow.held)
        assert fast.tokens.tolist() == held and len(fast) == len(held)
        assert [fast.bound_of(token) for token in held] == fast.theta.tolist() == [slow.held[t] for t in held]
        assert (
            [fast.log_prob(token) for token in held] == fast.log_p.tolist() == [slow.log_p[t] for t in held]
        )
        total = math.fsum(mass for _, mass in slow.parts())
        assert math.exp(fast.bound) == pytest.approx(total, rel=1e-6, abs=1e-300)
        assert math.exp(fast.tail) == pytest.approx(slow.parts()[-1][1], rel=1e-6, abs=1e-300)
        again = StepBounds.restore(fast.tokens, fast.log_p, fast.theta, fast.tail)
        assert again.bound == fast.bound
        for uniform in (*random.random(5), 0.0, math.nextafter(1, 0)):
            if total > 0:
                assert fast.draw(uniform) == again.draw(uniform)
                assert fast.draw(uniform) in slow.draw(uniform)


def test_distributions_with_negligible_tokens() -> None:
    """Of 64 tokens between e^-86 and e^-206, with one of probability nearly 1; some are held later."""
    for peak in (-86.0, -103.0, -200.0):
        log_p = np.concatenate([[0.0], peak - np.linspace(0, 6, 64)]).astype(np.float32)
        masses = np.exp(log_p)
        allowed = list(range(1, 65))
        true = np.exp(log_p[1:].astype(np.float64) - peak)
        for few in (32, -1000):
            bounds = StepBounds(log_p, masses, words(allowed, 65), 0.01, few)
            assert bounds.bound == pytest.approx(peak + math.log(true.sum()), abs=1e-4)
            assert bounds.tokens.tolist() == [
                t for t in allowed if true[t - 1] >= 0.01 * true.sum() or few == 32
            ]
            if few < 0:
                assert bounds.tail == pytest.approx(
                    peak + math.log(true[true < 0.01 * true.sum()].sum()), abs=1e-4
                )
                bounds.store(64, log_p, masses, words(allowed, 65))
                assert bounds.bound == pytest.approx(peak + math.log(true.sum()), abs=1e-4)


def test_logarithms_hold_probabilities_too_small_for_a_float() -> None:
    log_p = np.array([0, -200, -300, NOTHING], np.float32)
    bounds = StepBounds(log_p, np.exp(log_p), words([1, 2, 3], 4), 2.0**-10, 32)
    assert bounds.tokens.tolist() == [1, 2]
    assert bounds.bound == -200
    assert bounds.draw(0.5) == 1


def test_arrays_of_other_lengths_are_refused() -> None:
    weights = np.zeros(40, np.float32)
    with pytest.raises(ValueError, match="lengths"):
        StepBounds(weights, weights[:39], None, 0.5, 0)
    with pytest.raises(ValueError, match="fewer bits"):
        StepBounds(weights, weights, np.zeros(1, np.int32), 0.5, 0)
    bounds = StepBounds(weights, weights, None, 0.5, 64)
    for token in (-1, 40):
        with pytest.raises(KeyError):
            bounds.log_prob(token)
    for token in (-1, 40):
        with pytest.raises(IndexError):
            bounds.store(token, weights, weights, None)
    with pytest.raises(ValueError, match="lengths"):
        StepBounds.restore(np.zeros(2, np.int32), np.zeros(1), np.zeros(2), 0.0)
