"""The verdict of one keyword about a key does not depend on the remaining budget of the oracle."""

from __future__ import annotations

from typing import Any

import pytest

import structgen as sg

BRANCHES = [
    {"properties": {f"p{i}": {"type": "integer"}, "q": {"const": i}}, "required": [f"p{i}"]} for i in range(6)
]
DECLARED: dict[str, Any] = {"a": {}, "b": {}, "q": {}, **{f"p{i}": {} for i in range(6)}}
CLOSED = {"type": "object", "additionalProperties": False}
CASES: list[tuple[dict[str, Any], list[bytes]]] = [
    ({**CLOSED, "properties": DECLARED, "oneOf": BRANCHES}, [b'{"z', b'{"p0":1,"z', b'{"pa']),
    (
        {
            "anyOf": [{**CLOSED, "properties": DECLARED}, {**CLOSED, "properties": {**DECLARED, "y": {}}}],
            "oneOf": BRANCHES,
        },
        [b'{"z', b'{"p0":1,"z'],
    ),
    ({"propertyNames": {"pattern": "^[pq]"}, "type": "object", "oneOf": BRANCHES}, [b'{"z', b'{"p0":1,"z']),
    ({"patternProperties": {"^x": False}, "type": "object", "oneOf": BRANCHES}, [b'{"x', b'{"p0":1,"x']),
    ({"type": "object", "properties": {"x": False}, "oneOf": BRANCHES}, [b'{"x"']),
    ({"type": "object", "maxProperties": 1, "oneOf": BRANCHES}, [b'{"p0":1,']),
    ({"allOf": [{"maxProperties": 2}, {"oneOf": BRANCHES}], "type": "object"}, [b'{"p0":1,"z":1,']),
    ({"type": "object", "oneOf": BRANCHES, "unevaluatedProperties": False}, [b'{"z', b'{"p0":1,"z']),
]


@pytest.mark.parametrize("budget", [20_000, 60, 6, 1])
@pytest.mark.parametrize(("schema", "texts"), CASES)
def test_forbidden_keys(schema: dict[str, Any], texts: list[bytes], budget: int) -> None:
    vocabulary = sg.Vocabulary.of_bytes().with_limits(oracle_budget=budget)
    matcher = sg.Matcher(sg.json_schema(schema, whitespace="compact"), vocabulary)
    for text in texts:
        assert matcher.viable_bytes(text) < len(text), text
    for good in (b'{"p0":1}', b'{"p1":2}'):
        assert matcher.viable_bytes(good) == len(good)  # no budget makes what is alive dead
