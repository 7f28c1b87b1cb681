"""Objects with many alternative records have completions from every prefix, with work linear in the records."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema_rs
import pytest

import structgen as sg
from structgen import _core

OPTIONS: list[dict[str, Any]] = [
    {},
    {"ordered": True},
    {"whitespace": "json.dumps"},
    {"whitespace": "indented"},
]
VALUES: list[dict[str, Any]] = [
    {"type": "integer"},
    {"type": "string", "maxLength": 3},
    {"type": "null"},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 1},
    {"type": "object", "required": ["x"], "properties": {"x": {"enum": [1, "x"]}}},
    {"minimum": 3, "type": "number"},
]


def record(source: random.Random, i: int, tagged: bool) -> dict[str, Any]:
    names = source.sample([f"k{i}", f"l{i}", *"abcdefgh", "a'\"\\", "é"], source.randint(1, 4))
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: source.choice(VALUES) for name in names},
        "required": source.sample(names, source.randint(0, len(names))),
    }
    if tagged:
        schema["properties"]["tag"] = {"const": f"t{i}"}
        schema["required"].append("tag")
    match source.randrange(8):
        case 0 | 1 | 2:
            schema["additionalProperties"] = False
        case 3:
            schema["patternProperties"] = {"^[k-z]": source.choice(VALUES)}
        case 4:
            schema["minProperties"] = source.randint(1, 6)
        case 5:
            schema["maxProperties"] = len(schema["required"]) + source.randint(0, 2)
        case _:
            pass
    return schema


def records(source: random.Random) -> dict[str, Any]:
    tagged = source.random() < 0.5
    many = [record(source, i, tagged) for i in range(source.randint(16, 40))]
    schema: dict[str, Any] = {source.choice(["anyOf", "oneOf"]): many}
    if source.random() < 0.3:
        schema["not"] = source.choice(many)
    if source.random() < 0.3:
        schema["properties"] = {"a": source.choice(VALUES), "n": {}}
        schema["required"] = ["n"]
    match source.randrange(4):
        case 0:
            return {"type": "array", "minItems": 2, "items": schema, "uniqueItems": True}
        case 1:
            return {"type": "object", "properties": {"of": schema}, "required": ["of"]}
        case _:
            return schema


@pytest.mark.parametrize("seed", range(40))
def test_random_prefixes_of_random_records_are_completed(seed: int) -> None:
    source = random.Random(seed)
    schema = records(source)
    options: dict[str, Any] = source.choice(OPTIONS)
    constraint = sg.json_schema(schema, **options)
    validator = jsonschema_rs.validator_for(schema)
    for _ in range(3):
        matcher = sg.Matcher(constraint, sg.Vocabulary.of_bytes())
        for _ in range(source.randrange(60)):
            if matcher.is_complete():
                break
            allowed = allowed_of(matcher)
            if not allowed and matcher.unproven:
                break
            assert matcher.advance(source.choice(allowed))
        if matcher.unproven:
            continue
        rest = matcher.witness_text()
        assert rest is not None, (schema, matcher.text)
        whole = matcher.text + rest
        assert validator.is_valid(json.loads(whole)), (schema, whole)
        assert matcher.viable_bytes(rest) == len(rest) and matcher.witness_text(rest) == b""


def allowed_of(matcher: sg.Matcher) -> list[int]:
    words = matcher.mask().tolist()
    allowed = [byte for byte in range(256) if words[byte >> 5] >> (byte & 31) & 1]
    return [byte for byte in allowed if 0x21 < byte < 0x7F or byte in b'"'] or allowed


def of_many(count: int, tagged: bool) -> dict[str, Any]:
    keys = [["tag", f"k{i}"] if tagged else [f"a{i}", f"b{i}", f"c{i}"] for i in range(count)]
    return {
        "anyOf": [
            {
                "type": "object",
                "properties": {
                    name: {"const": f"t{i}"} if name == "tag" else {"type": "integer"} for name in names
                },
                "required": names,
            }
            for i, names in enumerate(keys)
        ]
    }


@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize("prefix", [b"", b'{"x":1,', b'{"x":1,"', b'{"x":1,"k7'])
def test_the_work_is_linear_in_the_records(tagged: bool, prefix: bytes) -> None:
    spent: list[int] = []
    for count in (250, 1_000):
        matcher = sg.Matcher(sg.json_schema(of_many(count, tagged)), sg.Vocabulary.of_bytes())
        before = _core.work_done()
        assert matcher.witness_text(prefix) is not None
        spent.append(_core.work_done() - before)
    assert spent[1] < 6 * spent[0] and spent[1] < 10_000_000
