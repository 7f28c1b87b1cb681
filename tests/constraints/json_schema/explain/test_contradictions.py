"""Schemas that no value satisfies: the message names the part and a smallest set of contradictory keywords."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from structgen.constraints.json_schema import json_schema
from structgen.constraints.json_schema.explain.contradictions import explain_contradiction
from structgen.errors import SchemaInvalid, UnsatisfiableSchema, UnsupportedKeyword
from structgen.matcher import compile_constraint
from tests.core.small_vocabulary import byte_vocabulary
from tests.strategies.json_schemas import CORE, schemas

STRING = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "pointer", "reason"),
    [
        (
            {"type": "string", "minLength": 5, "maxLength": 2, "title": "t"},
            "#",
            "type, minLength and maxLength",
        ),
        (
            {"minimum": 4, "maximum": 5, "multipleOf": 3, "type": "integer"},
            "#",
            "minimum, maximum, multipleOf",
        ),
        ({"allOf": [STRING, {"minLength": 2}, {"type": "null"}]}, "#", "allOf/0 and allOf/2"),
        ({"type": "string", "enum": [1, 2]}, "#", "type and the listed values"),
        (
            {
                "type": "object",
                "required": ["a", "b"],
                "properties": {"b": {}},
                "additionalProperties": False,
            },
            "#",
            "type, required ('a') and additionalProperties",
        ),
        ({"type": "array", "contains": STRING, "items": {"type": "null"}}, "#", "contains and items"),
        ({"type": "array", "uniqueItems": True, "minItems": 2, "items": {"const": 1}}, "#", "uniqueItems"),
        ({"type": "string", "if": {}, "then": False}, "#", "if and then"),
        ({"type": "string", "oneOf": [STRING, STRING]}, "#", "oneOf alone rules out every value"),
        (
            {
                "type": "object",
                "required": ["a"],
                "dependentRequired": {"a": ["b"]},
                "properties": {"b": False},
            },
            "#",
            "required ('a'), dependentRequired and properties",
        ),
        (
            {
                "type": "object",
                "required": ["a"],
                "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"minimum": 2, "maximum": 1}},
                "$defs": {"x": {"type": "string", "format": "ipv4", "pattern": "^z"}},
            },
            "#/$defs/x",
            "type, format and pattern",
        ),
        (False, "#", "the schema `false` allows no value"),
        ({"enum": []}, "#", "the listed values alone rule out every value"),
    ],
)
def test_the_message_names_the_smallest_explain_contradiction(schema: Any, pointer: str, reason: str) -> None:
    with pytest.raises(UnsatisfiableSchema) as caught:
        compile_constraint(json_schema(schema), byte_vocabulary())
    assert caught.value.pointer == pointer
    parts = reason.replace(" and ", ", ").split(", ")
    assert all(part in str(caught.value) for part in parts), str(caught.value)
    assert "title" not in str(caught.value)


_NODE = {"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#/$defs/n"}}}
_LIST = {"type": "array", "minItems": 1, "items": {"$ref": "#"}}


@pytest.mark.parametrize(
    ("schema", "cycle"),
    [
        (
            {"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}},
            "# -> #/properties/next -> #",
        ),
        ({"$ref": "#/$defs/n", "$defs": {"n": _NODE}}, "#/$defs/n -> #/$defs/n/properties/next -> #/$defs/n"),
        (
            {
                "type": "object",
                "required": ["a"],
                "additionalProperties": {"$ref": "#/$defs/l"},
                "$defs": {"l": _LIST},
            },
            "# -> #/additionalProperties -> #/$defs/l -> #/$defs/l/items -> #",
        ),
        ({"allOf": [{"type": "array"}], "$ref": "#/$defs/l", "$defs": {"l": _LIST}}, "# -> #/$defs/l -> "),
        (
            {"type": "array", "prefixItems": [{"anyOf": [False, {"$ref": "#"}]}], "minItems": 1},
            "anyOf/1 -> #",
        ),
        ({"type": "array", "contains": {"$ref": "#"}}, "# -> #/contains -> #"),
        (
            {
                "$ref": "#/$defs/d0",
                "$defs": {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(20)} | {"d20": _LIST},
            },
            "…",
        ),
    ],
)
def test_values_without_end(schema: Any, cycle: str) -> None:
    with pytest.raises(UnsatisfiableSchema) as caught:
        compile_constraint(json_schema(schema), byte_vocabulary())
    assert "every value would have to contain another one, without end" in str(caught.value)
    assert cycle in str(caught.value)
    assert "contradict" not in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "required": ["a", "b"], "properties": {"a": False, "b": {"$ref": "#"}}},
        {"type": "array", "minItems": 1, "items": False},
    ],
)
def test_a_contradiction_is_not_called_endless(schema: Any) -> None:
    with pytest.raises(UnsatisfiableSchema, match="contradict each other"):
        compile_constraint(json_schema(schema), byte_vocabulary())


def test_large_schemas_are_not_searched() -> None:
    schema = {"allOf": [{"enum": [i, -1 - i]} for i in range(100)]}
    with pytest.raises(UnsatisfiableSchema, match="no value can satisfy"):
        compile_constraint(json_schema(schema), byte_vocabulary())


@settings(max_examples=150, deadline=None)
@given(schemas(CORE))
def test_the_core_confirms_what_is_named(schema: Any) -> None:
    """The search ends, and finds nothing where there is nothing."""
    engine = byte_vocabulary().engine
    try:
        ir = json_schema(schema).lower()[1]
    except (SchemaInvalid, UnsupportedKeyword):
        return

    def is_empty(candidate: Any) -> bool:
        return engine.compile(("json", candidate)).empty_parts() is not None

    reason = explain_contradiction(ir, "#", is_empty)
    assert (reason is not None) == is_empty(ir)


def test_a_demand_that_is_made_twice_is_one() -> None:
    with pytest.raises(UnsatisfiableSchema, match="not"):
        compile_constraint(json_schema({"allOf": [True, True], "not": {}}), byte_vocabulary())


@pytest.mark.parametrize("backwards", [False, True])
def test_a_long_way_to_an_end_is_no_cycle(backwards: bool) -> None:
    size = 1_500
    chain: dict[str, Any] = {"d0": {"type": "object"}}
    for i in range(1, size):
        chain[f"d{i}"] = {"required": ["a"], "properties": {"a": {"$ref": f"#/$defs/d{i - 1}"}}}
    order = reversed(range(size)) if backwards else range(size)
    places = {f"p{i}": {"$ref": f"#/$defs/d{i}"} for i in order}
    schema = {"type": "object", "$defs": chain, "properties": {**places, "x": False}, "required": ["x"]}
    with pytest.raises(UnsatisfiableSchema, match="contradict"):
        compile_constraint(json_schema(schema), byte_vocabulary())
