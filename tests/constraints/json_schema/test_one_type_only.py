"""A keyword about one type neither rejects nor evaluates anything in values of another type.

Every such keyword is tested in every applicator, with every unevaluated keyword. The verdicts on a few values of
each type are compared with those of the slow validator, which collects annotations value by value, and with those
of jsonschema-rs if it is installed.
"""

from __future__ import annotations

import json
from itertools import product
from types import ModuleType
from typing import Any

import pytest

from tests.core.small_vocabulary import byte_vocabulary
from tests.oracles.json_spelling import accepts, matcher_of
from tests.oracles.json_validator import Validator

try:
    import jsonschema_rs
except ModuleNotFoundError:
    peer: ModuleType | None = None
else:
    peer = jsonschema_rs

Schema = dict[str, Any]

INTEGER = {"type": "integer"}
FOR_ARRAYS: dict[str, Schema] = {
    "items": {"items": INTEGER},
    "items: true": {"items": True},
    "items: false": {"items": False},
    "prefixItems": {"prefixItems": [INTEGER]},
    "prefixItems, items": {"prefixItems": [True], "items": {"type": "string"}},
    "contains": {"contains": INTEGER},
    "minContains: 0": {"contains": INTEGER, "minContains": 0},
    "maxContains": {"contains": INTEGER, "maxContains": 1},
    "unevaluatedItems": {"unevaluatedItems": INTEGER},
    "unevaluatedItems: true": {"unevaluatedItems": True},
    "minItems": {"minItems": 1},
    "maxItems": {"maxItems": 1},
    "uniqueItems": {"uniqueItems": True},
}
FOR_OBJECTS: dict[str, Schema] = {
    "properties": {"properties": {"k": INTEGER}},
    "properties: true": {"properties": {"k": True}},
    "properties: false": {"properties": {"k": False}},
    "patternProperties": {"patternProperties": {"^k": INTEGER}},
    "additionalProperties": {"additionalProperties": INTEGER},
    "additionalProperties: true": {"additionalProperties": True},
    "additionalProperties: false": {"properties": {"k": True}, "additionalProperties": False},
    "unevaluatedProperties": {"unevaluatedProperties": INTEGER},
    "unevaluatedProperties: true": {"unevaluatedProperties": True},
    "propertyNames": {"propertyNames": {"maxLength": 1}},
    "required": {"required": ["k"]},
    "minProperties": {"minProperties": 1},
    "maxProperties": {"maxProperties": 1},
    "dependentRequired": {"dependentRequired": {"k": ["other"]}},
    "dependentSchemas": {"dependentSchemas": {"k": {"items": True, "properties": {"other": True}}}},
}
FOR_SCALARS: dict[str, Schema] = {
    "minimum": {"minimum": 2},
    "maximum": {"exclusiveMaximum": 2},
    "multipleOf": {"multipleOf": 2},
    "pattern": {"pattern": "^x"},
    "minLength": {"minLength": 2},
    "maxLength": {"maxLength": 0},
    "format": {"format": "date"},
}
KEYWORDS = {**FOR_ARRAYS, **FOR_OBJECTS, **FOR_SCALARS}
EVALUATING = [
    *("items: true", "prefixItems", "contains", "unevaluatedItems"),
    *("properties: true", "patternProperties", "additionalProperties: true", "unevaluatedProperties"),
]
"""Keywords that evaluate members, one of each kind."""

APPLICATORS: dict[str, Any] = {
    "alone": lambda schema: dict(schema),
    "allOf": lambda schema: {"allOf": [schema]},
    "anyOf": lambda schema: {"anyOf": [schema, {"maxItems": 1, "maxProperties": 1}]},
    "anyOf of one": lambda schema: {"anyOf": [schema, False]},
    "oneOf": lambda schema: {"oneOf": [schema, {"type": ["string", "null"]}]},
    "not": lambda schema: {"not": schema},
    "not not": lambda schema: {"not": {"not": schema}},
    "if": lambda schema: {"if": schema},
    "if, then": lambda schema: {"if": schema, "then": {"maxItems": 1}, "else": {"maxProperties": 1}},
    "then": lambda schema: {"if": {"maxProperties": 1}, "then": schema},
    "else": lambda schema: {"if": {"minItems": 2}, "else": schema},
    "$ref": lambda schema: {"$ref": "#/$defs/it", "$defs": {"it": schema}},
    "$dynamicRef": lambda schema: {"$dynamicRef": "#it", "$defs": {"it": {"$dynamicAnchor": "it", **schema}}},
    "dependentSchemas": lambda schema: {"dependentSchemas": {"k": schema}},
    "dependencies": lambda schema: {"dependencies": {"other": schema}},
}
UNEVALUATED: list[Schema] = [
    {"unevaluatedItems": False},
    {"unevaluatedItems": {"type": "string"}},
    {"unevaluatedProperties": False},
    {"unevaluatedProperties": {"type": "string"}},
    {"unevaluatedItems": False, "unevaluatedProperties": False},
]
VALUES: list[Any] = [
    *(None, True, 1, 2, "", "xy", "2024-02-29"),
    *([], [1], ["x"], [1, "x"], [1, 1]),
    *({}, {"k": 1}, {"k": "x"}, {"other": 1}, {"k": 1, "other": "x"}),
]
LATEST = 2020


def check(schema: Schema, where: str, values: list[Any] = VALUES, draft: int = LATEST) -> None:
    """Compares the verdicts on all values."""
    validator = Validator(schema, draft=draft, formats=True)
    matcher = matcher_of(schema, byte_vocabulary())
    other = None
    # subtle: `dependencies` is no keyword of 2020-12; we read it and take its annotations, as of `dependentSchemas`.
    if peer is not None and draft == LATEST and '"dependencies"' not in json.dumps(schema):
        other = peer.Draft202012Validator(schema, validate_formats=True)
    for value in values:
        text = json.dumps(value)
        wanted = validator.accepts(text)
        assert accepts(matcher, text) == wanted, (where, text, wanted, schema)
        assert other is None or other.is_valid(value) == wanted, (where, text, wanted, schema)


def beside(schema: Schema, unevaluated: Schema) -> Schema:
    """Both on one value; where `schema` has the keyword itself, it stands further in."""
    return {**unevaluated, **({"allOf": [schema]} if schema.keys() & unevaluated.keys() else schema)}


@pytest.mark.parametrize("applicator", APPLICATORS)
def test_every_keyword_in_an_applicator(applicator: str) -> None:
    for keyword, schema in KEYWORDS.items():
        applied = APPLICATORS[applicator](schema)
        check(applied, keyword)
        for unevaluated in UNEVALUATED:
            check(beside(applied, unevaluated), keyword)


@pytest.mark.parametrize("outer", APPLICATORS)
def test_evaluating_keywords_in_two_applicators(outer: str) -> None:
    for keyword, inner in product(EVALUATING, APPLICATORS):
        if {outer, inner} & {"alone", "$dynamicRef"} or outer == inner == "$ref":
            continue
        applied = APPLICATORS[outer](APPLICATORS[inner](KEYWORDS[keyword]))
        if "$ref" in (inner, outer):
            applied = {
                **applied,
                "$defs": {"it": KEYWORDS[keyword] if inner == "$ref" else applied["$defs"]["it"]},
            }
        for unevaluated in ({"unevaluatedItems": False}, {"unevaluatedProperties": False}):
            check(beside(applied, unevaluated), f"{keyword} in {inner}")


@pytest.mark.parametrize("applicator", APPLICATORS)
def test_inside_of_an_item_and_of_a_property(applicator: str) -> None:
    for keyword, unevaluated in product(EVALUATING, UNEVALUATED[::2]):
        inner = {"$id": "urn:inner", **beside(APPLICATORS[applicator](KEYWORDS[keyword]), unevaluated)}
        check({"items": inner}, keyword, [[value] for value in VALUES])
        check({"properties": {"p": inner}, **unevaluated}, keyword, [{"p": value} for value in VALUES])


BEFORE_2020: dict[str, Schema] = {
    "items: []": {"items": [INTEGER]},
    "additionalItems": {"items": [True], "additionalItems": {"type": "string"}},
    "additionalItems: true": {"items": [True], "additionalItems": True},
    "contains": {"contains": INTEGER},
    **{name: FOR_OBJECTS[name] for name in ("properties", "patternProperties", "additionalProperties: true")},
    **{name: FOR_ARRAYS[name] for name in ("items", "items: true", "unevaluatedItems: true")},
}


@pytest.mark.parametrize("applicator", [name for name in APPLICATORS if name != "$dynamicRef"])
def test_draft_2019_09(applicator: str) -> None:
    for keyword, schema in BEFORE_2020.items():
        for unevaluated in UNEVALUATED:
            applied = beside(APPLICATORS[applicator](schema), unevaluated)
            applied["$schema"] = "https://json-schema.org/draft/2019-09/schema"
            check(applied, keyword, draft=2019)
