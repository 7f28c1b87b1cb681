"""The simulation of mask costs, on costs that can be reckoned by hand."""

from __future__ import annotations

import itertools

import pytest

from bench.scale import Replica, Schema, simulate

MS = 1e-3


def replica(rows: int, engines: int, first: float = 1.0, later: float = 1.0) -> Replica:
    """Schemas 0 and 1 in turn; one mask a request."""
    schema = Schema(0.0, ((first * MS,), (later * MS,)))
    turns = itertools.cycle([0, 1])
    return Replica([schema, schema], rows, engines, lambda: next(turns))


def test_masks_of_one_engine_add_up() -> None:
    masks, added = simulate(replica(4, 1), 10, (8 * MS, 0.0), during=False)
    assert masks == pytest.approx([4 * MS] * 10)
    assert added == pytest.approx(0.5)


def test_engines_share_rows_by_schema() -> None:
    masks, added = simulate(replica(4, 2), 10, (8 * MS, 0.0), during=False)
    assert masks == pytest.approx([2 * MS] * 10)
    assert added == pytest.approx(0.25)


def test_masks_during_the_pass_cost_only_what_exceeds_it() -> None:
    assert simulate(replica(4, 1), 10, (8 * MS, 0.0), during=True)[1] == pytest.approx(0.0)
    assert simulate(replica(16, 1), 10, (8 * MS, 0.0), during=True)[1] == pytest.approx(1.0)


def test_rows_make_the_pass_longer() -> None:
    assert simulate(replica(4, 1), 10, (4 * MS, 1 * MS), during=False)[1] == pytest.approx(0.5)


def test_what_was_met_is_remembered() -> None:
    one = replica(2, 1, first=5.0, later=1.0)
    masks, _ = simulate(one, 20, (8 * MS, 0.0), during=False)
    assert masks[0] == pytest.approx(10 * MS) and masks[-1] == pytest.approx(2 * MS)
    assert one.fresh == 2 and one.requests > 10
