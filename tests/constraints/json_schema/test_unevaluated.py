"""``unevaluatedProperties`` with many branches agrees with the validator, which collects annotations."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from structgen.errors import UnsupportedKeyword
from tests.core.small_vocabulary import byte_vocabulary
from tests.oracles.json_spelling import accepts, expected, matcher_of

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


def choice(source: random.Random, depth: int) -> dict[str, Any]:
    """Branches of one group, perhaps distinguished by a tag, and perhaps with such a group in one of them."""
    tags: list[Any] = [1, 7, "x", "y"]
    branches: list[Any] = []
    for tag in tags[: source.randint(2, 4)]:
        one = branch(source)
        if depth and source.random() < 0.3:
            one = {"allOf": [one, choice(source, depth - 1)]}
        if source.random() < 0.2:
            one["patternProperties"] = {"[ef]": True}
        if source.random() < 0.1:
            one["unevaluatedProperties"] = source.choice([False, {"type": "integer"}])
        tag = tags[0] if source.random() < 0.1 else tag
        tagged = {"type": "object", "properties": {"a": {"const": tag}}, "required": ["a"]}
        branches.append({"allOf": [one, tagged]} if source.random() < 0.9 else one)
    if source.random() < 0.2:
        branches.append(source.choice([False, {"$ref": "#/$defs/shared"}]))
    return {source.choice(["oneOf", "oneOf", "anyOf"]): branches}


@pytest.mark.parametrize("seed", range(150))
def test_one_choice(seed: int) -> None:
    source = random.Random(seed)
    parts = [branch(source), {"$ref": "#/$defs/choice"}]
    if source.random() < 0.2:
        parts.append(choice(source, 0))
    schema: dict[str, Any] = {
        "allOf": parts,
        "unevaluatedProperties": source.choice([False, False, {"type": "string"}, {"const": 1}]),
        "$defs": {"choice": choice(source, 1), "shared": branch(source)},
    }
    try:
        matcher = matcher_of(schema, byte_vocabulary())
    except UnsupportedKeyword as limit:
        assert "branches that may evaluate something" in str(limit)
        return
    for _ in range(60):
        value = {key: source.choice([1, 7, "x", "y"]) for key in source.sample(KEYS, source.randint(0, 4))}
        text = json.dumps(value)
        assert accepts(matcher, text) == expected(schema, text), text


def test_patterns_in_many_tagged_branches() -> None:
    branches = [
        {"patternProperties": {f"^k{i}": {}}, "properties": {"tag": {"const": i}}, "required": ["tag"]}
        for i in range(20)
    ]
    schema = {"type": "object", "oneOf": branches, "unevaluatedProperties": False}
    matcher = matcher_of(schema, byte_vocabulary())
    assert accepts(matcher, '{"tag": 7, "k7": 1}')
    assert not accepts(matcher, '{"tag": 7, "k8": 1}')


def shared_level(source: random.Random, later: list[str]) -> dict[str, Any]:
    """A schema whose parts are references to later ones, each perhaps several times, and perhaps unevaluated keys."""

    def part() -> dict[str, Any]:
        reference: dict[str, Any] = {"$ref": source.choice(later)}
        kind = source.randint(0, 4)
        if kind == 0:
            return {"properties": {source.choice("abc"): reference}}
        if kind == 1:
            return {"properties": {source.choice("abc"): True}, "required": source.sample("abc", 1)}
        if kind == 2:
            return {"allOf": [reference, {"prefixItems": [{}] * source.randint(1, 2)}]}
        return reference

    schema: dict[str, Any] = {}
    for keyword in source.sample(["anyOf", "oneOf", "allOf", "if", "dependentSchemas"], source.randint(1, 2)):
        if keyword == "if":
            schema |= {"if": part()} | {key: part() for key in ("then", "else") if source.random() < 0.8}
        elif keyword == "dependentSchemas":
            schema[keyword] = {source.choice("abc"): part()}
        else:
            schema[keyword] = [part() for _ in range(source.randint(1, 3))]
    rest = [False, {"type": "integer"}, {"$ref": source.choice(later)}]
    if source.random() < 0.5:
        schema["unevaluatedProperties"] = source.choice(rest)
    if source.random() < 0.3:
        schema["unevaluatedItems"] = source.choice(rest)
    return schema


LAST = ({"type": "integer"}, {}, {"type": "object"}, {"properties": {"a": True}}, {"prefixItems": [{}]})


@pytest.mark.parametrize("seed", range(150))
def test_shared_parts(seed: int) -> None:
    source = random.Random(seed)
    levels = source.randint(2, 6)
    names = [f"#/$defs/d{i}" for i in range(levels + 1)]
    parts = {f"d{i}": shared_level(source, names[i + 1 : i + 4]) for i in range(levels)}
    parts[f"d{levels}"] = source.choice(LAST)
    top: dict[str, Any] = {"$ref": "#/$defs/d0"}
    if source.random() < 0.3:
        top = {"not": top}
    elif source.random() < 0.6:
        top |= {"unevaluatedProperties": False, "unevaluatedItems": {"type": "integer"}}
    schema = {**top, "$defs": parts}
    try:
        matcher = matcher_of(schema, byte_vocabulary())
    except UnsupportedKeyword as limit:
        assert "unevaluatedItems beside" in str(limit)
        return

    def value(depth: int) -> Any:
        kind = source.randint(0, 5 if depth else 1)
        if kind < 2:
            return source.choice([1, "x"])
        if kind < 3:
            return [value(depth - 1) for _ in range(source.randint(0, 3))]
        return {key: value(depth - 1) for key in source.sample("abcd", source.randint(0, 3))}

    for _ in range(40):
        text = json.dumps(value(2))
        assert accepts(matcher, text) == expected(schema, text), (schema, text)
