"""Every keyword, broken once: the explanation names it, its position, and something that is allowed instead."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import structgen as sg
from structgen.constraints.json_schema import KEYWORDS, Support, Whitespace, json_schema
from structgen.matcher import Matcher
from tests.constraints.json_schema.explain.schema_explanations import explain
from tests.core.small_vocabulary import byte_vocabulary
from tests.oracles.json_spelling import SUPPORTED, matcher_of
from tests.strategies.json_instances import instances
from tests.strategies.json_schemas import schemas
from tests.strategies.json_texts import plain_text

_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
_2019 = {"$schema": "https://json-schema.org/draft/2019-09/schema"}
_LIMIT = {"properties": {"limit": {"type": "integer", "minimum": 1, "maximum": 10}}}
_IF = {"if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b"]}, "else": {"required": ["c"]}}

# The keyword of the table, a schema, a bad text, the rule that is reported (pointer and keyword), its message, and
# a text that the same place would take.
CASES: list[tuple[str, dict[str, Any], str, str, str, str, str]] = [
    ("type", {"items": {"type": "string"}}, "[1]", "#/items", "type", "must be of type string", '["'),
    ("enum", {"enum": ["ab", "b"]}, '"c"', "#", "enum", "one of the listed values", '"a'),
    ("enum", {"enum": [{"a": 1}]}, '{"a":2}', "#", "enum", "one of the listed values", '{"a":1'),
    ("const", {"const": 5}, "6", "#", "const", "must be that value", "5"),
    ("const", {"enum": [5, 6], "const": 5}, "6", "#", "const", "must be that value", "5"),
    (
        "minimum",
        _LIMIT,
        '{"limit": 0}',
        "#/properties/limit",
        "minimum",
        "`/limit` must be at least 1",
        '{"limit": 1',
    ),
    (
        "maximum",
        _LIMIT,
        '{"limit": 50}',
        "#/properties/limit",
        "maximum",
        "`/limit` must be at most 10",
        '{"limit": 5}',
    ),
    ("exclusiveMinimum", {"exclusiveMinimum": 5}, "5", "#", "exclusiveMinimum", "greater than 5", "50"),
    ("exclusiveMaximum", {"exclusiveMaximum": 5}, "5", "#", "exclusiveMaximum", "less than 5", "5e-1"),
    ("multipleOf", {"multipleOf": 0.5}, "0.3", "#", "multipleOf", "a multiple of 0.5", "0.5"),
    ("minLength", {"minLength": 3}, '"ab"', "#", "minLength", "at least 3 characters", '"abc'),
    ("maxLength", {"maxLength": 3}, '"abcd"', "#", "maxLength", "at most 3 characters", '"abc"'),
    ("pattern", {"pattern": "^a"}, '"b"', "#", "pattern", "must match the pattern", '"a'),
    ("format", {"format": "date"}, '"2020-13-01"', "#", "format", "must have the format", '"2020-12'),
    (
        "prefixItems",
        {"prefixItems": [{"type": "null"}]},
        "[1]",
        "#/prefixItems/0",
        "type",
        "of type null",
        "[n",
    ),
    ("prefixItems", {"prefixItems": [False]}, "[1]", "#", "prefixItems", "must not have an item here", "[]"),
    ("items", {"items": False}, "[1]", "#", "items", "must not have an item here", "[]"),
    (
        "additionalItems",
        {**_7, "items": [True], "additionalItems": False},
        "[1, 1]",
        "#",
        "additionalItems",
        "item here",
        "[1]",
    ),
    ("minItems", {"minItems": 2}, "[[]]", "#", "minItems", "at least 2 items", "[[],"),
    ("maxItems", {"maxItems": 1}, "[1, 2]", "#", "maxItems", "at most 1 item", "[1]"),
    (
        "uniqueItems",
        {"uniqueItems": True},
        "[1, 1]",
        "#",
        "uniqueItems",
        "the value must not hold the same item twice",
        "[1, 10",
    ),
    (
        "uniqueItems",
        {"uniqueItems": True},
        "[[1], [1]]",
        "#",
        "uniqueItems",
        "the same item twice",
        "[[1], [1,",
    ),
    ("contains", {"contains": {"const": 1}}, "[2]", "#", "contains", "must hold an item", "[2,"),
    (
        "minContains",
        {"contains": {"const": 1}, "minContains": 2},
        "[1]",
        "#",
        "minContains",
        "at least 2 items",
        "[1,",
    ),
    (
        "maxContains",
        {"contains": {"const": 1}, "maxContains": 1},
        "[1, 1]",
        "#",
        "maxContains",
        "at most 1 item that matches",
        "[1, 12",
    ),
    (
        "unevaluatedItems",
        {"allOf": [{"prefixItems": [True]}], "unevaluatedItems": False},
        "[1, 2]",
        "#",
        "unevaluatedItems",
        "no other items",
        "[1]",
    ),
    (
        "properties",
        {"properties": {"a": False}},
        '{"a": 1}',
        "#",
        "properties",
        "must not have the key 'a'",
        '{"ab',
    ),
    (
        "patternProperties",
        {"patternProperties": {"^x": {"type": "null"}}},
        '{"xa": 1}',
        "#/patternProperties/^x",
        "type",
        "of type null",
        '{"xa": n',
    ),
    (
        "patternProperties",
        {"patternProperties": {"^x": False}},
        '{"xa": 1}',
        "#",
        "patternProperties",
        "a key like this",
        '{"y',
    ),
    (
        "additionalProperties",
        {"properties": {"a": True}, "additionalProperties": False},
        '{"b": 1}',
        "#",
        "additionalProperties",
        "not declared",
        '{"a',
    ),
    ("required", {"required": ["a"]}, "{}", "#", "required", "must have the key 'a'", '{"'),
    ("minProperties", {"minProperties": 1}, "{}", "#", "minProperties", "at least 1 key", '{"'),
    (
        "maxProperties",
        {"maxProperties": 1},
        '{"a":[],"b":2}',
        "#",
        "maxProperties",
        "at most 1 key",
        '{"a":[]}',
    ),
    (
        "propertyNames",
        {"propertyNames": {"maxLength": 2}},
        '{"abc": 1}',
        "#/propertyNames",
        "maxLength",
        "each key of the value must have at most 2",
        '{"ab"',
    ),
    (
        "propertyNames",
        {"propertyNames": {"maxLength": 2}},
        '{"abc": 1}',
        "#",
        "propertyNames",
        "must have keys that match",
        '{"ab"',
    ),
    (
        "dependentRequired",
        {"dependentRequired": {"a": ["b"]}},
        '{"a": []}',
        "#",
        "dependentRequired",
        "must have 'b' beside 'a'",
        '{"a": [],',
    ),
    (
        "dependentSchemas",
        {"dependentSchemas": {"a": {"required": ["c"]}}},
        '{"a": []}',
        "#/dependentSchemas/a",
        "required",
        "must have the key 'c'",
        '{"a": [],',
    ),
    (
        "dependentSchemas",
        {"dependentSchemas": {"a": False}},
        '{"a": []}',
        "#",
        "dependentSchemas",
        "as one of its keys requires",
        '{"ab',
    ),
    (
        "dependencies",
        {**_7, "dependencies": {"a": ["b"]}},
        '{"a": []}',
        "#",
        "dependencies",
        "must have 'b' beside 'a'",
        '{"a": [],',
    ),
    (
        "unevaluatedProperties",
        {"properties": {"a": True}, "unevaluatedProperties": False},
        '{"b": 1}',
        "#",
        "unevaluatedProperties",
        "no other keys",
        '{"a',
    ),
    ("allOf", {"allOf": [{"minimum": 3}, {"maximum": 5}]}, "6", "#/allOf/1", "maximum", "at most 5", "5"),
    (
        "anyOf",
        {"anyOf": [{"minimum": 3}, {"type": "string"}]},
        "2",
        "#",
        "anyOf",
        "one of the branches",
        "20",
    ),
    (
        "oneOf",
        {"oneOf": [{"minLength": 2}, {"maxLength": 4}]},
        '"abc"',
        "#",
        "oneOf",
        "it matches #/oneOf/0 and #/oneOf/1",
        '"abcd',
    ),
    (
        "oneOf",
        {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        '{"a":1,"b":2}',
        "#",
        "oneOf",
        "it matches #/oneOf/0 and #/oneOf/1",
        '{"a":1,"ba',
    ),
    ("oneOf", {"oneOf": [{"const": 1}, {"const": 2}]}, "3", "#", "oneOf", "it matches none of them", "1"),
    ("not", {"not": {"const": "abc"}}, '"abc"', "#", "not", 'must not be "abc"', '"abcd'),
    (
        "not",
        {"properties": {"a": {"not": {"type": "null"}}}},
        '{"a": null}',
        "#/properties/a",
        "not",
        "must not be of type null",
        '{"a": 1',
    ),
    ("if", _IF, '{"a":1}', "#/then", "required", "must have the key 'b'", '{"a":1,'),
    ("then", {"if": {"minimum": 5}, "then": False}, "6", "#", "then", "ruled out by the condition", "6e-1"),
    ("else", _IF, '{"a":2}', "#/else", "required", "must have the key 'c'", '{"a":2,'),
    (
        "$ref",
        {"$ref": "#/$defs/a", "$defs": {"a": {"maximum": 5}}},
        "6",
        "#/$defs/a",
        "maximum",
        "at most 5",
        "6e-1",
    ),
    (
        "$dynamicRef",
        {"$dynamicRef": "#a", "$defs": {"a": {"$dynamicAnchor": "a", "maximum": 5}}},
        "6",
        "#/$defs/a",
        "maximum",
        "at most 5",
        "6e-1",
    ),
    (
        "$recursiveRef",
        {**_2019, "additionalProperties": {"$recursiveRef": "#"}, "maxProperties": 1},
        '{"a":{"b":[],"c":2}}',
        "#",
        "maxProperties",
        "`/a` must have at most 1 key",
        '{"a":{"b":[]}',
    ),
]


@pytest.mark.parametrize(
    ("name", "schema", "text", "pointer", "keyword", "message", "instead"),
    CASES,
    ids=[f"{case[0]}-{number}" for number, case in enumerate(CASES)],
)
def test_each_keyword(
    name: str, schema: Any, text: str, pointer: str, keyword: str, message: str, instead: str
) -> None:
    explanation = explain(schema, text)
    assert not explanation.ok
    rules = {(rule.pointer, rule.keyword): rule.message for rule in explanation.rules}
    assert message in rules[pointer, keyword]
    assert f"`{keyword}` at {pointer}" in str(explanation)
    # What is said to fit instead fits: the text up to the place, with another character there.
    matcher = Matcher(json_schema(schema), byte_vocabulary())
    assert explanation.expected
    assert matcher.viable_bytes(instead) == len(instead)
    assert instead[: explanation.position] == text[: explanation.position]
    assert any(_offers(shown, instead[explanation.position :]) for shown in explanation.expected), (
        explanation.expected
    )


def _offers(shown: str, rest: str) -> bool:
    """Is the beginning of `rest` meant by this character, range of characters or key?"""
    if shown.startswith("'"):
        first, _, last = shown.partition(" to ")
        return ast.literal_eval(first) <= rest[0] <= ast.literal_eval(last or first)
    return shown.startswith('"') and str(json.loads(shown)).startswith(rest)


def test_every_keyword_is_tested() -> None:
    assert {case[0] for case in CASES} == {
        name for name, entry in KEYWORDS.items() if entry.support is not Support.ANNOTATION
    }


def test_several_rules_that_are_broken_together() -> None:
    explanation = explain({"properties": {"a": {"minimum": 3, "multipleOf": 2}}}, '{"a": 1}')
    assert [(rule.pointer, rule.keyword) for rule in explanation.rules] == [
        ("#/properties/a", "minimum"),
        ("#/properties/a", "multipleOf"),
    ]


@pytest.mark.parametrize(
    ("options", "text", "keyword"),
    [
        ({"whitespace": "compact"}, "[1, 2]", "whitespace"),
        ({"whitespace": Whitespace.indented(4)}, "[\n  1\n]", "whitespace"),
        ({"ordered": True}, '{"b":1,"a":2}', "ordered"),
        ({}, '"\\u0061"', "escapes"),
        ({"integers": "digits"}, "7.0", "integers"),
    ],
)
def test_options_that_a_text_breaks(options: dict[str, Any], text: str, keyword: str) -> None:
    schema = {"type": ["array", "object", "string", "integer"], "properties": {"a": True, "b": True}}
    assert [rule.keyword for rule in explain(schema, text, **options).rules] == [keyword]


def test_what_no_rule_is_to_blame_for() -> None:
    assert not explain({"maximum": 5}, "[1").rules
    assert [rule.keyword for rule in explain({}, '{"a":1,"a":2}').rules] == ["duplicate key"]
    assert not Matcher("<" + json_schema({"maximum": 5}), byte_vocabulary()).explain("<").rules


@settings(max_examples=150, suppress_health_check=[*HealthCheck])
@given(st.data(), schemas(SUPPORTED))
def test_a_text_that_is_no_value_breaks_some_rule(data: st.DataObject, schema: Any) -> None:
    matcher = matcher_of(schema, byte_vocabulary())
    text = plain_text(data.draw(instances(schema)))
    if matcher is None or not Matcher(json_schema(True), byte_vocabulary()).explain(text).ok:
        return
    explanation = matcher.explain(text)
    assert explanation.ok or explanation.rules, str(explanation)


def test_a_large_schema_takes_bounded_time() -> None:
    properties = {f"key{i}": {"type": "integer", "minimum": i, "maximum": i + 9} for i in range(3_000)}
    explanation = explain({"properties": properties}, '{"key1700": 12}')
    assert [(rule.pointer, rule.keyword) for rule in explanation.rules] == [
        ("#/properties/key1700", "minimum")
    ]
    assert sg.json_schema({"properties": properties}).lower()


def test_rules_of_an_item_are_not_reported_for_its_array() -> None:
    tags = {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True, "maxItems": 2}
    schema = {"properties": {"tags": tags}}
    assert {(rule.keyword, rule.message) for rule in explain(schema, '{"tags":["a","b","a"]}').rules} == {
        ("uniqueItems", "`/tags` must not hold the same item twice"),
        ("maxItems", "`/tags` must have at most 2 items"),
    }
    assert {(rule.keyword, rule.message) for rule in explain(schema, '{"tags":["a","b","c"]}').rules} == {
        ("enum", '`/tags/2` must be one of the listed values ("a", "b")'),
        ("maxItems", "`/tags` must have at most 2 items"),
    }
