"""How much of a draft is read: what pays by the counted chances and the measured costs."""

from __future__ import annotations

import numpy as np
import pytest

from structgen.speculative.controllers import Costs, Fixed, Goodput


def test_everything_or_what_pays() -> None:
    assert Fixed().keep(["any"] * 9, 1) == 9
    control = Goodput(priors={"sure": 0.95, "rare": 0.05})
    assert control.keep(["sure"] * 5, 1) == 5  # nothing is known of costs: it is tried
    for tokens in range(1, 12):
        control.passed(tokens, 0.010 + 0.002 * tokens)
    assert control.keep(["sure"] * 5, 1) == 5
    assert control.keep(["rare"] * 5, 1) == 0
    assert control.keep(["sure", "sure", "rare", "sure"], 1) == 2
    assert control.keep([], 1) == 0


def test_chances_are_counted() -> None:
    control = Goodput()
    for tokens in (1, 8):
        control.passed(tokens, 0.010 * tokens)  # a token more costs as much as the first
    assert control.keep(["guess"] * 4, 1) == 0
    for _ in range(60):
        control.drawn(["guess"] * 4, 4)
    assert control.chance("guess") > 0.9
    for tokens in (1, 8):
        for _ in range(30):
            control.passed(tokens, 0.010 + 0.0005 * tokens)
    assert control.keep(["guess"] * 4, 1) == 4
    for _ in range(60):
        control.drawn(["guess"] * 4, 0)
    assert control.chance("guess") < 0.4


@pytest.mark.parametrize("seed", range(3))
def test_what_is_kept_is_the_best_by_trying_all(seed: int) -> None:
    random = np.random.default_rng(seed)
    for _ in range(50):
        control = Goodput(priors={kind: float(random.random()) for kind in "abc"})
        for tokens in range(1, 16):
            control.passed(tokens, float(random.uniform(0.01, 0.03)))
        kinds = [str(kind) for kind in random.choice(list("abc"), size=8)]
        rates = []
        for kept in range(9):
            chances = np.cumprod([1.0, *map(control.chance, kinds[:kept])])
            rates.append(chances.sum() / control.costs.of(2 + kept))
        assert control.keep(kinds, 2) == int(np.argmax(rates))


def test_costs_between_and_beyond_what_is_known() -> None:
    costs = Costs()
    assert costs.of(5) == 1.0
    costs.note(2, 0.2)
    assert costs.of(4) == pytest.approx(0.212) and costs.of(1) == pytest.approx(0.194)
    costs.note(6, 0.6)
    assert costs.of(4) == pytest.approx(0.4)
    costs.note(2, 100.0)  # one slow pass
    assert costs.of(2) == pytest.approx(0.24)
    costs.note(2, 0.1)  # a fast one counts more
    assert costs.of(2) == pytest.approx(0.17)
    lone = Costs()
    lone.note(60, 0.5)
    assert lone.of(1) > 0


def test_what_once_looked_bad_is_tried_again() -> None:
    control = Goodput()
    control.passed(1, 0.03)
    control.passed(6, 1.0)  # a slow first pass
    kept = [control.keep(["forced"] * 5, 1) for _ in range(200)]
    assert 0 < sum(map(bool, kept)) <= 4
    for _ in range(6):
        control.passed(4, 0.035)
        control.passed(6, 0.04)
    assert control.keep(["forced"] * 5, 1) > 0
