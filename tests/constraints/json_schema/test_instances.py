"""Examples satisfy the exact validator, and nothing is shorter than the minimal instance.

The shortest text is compared with every value of a small universe: all JSON texts over a few letters and digits
below its length, and what can be built from the names, strings and numbers that the random schemas share.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from structgen.constraints.json_schema import JsonSchemaConstraint, Whitespace, json_schema
from structgen.errors import LimitExceeded, OptionError, SchemaError, StructgenError, UnsatisfiableSchema
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary
from tests import shared
from tests.oracles.json_validator import SchemaError as OracleError
from tests.oracles.json_validator import Validator
from tests.strategies.json_schemas import ALL, schemas

RELAXED = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "email": {"type": "string", "format": "email"},
        "tags": {"type": "array", "items": {"enum": ["x", "y", "z"]}, "uniqueItems": True},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}


def constraint_of(schema: Any) -> JsonSchemaConstraint:
    try:
        return json_schema(schema)
    except SchemaError as error:
        assert "form a cycle" in str(error)
        assume(False)
        raise


def accepts(schema: Any, text: str) -> bool:
    try:
        return Validator(schema, formats=True).accepts(text)
    except OracleError:
        assume(False)
        raise


# -- the universe in which nothing may be shorter

LETTERS = ("a", "b", "c", "é", "0", "1", "2", " ", ".", ",", ":", "-", "~")
SCALARS = ("null", "true", "false", *"0123456789", "-1", "-2", "10", "12", "0.1", "0.5", "-0.5", "1.5", "-10")
WORDS = (
    "",
    "a",
    "b",
    "ab",
    "aa",
    "abc",
    "aab",
    "0",
    "12",
    'q"',
    "\\",
    "é",
    "x y",
    "c",
    "bc",
    "\U0001f600",
    "a\n",
)
ROOM = 9


@functools.cache
def universe() -> list[tuple[int, str]]:
    """Texts by length: scalars, all short strings, and containers of the ones that schemas speak of."""
    strings = {"".join(letters) for n in range(4) for letters in itertools.product(LETTERS, repeat=n)}
    small = [*SCALARS, *(json.dumps(word, ensure_ascii=False) for word in WORDS)]
    found = {*small, *(json.dumps(text, ensure_ascii=False) for text in strings)}
    level = list(small)
    for _ in range(2):
        level = sorted({*small, *containers(level)}, key=size)
        found.update(level)
    return sorted((size(text), text) for text in found)


def containers(inside: list[str]) -> Iterator[str]:
    few = [text for text in inside if size(text) <= ROOM - 2]
    for n in range(4):
        for items in product_within(few, n, ROOM - 2 - max(0, n - 1)):
            yield "[" + ",".join(items) + "]"
    keys = [json.dumps(word, ensure_ascii=False) for word in WORDS]
    members = [f"{key}:{text}" for key in keys for text in few if size(key) + size(text) < ROOM - 2]
    for n in range(3):
        for chosen in product_within(members, n, ROOM - 2 - max(0, n - 1)):
            if len({member.partition(":")[0] for member in chosen}) == n:
                yield "{" + ",".join(sorted(chosen)) + "}"


def product_within(texts: list[str], n: int, room: int) -> Iterator[tuple[str, ...]]:
    if n == 0:
        yield ()
        return
    for text in texts:
        if size(text) <= room:
            for rest in product_within(texts, n - 1, room - size(text)):
                yield (text, *rest)


def size(text: str) -> int:
    return len(text.encode())


@settings(max_examples=60, suppress_health_check=RELAXED, deadline=None)
@given(schemas(ALL))
def test_nothing_is_shorter_than_the_minimal_instance(schema: Any) -> None:
    constraint = constraint_of(schema)
    try:
        least = constraint.minimal_text()
    except (UnsatisfiableSchema, LimitExceeded):  # the latter where the contradiction is not proven
        least = None
    assert least is None or accepts(schema, least)
    assume(least is None or constraint.minimal_is_exact())
    limit = ROOM if least is None else size(least)
    for length, text in universe():
        if length >= limit:
            break
        assert not accepts(schema, text), (schema, text, least)


# -- examples


@settings(max_examples=200, suppress_health_check=RELAXED, deadline=None)
@given(schemas(ALL), st.integers(0, 1000))
def test_examples_are_valid(schema: Any, seed: int) -> None:
    constraint = constraint_of(schema)
    try:
        text = constraint.example_text(seed)
    except (UnsatisfiableSchema, LimitExceeded):
        with pytest.raises((UnsatisfiableSchema, LimitExceeded)):
            constraint.minimal()
        return
    assert accepts(schema, text)
    assert size(constraint.minimal_text()) <= size(text)


def test_a_seed_gives_one_example() -> None:
    texts = [json_schema(PERSON).example_text(seed) for seed in range(20)]
    assert texts == [json_schema(PERSON).example_text(seed) for seed in range(20)]
    assert len(set(texts)) == 20
    assert texts[0] == '{"name":"sparrow violet","age":13,"email":"rose@lake.example"}'


def test_examples_vary_as_the_schema_lets_them() -> None:
    found = [json_schema(PERSON).example(seed) for seed in range(40)]
    assert 10 < sum("email" in value for value in found) < 35
    assert 5 < sum("tags" in value for value in found) < 38
    assert len({value["age"] for value in found}) > 10
    assert all(value["name"].replace(" ", "").isalpha() for value in found)


def test_an_example_of_anything() -> None:
    kinds = {type(json_schema(True).example(seed)) for seed in range(60)}
    assert kinds == {dict, list, str, int, float, bool, type(None)}


def test_recursion_dies_out() -> None:
    tree = {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "value": {"type": "integer"},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                },
                "required": ["value", "children"],
            }
        },
    }
    sizes = [len(json_schema(tree).example_text(seed)) for seed in range(40)]
    assert max(sizes) < 5_000
    assert len(set(sizes)) > 10


def test_the_options_of_the_constraint_hold() -> None:
    schema = {"properties": {"b": {"type": "integer"}, "a": {"type": "integer"}}, "required": ["a", "b"]}
    ordered = json_schema({**schema, "type": "object"}, ordered=True, whitespace="json.dumps")
    assert list(ordered.example(3))[:2] == ["b", "a"]
    assert ordered.minimal_text() == '{"b": 0, "a": 0}'
    thousand = {"const": 1000}
    assert json_schema(thousand).minimal_text() == "1e3"
    assert json_schema(thousand).minimal() == 1000
    assert type(json_schema(thousand).minimal()) is int
    assert json_schema({"type": "integer", "minimum": 1000}, integers="digits").minimal_text() == "1000"
    assert json_schema({"format": "date", "minLength": 1}, formats="annotate").minimal() is not None


@pytest.mark.parametrize("method", ["example", "minimal", "example_text", "minimal_text"])
def test_a_schema_that_nothing_satisfies(method: str) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"minimum": 2, "maximum": 1, "type": "number"}},
        "required": ["a"],
    }
    with pytest.raises(UnsatisfiableSchema, match="#/properties/a") as caught:
        getattr(json_schema(schema), method)()
    assert "minimum, maximum and type contradict each other" in str(caught.value)


# -- minimal instances by hand

LEVELS = 600
CHAIN = {
    f"d{level}": {"type": "array", "items": {"$ref": f"#/$defs/d{level + 1}"}, "minItems": 1}
    for level in range(LEVELS)
}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (True, "0"),
        ({"type": ["string", "boolean"]}, '""'),
        ({"const": 'a"\n'}, '"a\\"\\n"'),
        ({"pattern": '^(""|aaa|é\\t)$', "type": "string"}, '"aaa"'),
        ({"type": "object", "required": ["b"], "minProperties": 3}, '{"b":0,"":0,"a":0}'),
        ({"type": "object", "minProperties": 2, "properties": {"": False, "a": False}}, '{"b":0,"c":0}'),
        (
            {
                "type": "object",
                "minProperties": 1,
                "properties": {"long name": True},
                "additionalProperties": False,
            },
            '{"long name":0}',
        ),
        (
            {"type": "object", "minProperties": 1, "propertyNames": {"pattern": "^x+$", "minLength": 2}},
            '{"xx":0}',
        ),
        (
            {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": {"minLength": 2, "type": "string"},
                "patternProperties": {"^ab": True},
            },
            '{"ab":0}',
        ),
        ({"enum": [["a", "b"], {"a": 1}, "abcdefgh"]}, '{"a":1}'),
        (
            {
                "type": "array",
                "minItems": 4,
                "uniqueItems": True,
                "items": {"enum": [1, "a", [1, 2], {"a": 1}]},
            },
            '[1,"a",[1,2],{"a":1}]',
        ),
        ({"not": {"uniqueItems": True}}, "[0,0]"),
        (
            {
                "type": "array",
                "prefixItems": [{"const": 1}, {"enum": [1, 22]}, {"enum": [22, 333]}],
                "minItems": 3,
                "uniqueItems": True,
            },
            "[1,22,333]",
        ),
        (
            {
                "type": "array",
                "contains": {"minLength": 2, "type": "string"},
                "minContains": 2,
                "maxContains": 2,
                "minItems": 3,
            },
            '[0,"aa","aa"]',
        ),
        (
            {
                "oneOf": [
                    {"type": "integer"},
                    {"minimum": 2, "type": "number"},
                    {"type": "string", "minLength": 3},
                ]
            },
            "0",
        ),
        ({"not": {"anyOf": [{"not": {"type": "object"}}, {"maxProperties": 1}]}}, '{"":0,"a":0}'),
        ({"type": "object", "not": {"properties": {"k": {"const": 1}}, "required": []}}, '{"k":0}'),
        (
            {
                "if": {"type": "number"},
                "then": {"minimum": 100},
                "else": {"type": "object", "required": ["kk"]},
            },
            "1e2",
        ),
        (
            {"$ref": "#/$defs/d0", "$defs": {**CHAIN, f"d{LEVELS}": {"const": 7}}},
            "[" * LEVELS + "7" + "]" * LEVELS,
        ),
    ],
)
def test_minimal_instances(schema: Any, text: str) -> None:
    constraint = json_schema(schema)
    found = constraint.minimal_text()
    assert found == text
    assert constraint.minimal_is_exact()


def test_an_exhausted_search_budget_is_reported() -> None:
    names = [f"n{index}" for index in range(40)]
    parts = [
        {"anyOf": [{"required": [a], "properties": {a: {"minimum": 10 + i}}}, {"required": [b, a]}]}
        for i, (a, b) in enumerate(itertools.combinations(names, 2))
    ]
    constraint = json_schema({"type": "object", "allOf": parts[:200]})
    text = constraint.minimal_text()
    assert accepts({"type": "object", "allOf": parts[:200]}, text)
    assert not constraint.minimal_is_exact()


# -- schemas as people write them


def test_examples_of_real_schemas() -> None:
    tried = 0
    for record in shared.maskbench(every=60):
        try:
            constraint = json_schema(record["schema"])
            texts = [constraint.example_text(0), constraint.minimal_text()]
        except StructgenError:
            continue
        oracle = Validator(record["schema"], formats=True)
        tried += 1
        for text in texts:
            assert oracle.accepts(text), (record["description"], text)
        assert size(texts[1]) <= size(texts[0])
    assert tried > 100


# -- numbers


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": [1, 2, 3, 4, 5, 1000]},
        {"type": "integer", "minimum": 1, "maximum": 5},
        {"const": 0.5},
        {"const": -3},
        {"multipleOf": 0.01, "type": "number", "minimum": 2, "maximum": 3},
        {"type": "integer", "minimum": 100_000, "maximum": 100_200},
        {"type": "number"},
    ],
)
def test_examples_spell_numbers_as_people_do(schema: Any) -> None:
    constraint = json_schema(schema)
    for seed in range(30):
        text = constraint.example_text(seed)
        assert re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?", text), text
        assert text != "-0"
        assert isinstance(constraint.example(seed), float if "." in text else int)


def test_zeros_that_mean_something_stay() -> None:
    # In draft 4 a number with a fraction is no integer, even if the fraction is zero.
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "number",
        "not": {"type": "integer"},
        "enum": [7],
    }
    assert {json_schema(schema).example_text(seed) for seed in range(5)} == {"7.0"}


@pytest.mark.parametrize("seed", ["1", 1.0, None, True])
def test_a_seed_is_an_int(seed: Any) -> None:
    with pytest.raises(OptionError, match="the seed of an example must be an int, not"):
        json_schema({}).example(seed)


@pytest.mark.parametrize(
    "whitespace",
    ["flexible", "compact", "json.dumps", "indented", Whitespace.written(3, (" , ", " : "))],
    ids=str,
)
def test_texts_are_texts_of_the_constraint(whitespace: Any) -> None:
    schema = {
        "properties": {"a": {"const": [1, {}, {"b": []}]}, "c": {"type": "string"}},
        "required": ["a", "c"],
    }
    constraint = json_schema({"type": "object", **schema}, whitespace=whitespace)
    vocabulary = Vocabulary.from_tokens([bytes([byte]) for byte in range(256)], eos_ids=[256], size=257)
    for text in (constraint.minimal_text(), *map(constraint.example_text, range(5))):
        assert Matcher(constraint, vocabulary).explain(text).ok
    assert constraint.minimal() == {"a": [1, {}, {"b": []}], "c": ""}


@pytest.mark.parametrize("method", ["example", "minimal", "example_text", "minimal_text"])
def test_limits_are_reported_with_a_way_around_them(method: str) -> None:
    value: Any = 1
    for _ in range(1_100):
        value = [value]
    with pytest.raises(LimitExceeded) as caught:
        getattr(json_schema({"const": value}), method)()
    assert caught.value.limit == "max_depth"
    assert "vocabulary.with_limits(max_depth=...)).witness_text()" in str(caught.value)
