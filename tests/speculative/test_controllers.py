"""How much of a draft is read: what pays by the estimated chances and the measured costs."""

from __future__ import annotations

import numpy as np
import pytest

from structgen.errors import OptionError
from structgen.speculative.controllers import Confidence, Costs, Fixed, Goodput


def line(rows: int, first: float, more: float, longest: int = 60) -> Costs:
    return Costs({rows: {tokens: first + more * tokens for tokens in range(1, longest)}})


def test_everything_or_what_is_probable_or_what_pays() -> None:
    reach = [0.9, 0.8, 0.4, 0.1]
    assert Fixed(3).keep([reach], [1], Costs()) == [3]
    assert Confidence(0.3).keep([reach, [0.2], []], [1, 1, 1], Costs()) == [3, 0, 0]
    assert Goodput().keep([reach], [1], Costs()) == [4]  # nothing is known of costs: it is tried
    assert Goodput().keep([reach], [1], line(1, 0.010, 0.002)) == [3]
    assert Goodput().keep([reach], [1], line(1, 0.001, 0.010)) == [0]
    assert Goodput().keep([[]], [1], line(1, 0.010, 0.002)) == [0]


def test_a_batch_waits_for_its_last_row() -> None:
    reach, costs = [[0.9, 0.9, 0.9], [0.9, 0.9, 0.9], []], line(3, 0.02, 0.008)
    assert Goodput().keep(reach, [1] * 3, costs, [0, 1, 0]) == [3, 3, 0]
    assert Goodput().keep(reach, [1] * 3, costs, [40, 30, 0]) == [
        0,
        0,
        0,
    ]  # what they gain is lost by the third
    assert Goodput().keep(reach, [1] * 3, costs, [40, 0, 30]) == [3, 3, 0]


def test_a_batch_drafts_for_a_greater_gain() -> None:
    assert Goodput().keep([[0.25]], [1], Costs({1: {1: 1.0, 2: 1.05}})) == [1]
    costs = Costs({2: {1: 1.0, 2: 1.05}})
    assert Goodput().keep([[0.25]] * 2, [1] * 2, costs, [0, 0]) == [0] * 2
    assert (
        Goodput().keep([[0.25]] * 2, [1] * 2, costs) == [1] * 2
    )  # in a running batch no row waits for another


@pytest.mark.parametrize("seed", range(3))
def test_what_is_kept_is_the_best_by_trying_all(seed: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(50):
        rows = int(random.integers(1, 4))
        known = {rows: {tokens: float(random.uniform(0.01, 0.03)) for tokens in range(1, 40)}}
        costs = Costs(known).for_rows(rows, pads=rows == 1)
        reach = [sorted(random.random(int(random.integers(0, 12))), reverse=True) for _ in range(rows)]
        pending = [int(random.integers(1, 4)) for _ in range(rows)]
        rates = {}
        for length in range(max(pending), 24):
            kept = [min(length - mine, len(one)) for one, mine in zip(reach, pending, strict=True)]
            longest = max(mine + size for mine, size in zip(pending, kept, strict=True))
            expected = rows + sum(sum(one[:size]) for one, size in zip(reach, kept, strict=True))
            rates[longest, tuple(kept)] = expected / costs.least(rows, longest)[0]
        kept = tuple(Goodput(margin=1.0).keep(reach, pending, costs))
        longest = max(mine + size for mine, size in zip(pending, kept, strict=True))
        assert rates[longest, kept] == pytest.approx(max(rates.values()))


def test_costs_between_and_beyond_what_is_known() -> None:
    costs = Costs()
    assert costs.of(1, 5) > costs.of(1, 4)
    costs.note(1, 2, 0.2)
    assert costs.of(1, 4) == pytest.approx(0.2 * 1.12 / 1.06)
    assert costs.of(1, 1) == pytest.approx(0.2 * 1.03 / 1.06)
    costs.known[1][6] = 0.6
    assert costs.of(1, 4) == pytest.approx(0.4)
    costs.note(1, 2, 100.0)  # one slow pass
    assert costs.of(1, 2) == pytest.approx(0.23)
    costs.note(1, 2, 0.13)  # a fast one counts more
    assert costs.of(1, 2) == pytest.approx(0.18)
    costs.note(1, 4, 100.0)  # slow where nothing is known: what lies around it tells something
    assert costs.of(1, 4) < 0.5
    assert costs.of(1, 16) == pytest.approx(0.6 + 0.8 * (0.6 - 0.18) / 4 * 10)  # a little less than so far
    costs.note(2, 60, 0.5)  # of another number of rows
    assert costs.of(2, 1) > 0 and costs.of(1, 6) == pytest.approx(0.6)


def test_what_a_token_more_takes() -> None:
    assert line(1, 0.02, 0.002).more(1) == pytest.approx(0.002 / 0.022)
    assert line(8, 0.01, 0.02).more(8) == 0.5 and Costs().more(1) == pytest.approx(0.03 / 1.03)


def test_what_is_read_for_nothing() -> None:
    costs = Costs(
        {1: {1: 0.04, 2: 0.07, 3: 0.09, 4: 0.07, 5: 0.06, 7: 0.08, 8: 0.061, 12: 0.07, 16: 0.08, 20: 0.01}}
    )
    assert [costs.padded(1, tokens) for tokens in (1, 2, 3, 5, 7, 8, 12)] == [1, 5, 5, 5, 8, 8, 12]
    assert costs.least(1, 3) == [0.06]
    assert Costs({1: {1: 0.04, 7: 0.08}}).padded(1, 7) == 8  # to see whether it is better


def test_what_once_looked_bad_is_tried_again() -> None:
    control, costs = Goodput(), Costs()
    costs.known[1] = {1: 0.03, 4: 1.0, 6: 1.0, 8: 1.0}  # a slow beginning
    kept = [control.keep([[0.9] * 5], [1], costs)[0] for _ in range(200)]
    assert 0 < sum(map(bool, kept)) <= 4
    for _ in range(8):
        costs.note(1, 4, 0.035)
        costs.note(1, 6, 0.04)
    assert control.keep([[0.9] * 5], [1], costs)[0] >= 3


@pytest.mark.parametrize("make", [lambda: Fixed(0), lambda: Goodput("many"), lambda: Confidence(2.0)])
def test_bad_settings_are_reported(make: object) -> None:
    with pytest.raises(OptionError, match="must be"):
        make()  # type: ignore[operator]


def test_costs_without_padding_ignore_longer_passes() -> None:
    costs = Costs({8: {1: 1.0, 2: 3.0, 3: 3.0, 4: 3.0, 5: 1.2}})
    reach = [[0.5, 0.01]] * 8
    assert Goodput().keep(reach, [1] * 8, costs.for_rows(8, pads=False)) == [0] * 8


def test_costs_of_many_lengths_take_bounded_memory() -> None:
    costs = Costs()
    for tokens in range(1, 100_000):
        costs.note(1, tokens, 0.01 + tokens * 1e-4)
    assert len(costs.known[1]) < 150
    assert costs.of(1, 5000) == pytest.approx(0.51, rel=0.15)
