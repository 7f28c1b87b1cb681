"""If a search finds no completion, the matcher reports which bound ended it; such searches are no longer slow."""

from __future__ import annotations

from typing import Any

import pytest

import structgen as sg
from structgen import _core
from structgen.errors import LimitExceeded
from structgen.generation.token_budget import Budget


def unique(depth: int, leaf: dict[str, Any]) -> dict[str, Any]:
    schema = leaf
    for _ in range(depth):
        schema = {"type": "array", "uniqueItems": True, "minItems": 2, "items": schema}
    return schema


def doubled(times: int) -> str:
    return "\n".join(["start: a0", *(f"a{i}: a{i + 1} a{i + 1}" for i in range(times)), f'a{times}: "x"'])


FAILURES: dict[str, tuple[Any, str]] = {
    "a long string": (sg.json_schema({"type": "string", "minLength": 10**8}), "16 MiB"),
    "unique arrays": (
        sg.json_schema({"type": "array", "uniqueItems": True, "minItems": 300, "items": {"type": "array"}}),
        "items that must differ",
    ),
    "unique arrays, nested": (sg.json_schema(unique(20, {"type": "boolean"})), "items that must differ"),
    "unique arrays of numbers, nested": (
        sg.json_schema(unique(20, {"type": "integer"})),
        "items that must differ",
    ),
    "two objects of many keys": (
        sg.json_schema(
            {"type": "array", "minItems": 2, "items": {"type": "object", "minProperties": 30_000}}
        ),
        "20,000",
    ),
    "a doubled grammar": (sg.lark(doubled(32)), "grammar"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failed_search_reports_the_bound_that_ended_it(name: str) -> None:
    constraint, why = FAILURES[name]
    matcher = sg.Matcher(constraint, sg.Vocabulary.of_bytes())
    assert matcher.search_failure is None
    before = _core.work_done()
    assert matcher.witness_text() is None
    assert _core.work_done() - before < 120_000_000
    assert why in (matcher.search_failure or "")
    assert matcher.witness() is None
    assert why in (matcher.search_failure or "")  # also where it was found out before
    with pytest.raises(LimitExceeded, match=why):
        Budget(matcher, 100)


def test_a_successful_search_reports_no_bound() -> None:
    matcher = sg.Matcher(sg.json_schema({"type": "integer"}), sg.Vocabulary.of_bytes())
    assert matcher.witness_text(b"x") is None and "cannot be read" in (matcher.search_failure or "")
    assert matcher.witness_text() == b"0" and matcher.search_failure is None
    assert matcher.witness(0) is None and matcher.search_failure is None  # one was found, and is longer


@pytest.mark.parametrize(
    "items",
    [{"type": "integer"}, {"type": "string"}, {"type": "string", "pattern": "^[abc]+$"}, {}],
)
def test_long_arrays_of_different_scalars_are_completed(items: dict[str, Any]) -> None:
    schema = {"type": "array", "uniqueItems": True, "minItems": 2_000, "items": items}
    matcher = sg.Matcher(sg.json_schema(schema), sg.Vocabulary.of_bytes())
    text = matcher.witness_text()
    assert text is not None and matcher.witness_text(text) == b""
    started = matcher.witness_text(b"[")
    assert started is not None and matcher.witness_text(b"[" + started) == b""


def test_an_unsatisfiable_schema_has_no_shortest_text() -> None:
    engine = sg.Vocabulary.of_bytes().engine
    for schema in (False, {"type": "string", "minLength": 10**8}, {"not": {}}):
        assert engine.compile(sg.json_schema(schema).lower()).shortest() is None
