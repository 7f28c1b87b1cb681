"""Binned times against the times themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen.evaluation.durations import added, bin_of, binned, edges, middle, percentile_of_bins
from structgen.evaluation.statistics import percentile

_TIMES = st.lists(st.floats(0.001, 1e9), max_size=40)


@given(st.floats(0.001, 1e12))
def test_a_bin_holds_its_values(value: float) -> None:
    low, high = edges(bin_of(value))
    assert low * (1 - 1e-9) <= value <= high * (1 + 1e-9)


def test_no_time_at_all_has_a_bin() -> None:
    assert bin_of(0) == bin_of(0.001)


@given(_TIMES, st.floats(0, 100))
def test_percentiles_are_within_half_a_bin(values: list[float], percent: float) -> None:
    report, exact = percentile_of_bins(dict(binned(values)), percent), percentile(values, percent)
    if exact is None:
        assert report is None
    else:
        assert report == pytest.approx(exact, rel=0.0454)


@given(_TIMES, _TIMES)
def test_bins_add_up(one: list[float], two: list[float]) -> None:
    assert added([binned(one), binned(two)]) == dict(binned([*one, *two]))


def test_middle() -> None:
    assert middle(0) == pytest.approx(2 ** (1 / 16)) and binned([1.0, 1.01, 2.0]) == ((0, 2), (8, 1))
