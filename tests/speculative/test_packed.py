"""How many draft tokens the rows of a packed pass read: the best choice by trying all, and costs that are learned."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from structgen.speculative.packed import Calibration, PackedGoodput, PassCosts


def _measured(fixed: float, row: float, draft: float, passes: int = 400, noise: float = 0.0) -> PackedGoodput:
    """Return a controller that has seen passes of batches of all sizes."""
    random, goodput = np.random.default_rng(0), PackedGoodput()
    for _ in range(passes):
        rows, drafted = int(random.integers(1, 17)), int(random.integers(0, 25))
        seconds = fixed + row * rows + draft * drafted
        goodput.costs.note(rows, drafted, seconds * (1 + noise * random.exponential()))
    return goodput


@pytest.mark.parametrize("seed", range(3))
def test_what_is_kept_is_the_best_by_trying_all(seed: int) -> None:
    random = np.random.default_rng(seed)
    goodput = _measured(0.03, 0.004, 0.003)
    for _ in range(50):
        rows = int(random.integers(1, 4))
        reach = [sorted(random.random(int(random.integers(0, 6))), reverse=True) for _ in range(rows)]
        rates = {
            kept: (rows + sum(sum(one[:size]) for one, size in zip(reach, kept, strict=True)))
            / goodput.costs.of(rows, sum(kept))
            for kept in product(*(range(len(one) + 1) for one in reach))
        }
        best = max(rates, key=lambda kept: rates[kept])
        plain = rates[(0,) * rows]
        expected = best if rates[best] > 1.03 * plain else (0,) * rows
        assert rates[tuple(goodput.keep(reach))] == pytest.approx(rates[expected])


def test_drafts_shrink_to_none_as_the_batch_fills() -> None:
    reach = [0.8, 0.6, 0.5]
    goodput = _measured(0.05, 0.004, 0.004)
    kept = [sum(goodput.keep([reach] * rows)) / rows for rows in (1, 4, 16, 64)]
    assert kept[0] == 3
    assert kept == sorted(kept, reverse=True)
    assert kept[-1] == 0
    assert goodput.least_chance(1) < goodput.least_chance(16) < goodput.least_chance(64) < 1
    assert goodput.saved(1) > goodput.saved(16) > goodput.saved(64) >= 0


def test_forced_tokens_are_read_in_a_full_batch_only_where_they_pay() -> None:
    forced = [[1.0] * 4, *[[0.5]] * 15]
    assert _measured(0.05, 0.004, 0.004).keep(forced) == [4, *[0] * 15]
    assert _measured(0.0, 0.004, 0.006).keep(forced) == [0] * 16


@pytest.mark.parametrize("seed", range(4))
def test_a_pass_never_costs_nothing(seed: int) -> None:
    """Under much noise, a fit gave all of its time to the draft tokens, and the next division failed."""
    random, goodput = np.random.default_rng(seed), PackedGoodput()
    for step in range(2_000):
        reach = sorted(random.random(7 + step % 2), reverse=True)
        kept = goodput.keep([reach])[0] if step else 0
        seconds = 0.0 if step % 97 == 0 else 0.01 * float(random.lognormal(sigma=0.8))
        goodput.costs.note(1, (7 + step % 2) if step % 3 else kept, seconds)
        assert 0 < goodput.costs.of(1, 0) < 10
        assert 0 <= goodput.least_chance(1) < 1_000 and goodput.saved(1) >= 0


def test_costs_are_fitted_despite_slow_passes() -> None:
    costs = _measured(0.05, 0.004, 0.003, noise=0.2).costs
    assert costs.of(8, 0) == pytest.approx(1.2 * 0.082, rel=0.1)
    assert costs.of(8, 10) - costs.of(8, 0) == pytest.approx(1.2 * 0.03, rel=0.4)
    before = costs.of(8, 0)
    costs.note(8, 0, 1000 * before)  # another process had the CPU
    assert costs.of(8, 0) < 1.1 * before


def test_costs_follow_a_change() -> None:
    costs = _measured(0.05, 0.004, 0.003).costs
    for drafted in (0, 4, 8) * 60:
        costs.note(8, drafted, 2 * (0.082 + 0.003 * drafted))
    assert costs.of(8, 0) == pytest.approx(2 * 0.082, rel=0.05)
    assert costs.of(8, 8) == pytest.approx(2 * 0.106, rel=0.05)


def test_the_cost_of_draft_tokens_is_remembered_while_none_are_read() -> None:
    costs = _measured(0.01, 0.001, 0.01).costs
    for _ in range(1000):
        costs.note(8, 0, 0.018)
    assert costs.of(8, 1) - costs.of(8, 0) == pytest.approx(0.01, rel=0.3)


def test_passes_of_one_shape_leave_the_rest_to_the_assumptions() -> None:
    costs = PassCosts()
    for _ in range(100):
        costs.note(4, 0, 0.1)
    assert costs.of(4, 0) == pytest.approx(0.1, rel=0.02)
    assert costs.of(4, 1) == pytest.approx(0.103, rel=0.02)
    assert costs.of(4, 0) < costs.of(8, 0) < 2 * costs.of(4, 0)


def test_declined_drafts_are_measured_now_and_then() -> None:
    goodput = _measured(0.0, 0.001, 0.01)
    kept = [sum(goodput.keep([[0.9] * 8])) for _ in range(256)]
    assert kept.count(0) == 252
    assert kept.count(3) == 4
    goodput = _measured(0.1, 0.001, 0.001)
    kept = [sum(goodput.keep([[0.9] * 8])) for _ in range(512)]
    assert kept.count(8) == 510
    assert kept.count(0) == 2
    assert goodput.keep([[], []]) == [0, 0]
    assert goodput.keep([]) == []


def test_estimates_are_corrected_by_what_was_accepted() -> None:
    random, calibration = np.random.default_rng(0), Calibration()
    assert calibration.corrected([1.0, 0.9, 0.5]) == [1.0, 0.9, 0.5]
    for _ in range(
        2000
    ):  # half of what is estimated at 0.75 is accepted, and all of what is estimated at 0.25
        calibration.note([0.75], int(random.random() < 0.5))
        calibration.note([0.25], 1)
    assert calibration.corrected([0.75]) == pytest.approx([0.5], abs=0.12)
    assert calibration.corrected([0.25]) == pytest.approx([1.0], abs=0.1)
    first, second = calibration.corrected([0.75, 0.25])
    assert first >= second
    assert calibration.corrected([1.0, 1.0]) == [1.0, 1.0]
