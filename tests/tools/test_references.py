"""References inside parameters mean the same in every format: they are resolved in the whole schema."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

import structgen as sg
from structgen import _core
from structgen.errors import OutputInvalid, ReferenceNotFound, UnsupportedKeyword
from structgen.serving.limits import DEFAULT_LIMITS
from structgen.serving.probe import ProbeResult, probe_compile
from structgen.serving.wire import Garbled, unpack
from structgen.tools import FORMATS, ToolTurn, tools

from .walks import plain, with_specials

TREE = {"type": "array", "items": {"$ref": "#"}}
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
NUMBERS = {"type": "array", "items": {"type": "integer"}}
ONLY_ARRAYS = {"type": "array", "additionalItems": False}
INNER = {"$id": "inner", "type": "array", "items": {"$ref": "#/$defs/e"}, "$defs": {"e": {"type": "integer"}}}


def _object(x: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": x, **more.pop("others", {})}, "required": ["x"], **more}


SCHEMAS: dict[str, dict[str, Any]] = {
    "the root": {"type": "object", "properties": {"x": TREE}},
    "the root of draft 7": {"$schema": DRAFT_7, "type": "object", "properties": {"x": TREE}},
    "the root by its identifier": {
        "$id": "https://example.org/args",
        "type": "object",
        "properties": {"x": {"type": "array", "items": {"$ref": "https://example.org/args"}}},
    },
    "another parameter": _object({"$ref": "#/properties/y"}, others={"y": NUMBERS}),
    "an odd name": _object({"$ref": "#/properties/a~1b~0%25 é"}, others={"a/b~% é": NUMBERS}),
    "a part of another": _object({"$ref": "#/properties/y/items"}, others={"y": NUMBERS}),
    "a chain": _object({"$ref": "#/properties/y"}, others={"y": {"$ref": "#/$defs/d"}}, **{"$defs": {"d": NUMBERS}}),
    "a string elsewhere": _object({"$ref": "#/properties/y"}, others={"y": {"type": "string", "maxLength": 3}}),
    "a bound with a reference": _object(
        {"$ref": "#/properties/y", "maxItems": 1}, others={"y": NUMBERS}
    ),
    "silenced siblings": _object(
        {"$ref": "#/definitions/d", "maxItems": 0}, **{"$schema": DRAFT_7, "definitions": {"d": NUMBERS}}
    ),
    "tuples of draft 7": _object(
        {"$ref": "#/definitions/d"},
        **{"$schema": DRAFT_7, "definitions": {"d": {"items": [{"type": "integer"}], **ONLY_ARRAYS}}},
    ),
    "an anchor": _object({"$ref": "#d"}, **{"$defs": {"d": {"$anchor": "d", **NUMBERS}}}),
    "an identifier": _object(
        {"$ref": "inner"},
        **{"$defs": {"d": INNER, "e": {"type": "string"}}},
    ),
    "an identifier of the parameter": _object(
        INNER,
        **{"$defs": {"e": {"type": "string"}}},
    ),
    "definitions of the parameter": _object(
        {"type": "array", "items": {"$ref": "#/properties/x/$defs/e"}, "$defs": {"e": {"type": "integer"}}},
        **{"$defs": {"e": {"type": "string"}}},
    ),
    "a reference with a type": _object(
        {"type": "string", "not": {"$ref": "#/properties/y"}}, others={"y": {"const": "no"}}
    ),
    "members": _object(
        {**NUMBERS, "contains": {"$ref": "#/properties/y"}}, others={"y": {"const": 1}}
    ),
    "words of Python": _object(
        {"$ref": "#/properties/y"},
        others={
            "y": {"type": ["boolean", "array"], "items": {"$ref": "#/properties/z"}},
            "z": {"type": ["integer", "null"]},
        },
    ),
    "recursive words": _object({"type": "array", "items": {"$ref": "#"}}, others={"y": {"type": "boolean"}}),
    "a boolean within bounds": _object(
        {"type": "boolean", "not": {"$ref": "#/properties/y"}}, others={"y": {"const": True}}
    ),
}  # fmt: skip
VALUES: list[Any] = [
    [], [[]], [{}], [{"x": []}], [{"x": [{}]}], [{"x": 1}], [1], [1, 2], [[1]], ["a"], 1, "no", "a", "abcd", "", True,
    False, [True], [None], [{"x": [], "y": True}],
]  # fmt: skip


def _turn(schema: Any, format: str) -> ToolTurn:
    definition = {"name": "f", "parameters": schema}
    return tools([definition], format=format, tool_choice="required", parallel=False)


def _fits(turn: sg.Constraint, text: str) -> bool:
    vocabulary = plain()
    matcher = sg.Matcher(turn, vocabulary)
    return all(map(matcher.advance, text.encode())) and matcher.is_complete()


def _written(turn: ToolTurn, value: Any) -> str:
    form = FORMATS[turn.format.name]
    if form.arguments == "json":
        arguments = json.dumps({"x": value}, ensure_ascii=False)
    elif form.arguments == "python":
        arguments = "x=" + _python(value)
    else:
        text = value if turn.forms["f"]["x"] == "string" else json.dumps(value)
        arguments = f"<parameter=x>\n{text}\n</parameter>\n"
    call = form.call.replace("$name", "f").replace("$arguments", arguments)
    return form.begin + call + form.end


def _python(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_python, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {_python(one)}" for key, one in value.items()) + "}"
    return repr(value) if value is None or isinstance(value, bool) else json.dumps(value)


@pytest.mark.parametrize("format", ["hermes", "qwen3_coder", "pythonic"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_accepted_calls_are_those_that_validate_and_read_back(name: str, format: str) -> None:
    schema = SCHEMAS[name]
    try:
        turn = _turn(schema, format)
    except UnsupportedKeyword as error:
        assert format == "pythonic" and "use a format whose arguments are JSON" in str(error)
        return
    except sg.errors.ConstraintError as error:
        assert format == "pythonic" and "no name of a keyword argument" in str(error)
        return
    (tool,) = turn.tools
    kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    for value in VALUES:
        if turn.forms["f"].get("x") == "string" and not isinstance(value, str):
            continue  # it is read as a text
        text = _written(turn, value)
        valid = kind(tool.parameters).is_valid({"x": value})
        assert _fits(turn, text) == valid, text
        if valid:
            assert turn.read(text).calls[0].arguments == {"x": value}
            tool.validate({"x": value})


@pytest.mark.parametrize("name", SCHEMAS)
def test_structural_tags_write_the_same_parameters(name: str) -> None:
    from structgen.serving.requests import constraint_of

    form = {"type": "json_schema", "style": "qwen_xml", "json_schema": SCHEMAS[name]}
    tag = constraint_of("structural_tag", {"type": "structural_tag", "format": form})
    turn = _turn(SCHEMAS[name], "qwen3_coder")
    for value in VALUES:
        form = turn.forms["f"]["x"]
        if isinstance(value, str) == (form == "json") and form != "string or null":
            continue  # structural tags write every string without quotes
        whole = _written(turn, value)
        start = whole.index("<parameter")
        assert _fits(tag, whole[start : whole.index("</function>")]) == _fits(turn, whole), whole


def test_pythonic_enforces_the_references_that_it_can_resolve() -> None:
    refused = set()
    for name, schema in SCHEMAS.items():
        try:
            _turn(schema, "pythonic")
        except sg.errors.ConstraintError:
            refused.add(name)
    assert not refused & {
        "the root",
        "another parameter",
        "a part of another",
        "a chain",
        "words of Python",
        "members",
    }


@pytest.mark.parametrize("format", ["hermes", "qwen3_coder", "pythonic"])
def test_dangling_references_are_named(format: str) -> None:
    with pytest.raises(ReferenceNotFound, match="the parameters of f, #/properties/x/\\$ref"):
        _turn(_object({"$ref": "#/properties/z"}), format)


# -- the forms of values


FORMED = _object(
    {"type": "string"},
    others={
        "y": {"$ref": "#/properties/x"},
        "z": {"type": ["string", "null"]},
        "n": {"type": ["string", "integer"]},
    },
)


def test_reading_does_no_work_in_the_core() -> None:
    turn = _turn(FORMED, "qwen3_coder")
    assert turn.forms == {"f": {"x": "string", "y": "string", "z": "string or null", "n": "json"}}
    elements = {"x": "1", "y": '"a"', "z": "null", "n": '"b"'}
    arguments = "".join(f"<parameter={name}>\n{text}\n</parameter>\n" for name, text in elements.items())
    text = turn.format.call.replace("$name", "f").replace("$arguments", arguments)
    assert _fits(turn, text)
    before = _core.work_done()
    assert turn.read(text).calls[0].arguments == {"x": "1", "y": '"a"', "z": None, "n": "b"}
    assert _core.work_done() == before


def test_forms_come_with_a_probe() -> None:
    spec = {"tools": [{"name": "f", "parameters": FORMED}], "format": "qwen3_coder"}
    probe = probe_compile("tools", spec, with_specials("qwen3_coder"), DEFAULT_LIMITS)
    kind, content, tail = unpack(probe.pack())
    assert kind == "probe"
    assert ProbeResult.unpacked(content, tail).forms == probe.forms == _turn(FORMED, "qwen3_coder").forms
    for wrong in (None, [], {"f": "string"}, {"f": {"x": "text"}}, {"f": {"x": []}}):
        with pytest.raises(Garbled):
            ProbeResult.unpacked([*content[:-1], wrong], tail)


def test_a_call_that_cannot_be_made_is_not_a_turn() -> None:
    definitions = [{"name": "f", "parameters": FORMED}, {"name": "g"}]
    turn = tools(definitions, format="qwen3_coder", tool_choice="g")
    text = turn.format.call.replace("$name", "f").replace("$arguments", "")
    with pytest.raises(OutputInvalid, match="f is called, which this turn could not call"):
        turn.read(text)
