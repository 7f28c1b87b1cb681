"""Which schemas need no probe, and that those which do not are cheap."""

import json
import random

import numpy as np
import pytest

from structgen import _core
from structgen.constraints.json_schema import json_schema
from structgen.serving.probe import serving_vocabulary
from structgen.serving.simple_schemas import is_simple_schema

from .specs import BYTES


def _tool(index, *, name="name"):
    arguments = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    return {
        "type": "object",
        "properties": {name: {"const": f"tool_{index}"}, "arguments": arguments},
        "required": [name, "arguments"],
    }


_SIMPLE = {
    "anything": True,
    "a record": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Order",
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 80, "description": "who"},
            "count": {"type": "integer", "minimum": 0, "maximum": 100},
            "share": {"type": "number", "exclusiveMaximum": 0.5},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 10},
            "when": {"type": "string", "format": "date-time"},
            "code": {"type": "string", "pattern": "^[A-Z]{2}[0-9]+$"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "kind": {"type": ["string", "null"]},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    "tools": {"anyOf": [_tool(index) for index in range(1_000)]},
    "a list of tools": {
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "anyOf": [
                {"properties": {"name": {"type": "string", "enum": [f"t{i}"]}}, "required": ["name"]}
                for i in range(9)
            ],
        },
    },
    "a tree": {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            }
        },
    },
    "an object or nothing": {
        "anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}],
        "$defs": {"a": {"type": "object", "properties": {"x": {"type": "string"}}}},
    },
}
_RECORD = {"type": "object", "properties": {"x": {"type": "string"}}}
_NOT_SIMPLE = {
    "false": False,
    "no schema": 7,
    "two objects": {"anyOf": [_RECORD, {"type": "object", "properties": {"y": {"type": "string"}}}]},
    "the same tag twice": {"anyOf": [_tool(1), _tool(2), _tool(1)]},
    "tags of different keys": {"anyOf": [_tool(1), _tool(2, name="kind")]},
    "an optional tag": {"anyOf": [{**_tool(1), "required": ["arguments"]}, _tool(2)]},
    "a tag that is not the first key": {
        "anyOf": [
            {
                "type": "object",
                "properties": {"q": {"type": "string"}, "name": {"const": f"{i}"}},
                "required": ["name"],
            }
            for i in range(2)
        ]
    },
    "branches without types": {
        "anyOf": [{"properties": {"x": {"const": "a"}}, "required": ["x"]}, {"maxLength": 2}]
    },
    "the same type twice": {"anyOf": [{"type": "string"}, {"type": "string", "maxLength": 3}]},
    "integers and numbers": {"anyOf": [{"type": "integer"}, {"type": "number"}]},
    "nested branches": {"anyOf": [{"type": "null"}, {"anyOf": [{"type": "string"}, {"type": "string"}]}]},
    "branches next to properties": {**_RECORD, "anyOf": [_RECORD]},
    "allOf": {"allOf": [_RECORD]},
    "not": {"not": {"type": "string"}},
    "uniqueItems": {"type": "array", "uniqueItems": True},
    "patternProperties": {"type": "object", "patternProperties": {"^a": True}},
    "multipleOf": {"multipleOf": 7},
    "an object as a constant": {"const": {"a": 1}},
    "an unknown keyword": {"type": "string", "x-pattern-dialect": "python"},
    "a huge number": {"minimum": 10**40},
    "an exponent": {"minimum": 1e300},
    "a hostile pattern": {"pattern": "^[ab]*a[ab]{30}$"},
    "a pattern and a length": {"pattern": "^[a-z]{1,200}-[a-z]{1,200}$", "minLength": 300},
    "a format and a length": {"format": "email", "minLength": 50},
    "an expensive format": {"format": "idn-hostname"},
    "a reference into a keyword": {"$ref": "#/properties/a", "properties": {"a": True}},
    "a chain of references": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": True}},
    "a reference next to a keyword": {"$ref": "#/$defs/a", "type": "object", "$defs": {"a": _RECORD}},
    "another document": {"$ref": "https://example.com/a"},
    "an identifier": {"$id": "https://example.com/a", "type": "object"},
    "draft 4": {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"},
    "too many keys": {"properties": {f"k{i}": True for i in range(501)}},
    "too long keys": {"properties": {f"{i}" * 600: True for i in range(10, 99)}},
    "too many listed values": {
        "properties": {f"k{i}": {"enum": [str(j) for j in range(30)]} for i in range(90)}
    },
    "too many branches": {"anyOf": [_tool(index) for index in range(1_025)]},
    "too many definitions": {"$defs": {f"d{i}": True for i in range(257)}},
    "a key that is no text": {"properties": {1: True}},
    "a wrong value": {"type": "string", "maxLength": "3"},
    "a wrong type": {"type": {"a": 1}},
    "a wrong list": {"anyOf": 3},
}


@pytest.mark.parametrize("schema", _SIMPLE.values(), ids=_SIMPLE)
def test_ordinary_schemas_are_simple(schema):
    assert is_simple_schema(schema, ordered=True)
    assert is_simple_schema(schema, ordered=False) == (schema is True)


@pytest.mark.parametrize("schema", _NOT_SIMPLE.values(), ids=_NOT_SIMPLE)
def test_others_are_not(schema):
    assert not is_simple_schema(schema, ordered=True)


def test_nesting_is_no_problem_for_the_check():
    schema = leaf = {}
    for _ in range(20_000):
        leaf["items"] = leaf = {}
    assert is_simple_schema(schema, ordered=True)


def _nested(depth, schema, wrap):
    for _ in range(depth):
        schema = wrap(schema)
    return schema


def _largest():
    """Return the largest simple schemas of several families."""
    source = random.Random(3)
    word = lambda: "".join(source.choice("abcdefgh") for _ in range(12))  # noqa: E731
    keys = [f"key_{i}" for i in range(500)]
    kinds = [
        lambda i: {"type": "string", "minLength": i, "maxLength": 2 * i},
        lambda i: {"type": "number", "minimum": -(10**19) + i, "maximum": 10**19 - i},
        lambda i: {"type": "string", "format": ("uri", "email", "date-time")[i % 3], "maxLength": 40 + i},
        lambda i: {"type": "string", "pattern": f"^[a-z]([a-z0-9-]{{0,{i}}}[a-z0-9])?$"},
        lambda i: {"enum": [word() for _ in range(4)]},
        lambda i: {"type": "array", "items": {"type": "string"}, "minItems": i, "maxItems": 1_000},
    ]
    for kind in kinds:
        properties = {key: kind(i) for i, key in enumerate(keys)}
        yield {"type": "object", "properties": properties, "additionalProperties": False}
        yield {"type": "object", "properties": properties, "required": keys}
    yield {"anyOf": [_tool(index) for index in range(1_024)]}
    yield {"enum": [word() for _ in range(50_000)]}
    yield {"enum": [source.randrange(10**9) for _ in range(1_000)]}
    yield _nested(300, True, lambda inner: {"type": "object", "properties": {"a": inner}, "required": ["a"]})
    yield _nested(300, True, lambda inner: {"type": "array", "items": inner, "minItems": 1_000})
    definitions = {
        f"d{i}": {
            "type": "object",
            "properties": {name: {"$ref": f"#/$defs/d{i + 1}"} for name in "ab"},
            "required": ["a", "b"],
        }
        for i in range(255)
    }
    yield {"$ref": "#/$defs/d0", "$defs": {**definitions, "d255": {"type": "string"}}}


@pytest.mark.parametrize("schema", list(_largest()), ids=lambda schema: json.dumps(schema)[:60])
def test_the_largest_simple_schemas_are_cheap(schema):
    """Build each, and follow a random text: the work is linear in the size, and no mask takes much."""
    vocabulary = serving_vocabulary(BYTES)
    size = len(json.dumps(schema))
    assert is_simple_schema(schema, ordered=True)
    source = random.Random(1)
    before = _core.work_done()
    program = vocabulary.engine.compile(json_schema(schema, ordered=True).lower())
    assert program.empty_parts() is None
    assert _core.work_done() - before < 1_000_000 + 10 * size  # units of 20 ns
    matcher = _core.Matcher(program)
    for _ in range(60):
        before = _core.work_done()
        mask = matcher.mask()
        matcher.forced()
        assert _core.work_done() - before < 500_000
        allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
        allowed = allowed[~np.isin(allowed, vocabulary.eos_ids)]
        if not len(allowed) or not matcher.advance(int(source.choice(list(allowed)))):
            break
