"""Schemas of many forms in every tool format: what is written reads back as a call whose arguments validate."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import structgen as sg
from structgen.constraints.json_schema.strings import string_language
from structgen.errors import ConstraintError, LimitExceeded, UnsupportedKeyword
from structgen.tools import FORMATS, ToolTurn, read_tools, tools
from structgen.types.raw_text import Text

from .walks import plain, walk

VOCABULARY = sg.Vocabulary.of_bytes()
WORD = {"type": "string", "maxLength": 3}
STRINGS: dict[str, Any] = {
    "type": WORD,
    "list of types": {"type": ["string"], "maxLength": 3},
    "allOf": {"allOf": [{"type": "string"}, {"maxLength": 3}]},
    "allOf of lists": {"allOf": [{"type": ["string", "null"]}, {"type": ["string", "integer"]}], "maxLength": 3},
    "anyOf": {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "string", "pattern": "^a{3}$"}]},
    "anyOf with a type": {"type": ["string", "null"], "maxLength": 3, "anyOf": [{"type": "string"}, {"minimum": 1}],
                            "not": {"type": "null"}},
    "oneOf": {"oneOf": [WORD, {"type": "string", "maxLength": 1}]},
    "$ref": {"$ref": "#/$defs/word"},
    "$ref and more": {"$ref": "#/$defs/word", "minLength": 1},
    "$ref to $ref": {"$ref": "#/$defs/again"},
    "enum": {"enum": ["a", "b c", "null", "3"]},
    "enum of one type": {"type": "string", "enum": ["a", 3, None]},
    "const": {"const": "x"},
    "not": {"not": {"type": ["null", "boolean", "number", "object", "array"]}, "maxLength": 3},
    "if": {"if": {"type": "string"}, "then": {"maxLength": 3}, "else": False},
    "pattern": {"type": "string", "pattern": "^[ab]{1,3}$"},
    "format": {"type": "string", "format": "date"},
    "annotations": {"type": "string", "maxLength": 3, "title": "A", "examples": [3], "x-custom": True},
}  # fmt: skip
OR_NULL: dict[str, Any] = {
    "list of types": {"type": ["string", "null"], "maxLength": 3},
    "anyOf": {"anyOf": [WORD, {"type": "null"}]},
    "oneOf": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/word"}]},
    "enum": {"enum": ["a", None]},
    "with the text null": {"enum": ["null", None, "a"]},
}
OTHERS: dict[str, Any] = {
    "integer": {"type": "integer", "minimum": 0, "maximum": 99},
    "list of integer": {"type": ["integer"], "minimum": 0, "maximum": 99},
    "number": {"type": "number", "minimum": 0, "maximum": 1},
    "boolean": {"type": "boolean"},
    "null": {"type": "null"},
    "string or integer": {"type": ["string", "integer"], "maxLength": 2, "minimum": 0, "maximum": 9},
    "mixed enum": {"enum": ["a", 3, None, True, [1]]},
    "array": {"type": "array", "items": WORD, "maxItems": 2},
    "object": {"type": "object", "properties": {"a": WORD}, "additionalProperties": False},
    "allOf of integers": {"allOf": [{"type": "integer"}, {"minimum": 0, "maximum": 9}]},
    "nothing of strings": {"type": ["string", "boolean"], "not": {"type": "string"}},
}
ROOTS: dict[str, Any] = {
    "or null": {"type": ["object", "null"]},
    "any type": {"type": ["string", "object", "array"]},
    "no type": {"type": None},
    "anyOf": {"anyOf": [{"required": ["x"]}, {"type": "null"}], "additionalProperties": False},
    "$ref": {"$ref": "#/$defs/root", "type": ["object", "null"]},
    "$ref alone": {"$ref": "#/$defs/root"},
    "draft 7 $ref": {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/$defs/root"},
    "nullable twice": {
        "type": ["null", "object"],
        "allOf": [{"type": ["object", "null"]}],
        "additionalProperties": False,
    },
}
DEFS = {
    "word": WORD,
    "again": {"$ref": "#/$defs/word"},
    "root": {"properties": {"x": WORD, "y": {"type": "boolean"}}, "additionalProperties": False},
}


def parameters(schema: Any, **more: Any) -> dict[str, Any]:
    found = {"type": "object", "properties": {"x": schema}, "required": ["x"], "$defs": DEFS, **more}
    return {key: value for key, value in found.items() if value is not None}


def check_round_trips(schema: Any, format: str, seeds: int = 3) -> list[dict[str, Any]]:
    """Check that random texts of the constraint are single calls that validate."""
    definition = {"name": "f", "parameters": schema}
    turn = tools([definition], format=format, tool_choice="required", parallel=False)
    found = []
    for seed in range(seeds):
        text = walk(turn, plain(), random.Random(seed), most=400)
        read = turn.read(text)
        assert len(read.calls) == 1 and not read.text, text
        turn.tools[0].validate(read.calls[0].arguments)
        found.append(read.calls[0].arguments)
    return found


@pytest.mark.parametrize("choice", ["auto", "required", "none"])
@pytest.mark.parametrize(
    ("parameters", "where"),
    [
        ({"const": 5}, "#/const"),
        ({"const": None}, "#/const"),
        ({"enum": [None]}, "#/enum"),
        ({"enum": []}, "#/enum"),
        ({"type": "object", "enum": [1, "a", [{}]]}, "#/enum"),
        ({"type": "object", "const": [], "properties": {"a": {}}}, "#/const"),
        (False, "the schema false"),
        ({"const": {"b": 1}, "required": ["a"]}, "#"),
        ({"enum": [{"a": 1}], "const": {"a": 2}}, "#"),
        ({"enum": [{"a": 1}], "maxProperties": 0}, "#"),
        ({"properties": {"a": False}, "minProperties": 1, "additionalProperties": False}, "#"),
        (
            {"properties": {"a": {"minLength": 3, "maxLength": 1, "type": "string"}}, "required": ["a"]},
            "#/properties/a",
        ),
        (
            {
                "properties": {"a": {"type": "object", "required": ["b"], "properties": {"b": False}}},
                "required": ["a"],
            },
            "#",
        ),
        ({"allOf": [{"type": "array"}]}, "#"),
        ({"not": {"type": "object"}}, "#"),
    ],
)
def test_a_tool_that_can_never_be_called_is_refused(parameters: Any, where: str, choice: str) -> None:
    good = {"name": "good", "parameters": {"type": "object"}}
    with pytest.raises(ConstraintError, match="the tool can never be called") as caught:
        tools([good, {"name": "bad", "parameters": parameters}], tool_choice=choice)
    assert "the parameters of bad" in str(caught.value) and where in str(caught.value)


@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize(
    ("parameters", "members", "others"),
    [
        ({"enum": [None, {"a": 1}]}, [{"a": 1}], [{}, {"a": 2}, {"a": 1, "b": 1}, None]),
        (
            {"enum": [{"a": 1}, 3, {"b": {"c": []}}, {}]},
            [{"a": 1}, {"b": {"c": []}}, {}],
            [{"a": 1, "b": {}}, 3],
        ),
        ({"type": ["object", "null"], "const": {"a": 1}}, [{"a": 1}], [{}, None]),
        ({"const": {}}, [{}], [{"a": 1}]),
        ({"enum": [{"a": 1}, {"a": 2}], "properties": {"a": {"minimum": 2}}}, [{"a": 2}], [{"a": 1}, {}]),
        ({"enum": [{"a": 1}, {}], "additionalProperties": False}, [{}], [{"a": 1}]),
        ({"allOf": [{"enum": [{"a": 1}, None]}]}, [{"a": 1}], [{}, None]),
        ({"required": ["a"]}, [{"a": 1}, {"a": None, "b": 1}], [{}, {"b": 1}]),
        ({"properties": {"a": {}}, "required": ["a"]}, [{"a": 1}], [{}, {"a": 1, "b": 1}]),
        ({"properties": {"a": {}}, "minProperties": 2}, [{"a": 1, "b": 1}], [{"a": 1}]),
        (
            {"properties": {"a": {}}, "required": ["a"], "dependentRequired": {"a": ["z"]}},
            [{"a": 1, "z": 0}],
            [{"a": 1}],
        ),
        ({}, [{}], [{"a": 1}]),
        ({"properties": {}}, [{}], [{"a": 1}]),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "const": {"a": 1}}, [{}], [{"a": 1}]),
    ],
)
def test_members_of_root_parameters(
    parameters: Any, members: list[Any], others: list[Any], choice: str
) -> None:
    turn = tools([{"name": "f", "parameters": parameters}], tool_choice=choice, parallel=False)

    def is_taken(arguments: Any) -> bool:
        call = json.dumps({"name": "f", "arguments": arguments}, separators=(", ", ": "))
        matcher = sg.Matcher(turn, VOCABULARY)
        text = f"<tool_call>\n{call}\n</tool_call>".encode()
        return all(matcher.advance(byte) for byte in text) and matcher.is_complete()

    for arguments in members:
        assert is_taken(arguments), arguments
        turn.tools[0].validate(arguments)
    for arguments in others:
        assert not is_taken(arguments), arguments


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in ("STRINGS", "OR_NULL", "OTHERS") for name in globals()[kind]]
)
def test_every_form_of_a_parameter_round_trips(kind: str, name: str, format: str) -> None:
    schema = parameters(globals()[kind][name])
    try:
        check_round_trips(schema, format)
    except UnsupportedKeyword as error:  # by name, where a notation cannot follow it
        notation = FORMATS[format].arguments
        assert notation == "bare" or (
            notation == "python" and "format whose arguments are JSON" in str(error)
        )
    except ConstraintError as error:
        assert FORMATS[format].arguments == "bare" and "a value is always null" in str(error)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ROOTS)
def test_arguments_are_an_object_even_if_the_schema_allows_more(name: str, format: str) -> None:
    schema = parameters(WORD, **ROOTS[name])
    if "$ref" in schema:
        schema = {key: value for key, value in schema.items() if key not in ("properties", "required")}
    try:
        found = check_round_trips(schema, format, seeds=5)
    except UnsupportedKeyword as error:
        assert FORMATS[format].arguments != "json" and "format whose arguments are" in str(error)
        return
    assert all(isinstance(one, dict) for one in found)


@pytest.mark.parametrize("wrong", ["null", ["null", "string"], "string", ["array"]])
def test_parameters_that_are_not_an_object_are_refused(wrong: Any) -> None:
    with pytest.raises(ConstraintError) as caught:
        tools([{"name": "f", "parameters": {"type": wrong}}])
    assert "the parameters of f, #/type: they are of the type" in str(caught.value)
    assert "arguments are an object" in str(caught.value)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"properties": []}, "#/properties"),
        ({"required": "x"}, "#/required"),
        ({"type": "objekt"}, "#/type"),
        ({"type": 3}, "#/type"),
    ],
    ids=repr,
)
def test_mistakes_at_the_root_are_named(format: str, schema: Any, message: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        tools([{"name": "f", "parameters": schema}], format=format)
    assert str(caught.value).startswith(f"the parameters of f, {message}")


def _one_call(schema: Any) -> ToolTurn:
    definition = {"name": "f", "parameters": schema}
    return tools([definition], format="qwen3_coder", tool_choice="required", parallel=False)


def _element(value: str) -> str:
    return f"<tool_call>\n<function=f>\n<parameter=x>\n{value}\n</parameter>\n</function>\n</tool_call>"


def _fits(turn: sg.Constraint, text: str) -> bool:
    matcher = sg.Matcher(turn, plain())
    return all(map(matcher.advance, text.encode())) and matcher.is_complete()


@pytest.mark.parametrize("name", [*STRINGS, *OR_NULL])
def test_strings_of_qwen3_coder_are_written_without_quotes(name: str) -> None:
    schema = parameters({**OR_NULL, **STRINGS}[name])
    turn = _one_call(schema)
    rng = random.Random(name)
    for _ in range(4):
        text = walk(turn, plain(), rng, most=400)
        value = turn.read(text).calls[0].arguments["x"]
        assert text == _element("null" if value is None else value)
    assert not _fits(turn, _element('"a"')) or "maxLength" in json.dumps(schema)


def test_null_in_a_union_with_strings_is_the_word_null() -> None:
    schema = parameters({"anyOf": [{"type": "string", "maxLength": 6}, {"type": "null"}]})
    turn = _one_call(schema)
    for written, value in (("null", None), ('"null"', '"null"'), ("nul", "nul"), ("3", "3"), ("", "")):
        assert _fits(turn, _element(written))
        assert turn.read(_element(written)).calls[0].arguments == {"x": value}
    only = tools([{"name": "f", "parameters": parameters(STRINGS["enum"])}], format="qwen3_coder")
    assert only.read(_element("null")).calls[0].arguments == {"x": "null"}
    several = tools(
        [{"name": "f", "parameters": parameters(OTHERS["string or integer"])}], format="qwen3_coder"
    )
    for written, value in (('"3"', "3"), ("3", 3)):  # an ambiguous value is JSON
        assert _fits(several, _element(written))
        assert several.read(_element(written)).calls[0].arguments == {"x": value}


@pytest.mark.parametrize("name", [*STRINGS, *OR_NULL, *OTHERS])
def test_the_strings_of_a_schema_are_those_that_validate(name: str) -> None:
    schema = parameters({**OTHERS, **OR_NULL, **STRINGS}[name])
    (tool,) = read_tools([{"name": "f", "parameters": schema}])
    part = {**schema["properties"]["x"], "$defs": DEFS}
    language = Text(string_language(sg.json_schema(part).lower()))
    for text in (
        "",
        "a",
        "b",
        "ab",
        "aaa",
        "aab",
        "abcd",
        "b c",
        "null",
        "3",
        "x",
        "true",
        "2024-02-29",
        "2023-02-29",
    ):
        try:
            tool.validate({"x": text})
            wanted = True
        except sg.errors.OutputInvalid:
            wanted = False
        if "format" in part:
            wanted = text == "2024-02-29"
        matcher = None if language.regular() == ("empty",) else sg.Matcher(language, plain())
        fits = matcher is not None and all(map(matcher.advance, text.encode())) and matcher.is_complete()
        assert fits == wanted, text


def test_strings_that_a_schema_multiplies_are_bounded() -> None:
    """Each definition uses the next one twice."""
    count = 40
    shared: dict[str, Any] = {
        f"d{i}": {"oneOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"not": {"$ref": f"#/$defs/d{i + 1}"}}]}
        for i in range(count)
    }
    shared[f"d{count}"] = WORD
    schema = {
        "type": "object",
        "properties": {"x": {"type": "string", "$ref": "#/$defs/d0"}},
        "$defs": shared,
    }
    with pytest.raises(LimitExceeded, match="the parameters of f, #/\\$defs/d"):
        tools([{"name": "f", "parameters": schema}], format="qwen3_coder")


ARRAYS: dict[str, Any] = {
    "prefixItems": {
        "prefixItems": [WORD, {"type": "integer", "minimum": 0, "maximum": 9}],
        "items": WORD,
        "maxItems": 2,
    },
    "prefixItems, fewer": {"prefixItems": [WORD, {"type": "boolean"}], "items": WORD, "maxItems": 1},
    "prefixItems and items": {"prefixItems": [WORD], "items": {"type": "boolean"}, "maxItems": 1},
    "prefixItems, items: false": {"prefixItems": [WORD], "items": False},
    "items in a list": {"items": [WORD], "additionalItems": False},
    "items in a list, more": {"items": [WORD], "additionalItems": {"type": "boolean"}, "maxItems": 2},
}


@pytest.mark.parametrize("draft", [None, "draft-07", "draft/2019-09", "draft/2020-12"])
@pytest.mark.parametrize("form", ARRAYS)
@pytest.mark.parametrize("format", FORMATS)
def test_arrays_of_every_draft_round_trip(form: str, draft: str | None, format: str) -> None:
    """`prefixItems` means nothing before 2020-12, and a list of `items` nothing from then on."""
    schema = parameters({"type": "array", **ARRAYS[form]})
    if draft:
        schema["$schema"] = f"http{'s' if '/' in draft else ''}://json-schema.org/{draft}/schema"
    try:
        check_round_trips(schema, format, seeds=5)
    except UnsupportedKeyword as error:
        assert FORMATS[format].arguments == "python" and "format whose arguments are JSON" in str(error)
    except ConstraintError as error:  # a list of `items` is no schema from 2020-12 on
        assert draft in (None, "draft/2020-12") and "items in a list" in form, error


def test_deeply_nested_parameters_can_be_read() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(900):
        deep = {"type": "object", "properties": {"a": deep}, "required": ["a"]}
    assert read_tools([{"name": "deep", "parameters": deep}])[0].name == "deep"
