"""Completions that a depth-limited search does not find: deep required levels, containers that must differ."""

from __future__ import annotations

import json
from typing import Any

import pytest

from structgen.constraints.json_schema import json_schema
from structgen.matcher import Matcher
from tests.core.small_vocabulary import byte_vocabulary
from tests.oracles.json_validator import Validator

ITEM = {
    "type": "object",
    "properties": {"a": {"enum": [1, 2, 3]}, "b": {"enum": ["x", "y"]}},
    "required": ["a"],
    "additionalProperties": False,
}
DISTINCT = {"type": "array", "uniqueItems": True, "minItems": 9, "items": ITEM}
LEVELS = 300
DEEP = {
    "$ref": "#/$defs/n0",
    "$defs": {
        **{
            f"n{level}": {
                "type": "object",
                "required": ["n", "v"],
                "properties": {"v": {"type": "integer"}, "n": {"$ref": f"#/$defs/n{level + 1}"}},
            }
            for level in range(LEVELS)
        },
        f"n{LEVELS}": {"const": 1},
    },
}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (DISTINCT, ""),
        (DISTINCT, '[{"a":1},'),
        (DISTINCT, '[{"a":1} , {"b":"x" ,"a":2}'),
        (DISTINCT, '[{"a":1}, {"b":"x",'),
        (DISTINCT, '[{"a":1}, {"a":1'),
        ({"type": "array", "uniqueItems": True, "items": DISTINCT}, '[[{"a":1},{"a":2},'),
        (DEEP, ""),
        (DEEP, '{"v":1,"n":{"v":'),
    ],
)
def test_deep_and_different_values_are_completed(schema: Any, text: str) -> None:
    matcher = Matcher(json_schema(schema), byte_vocabulary())
    rest = matcher.witness_text(text.encode())
    assert rest is not None
    whole = text + rest.decode()
    json.loads(whole)
    if schema is DEEP:
        assert whole.count("{") == LEVELS
    else:
        assert Validator(schema, formats=True).accepts(whole)


def test_an_impossible_length_is_not_tried() -> None:
    matcher = Matcher(json_schema({"type": "string", "minLength": 10**9}), byte_vocabulary())
    assert matcher.witness_text() is None
    assert matcher.least_tokens(512) is None


def test_a_value_that_turns_out_unreadable_adds_no_bytes() -> None:
    schema = {
        "type": "array",
        "items": {"enum": [{}, [{}]]},
        "minItems": 2,
        "maxItems": 2,
        "uniqueItems": True,
        "contains": {},
        "minContains": 2,
    }
    matcher = Matcher(json_schema(schema), byte_vocabulary())
    for started in (b"", b"[", b"[[", b"[{"):
        rest = matcher.witness_text(started)
        assert rest is not None and sorted(map(str, json.loads(started + rest))) == ["[{}]", "{}"]
