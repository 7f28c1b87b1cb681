"""States and masks that were wrong once: the smallest schemas and tokens that show each fault.

The general properties are tested in `test_masks`, `test_liveness` and `test_schema_algebra`. Random search meets these
cases too rarely.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

from structgen.constraints.json_schema import json_schema
from structgen.errors import UnsatisfiableSchema
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary
from tests.core.small_vocabulary import byte_vocabulary
from tests.oracles.json_validator import Validator

BYTES = byte_vocabulary(bytes(range(256)))


def with_tokens(*tokens: bytes) -> Vocabulary:
    return Vocabulary.from_tokens(
        [*(bytes([b]) for b in range(256)), *tokens, None], eos_ids=[256 + len(tokens)]
    )


@pytest.mark.parametrize(
    ("schema", "before", "token", "allowed"),
    [
        # a declared key whose escape lies off the language of other keys
        ({"properties": {'q"': True}, "patternProperties": {"^z": False}}, b'{"', b'q\\"":', True),
        ({"properties": {'q"': True}, "additionalProperties": False}, b'{"', b'q\\"', True),
        # a key or an item that comes twice in one token
        ({"type": "object"}, b"{", b'"a":1,"a":', False),
        ({"type": "object"}, b"{", b'"a":1,"b":', True),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, b"", b'["a","a"', False),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, b"", b'["a","b"', True),
        ({"type": "array", "uniqueItems": True}, b"", b"[[],[]", False),
        ({"properties": {"x": {"type": "array", "uniqueItems": True}}}, b'{"x"', b':["a","a"', False),
    ],
)
def test_tokens_that_cross_many_states(schema: Any, before: bytes, token: bytes, allowed: bool) -> None:
    vocabulary = with_tokens(token)
    matcher = Matcher(json_schema(schema), vocabulary)
    assert all(matcher.advance(byte) for byte in before)
    mask = matcher.mask()
    assert bool(int(mask[256 >> 5]) & 1) == allowed
    assert matcher.advance(256) == allowed


def test_a_long_token_of_escapes_near_the_limit() -> None:
    vocabulary = with_tokens(b"\\\\" * 20)
    matcher = Matcher(json_schema({"type": "string", "maxLength": 100}), vocabulary)
    matcher.advance(ord('"'))
    assert int(matcher.mask()[8]) & 1
    for _ in range(85):
        assert matcher.advance(ord("a"))
    assert not int(matcher.mask()[8]) & 1
    assert not matcher.advance(256)


@pytest.mark.parametrize(
    ("key", "dead"),
    [("é", b'{"\\u00f'), ("😀", b'{"\\ud8a0')],
)
def test_an_escape_that_continues_no_key_is_dead(key: str, dead: bytes) -> None:
    schema = {"type": "object", "properties": {key: True}, "required": [key], "additionalProperties": False}
    matcher = Matcher(json_schema(schema, escapes="all"), BYTES)
    assert matcher.viable_bytes(dead) < len(dead)
    units = key.encode("utf-16-be")
    spelled = "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
    escaped = f'{{"{spelled}":1}}'
    assert matcher.viable_bytes(escaped) == len(escaped)


ALONE = {"enum": ["a"]}
SATISFIABLE: list[tuple[Any, str]] = [
    # a tag whose sub-schema holds for fewer than its listed values
    (
        {
            "type": "object",
            "allOf": [
                {"properties": {"t": ALONE}, "required": ["t"]},
                {
                    "not": {
                        "properties": {"t": {"allOf": [{"enum": ["a", "bb"]}], "minLength": 2}},
                        "required": ["t"],
                    }
                },
                {"not": {"properties": {"t": {"enum": ["c"]}}, "required": ["t"]}},
            ],
        },
        '{"t":"a"}',
    ),
    (
        {
            "$defs": {"e": {"enum": ["a", None]}},
            "type": "object",
            "oneOf": [
                {"properties": {"t": {"type": "string", "$ref": "#/$defs/e"}}},
                {"properties": {"t": {"enum": [None]}}},
                {"properties": {"t": {"enum": ["c"]}}},
            ],
        },
        '{"t":null}',
    ),
]


@pytest.mark.parametrize(("schema", "text"), SATISFIABLE)
def test_values_that_a_tag_excludes(schema: Any, text: str) -> None:
    assert Validator(schema).accepts(text)
    assert Matcher(json_schema(schema), BYTES).viable_bytes(text) == len(text)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "array", "items": {"type": "object", "maxProperties": 0}, "uniqueItems": True}, b"[{},"),
        (
            {
                "type": "object",
                "patternProperties": {"^z$": True},
                "additionalProperties": False,
                "not": {"additionalProperties": {"type": "string"}},
            },
            b'{"z":"a",',
        ),
    ],
)
def test_unproven_states_are_counted(schema: Any, text: bytes) -> None:
    matcher = Matcher(json_schema(schema), BYTES)
    assert (
        matcher.witness_text(text) is not None
        or matcher.viable_bytes(text) < len(text)
        or matcher.unproven > 0
    )


def test_parts_shared_by_many_branches_are_examined_once() -> None:
    wide: dict[str, Any] = {"d0": {"type": "object"}}
    for level in range(1, 9):
        wide[f"d{level}"] = {"allOf": [{"$ref": f"#/$defs/d{level - 1}"} for _ in range(12)]}
    schema = {
        "$defs": wide,
        "oneOf": [{"$ref": "#/$defs/d8", "required": ["a"]}, {"$ref": "#/$defs/d8", "required": ["b"]}],
    }
    assert Matcher(json_schema(schema), BYTES).witness_text() is not None


def test_compilations_on_threads_while_spaces_are_replaced() -> None:
    vocabulary = BYTES.with_limits(space_bytes=150_000)
    failures: list[BaseException] = []

    def compiles(start: int) -> None:
        try:
            for i in range(30):
                pattern = "".join(f"[{chr(97 + (i * 7 + j + start) % 26)}x]{{1,{j + 3}}}" for j in range(12))
                matcher = Matcher(json_schema({"type": "string", "pattern": f"^{pattern}$"}), vocabulary)
                matcher.mask()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=compiles, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        # arrays that hold only where an item comes twice
        (
            {"type": "array", "maxItems": 2, "not": {"uniqueItems": True}},
            ['["x","x"]', "[{},{}]", "[1,1]"],
            ['["x","y"]', '["x"]', "[1,2]"],
        ),
        ({"type": "array", "maxItems": 3, "not": {"uniqueItems": True}}, ['["x",1,"x"]'], ['["a","b","c"]']),
        ({"maxItems": 3, "oneOf": [{"minLength": 1}, {"uniqueItems": True}]}, ['[[],"",[]]'], ["[1,2]"]),
        # items that are counted and must differ
        (
            {"type": "array", "uniqueItems": True, "contains": {"enum": [0, 1]}, "minContains": 2},
            ["[0,1]", '[0,"x",1]'],
            ["[0,0]", "[0]"],
        ),
        # what ends only above `maxContains`
        (
            {"type": "array", "not": {"contains": {"const": 1}, "minContains": 0, "maxContains": 1}},
            ["[1,1]", "[0,1,1]"],
            ["[0,1]", "[]"],
        ),
    ],
)
def test_items_that_repeat_or_count(schema: Any, valid: list[str], invalid: list[str]) -> None:
    matcher = Matcher(json_schema(schema), BYTES)
    for text in (*valid, *invalid):
        copy = matcher.fork()
        for token in text.encode():
            mask = copy.mask()
            allowed = bool(int(mask[(token + 2) >> 5]) >> ((token + 2) & 31) & 1)
            assert copy.advance(token + 2) == allowed, (text, copy.text)
            if not allowed:
                break
        assert (copy.text.decode() == text and copy.is_complete()) == (text in valid), text
    assert matcher.witness_text() is not None
    assert matcher.witness_text(b"[0,") is not None or matcher.unproven


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "uniqueItems": True, "contains": {"const": 1}, "minContains": 2},
        {"type": "array", "uniqueItems": True, "contains": {"enum": [0, 1]}, "minContains": 3},
        {
            "type": "array",
            "uniqueItems": True,
            "minItems": 3,
            "not": {"contains": {"minLength": 1}, "minContains": 2},
        },
    ],
)
def test_too_few_different_items(schema: Any) -> None:
    with pytest.raises(UnsatisfiableSchema):
        Matcher(json_schema(schema), BYTES)


def test_many_different_numbers_take_little_memory() -> None:
    matcher = Matcher(
        json_schema({"type": "array", "uniqueItems": True, "items": {"type": "integer"}}), BYTES
    )
    text = "[" + ",".join(map(str, range(3_000)))
    for token in text.encode():
        assert matcher.advance(token + 2)
    assert matcher.viable_bytes(b",7]") == 2  # 7 is there, 7x may come
    assert matcher.viable_bytes(b",2999]") < 6, "reported when it ends, though no longer removed before"
    assert matcher.viable_bytes(b",3000]") == 6


@pytest.mark.parametrize(
    ("schema", "viable", "dead"),
    [
        (
            {"type": "object", "properties": {"b": {}}, "propertyNames": {"enum": ["a", "b"]}},
            ['{"b":1,"a":2}', '{"b":1,'],
            ['{"a":1,', '{"b":1,"a":2,'],
        ),
        (
            {"type": "object", "additionalProperties": False, "patternProperties": {"^(x|y)$": {}}},
            ['{"x":1,', '{"y":1,"x":2}'],
            ['{"y":1,"x":2,'],
        ),
        (
            {
                "not": {
                    "not": {
                        "patternProperties": {"^.$": {"type": "integer"}},
                        "propertyNames": {"const": "a"},
                    }
                }
            },
            ['{"a":1}'],
            ['{"a":1,'],
        ),
    ],
)
def test_ordered_keys_of_few_texts_run_out(schema: Any, viable: list[str], dead: list[str]) -> None:
    matcher = Matcher(json_schema(schema, ordered=True), BYTES)
    for text in (*viable, *dead):
        assert (matcher.viable_bytes(text.encode()) == len(text)) == (text in viable), text
