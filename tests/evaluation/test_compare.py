"""Two small runs, compared by hand."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen.errors import OptionError
from structgen.evaluation.compare import Change, Difference, compare
from structgen.evaluation.pairing import PairedRatio, PairedShare

from .runs import masks, read, run_of, worked, written


def test_what_changed() -> None:
    before = run_of(
        read("a", "1", verdicts="=", compile_s=0.001, masks_us=masks(2)),
        read("a", "2", status="refused", verdicts="<", message="no oneOf"),
        read("a", "3", verdicts=">"),
        read("a", "4"),
        written("a", "1"),
        written("a", "3", ended=False),
        worked("a", "t", 0.5),
        worked("a", "u", 0, valid=False),
    )
    after = run_of(
        read("a", "1", verdicts="<", compile_s=0.003, masks_us=masks(1)),
        read("a", "2", verdicts="="),
        read("a", "3", verdicts=">"),
        read("a", "5"),
        written("a", "1", valid=False),
        written("a", "3"),
        worked("a", "t", 1),
        worked("a", "u", 1),
    )
    report = compare(before, after)
    assert report.changes == (
        Change("a", "d", "2", "declared", True, "refused: no oneOf", "ok"),
        Change("a", "d", "1", "true", False, "right", "too strict"),
        Change("a", "d", "2", "true", True, "refused: no oneOf", "right"),
        Change("a", "d", "1", "empirical", False, "valid", "invalid text"),
        Change("a", "d", "3", "empirical", True, "cut off", "valid"),
        Change("a", "calling", "t", "correct", True, "wrong, score 0.50", "correct"),
        Change("a", "calling", "u", "correct", True, "breaks the schema", "correct"),
    )
    figures = {one.figure: one.estimate for one in report.compared}
    assert figures["declared"] == PairedShare(2, 0, 1, 0)
    assert figures["true"] == PairedShare(0, 1, 1, 1)
    assert figures["correct"] == PairedShare(0, 0, 2, 0)
    assert isinstance(figures["compile"], PairedRatio) and figures["compile"].count == 2
    assert figures["compile"].high == pytest.approx(3) and figures["mask"] == PairedRatio(
        1, 0.5, 0.5, 0.5, 0, 1
    )
    assert report.alone == (
        "a, d: 1 only in the first run, not compared",
        "a, d: 1 only in the second run, not compared",
    )
    assert report.differences == ()
    json.dumps(report.to_json(), allow_nan=False)


def test_settings_that_differ_are_reported() -> None:
    one = run_of(read("a", "1"))
    two = run_of(read("a", "1"), engines={"a": "1.1"}, started="later", model="bytes")
    assert compare(one, two).differences == (
        Difference("engines.a", "1.0", "1.1"),
        Difference("engines.b", "2.0", None),
        Difference("model", "embedded", "bytes"),
    )


def test_engines_are_matched_by_name() -> None:
    one = run_of(read("a", "1"), read("b", "1"))
    two = run_of(read("b", "1"), read("c", "1"), engines={"b": "1", "c": "1"})
    assert {row.engine for row in compare(one, two).compared} == {"b"}
    assert {row.engine for row in compare(one, two, [("a", "c")]).compared} == {"a -> c"}
    assert {row.engine for row in compare(one, one, [("a", "b")]).compared} == {"a -> b"}
    only = [run_of(read(name, "1"), engines={name: "1"}) for name in "xy"]
    assert {row.engine for row in compare(*only).compared} == {"x -> y"}


def test_nothing_in_common_is_reported() -> None:
    one, two = (run_of(read(name, "1"), engines={name: "1", name * 2: "1"}) for name in "ab")
    with pytest.raises(OptionError, match="no engine in common: a, aa, and b, bb"):
        compare(one, two)
    with pytest.raises(OptionError, match=r"(?s)second run has no engine 'a'.*It has b, bb"):
        compare(one, two, [("a", "a")])
    with pytest.raises(OptionError, match="no item in common"):
        compare(one, run_of(read("a", "2"), engines={"a": "1"}))


_STATUSES = st.sampled_from(["ok", "refused", "crash"])


@given(st.dictionaries(st.sampled_from("123456"), st.tuples(_STATUSES, _STATUSES), min_size=1))
def test_backwards_is_the_opposite(items: dict[str, tuple[str, str]]) -> None:
    one, two = (run_of(*(read("a", item, status=both[at]) for item, both in items.items())) for at in (0, 1))
    there, back = compare(one, two), compare(two, one)
    assert {(c.item, c.ok) for c in there.changes} == {(c.item, not c.ok) for c in back.changes}
    [forth] = [row.estimate for row in there.compared if isinstance(row.estimate, PairedShare)]
    [again] = [row.estimate for row in back.compared if isinstance(row.estimate, PairedShare)]
    assert forth.p == again.p and forth.difference[0] == pytest.approx(-again.difference[0])
    assert compare(one, one).changes == ()
