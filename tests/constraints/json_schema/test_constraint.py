"""Schemas as constraints: equality, combination, options."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from structgen.constraints.json_schema import JsonSchemaOptions, Whitespace, json_schema
from structgen.errors import CombinationError, OptionError, SchemaInvalid
from structgen.matcher import Matcher
from structgen.vocabulary import Vocabulary
from tests.oracles.schema_ir_twin import valid

SHORT = {"type": "string", "maxLength": 2}
TREE = {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False}


def test_text_and_object_are_the_same_constraint() -> None:
    first, second = json_schema('{"type": "string", "maxLength": 2}'), json_schema(SHORT)
    assert first == second
    assert hash(first) == hash(second)
    assert first != json_schema({"type": "string"})
    assert first != json_schema(SHORT, whitespace="compact")


def test_a_constraint_keeps_what_was_read() -> None:
    schema = {"type": "string"}
    constraint = json_schema(schema)
    schema["type"] = "number"
    assert constraint.lower()[1]["nodes"][0]["types"] == 32


def test_and_is_all_of() -> None:
    joined = json_schema({"type": "string", "minLength": 2}) & json_schema(SHORT)
    ir = joined.lower()[1]
    assert [valid(ir, text) for text in ("a", "ab", "abc")] == [False, True, False]


def test_or_is_any_of_and_keeps_recursion_apart() -> None:
    ir = (json_schema(TREE) | json_schema({"items": {"$ref": "#"}, "type": "array"})).lower()[1]
    assert valid(ir, {"next": {"next": {}}})
    assert valid(ir, [[], [[]]])
    assert not valid(ir, {"next": []})
    assert not valid(ir, [{}])


def test_options_must_agree() -> None:
    with pytest.raises(CombinationError, match="options are equal"):
        json_schema(SHORT) & json_schema(SHORT, ordered=True)
    assert (json_schema(SHORT) | json_schema(SHORT, ordered=True)).lower()[0] == "union"


def test_wrong_options_list_the_right_ones() -> None:
    with pytest.raises(OptionError, match="whitespace"):
        json_schema(True, white_space="compact")
    with pytest.raises(OptionError, match="'flexible', 'compact', 'json.dumps'"):
        json_schema(True, whitespace="none")
    assert json_schema(True).options == JsonSchemaOptions()


def test_white_space_by_name_or_by_value() -> None:
    assert json_schema(SHORT, whitespace="compact") == json_schema(SHORT, whitespace=Whitespace.compact())
    assert json_schema(SHORT, whitespace="indented") == json_schema(SHORT, whitespace=Whitespace.indented())
    assert json_schema(SHORT, whitespace="json.dumps") != json_schema(SHORT, whitespace="compact")
    assert str(Whitespace.indented(3)) == "Whitespace.written(3, (',', ': '))"
    assert eval(str(Whitespace.flexible(2, 9))) == Whitespace.flexible(2, 9)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Whitespace.written(17),
        lambda: Whitespace.written(-1),
        lambda: Whitespace.written("\n"),
        lambda: Whitespace.written(True),
        lambda: Whitespace.written(1.5),  # type: ignore[arg-type]
        lambda: Whitespace.written(separators=(";", ":")),
        lambda: Whitespace.written(separators=("\n,", ":")),
        lambda: Whitespace.written(separators=(", " * 9, ":")),
        lambda: Whitespace.written(separators=(",",)),  # type: ignore[arg-type]
        lambda: Whitespace.written(separators=", "),  # type: ignore[arg-type]
        lambda: Whitespace.flexible(-1),
        lambda: Whitespace.flexible(indentation=20_000),
        lambda: Whitespace.flexible(1.0),  # type: ignore[arg-type]
    ],
)
def test_white_space_that_is_not_offered(wrong: Any) -> None:
    with pytest.raises(OptionError):
        wrong()


@pytest.mark.parametrize("key", [1, None, ("a",)])
def test_keys_are_strings(key: Any) -> None:
    for schema in ({key: 1}, {"properties": {"a": {key: 1}}}, {"properties": {key: {}}}, {"const": {key: 1}}):
        with pytest.raises(SchemaInvalid, match=r"^#"):
            json_schema(schema)


def test_combinations_with_other_kinds_can_be_remembered() -> None:
    first, second = (json_schema(SHORT) + "x", json_schema(dict(SHORT)) + "x")
    assert first == second
    assert hash(first) == hash(second)


BYTES = Vocabulary.from_tokens([bytes([byte]) for byte in range(256)], eos_ids=[256], size=257)
ONE_OF_WHOLE = {"oneOf": [{"const": 10}, {"enum": [2e3, "x"]}, {"type": "integer", "minimum": 5_000}]}


@pytest.mark.parametrize(
    ("schema", "digits", "others"),
    [
        ({"const": 1000}, ["1000"], ["1e3", "1000.0", "1.0e3"]),
        ({"const": 1e3}, ["1000"], ["1e3", "1000.0"]),
        ({"const": 0}, ["0", "-0"], ["0.0", "0e1"]),
        ({"enum": [1, 20, "a", [3]]}, ["1", "20", '"a"', "[3]"], ["1.0", "2e1", "[3.0]"]),
        ({"type": "number", "enum": [1, 20]}, ["20"], ["2e1"]),
        ({"properties": {"a": {"const": 10}}}, ['{"a":10}'], ['{"a":1e1}']),
        ({"anyOf": [{"const": 10}, {"type": "string"}]}, ["10", '"x"'], ["1e1"]),
        (ONE_OF_WHOLE, ["10", "2000", '"x"', "6000"], ["1e1", "2e3", "6e3"]),
    ],
)
def test_digits_alone_where_every_number_that_holds_is_whole(
    schema: Any, digits: list[str], others: list[str]
) -> None:
    matcher = Matcher(json_schema(schema, integers="digits"), BYTES)
    assert [text for text in digits if not matcher.explain(text).ok] == []
    assert [text for text in others if matcher.explain(text).ok] == []
    free = Matcher(json_schema(schema), BYTES)
    assert [text for text in digits + others if not free.explain(text).ok] == []


@pytest.mark.parametrize(
    ("schema", "texts"),
    [
        ({"enum": [1, 0.5]}, ["1", "1.0", "1e0", "0.5", "5e-1"]),
        ({"anyOf": [{"const": 10}, {"type": "number"}]}, ["10", "1e1"]),
        ({"not": {"const": 10}}, ["1", "1.0", "2e1"]),
    ],
)
def test_every_spelling_where_a_number_need_not_be_whole(schema: Any, texts: list[str]) -> None:
    matcher = Matcher(json_schema(schema, integers="digits"), BYTES)
    assert [text for text in texts if not matcher.explain(text).ok] == []
    assert not matcher.explain("1e1").ok or schema != {"not": {"const": 10}}


@pytest.mark.parametrize(
    "text",
    [
        " 1",
        "1\n",
        "12e2",
        "1e401",
        "1.00000000000000001e1",
        '{"a":1,"a":1}',
        '{"a":1,"\\u0061":1}',
        '"\\ud800"',
        '"\\ude00\\ud83d"',
    ],
)
def test_differences_to_rfc_8259(text: str) -> None:
    """Those that docs/json-schema.md lists, in addition to the limit of depth."""
    json.loads(text)
    assert not Matcher(json_schema(True, escapes="all"), BYTES).explain(text).ok


def test_the_options_are_in_the_help() -> None:
    for field in fields(JsonSchemaOptions):
        line = next(
            line for line in (json_schema.__doc__ or "").splitlines() if f"{field.name}:" in line.split()
        )
        assert f"{field.default!r}".replace("'", '"') in line
    assert "registry: " in (json_schema.__doc__ or "")


def test_options_that_are_equal_but_of_other_types_are_distinguished() -> None:
    json_schema(SHORT, ordered=1)  # type: ignore[arg-type]
    Matcher(json_schema(SHORT, ordered=True), Vocabulary.of_bytes())
