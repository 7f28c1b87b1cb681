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
from structgen.explanation import Explanation
from structgen.matcher import Matcher
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


def explain(schema: Any, text: str, **options: Any) -> Explanation:
    return Matcher(json_schema(schema, **options), byte_vocabulary()).explain(text)


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


def _kinds(keyword: str, count: int, *, by_reference: bool = False) -> dict[str, Any]:
    kinds = [
        {
            "type": "object",
            "properties": {"k": {"const": i}, f"p{i}": {"type": "string"}},
            "required": ["k", f"p{i}"],
        }
        for i in range(count)
    ]
    if not by_reference:
        return {keyword: kinds}
    listed = [{"$ref": f"#/$defs/kind{i}"} for i in range(count)]
    return {keyword: listed, "$defs": {f"kind{i}": kind for i, kind in enumerate(kinds)}}


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf"])
@pytest.mark.parametrize("by_reference", [False, True])
def test_of_a_long_union_the_matching_branch_is_reported(keyword: str, by_reference: bool) -> None:
    schema = _kinds(keyword, 150, by_reference=by_reference)
    branch = "#/$defs/kind5" if by_reference else f"#/{keyword}/5"
    explanation = explain(schema, '{"k":5,"p5":7}')
    assert [(rule.pointer, rule.keyword) for rule in explanation.rules] == [
        (f"{branch}/properties/p5", "type")
    ]
    explanation = explain(schema, '{"k":5,"p7":7}')
    assert (branch, "required", "the value must have the key 'p5'") in [
        (rule.pointer, rule.keyword, rule.message) for rule in explanation.rules
    ]


def test_a_second_fault_leaves_time_for_the_first() -> None:
    schema = {"items": _kinds("oneOf", 200)}
    explanation = explain(schema, '[{"k":5,"p5":7},{"k":6,"p6":7},{"k":7,"p7":7}]')
    assert ("#/items/oneOf/5/properties/p5", "type") in [
        (rule.pointer, rule.keyword) for rule in explanation.rules
    ]


def test_of_a_long_union_without_a_tag_the_union_is_reported() -> None:
    branches = [{"properties": {f"p{i}": {"type": "string"}}, "required": [f"p{i}"]} for i in range(80)]
    explanation = explain({"oneOf": branches}, '{"p5":7}')
    assert [(rule.pointer, rule.keyword) for rule in explanation.rules] == [("#", "oneOf")]
    # Many rules are cut in the message, not in the account.
    many = explain({"required": [f"k{i}" for i in range(30)]}, "{}")
    assert len(many.rules) == 30 and "and 18 more rules" in str(many)


def test_naming_rules_takes_few_compilations(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    answer = Matcher._goes_on

    def counted(matcher: Matcher, text: bytes, is_whole: bool, ir: Any) -> bool:
        sizes.append(sum(isinstance(node, dict) for node in ir[1]["nodes"]))
        return answer(matcher, text, is_whole, ir)

    monkeypatch.setattr(Matcher, "_goes_on", counted)
    assert explain(_kinds("oneOf", 200), '{"k":5,"p5":7}').rules
    assert sum(size > 100 for size in sizes) <= 3


_AB = {"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": False}
_A = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "text", "message"),
    [
        (_AB, '{"a":1,"a":2}', "the value has the key 'a' already"),
        (_A, '{"a":1,"a":2}', "the value has the key 'a' already"),
        (_AB, '{"a":1,"b":2,"a":3}', "the value has the key 'a' already"),
        ({"items": _A}, '[{"a":1}, {"a":1, "a":2}]', "`/1` has the key 'a' already"),
        (_A, '{"a":{"a":1},"b":2}', "the value must not have this key ('b' is not declared)"),
        (_A, '{"a":1,', "the value must not have a key that is not declared"),
    ],
)
def test_a_declared_key_that_stands_twice_is_no_undeclared_key(schema: Any, text: str, message: str) -> None:
    assert [rule.message for rule in explain(schema, text).rules] == [message]


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


def _pets(keyword: str) -> dict[str, Any]:
    kinds = {"cat": {"lives": {"type": "integer"}}, "dog": {"name": {"type": "string", "minLength": 3}}}
    return {
        keyword: [
            {
                "type": "object",
                "properties": {"type": {"const": kind}, **others},
                "required": ["type", *others],
                "additionalProperties": False,
            }
            for kind, others in kinds.items()
        ]
    }


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
@pytest.mark.parametrize(
    ("text", "rule", "message"),
    [
        ('{"type":"cat","name":"Rex"}', "{}/0 additionalProperties", "{} must not have this key ('name' is"),
        ('{"type":"cat"}', "{}/0 required", "{} must have the key 'lives'"),
        ('{"type":"cat","lives":"x"}', "{}/0/properties/lives type", "`{}/lives` must be of type integer"),
        ('{"type":"dog","name":"R"}', "{}/1/properties/name minLength", "`{}/name` must have at least 3"),
        (
            '{"type":"cow"}',
            " ",
            '`{}/type` must be one of the values that identify a branch ("cat", "dog")',
        ),
        ('{"lives":3,"type":"dog"}', "{}/0/properties/type const", '`{}/type` must be that value ("cat")'),
    ],
)
def test_of_a_tagged_union_the_tagged_branch_is_reported(
    keyword: str, text: str, rule: str, message: str
) -> None:
    for schema, whole, place, pointer in (
        (_pets(keyword), text, "", "#"),
        ({"items": _pets(keyword)}, f'[{{"type":"dog","name":"Rex"}},{text}]', "/1", "#/items"),
    ):
        (found,) = explain(schema, whole).rules
        where, _, name = rule.rpartition(" ")
        assert found.pointer == (pointer + where.strip().format(f"/{keyword}") if where.strip() else pointer)
        assert found.keyword == (name or keyword)
        subject = message.replace("{} must", f"`{place}` must" if place else "the value must").format(place)
        assert found.message.startswith(subject)


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_a_tag_that_comes_last(keyword: str) -> None:
    kinds = (("a", "integer"), ("b", "string"))
    schema = {
        keyword: [
            {"properties": {"k": {"const": tag}, "v": {"type": kind}}, "required": ["k", "v"]}
            for tag, kind in kinds
        ]
    }
    last = {rule.message for rule in explain(schema, '{"v":"x","k":"a"}').rules}
    assert last == {'`/k` must be that value ("b")', "`/v` must be of type integer"}
    assert [rule.message for rule in explain(schema, '{"k":"a","v":"x"}').rules] == [
        "`/v` must be of type integer"
    ]


def test_branches_of_other_types_are_not_meant() -> None:
    pet = {"type": "object", "properties": {"name": {"minLength": 3}}}
    schema = {"properties": {"pet": {"anyOf": [pet, {"type": "null"}, {"type": "array"}]}}}
    assert [rule.message for rule in explain(schema, '{"pet":{"name":"x"}}').rules] == [
        "`/pet/name` must have at least 3 characters"
    ]


def test_tags_by_reference_with_a_branch_that_is_no_object() -> None:
    schema = {
        "anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}, {"type": "null"}],
        "$defs": {
            name: {"properties": {"k": {"enum": values}, "n": {"$ref": "#"}, "v": {"type": kind}}}
            for name, values, kind in (("a", ["a", 1], "string"), ("b", [True, "b"], "null"))
        },
    }
    text = '{"k":true,"n":{"k":"a","v":5}}'
    assert [(rule.pointer, rule.message) for rule in explain(schema, text).rules] == [
        ("#/$defs/a/properties/v", "`/n/v` must be of type string")
    ]
    (rule,) = explain(schema, '{"k":"c"}').rules
    assert '("a", 1, "b", true)' in rule.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a":1,}', "the value must have no comma after its last entry"),
        ('{"b":[1,]}', "`/b` must have no comma after its last item"),
        ('{"b":[1,2,]}', "`/b` must have no comma after its last item"),
        ("{a:1}", "the value must have its keys in double quotes"),
        ("{'a':1}", "the value must have its keys in double quotes"),
        ("{\"b\":'x'}", "`/b` must have double quotes around its text"),
        ('{"b":[1 2]}', "`/b` must have a comma between its items"),
        ('{"a":1 "b":2}', "the value must have a comma between its entries"),
        ('{"a" 1}', "the value must have a colon after the key 'a'"),
        ('{"c":"a\nb"}', "`/c` must spell the control character U+000A as \\n"),
        (r'{"c":"\x"}', r"`/c` must not have the escape \x"),
        (r'{"c":"\ud800."}', r"`/c` must not have \ud800 alone"),
        ('{"b":[]} x', "the value must have nothing after its end"),
        ('{"b":[]}}', "the value must have nothing after its end"),
        ('{"a":True}', "`/a` must be spelled `true`, `false` or `null`"),
        ("{]", "the value must be closed with `}`"),
    ],
)
def test_faults_of_json_are_reported_before_the_schema(text: str, message: str) -> None:
    closed = {
        "properties": {"a": {"type": "integer"}, "b": {"items": {"type": "integer"}, "maxItems": 2}, "c": {}},
        "required": ["b"],
        "additionalProperties": False,
    }
    for schema in ({}, closed):
        (rule,) = explain(schema, text).rules
        assert (rule.pointer, rule.keyword) == ("", "JSON")
        assert rule.message.startswith(message)
