"""``unevaluatedProperties`` beside many branches agrees with the validator, which collects annotations."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.core.small_vocabulary import byte_vocabulary
from tests.core.written_form import accepts, expected, matcher_of

KEYS = "abcdef"


def branch(source: random.Random) -> dict[str, Any]:
    asked = (True, {"const": 1}, {"type": "integer"}, {"type": "string"}, False)
    named = source.sample(KEYS, source.randint(1, 3))
    schema: dict[str, Any] = {"properties": {key: source.choice(asked) for key in named}}
    if source.random() < 0.6:
        schema["required"] = source.sample(KEYS, 1)
    if source.random() < 0.1:
        schema["additionalProperties"] = True
    if source.random() < 0.1:
        return {"anyOf": [schema, {"required": ["a"], "properties": {"b": True}}]}
    return schema


@pytest.mark.parametrize("seed", range(60))
def test_many_branches(seed: int) -> None:
    source = random.Random(seed)
    schema: dict[str, Any] = {
        "type": "object",
        source.choice(["anyOf", "oneOf"]): [branch(source) for _ in range(source.randint(5, 12))],
        "unevaluatedProperties": source.choice([False, False, {"type": "string"}, {"const": 1}]),
    }
    if source.random() < 0.3:
        schema |= {"if": branch(source), "then": branch(source), "else": branch(source)}
    if source.random() < 0.3:
        schema["properties"] = {"a": True}
    matcher = matcher_of(schema, byte_vocabulary())
    for _ in range(40):
        value = {key: source.choice([1, 7, "x"]) for key in source.sample(KEYS, source.randint(0, 4))}
        text = json.dumps(value)
        assert accepts(matcher, text) == expected(schema, text), text
    assert matcher is None or matcher.unproven or matcher.witness() is not None


def test_a_hundred_branches() -> None:
    branches = [{"properties": {f"k{i}": {}}, "required": [f"k{i}"]} for i in range(100)]
    matcher = matcher_of({"anyOf": branches, "unevaluatedProperties": False}, byte_vocabulary())
    assert accepts(matcher, '{"k1": 1, "k99": 2}')
    assert not accepts(matcher, '{"k1": 1, "z": 2}')
