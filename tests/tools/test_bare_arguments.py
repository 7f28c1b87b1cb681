"""Arguments whose keys have no quotes: which texts a schema allows, what they read as, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from structgen.errors import ConstraintError, StructgenError
from structgen.tools import ToolTurn, tools

from .turns import fits

Q = '<|"|>'
CLOSED: dict[str, Any] = {"type": "object", "additionalProperties": False}


def turn_of(schema: Any) -> ToolTurn:
    """Return a turn that calls a tool with the parameter `x`."""
    parameters = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    return tools([{"name": "f", "parameters": parameters}], format="gemma4", tool_choice="required")


@pytest.mark.parametrize(
    ("schema", "inside", "outside"),
    [
        (
            {"type": "string", "maxLength": 3},
            {f"{Q}a:}}{Q}": "a:}", f"{Q}{Q}": "", f'{Q}"\\"{Q}': '"\\"'},
            [f"{Q}abcd{Q}", '"a"', "a"],
        ),
        ({"enum": ["a", 1, True, None]}, {f"{Q}a{Q}": "a", "1": 1, "true": True}, ["null", "a", "True"]),
        ({"type": ["integer", "null"]}, {"12": 12, "-3": -3}, ["null", "None", "01"]),
        (
            {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
            {"[true]": [True], "[true,false,true]": [True, False, True]},
            ["[]", "[true,true,true,true]", "[true, true]", "[true,]"],
        ),
        (
            {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False},
            {"[]": [], "[1]": [1], f"[1,{Q}a{Q}]": [1, "a"]},
            [f"[{Q}a{Q}]", "[1,2]", f"[1,{Q}a{Q},3]"],
        ),
        (
            {
                **CLOSED,
                "properties": {"a": {"type": "integer"}, "b-c": {"type": "number"}},
                "required": ["b-c"],
            },
            {"{b-c:1.5}": {"b-c": 1.5}, "{a:1,b-c:2}": {"a": 1, "b-c": 2}},
            ["{}", "{a:1}", "{b-c:2,a:1}", '{"b-c":1}', "{b-c:1,d:1}"],
        ),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"{}": {}, "{k_1:1,z:2}": {"k_1": 1, "z": 2}},
            ["{k 1:1}", f"{{k:{Q}a{Q}}}", "{:1}"],
        ),
    ],
)
def test_values(schema: Any, inside: dict[str, Any], outside: list[str]) -> None:
    turn = turn_of(schema)
    for text, value in inside.items():
        whole = f"<|tool_call>call:f{{x:{text}}}<tool_call|>"
        assert fits(turn, whole), text
        (call,) = turn.read(whole).calls
        assert call.arguments == {"x": value}
        turn.tools[0].validate(call.arguments)
    for text in outside:
        assert not fits(turn, f"<|tool_call>call:f{{x:{text}}}<tool_call|>"), text


def test_values_inside_themselves() -> None:
    tree = {
        **CLOSED,
        "properties": {"n": {"type": "integer"}, "next": {"$ref": "#/properties/x"}},
        "required": ["n"],
    }
    text = "<|tool_call>call:f{x:{n:1,next:{n:2,next:{n:3}}}}<tool_call|>"
    turn = turn_of(tree)
    assert fits(turn, text)
    assert turn.read(text).calls[0].arguments == {"x": {"n": 1, "next": {"n": 2, "next": {"n": 3}}}}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "null"}, "a value is always null"),
        ({**CLOSED, "properties": {"a b": {"type": "integer"}}}, "'a b' is no key without quotes"),
        ({"type": "object", "minProperties": 2}, "the number of keys has a bound"),
    ],
)
def test_schemas_that_cannot_be_written(schema: Any, message: str) -> None:
    with pytest.raises(ConstraintError, match=message) as caught:
        turn_of(schema)
    assert "the parameters of f" in str(caught.value)


@pytest.mark.parametrize("text", ["{x:1", "{x:}", "{x:1]}", "{x:?}", "{x:[1}}", "x:1"])
def test_texts_that_are_no_arguments(text: str) -> None:
    with pytest.raises(StructgenError):
        turn_of({"type": "integer"}).read(f"<|tool_call>call:f{text}<tool_call|>")
