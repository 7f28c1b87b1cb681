"""Integers of draft 4 are a matter of spelling: a number without fraction or exponent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.constraints.json_schema import check, json_schema
from structgen.matcher import Matcher
from tests.core.small_vocabulary import byte_vocabulary
from tests.oracles.json_spelling import accepts
from tests.oracles.json_validator import Validator

DRAFT4 = "http://json-schema.org/draft-04/schema#"
BODIES: list[dict[str, Any]] = [
    {"type": "integer"},
    {"type": ["integer", "string"]},
    {"type": ["integer", "number"]},
    {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 30},
    {"type": "integer", "multipleOf": 5},
    {"allOf": [{"type": "integer"}, {"type": "number"}]},
    {"type": "number"},
    {"anyOf": [{"type": "integer", "minimum": 5}, {"type": "integer", "maximum": 3}]},
    {"oneOf": [{"type": "integer"}, {"minimum": 2}]},
    {"not": {"type": "integer"}},
]


def is_accepted(schema: Any, text: str, **options: Any) -> bool:
    return accepts(Matcher(json_schema(schema, **options), byte_vocabulary()), text)


@pytest.mark.parametrize("body", BODIES, ids=str)
@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["", "-"]), st.integers(0, 40), st.sampled_from(["", ".0", ".00", "e0", ".5"]))
def test_spelling_decides(body: dict[str, Any], sign: str, number: int, rest: str) -> None:
    schema = {"$schema": DRAFT4, **body}
    if rest == "e0" and number > 9:
        return  # not a spelling that is offered
    text = f"{sign}{number}{rest}"
    assert is_accepted(schema, text) == Validator(schema).accepts(text)


def test_later_drafts_take_every_spelling() -> None:
    assert is_accepted({"type": "integer"}, "1.0")
    assert not is_accepted({"type": "integer"}, "1.0", integers="digits")
    assert not is_accepted({"$schema": DRAFT4, "type": "integer"}, "1.0")


def test_a_combination_keeps_the_narrower_spelling() -> None:
    old, new = json_schema({"$schema": DRAFT4, "type": "integer"}), json_schema({"type": "integer"})
    for both in (old & new, new & old):
        assert not accepts(Matcher(both, byte_vocabulary()), "1.0")
        assert accepts(Matcher(both, byte_vocabulary()), "1")


def test_the_report_says_so() -> None:
    assert not any("digits alone" in line for line in check({"$schema": DRAFT4, "type": "number"}).choices)
    assert any("integers='digits'" in line for line in check({}, integers="digits").choices)
