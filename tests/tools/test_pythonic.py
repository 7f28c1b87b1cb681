"""Calls as Python code: schemas that Python cannot write, and the escapes of its strings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from structgen.errors import UnsupportedKeyword
from structgen.tools import ToolTurn, tools

from .turns import fits


def test_python_cannot_write_every_schema() -> None:
    def of(schema: Any) -> ToolTurn:
        parameters = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
        return tools([{"name": "f", "parameters": parameters}], format="pythonic", tool_choice="required")

    for wrong in ({}, True, {"type": "array"}, {"not": {"type": "null"}}, {"type": "boolean", "oneOf": []}):
        if wrong == {"type": "boolean", "oneOf": []}:
            continue
        with pytest.raises(UnsupportedKeyword) as caught:
            of(wrong)
        assert "use a format whose arguments are JSON" in str(caught.value)
    cases: list[tuple[Any, list[str], list[str]]] = [
        ({"type": "boolean"}, ["True", "False"], ["true", "None"]),
        ({"enum": ["a", None, [True]]}, ['"a"', "None", "[True]"], ["a", "null"]),
        ({"type": ["string", "null"], "maxLength": 2}, ['"ab"', "None"], ['"abc"']),
        (
            {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
            ["[]", "[True, False]"],
            ["[True,False]"],
        ),
        (
            {"type": "object", "additionalProperties": {"type": "boolean"}},
            ["{}", '{"a": True}'],
            ["{a: True}"],
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "null"}, "b": {"type": "integer"}},
                "required": ["b"],
            },
            ['{"b": 1}', '{"a": None, "b": 1}'],
            ["{}", '{"b": 1, "a": None}'],
        ),
        ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, ["7", "True"], ["7.5"]),
        ({"type": "array", "items": {"type": "integer"}}, ["[1, 2]"], ["[None]"]),
    ]
    for schema, inside, outside in cases:
        turn = of(schema)
        for value in inside:
            text = f"[f(x={value})]"
            assert fits(turn, text), text
            turn.tools[0].validate(turn.read(text).calls[0].arguments)
        for value in outside:
            assert not fits(turn, f"[f(x={value})]"), value


def test_python_strings_have_the_escapes_of_both() -> None:
    def f(x: str) -> None: ...

    turn = tools([f], format="pythonic", tool_choice="required")
    for value in ('"', "\\", "\n\r\t\b\f", "\x00\x1f\x7f", "é\u2028🙂", "\\u0041", "')]"):
        text = f"[f(x={json.dumps(value, ensure_ascii=False)})]"
        assert fits(turn, text)
        assert turn.read(text).calls[0].arguments == {"x": value}
