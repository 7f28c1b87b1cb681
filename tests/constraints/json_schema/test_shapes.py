"""Shapes of objects and arrays, against a validator of whole values."""

from __future__ import annotations

import json
from itertools import combinations, product
from typing import Any

import pytest

import structgen as sg
from structgen import _core
from structgen.constraints.json_schema.nodes import TYPES
from structgen.constraints.json_schema.shapes import ArrayShape, ObjectShape, Shapes
from structgen.errors import LimitExceeded, UnsupportedKeyword
from tests.oracles.json_validator import Validator

VOCABULARY = sg.Vocabulary.of_bytes()
NAMES = ("a", "b", "ab", "x1", "q")
VALUES = (1, "s", None)
INTEGER, STRING = {"type": "integer"}, {"type": "string"}
OBJECTS: dict[str, Any] = {
    "anything": True,
    "nothing": {"type": "object", "maxProperties": 0},
    "declared": {"properties": {"a": INTEGER, "b": STRING}, "required": ["b"]},
    "closed": {"properties": {"a": INTEGER}, "additionalProperties": False},
    "required without a declaration": {"required": ["q"], "additionalProperties": STRING},
    "patterns that overlap": {
        "patternProperties": {"^a": {"type": ["integer", "null"]}, "b$": {"type": ["null", "string"]}}
    },
    "a pattern and a declaration": {
        "properties": {"ab": {"type": ["integer", "string"]}}, "patternProperties": {"^a": INTEGER}
    },
    "a pattern that lists": {"patternProperties": {"^(q|a)$": INTEGER, "^x1$": STRING}, "additionalProperties": False},
    "names": {"propertyNames": {"pattern": "^[a-b]+$"}, "minProperties": 1},
    "listed names": {"propertyNames": {"enum": ["a", "q"]}, "properties": {"b": True}},
    "names without the required one": {"propertyNames": {"maxLength": 1}, "required": ["ab"]},
    "counted": {"additionalProperties": INTEGER, "minProperties": 1, "maxProperties": 2},
    "all of": {"allOf": [{"properties": {"a": INTEGER}}, {"additionalProperties": {"type": ["integer", "null"]}}]},
    "any of": {"anyOf": [{"required": ["a"]}, {"properties": {"b": INTEGER}, "required": ["b"]}]},
    "one of": {"oneOf": [{"required": ["a"], "additionalProperties": INTEGER}, {"type": "string"}]},
    "dependent": {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"q": {"maxProperties": 1}}},
    "listed": {"enum": [{"a": 1}, {"a": 1, "b": "s"}, 3]},
    "a reference": {"$ref": "#/$defs/o", "$defs": {"o": {"properties": {"a": INTEGER}}}, "required": ["a"]},
    "unevaluated": {"properties": {"a": INTEGER}, "unevaluatedProperties": {"type": "null"}},
    "a choice of types": {"type": ["object", "string"], "not": {"type": "string"}, "properties": {"a": False}},
}  # fmt: skip
ARRAYS: dict[str, Any] = {
    "anything": True,
    "items": {"items": INTEGER, "minItems": 1, "maxItems": 2},
    "a prefix": {"prefixItems": [INTEGER, STRING], "items": {"type": "null"}, "minItems": 1},
    "a closed prefix": {"prefixItems": [INTEGER, STRING], "items": False},
    "a prefix that ends": {"prefixItems": [INTEGER, False, STRING]},
    "two prefixes": {
        "allOf": [{"prefixItems": [{"type": ["integer", "null"]}]}, {"items": INTEGER, "maxItems": 2}]
    },
    "any of": {"anyOf": [{"items": INTEGER}, {"items": STRING, "minItems": 2}]},
    "listed": {"enum": [[1], [1, "s"]]},
}


def _is_json(shapes: Shapes, value: Any, conjunction: tuple[int, ...]) -> bool:
    matcher = sg.Matcher(shapes.json(conjunction, TYPES), VOCABULARY)
    return all(map(matcher.advance, json.dumps(value).encode())) and matcher.is_complete()


def _is_object(shapes: Shapes, shape: ObjectShape, value: dict[str, Any]) -> bool:
    space = _core.RegexSpace()
    members = {one.name: one for one in shape.members}
    if any(one.is_required and one.name not in value for one in shape.members):
        return False
    if not shape.min_count <= len(value) <= (len(value) if shape.max_count is None else shape.max_count):
        return False
    for name, inner in value.items():
        if name in members:
            fits = _is_json(shapes, inner, members[name].value)
        else:
            fits = any(
                space.matches(space.compile(one.names), name.encode()) and _is_json(shapes, inner, one.value)
                for one in shape.undeclared
            )
        if not fits:
            return False
    return True


def _is_array(shapes: Shapes, shape: ArrayShape, value: list[Any]) -> bool:
    if not shape.min_count <= len(value) <= (len(value) if shape.max_count is None else shape.max_count):
        return False
    places = [*shape.first, *[shape.rest] * len(value)][: len(value)]
    return all(_is_json(shapes, one, place) for one, place in zip(value, places, strict=True))


@pytest.mark.parametrize("name", OBJECTS)
def test_shapes_have_the_objects_that_are_valid(name: str) -> None:
    schema = OBJECTS[name]
    shapes, validator = Shapes(sg.json_schema(schema)), Validator(schema)
    found = shapes.objects(shapes.root)
    for size in range(3):
        for names in combinations(NAMES, size):
            for values in product(VALUES, repeat=size):
                value = dict(zip(names, values, strict=True))
                fits = any(_is_object(shapes, shape, value) for shape in found)
                assert fits == validator.accepts(json.dumps(value)), value


@pytest.mark.parametrize("name", ARRAYS)
def test_shapes_have_the_arrays_that_are_valid(name: str) -> None:
    schema = ARRAYS[name]
    shapes, validator = Shapes(sg.json_schema(schema)), Validator(schema)
    found = shapes.arrays(shapes.root)
    for size in range(4):
        for values in product(VALUES, repeat=size):
            fits = any(_is_array(shapes, shape, list(values)) for shape in found)
            assert fits == validator.accepts(json.dumps(values)), values


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"not": {"required": ["a"]}}, "not"),
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, "if"),
        ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, "oneOf"),
    ],
)
def test_what_has_no_shape_is_refused_with_its_place(schema: Any, keyword: str) -> None:
    shapes = Shapes(sg.json_schema(schema))
    with pytest.raises(UnsupportedKeyword) as caught:
        shapes.objects(shapes.root)
    assert caught.value.keyword == keyword and caught.value.pointer == f"#/{keyword}"


@pytest.mark.parametrize("schema", [{"uniqueItems": True}, {"contains": {"type": "integer"}}])
def test_arrays_without_a_shape_are_refused(schema: Any) -> None:
    shapes = Shapes(sg.json_schema(schema))
    with pytest.raises(UnsupportedKeyword):
        shapes.arrays(shapes.root)


def test_alternatives_are_bounded() -> None:
    patterns = {"patternProperties": {f"{letter}": True for letter in "abcdefgh"}}
    shapes = Shapes(sg.json_schema(patterns))
    with pytest.raises(LimitExceeded) as caught:
        shapes.objects(shapes.root)
    assert caught.value.limit == "schema_alternatives"


def test_a_schema_in_a_cycle_has_types() -> None:
    schema = {"anyOf": [{"$ref": "#/$defs/a"}, INTEGER], "$defs": {"a": {"properties": {"x": {"$ref": "#"}}}}}
    shapes = Shapes(sg.json_schema(schema))
    assert shapes.types(shapes.root) == sum(TYPES.values())
