"""The fit over data and size: known slopes, the coverage of the intervals, errors."""

from __future__ import annotations

import numpy as np
import pytest

from structgen.draft_training.scaling import Point, ScalingFit, fit_scaling
from structgen.errors import OptionError

GRID = [(data, size) for data in (1e5, 2e5, 4e5, 8e5) for size in (1e6, 4e6)]


def measured(pairs: list[tuple[float, float]], noise: float, seed: int, heavy: bool = False) -> list[Point]:
    """Values 0.5 + 0.1 for each doubling of the data + 0.03 for each of the size."""
    rng = np.random.default_rng(seed)
    errors = rng.standard_t(4, len(pairs)) / 2**0.5 if heavy else rng.normal(size=len(pairs))
    return [
        Point(data, size, 0.5 + 0.1 * np.log2(data) + 0.03 * np.log2(size) + noise * error)
        for (data, size), error in zip(pairs, errors, strict=True)
    ]


def test_exact_points_give_their_slopes() -> None:
    fit = fit_scaling(measured(GRID, 0.0, 0))
    assert fit.level == pytest.approx(0.5)
    assert fit.data is not None and fit.size is not None
    for slope, expected in ((fit.data, 0.1), (fit.size, 0.03)):
        assert [slope.estimate, slope.low, slope.high] == pytest.approx([expected] * 3)
        assert slope.is_clear
    assert fit.predict(1.6e6, 8e6) == pytest.approx(0.5 + 0.1 * np.log2(1.6e6) + 0.03 * np.log2(8e6))


def test_estimates_are_those_of_least_squares() -> None:
    points = measured(GRID, 0.05, 3)
    design = [[1.0, np.log2(point.data), np.log2(point.size)] for point in points]
    expected = np.linalg.lstsq(np.array(design), [point.value for point in points], rcond=None)[0]
    fit = fit_scaling(points)
    assert fit.data is not None and fit.size is not None
    assert [fit.level, fit.data.estimate, fit.size.estimate] == pytest.approx(expected.tolist())


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("pairs", [GRID, GRID[::2], [*GRID[::2][:3]], GRID * 2])
def test_intervals_cover_the_true_slope_as_often_as_they_claim(
    pairs: list[tuple[float, float]], heavy: bool
) -> None:
    runs, covered, zero = 300, 0, 0
    for seed in range(runs):
        fit = fit_scaling(measured(pairs, 0.03, seed, heavy), confidence=0.9, seed=seed)
        assert fit.data is not None
        assert (fit.size is None) == (len({size for _, size in pairs}) == 1)
        covered += fit.data.low <= 0.1 <= fit.data.high
        zero += fit.data.low <= fit.data.estimate <= fit.data.high
    assert zero == runs
    # Three standard deviations of a binomial: 0.9 +- 0.052, and some more for what is approximate.
    assert 0.83 <= covered / runs <= 0.97


def test_narrower_with_more_points_and_with_less_confidence() -> None:
    def width(fit: ScalingFit) -> float:
        assert fit.data is not None
        return fit.data.high - fit.data.low

    few, many = fit_scaling(measured(GRID, 0.05, 1)), fit_scaling(measured(GRID * 8, 0.05, 1))
    assert width(many) < width(few) / 2
    assert width(fit_scaling(measured(GRID, 0.05, 1), confidence=0.5)) < width(few) / 2
    assert fit_scaling(measured(GRID, 0.05, 1), seed=4) == fit_scaling(measured(GRID, 0.05, 1), seed=4)


def test_sentences() -> None:
    fit = fit_scaling(measured(GRID, 0.0, 0))
    assert fit.sentences() == (
        "Tokens per pass: 0.1 more each time the training data doubles "
        "(95 % interval: +0.1 to +0.1; 8 points from 100,000 to 800,000). "
        "Tokens per pass: 0.03 more each time the number of weights doubles "
        "(95 % interval: +0.03 to +0.03; 8 points from 1,000,000 to 4,000,000)."
    )
    points = [Point(data, 1e6, value) for data, value in ((1, 1.3), (2, 1.1), (4, 1.4), (8, 1.2))]
    assert (
        fit_scaling(points)
        .sentences("acceptance")
        .startswith("Acceptance: no clear change each time the training data doubles (95 % interval: -")
    )
    falling = [Point(1e6, 2.0**k, 0.9 - 0.1 * k) for k in range(4)]
    assert "Acceptance: 0.1 less each time the number of weights doubles" in fit_scaling(falling).sentences(
        "acceptance"
    )


def test_outlook_is_the_slope_of_the_data_from_the_drafter_with_the_most() -> None:
    assert fit_scaling(measured(GRID, 0.0, 0)).outlook() == (
        "If the trend goes on, 1,600,000 training tokens in place of 800,000 give 3.22 tokens per pass in place of "
        "3.12 (+0.1; 95 % interval: +0.1 to +0.1)."
    )
    points = [Point(data, 1e6, value) for data, value in ((1, 1.3), (2, 1.1), (4, 1.4), (8, 1.2))]
    unclear = fit_scaling(points).outlook()
    assert unclear.startswith(
        "There is no clear gain in tokens per pass to expect from 16 training tokens in place of 8 (95 % interval: -"
    )
    sizes = [Point(1e6, 2.0**k, 0.9 - 0.1 * k) for k in range(4)]
    assert "same amount of data" in fit_scaling(sizes).outlook()


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([], "at least 3 drafters that differ in training data or size, and there are 0"),
        ([Point(1e5, 1e6, 1.2)] * 5, "and there is 1"),
        ([Point(1e5, 1e6, 1.2), Point(2e5, 1e6, 1.3)] * 3, "and there are 2"),
        ([Point(2.0**k, 3.0 * 2.0**k, 1.0 + k) for k in range(6)], "data and size grow in step"),
        (
            [Point(1, 1, 1.0), Point(2, 1, 1.1), Point(1, 2, 1.2)],
            "3 points determine 3 coefficients exactly, which leaves no interval",
        ),
        ([Point(0, 1, 1.0), Point(2, 1, 1.1), Point(4, 1, 1.2)], "needs positive numbers"),
        ([Point(1, 1, float("nan")), Point(2, 1, 1.1), Point(4, 1, 1.2)], "value that is not finite"),
    ],
)
def test_errors(points: list[Point], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        fit_scaling(points)
    assert message in str(caught.value)
    with pytest.raises(OptionError, match="confidence is 95; it must be between 0 and 1"):
        fit_scaling(points, confidence=95)
