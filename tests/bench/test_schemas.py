"""Families of schemas for measuring: instances are valid, translations say the same, halves are fixed."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections import Counter
from typing import Any

import jsonschema_rs
import pytest

from bench import schemas
from bench.schemas import Source, generated, mcp_tools
from bench.schemas.instances import NoInstance, instances
from bench.schemas.merging import Impossible, external_references, merged
from bench.schemas.openapi import component
from bench.schemas.strings import FORMATS, free_text, from_pattern

SCHEMAS: list[Any] = [
    True,
    {"type": "integer", "minimum": 3, "exclusiveMaximum": 5},
    {"type": "number", "multipleOf": 0.25, "minimum": 1, "maximum": 2},
    {"type": "string", "pattern": r"^[A-Z]{2}-\d+$", "minLength": 8, "maxLength": 12},
    {"type": "string", "format": "uri", "minLength": 60},
    {"type": ["null", "boolean"]},
    {"type": "array", "items": {"enum": [1, 2, 3, 4]}, "uniqueItems": True, "minItems": 4},
    {"prefixItems": [{"const": "a"}, {"type": "integer"}], "items": False, "minItems": 2},
    {
        "type": "array",
        "items": [{"type": "string"}],
        "additionalItems": False,
        "$schema": "http://json-schema.org/draft-07/schema#",
    },
    {
        "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/$defs/b"}},
        "required": ["b"],
        "$defs": {"b": {"enum": ["x"]}},
    },
    {
        "type": "object",
        "patternProperties": {"^x-[a-z]+$": {"type": "integer"}},
        "additionalProperties": False,
        "minProperties": 2,
    },
    {"type": "object", "additionalProperties": {"type": "boolean"}, "minProperties": 3},
    {
        "allOf": [
            {"properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"properties": {"a": {"maxLength": 3}}},
        ]
    },
    {
        "oneOf": [
            {"type": "string", "maxLength": 2},
            {"type": "object", "required": ["k"], "properties": {"k": {"const": 1}}},
        ]
    },
    {
        "type": "object",
        "properties": {"kind": {"enum": ["a", "b"]}, "value": {}},
        "required": ["kind", "value"],
        "if": {"properties": {"kind": {"const": "a"}}},
        "then": {"properties": {"value": {"type": "integer"}}},
        "else": {"properties": {"value": {"type": "string"}}},
    },
    {
        "$ref": "#/$defs/tree",
        "$defs": {"tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}}}},
    },
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: json.dumps(schema)[:50])
def test_instances_are_valid_and_depend_on_the_seed_only(schema: Any) -> None:
    drawn = instances(schema, 3, random.Random(1))
    validator = jsonschema_rs.validator_for(schema, validate_formats=True)
    assert drawn and all(map(validator.is_valid, drawn))
    assert drawn == instances(schema, 3, random.Random(1))


def test_members_stand_in_the_order_of_the_schema() -> None:
    schema = {"properties": {name: {"type": "integer"} for name in "zbya"}, "required": ["a", "z", "y", "b"]}
    assert [list(value) for value in instances(schema, 2, random.Random(0))] == [list("zbya")] * 2


def test_a_schema_without_an_instance_has_none() -> None:
    with pytest.raises(NoInstance):
        instances({"type": "string", "minLength": 3, "maxLength": 2}, 1, random.Random(0))


@pytest.mark.parametrize(
    "pattern",
    [r"^[a-z]{3,5}$", r"^(a|bc)+(?:-\d+)?$", r"^[^\s/]+$", r"^\w+\.[A-Z0-9]{2}$", r"^(?<year>\d{4})$"],
)
def test_strings_of_patterns_match(pattern: str) -> None:
    source = random.Random(0)
    for _ in range(20):
        text = from_pattern(pattern, source, 3)
        assert text is not None and re.search(pattern.replace("(?<", "(?P<"), text)


def test_patterns_that_cannot_be_read_have_no_string() -> None:
    assert from_pattern("(", random.Random(0), 1) is None


@pytest.mark.parametrize("name", FORMATS)
def test_strings_have_their_format(name: str) -> None:
    source = random.Random(0)
    assert all(
        jsonschema_rs.is_valid({"format": name}, FORMATS[name](source), validate_formats=True)
        for _ in range(20)
    )


def test_free_text_keeps_its_bounds() -> None:
    source = random.Random(0)
    for _ in range(200):
        low = source.randint(0, 40)
        high = low + source.randint(0, 20)
        assert low <= len(free_text(source, low, high)) <= high


def test_a_conjunction_says_what_both_say() -> None:
    one = {"type": ["string", "null"], "maxLength": 9, "enum": ["a", "b"], "required": ["x"]}
    other = {"type": "string", "maxLength": 5, "enum": ["b", "c"], "required": ["y"]}
    assert merged(one, other) == {"type": ["string"], "maxLength": 5, "enum": ["b"], "required": ["x", "y"]}
    with pytest.raises(Impossible):
        merged({"type": "string"}, {"type": "integer"})


def test_references_to_other_documents_are_found() -> None:
    assert external_references({"items": {"$ref": "other.json#/a"}})
    assert not external_references(
        {"$id": "https://a/b", "items": {"$ref": "https://a/b#/x"}, "not": {"$ref": "#"}}
    )


def test_components_of_openapi_become_schemas() -> None:
    document = {
        "Pet": {"type": "object", "required": ["owner"],
                "properties": {"owner": {"$ref": "#/components/schemas/Owner"}}},
        "Owner": {"type": "object", "properties": {"age": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}},
                  "nullable": True},
        "Other": {"type": "string"},
    }  # fmt: skip
    schema = component(document, "Pet")
    assert set(schema["$defs"]) == {"Owner"}
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid({"owner": None}) and validator.is_valid({"owner": {"age": 1}})
    assert not validator.is_valid({"owner": {"age": 0}})


def test_tools_of_a_server_keep_their_references() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/n"}},
        "required": ["a"],
        "$defs": {"n": {"type": "integer"}},
    }
    tools = [{"name": "one", "inputSchema": schema}, {"name": "two", "inputSchema": {"type": "object"}}]
    validator = jsonschema_rs.validator_for(mcp_tools.all_tools(tools))
    assert validator.is_valid({"name": "one", "arguments": {"a": 1}})
    assert not validator.is_valid({"name": "one", "arguments": {"a": "1"}})
    assert not validator.is_valid({"name": "three", "arguments": {}})


_SERVER = """
import json, sys
print("starting")
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        result = {"capabilities": {}}
    elif message["method"] == "tools/list" and "cursor" not in message["params"]:
        result = {"tools": [{"name": "a", "inputSchema": {}}], "nextCursor": "2"}
    elif message["method"] == "tools/list":
        result = {"tools": [{"name": "b", "inputSchema": {}}]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def test_tools_are_listed_page_by_page() -> None:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", _SERVER], **pipes) as process:
        assert [tool["name"] for tool in mcp_tools.listed_tools(process)] == ["a", "b"]
        process.kill()
    with subprocess.Popen([sys.executable, "-c", "pass"], **pipes) as process, pytest.raises(RuntimeError):
        mcp_tools.listed_tools(process)


def test_what_is_left_out_is_counted() -> None:
    sources = [
        Source("good", {"type": "integer"}, [7, "no integer"]),
        Source("again", {"type": "integer"}),
        Source("elsewhere", {"$ref": "https://example.com/schema"}),
        Source("invalid", {"type": 3}),
        Source("empty", {"enum": [1], "type": "string"}),
    ]
    left_out: Counter[str] = Counter()
    (record,) = schemas.make_records("some", sources, left_out)
    assert record["_file"] == "some/good" and record["tests"][0] == {"valid": True, "data": 7}
    assert set(left_out) == {
        "same as another", "refers to other documents", "refused by jsonschema_rs", "no instance found",
    }  # fmt: skip


def test_half_is_held_out() -> None:
    names = [f"generated/{i}" for i in range(21)]
    drawn = schemas.draw_held_out(names)
    assert len(drawn) == 10 and drawn == schemas.draw_held_out(reversed(names))
    tools = [f"mcp_tools/@a/{server}@1/{tool}" for server in "xyz" for tool in range(5)]
    assert len({name.rpartition("/")[0] for name in schemas.draw_held_out(tools)}) == 1


def test_the_list_of_held_out_records_names_known_families() -> None:
    held = [name for name in schemas.held_out() if name]
    assert {name.partition("/")[0] for name in held} == set(schemas.families())
    assert all(schemas.is_held_out({"_file": name}) for name in held)


def test_each_rule_makes_schemas_that_have_instances() -> None:
    for rule in generated.RULES:
        source = next(s for s in generated.sources() if s.name.startswith(rule))
        left_out: Counter[str] = Counter()
        assert len(list(schemas.make_records("generated", [source], left_out))) == 1, (rule, left_out)
