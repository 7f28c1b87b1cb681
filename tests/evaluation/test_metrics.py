"""Figures against cases counted by hand and values from the literature."""

from __future__ import annotations

import time

import pytest

from structgen.evaluation.metrics import Outcome, coverage
from structgen.evaluation.statistics import (
    median_interval,
    paired_difference,
    percentile,
    sign_test,
    wilson,
)


def test_coverage_by_hand() -> None:
    right = Outcome("ok", ((True, True), (False, False)), (True, True))
    strict = Outcome("ok", ((True, False),), (True, False))
    loose = Outcome("ok", ((False, True),))
    refused = Outcome("refused", ((True, False),), ())
    hung = Outcome("timeout")
    report = coverage([right, strict, loose, refused, hung])
    assert (report.declared.hits, report.declared.total) == (3, 5)
    assert (report.empirical.hits, report.empirical.total) == (1, 3)
    assert (report.compliance.hits, report.compliance.total) == (1, 2)
    assert (report.true.hits, report.true.total) == (1, 4)
    assert (report.too_strict, report.too_loose) == (1, 1)
    assert report.statuses == {"ok": 3, "refused": 1, "timeout": 1}


def test_a_rate_over_zero_cases_has_no_value() -> None:
    report = coverage([Outcome("ok")])
    assert report.declared.value == 1 and report.true.value is None and report.compliance.value is None


def test_declared_without_a_text_is_not_empirical() -> None:
    assert Outcome("ok", None, ()).empirical is False


def test_wilson() -> None:  # Newcombe 1998, table I, method 3
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(15, 148) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert wilson(0, 20) == pytest.approx((0, 0.1611), abs=5e-5)
    assert wilson(0, 0) == (0, 1)


def test_paired_difference() -> None:
    report = paired_difference(10, 5, 5, 10)
    assert report[0] == 0 and report[1] == pytest.approx(-report[2])
    less, low, high = paired_difference(20, 0, 10, 20)
    assert less == pytest.approx(-0.2) and -1 <= low < less < high < 0
    assert paired_difference(0, 0, 0, 0) == (0, -1, 1)
    # Method 10, as in other programs; without its continuity correction: 0.0222 to 0.2168.
    assert paired_difference(14, 5, 0, 22)[1:] == pytest.approx((0.0115, 0.2265), abs=5e-5)


def test_sign_test() -> None:
    assert sign_test(0, 5) == pytest.approx(2 / 32)
    assert sign_test(3, 3) == 1 and sign_test(0, 0) == 1


def test_percentiles_are_nearest_ranks() -> None:
    values = [5.0, 1.0, 4.0, 2.0, 3.0]
    assert [percentile(values, at) for at in (0, 20, 50, 99, 100)] == [1, 1, 3, 5, 5]
    assert percentile([], 50) is None


def test_median_interval() -> None:
    assert median_interval([3.0, 1.0, 2.0]) == (2, 1, 3)
    assert median_interval([float(i) for i in range(1, 11)]) == (
        5.5,
        2,
        9,
    )  # the classical table: ranks 2 and 9
    assert median_interval([]) is None


def test_ten_thousand_pairs_take_no_time() -> None:
    began = time.process_time()
    assert sign_test(4_950, 5_050) == pytest.approx(0.322, abs=0.002)  # by the normal distribution
    report = median_interval([float(i) for i in range(1, 10_001)])
    assert report == (5000.5, 4902, 5099)  # 5000.5 -/+ 98 ranks
    assert time.process_time() - began < 20
