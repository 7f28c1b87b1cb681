"""Families of schemas of growing size for `bench.growth`: schemas that people write large, and hostile ones.

A family makes a schema and a valid instance of it from a number n; `sizes` are the numbers to measure. The schema
grows, or the output, or both, depending on the family.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench import shared_structure

__all__ = ["FAMILIES", "Family"]

Made = tuple[Any, Any]
_SAMPLE = 50
"""Number of keys or items of an instance if only its schema grows."""


@dataclass(frozen=True)
class Family:
    """A function that makes schemas of any size, and the sizes to measure."""

    make: Callable[[int], Made]
    sizes: tuple[int, ...]


def _doubling(last: int, count: int = 5) -> tuple[int, ...]:
    return tuple(last >> i for i in reversed(range(count)))


def _record(i: int) -> Any:
    """Return a sub-schema of about 200 bytes."""
    return {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 10 + i % 50},
            f"count_{i % 97}": {"type": "integer", "minimum": 0, "maximum": i},
            "tag": {"enum": [f"red{i}", f"green{i}"]},
        },
        "required": ["name"],
    }


def _large_schema(n: int) -> Made:
    keys = [f"entry_{i:06}" for i in range(n)]
    schema = {
        "type": "object",
        "properties": {key: _record(i) for i, key in enumerate(keys)},
        "additionalProperties": False,
    }
    chosen = sorted(random.Random(n).sample(range(n), _SAMPLE))
    return schema, {keys[i]: {"name": "Ada", "tag": f"red{i}"} for i in chosen}


def _optional_keys(n: int, *, shuffled: bool) -> Made:
    keys = [f"key_{i}" for i in range(n)]
    schema = {
        "type": "object",
        "properties": {key: {"type": "integer"} for key in keys},
        "additionalProperties": False,
    }
    if shuffled:
        random.Random(n).shuffle(keys)
    return schema, {key: i for i, key in enumerate(keys)}


def _required_keys(n: int) -> Made:
    schema, instance = _optional_keys(n, shuffled=False)
    return {**schema, "required": list(schema["properties"])}, instance


def _text(n: int, seed: int = 0) -> str:
    source = random.Random(seed)
    words = ["".join(source.choices(string.ascii_lowercase, k=source.randint(2, 9))) for _ in range(500)]
    text = " ".join(source.choice(words) for _ in range(n // 3 + 1))
    return text[:n]


def _longest_text(n: int) -> Made:
    return {"type": "string", "maxLength": n}, _text(n)


def _longest_pattern(n: int) -> Made:
    return {"type": "string", "pattern": f"^[a-z ]{{1,{n}}}$"}, _text(n)


def _branch(i: int) -> Any:
    return {
        "type": "object",
        "properties": {
            "kind": {"const": f"kind_{i}"},
            f"value_{i}": {"type": "number"},
            "note": {"type": "string"},
        },
        "required": ["kind", f"value_{i}"],
    }


def _tagged_branches(n: int, keyword: str) -> Made:
    return {keyword: [_branch(i) for i in range(n)]}, {
        "kind": f"kind_{n - 1}",
        f"value_{n - 1}": 1.5,
        "note": "x",
    }


def _untagged_branches(n: int) -> Made:
    branches = [
        {
            "type": "object",
            "properties": {f"a{i}": {"type": "integer"}, "common": {"type": "string", "maxLength": i + 1}},
            "required": [f"a{i}"],
        }
        for i in range(n)
    ]
    return {"oneOf": branches}, {f"a{n - 1}": 7, "common": "y"}


def _branches_of_a_key(n: int, **more: Any) -> Made:
    branches = [
        {"properties": {f"a_{i}": {"type": "integer"}}, "required": [f"a_{i}"], **more} for i in range(n)
    ]
    return {"oneOf": branches}, {f"a_{n - 1}": 7}


def _pairs(n: int) -> Made:
    pairs = [{"anyOf": [{"required": [f"a_{i}"]}, {"required": [f"b_{i}"]}]} for i in range(n)]
    return {"allOf": pairs}, {f"a_{i}": 1 for i in range(n)}


def _conditions(n: int) -> Made:
    schema = {
        "type": "object",
        "properties": {"kind": {"type": "string"}, "size": {"type": "integer"}},
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": f"k{i}"}}},
                "then": {"properties": {"size": {"minimum": i}}},
            }
            for i in range(n)
        ],
    }
    return schema, {"kind": f"k{n - 1}", "size": n}


def _dependent(n: int) -> Made:
    schema = {
        "type": "object",
        "properties": {f"p{i}": {"type": "integer"} for i in range(n)},
        "dependentRequired": {f"p{i}": [f"p{i + 1}"] for i in range(n - 1)},
    }
    return schema, {f"p{i}": i for i in range(n)}


def _deep_value(n: int) -> Made:
    schema = {
        "type": "object",
        "properties": {"value": {"type": "integer"}, "next": {"$ref": "#"}},
        "required": ["value"],
        "additionalProperties": False,
    }
    value: dict[str, Any] = {"value": 0}
    for i in range(n):
        value = {"value": i, "next": value}
    return schema, value


def _deep_schema(n: int) -> Made:
    schema: Any = {"type": "integer"}
    value: Any = 1
    for _ in range(n):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
        value = {"a": value}
    return schema, value


def _chain_of_references(n: int) -> Made:
    definitions: dict[str, Any] = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(n)}
    definitions[f"d{n}"] = {"type": "integer"}
    return {"$defs": definitions, "$ref": "#/$defs/d0"}, 12


def _enumeration(n: int) -> Made:
    return {"enum": [f"value {i} of {n}" for i in range(n)]}, f"value {n - 1} of {n}"


def _numbers(n: int) -> Made:
    return {"enum": list(range(0, 7 * n, 7))}, 7 * (n - 1)


def _items(n: int) -> Made:
    schema = {"type": "array", "items": _record(5), "maxItems": 2 * n}
    return schema, [{"name": f"n{i}", "tag": "red5"} for i in range(n)]


def _unique_items(n: int) -> Made:
    schema = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    return schema, [f"item {i}" for i in range(n)]


def _unique_values(n: int) -> Made:
    values = [f"value {i}" for i in range(n)]
    return {"type": "array", "items": {"enum": values}, "uniqueItems": True}, values


def _all_of(n: int) -> Made:
    schema = {
        "allOf": [{"properties": {f"p{i}": {"type": "integer"}}, "required": [f"p{i}"]} for i in range(n)]
    }
    return schema, {f"p{i}": i for i in range(n)}


def _patterns_of_keys(n: int) -> Made:
    schema = {
        "type": "object",
        "patternProperties": {f"^x{i}_": {"type": "integer"} for i in range(n)},
        "additionalProperties": False,
    }
    return schema, {f"x{i}_a": i for i in range(0, n, max(1, n // 8))}


def _prefix_items(n: int) -> Made:
    schema = {"type": "array", "prefixItems": [{"const": i} for i in range(n)], "items": False, "minItems": n}
    return schema, list(range(n))


def _unevaluated(n: int) -> Made:
    schema = {
        "allOf": [{"properties": {f"p{i}": {"type": "integer"}}} for i in range(n)],
        "unevaluatedProperties": False,
    }
    return schema, {f"p{i}": i for i in range(min(n, _SAMPLE))}


def _shared(step: str, leaf: str) -> Callable[[int], Made]:
    return lambda n: (shared_structure.inside(step, leaf, n), {f"key_{i}": None for i in range(_SAMPLE)})


FAMILIES: dict[str, Family] = {
    "schema of 4 MB": Family(_large_schema, _doubling(16_384)),
    "optional keys, declared order": Family(lambda n: _optional_keys(n, shuffled=False), _doubling(4_000)),
    "optional keys, any order": Family(lambda n: _optional_keys(n, shuffled=True), _doubling(4_000)),
    "required keys": Family(_required_keys, _doubling(4_000)),
    "maxLength": Family(_longest_text, (200, 1_000, 10_000, 50_000, 100_000)),
    "bounded pattern": Family(_longest_pattern, (200, 1_000, 10_000, 50_000)),
    "oneOf, tagged": Family(lambda n: _tagged_branches(n, "oneOf"), _doubling(1_000)),
    "oneOf, untagged": Family(_untagged_branches, _doubling(1_000)),
    "oneOf, a key each": Family(_branches_of_a_key, _doubling(1_000)),
    "oneOf, a key each and no other": Family(
        lambda n: _branches_of_a_key(n, type="object", additionalProperties=False), _doubling(1_000)
    ),
    "independent anyOf": Family(_pairs, _doubling(320)),
    "anyOf, tagged": Family(lambda n: _tagged_branches(n, "anyOf"), _doubling(1_000)),
    "if/then": Family(_conditions, _doubling(320)),
    "dependentRequired": Family(_dependent, _doubling(320)),
    "allOf": Family(_all_of, _doubling(2_000)),
    "patternProperties": Family(_patterns_of_keys, _doubling(640)),
    "unevaluatedProperties": Family(_unevaluated, _doubling(2_000)),
    "depth of the value": Family(_deep_value, _doubling(960)),
    "depth of the schema": Family(_deep_schema, _doubling(480)),
    "chain of $ref": Family(_chain_of_references, _doubling(16_000)),
    "enum of strings": Family(_enumeration, _doubling(320_000)),
    "enum of numbers": Family(_numbers, _doubling(320_000)),
    "prefixItems": Family(_prefix_items, _doubling(4_000)),
    "items": Family(_items, _doubling(4_000)),
    "uniqueItems, free strings": Family(_unique_items, _doubling(4_000)),
    "uniqueItems, enum": Family(_unique_values, _doubling(1_000)),
    **{
        f"shared by {step}, {leaf}": Family(_shared(step, leaf), _doubling(160))
        for step in ("oneOf, not", "oneOf", "oneOf, enum", "anyOf", "allOf", "not", "if", "then, else")
        for leaf in ("number", "string", "object")
    },
}
