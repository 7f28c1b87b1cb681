"""Texts that no schema accepts: text that is not JSON, and repeated keys."""

from __future__ import annotations

from typing import Any

import pytest

from tests.constraints.json_schema.explain.schema_explanations import explain

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
