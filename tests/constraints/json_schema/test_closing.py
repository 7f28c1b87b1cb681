"""``closed=True``: objects that declare their keys have no others, and the schema still rejects what it rejected."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import structgen as sg
from structgen.constraints.json_schema.constraint import part_of_schema
from structgen.errors import OptionError, StructgenError
from structgen.remote.dialects import _schema_of
from structgen.types.output import output_type
from tests.core.small_vocabulary import byte_vocabulary
from tests.oracles.json_spelling import accepts
from tests.strategies.json_schemas import ALL, schemas, values

A = {"type": "object", "properties": {"a": {"type": "integer"}}}
B = {"type": "object", "properties": {"b": {"type": "integer"}}}
FREE = {"type": "object"}


def tagged(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"kind": {"const": kind}, **more}, "required": ["kind"]}


def defined(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "$defs": {"A": A, "B": B}}


REF_A, REF_B = {"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}
TREE = {"properties": {"n": {"type": "integer"}, "next": {"$ref": "#"}}, "type": "object"}
CONDITION = {
    "type": "object",
    "if": {"properties": {"k": {"const": 1}}, "required": ["k"]},
    "then": {"properties": {"x": {"type": "integer"}}},
    "else": {"properties": {"y": {"type": "integer"}}},
}

CASES: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "plain": (A, [{}, {"a": 1}], [{"z": 1}, {"a": 1, "z": 1}]),
    "no declared key": ({"type": "object", "properties": {}}, [{}], [{"z": 1}]),
    "without a type": ({"properties": {"a": {}}}, [{"a": 1}, 7, []], [{"z": 1}]),
    "inside": (
        {"properties": {"o": A, "l": {"items": B}}},
        [{"o": {"a": 1}, "l": [{"b": 1}]}],
        [{"o": {"b": 1}}, {"l": [{"a": 1}]}],
    ),
    "in $defs": (defined({"properties": {"o": REF_A}}), [{"o": {"a": 1}}], [{"o": {"z": 1}}]),
    "root is a reference": (defined(REF_A), [{"a": 1}], [{"z": 1}]),
    "recursive": (TREE, [{"n": 1, "next": {"n": 2}}], [{"next": {"next": {"z": 1}}}]),
    "values of a map": ({"additionalProperties": A}, [{"x": {"a": 1}}], [{"x": {"z": 1}}]),
    "values by pattern": ({"patternProperties": {"^x": A}}, [{"x": {"a": 1}, "y": 1}], [{"x": {"z": 1}}]),
    "allOf": ({"allOf": [A, B]}, [{"a": 1, "b": 2}], [{"a": 1, "b": 2, "c": 3}]),
    "allOf of references": (defined({"allOf": [REF_A, REF_B]}), [{"a": 1, "b": 2}], [{"z": 1}]),
    "allOf beside properties": ({**A, "allOf": [B]}, [{"a": 1, "b": 2}], [{"z": 1}]),
    "alone and extended": (
        defined({"properties": {"p": REF_A, "q": {"allOf": [REF_A, B]}}}),
        [{"p": {"a": 1}, "q": {"a": 1, "b": 1}}],
        [{"p": {"b": 1}}, {"q": {"z": 1}}],
    ),
    "allOf of one": (defined({"allOf": [REF_A]}), [{"a": 1}], [{"z": 1}]),
    "anyOf": ({"anyOf": [A, B]}, [{"a": 1}, {"b": 1}], [{"a": 1, "b": 1}, {"z": 1}]),
    "optional": ({"anyOf": [A, {"type": "null"}]}, [{"a": 1}, None], [{"z": 1}]),
    "anyOf with a free object": ({"anyOf": [A, FREE]}, [{"a": 1}, {"z": 1}], []),
    "anyOf with anything": ({"anyOf": [A, {}]}, [{"z": 1}, 3], []),
    "anyOf beside properties": (
        {**A, "anyOf": [{"properties": {"b": {"const": 1}}, "required": ["b"]}, {"required": ["a"]}]},
        [{"a": 1}, {"a": 1, "b": 1}, {"b": 1}],
        [{"a": 1, "b": 2}, {"a": 1, "z": 1}],
    ),
    "oneOf by a tag": (
        {"oneOf": [tagged("a", x={}), tagged("b", y={})]},
        [{"kind": "a", "x": 1}, {"kind": "b", "y": 1}],
        [{"kind": "a", "y": 1}, {"kind": "b", "z": 1}],
    ),
    "oneOf by required keys": (
        {"oneOf": [{**A, "required": ["a"]}, {**B, "required": ["b"]}]},
        [{"a": 1}, {"b": 1}],
        [{"a": 1, "b": 1}, {"a": 1, "z": 1}],
    ),
    "oneOf beside properties": (
        {**A, "required": ["a"], "oneOf": [{"required": ["b"]}, {"properties": {"c": {}}, "required": ["c"]}]},
        [{"a": 1, "b": 1}, {"a": 1, "c": 1}],
        [{"a": 1, "b": 1, "c": 1}, {"a": 1, "c": 1, "z": 1}],
    ),
    "oneOf inside allOf": (
        {"allOf": [A, {"oneOf": [{"required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}]}]},
        [{"a": 1}, {"b": 1}],
        [{"a": 1, "z": 1}],
    ),
    "oneOf of types": ({"oneOf": [A, {"type": "string"}]}, [{"a": 1}, "x"], [{"z": 1}]),
    "required, not declared": ({**A, "required": ["a", "b"]}, [{"a": 1, "b": "x"}], [{"a": 1, "b": 1, "z": 1}]),
    "dependentRequired": ({**A, "dependentRequired": {"a": ["b"]}}, [{"a": 1, "b": 1}, {}], [{"b": 1}]),
    "dependentSchemas": ({**A, "dependentSchemas": {"a": B}}, [{"a": 1, "b": 1}], [{"b": 1}, {"z": 1}]),
    "more keys than declared": ({**A, "minProperties": 2}, [{"a": 1, "z": 1}], []),
    "condition": (
        CONDITION,
        [{"k": 1, "x": 1}, {"k": 2, "y": 1}, {"k": 2}],
        [{"k": 1, "y": 1}, {"k": 2, "x": 1}],
    ),
    "listed": ({"properties": {"a": {}}, "enum": [{"a": 1, "z": 1}]}, [{"a": 1, "z": 1}], []),
    "says true": ({**A, "additionalProperties": True}, [{"z": 1}], []),
    "says a schema": ({**A, "additionalProperties": {"type": "string"}}, [{"z": "x"}], [{"z": 1}]),
    "says patterns": ({**A, "patternProperties": {"^x": {}}}, [{"z": 1, "x": 1}], []),
    "says names": ({**A, "propertyNames": {"maxLength": 2}}, [{"zz": 1}], [{"zzz": 1}]),
    "says unevaluated": ({**A, "unevaluatedProperties": {"type": "null"}}, [{"z": None}], [{"z": 1}]),
    "one of allOf says true": ({"allOf": [A, {"additionalProperties": True}]}, [{"z": 1}], []),
    "free object": (FREE, [{"z": 1}], []),
    "under not": ({"type": "object", "not": {**A, "required": ["a"]}}, [{"z": 1}], [{"a": 1, "z": 1}]),
    "inside not": (
        {"properties": {"o": {}}, "not": {"properties": {"o": {**A, "required": ["a"]}}, "required": ["o"]}},
        [{"o": {"z": 1}}],
        [{"o": {"a": 1, "z": 1}}, {"z": 1}],
    ),
    "draft 7": (
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"A": A},
         "allOf": [{"$ref": "#/definitions/A"}, B]},
        [{"a": 1, "b": 1}],
        [{"z": 1}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_closed(name: str) -> None:
    schema, accepted, refused = CASES[name]
    matcher = sg.Matcher(sg.json_schema(schema, closed=True), byte_vocabulary())
    validator = jsonschema_rs.validator_for(schema)
    for value in accepted:
        assert validator.is_valid(value), value
        assert accepts(matcher, json.dumps(value)), value
    for value in refused:
        assert not accepts(matcher, json.dumps(value)), value


@pytest.mark.parametrize("name", CASES)
def test_check_warns_of_open_objects(name: str) -> None:
    schema, _, refused = CASES[name]
    open_ones = [one for one in sg.check(schema).warnings if "open object" in one.note]
    is_narrower = any(jsonschema_rs.validator_for(schema).is_valid(value) for value in refused)
    if name not in (
        "anyOf with a free object",
        "anyOf with anything",
    ):  # a branch is closed, the union stays wide
        assert bool(open_ones) == is_narrower
    assert all("closed=True" in one.hint for one in open_ones)
    report = sg.check(schema, closed=True)
    assert not [one for one in report.warnings if "open object" in one.note]
    assert any("closed=True" in choice for choice in report.choices)


objects = st.dictionaries(st.sampled_from(("a", "b", "ab", "z")), values, max_size=3)


@settings(max_examples=100, deadline=None)
@given(schemas(ALL), st.lists(objects, min_size=1, max_size=6))
def test_nothing_is_accepted_that_the_schema_refuses(schema: Any, instances: list[Any]) -> None:
    sg.check(schema)
    try:
        matcher = sg.Matcher(sg.json_schema(schema, closed=True), byte_vocabulary())
        whole = sg.Matcher(sg.json_schema(schema), byte_vocabulary())
    except StructgenError:
        return
    for value in instances:
        text = json.dumps(value, default=float)
        assert not accepts(matcher, text) or accepts(whole, text), text


def test_an_engine_that_reads_the_schema_itself_gets_it_closed() -> None:
    source = sg.json_schema(defined({"properties": {"o": REF_A}}), closed=True).source
    assert source is not None
    closed = json.loads(source)
    assert closed["additionalProperties"] is False
    assert closed["$defs"]["A"]["additionalProperties"] is False
    assert "additionalProperties" not in closed["$defs"]["B"], "nothing refers to it"
    carried = _schema_of(output_type(sg.json_schema(json.dumps(A), closed=True)))
    assert carried == {**A, "additionalProperties": False}
    # Where a definition is used alone and as a part, no one text of the schema says both.
    assert sg.json_schema(CASES["alone and extended"][0], closed=True).source is None


def test_an_explanation_says_that_objects_are_closed() -> None:
    explanation = sg.Matcher(sg.json_schema(A, closed=True), byte_vocabulary()).explain('{"z": 1}')
    assert "objects are closed" in str(explanation)


def test_a_schema_without_open_objects_is_the_same() -> None:
    for schema in (FREE, {"type": "string"}, {**A, "additionalProperties": False}, True):
        assert sg.json_schema(schema, closed=True).lower() == sg.json_schema(schema).lower()


def test_parts_are_closed_too() -> None:
    part = part_of_schema(defined({"type": "object"}), ("$defs", "A"), closed=True)
    assert not accepts(sg.Matcher(part, byte_vocabulary()), '{"z": 1}')


def test_a_wrong_value_is_an_error() -> None:
    with pytest.raises(OptionError, match="'closed'"):
        sg.json_schema(A, closed="yes")  # type: ignore[arg-type]
