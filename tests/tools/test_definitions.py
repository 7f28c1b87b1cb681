"""Definitions of tools: functions, definitions of OpenAI's API, and what is invalid."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.errors import ConstraintError, OutputInvalid
from structgen.tools import FORMATS, read_tools, tools

from .walks import switch, weather


class Switch:
    def __call__(self) -> None: ...


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "there are no tools"),
        ("weather", "tools must be a list, not 'weather', a str"),
        ([{"type": "function"}], "tool 0: it has no name"),
        ([{"type": "code"}], "it has the type 'code'"),
        ([{"name": "a b"}], "'a b' is not a valid name of a tool"),
        ([{"name": "a", "parameters": []}, {"name": "a"}], "two tools have the name 'a'"),
        ([{"name": "a", "parameters": 3}], "its parameters are 3, an int, not a schema"),
        ([5], "5, an int is not a tool"),
        ([int], "Pass a function whose parameters"),
        ([BaseModel], "Pass a function whose parameters"),
        ([Switch()], "[thing.method]"),
    ],
)
def test_invalid_definitions(given: Any, message: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        read_tools(given)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "strnig"}, "#/properties/x/type: type 'strnig' is not a type"),
        ({"type": "string", "pattern": "("}, "#/properties/x/pattern: this group is not closed"),
        ({"$ref": "#/y"}, "#/properties/x/$ref: the reference '#/y' does not resolve"),
        ({"type": "string", "minLength": -1}, "#/properties/x/minLength: minLength must be"),
        (5, "#/properties/x: a schema must be an object or a boolean, not 5"),
    ],
)
def test_mistakes_in_a_schema_name_the_tool_and_the_place(name: str, schema: Any, message: str) -> None:
    definition = {"name": "find", "parameters": {"type": "object", "properties": {"x": schema}}}
    with pytest.raises(ConstraintError) as caught:
        tools([switch, definition], format=name)
    assert str(caught.value).startswith(f"the parameters of find, {message}")


def test_definitions_and_functions_are_equivalent() -> None:
    (tool,) = read_tools([weather])
    again = read_tools([tool.definition(), tool.definition()["function"] | {"name": "other"}, switch])
    assert [one.name for one in again] == ["weather", "other", "switch"]
    assert tool.definition()["function"]["parameters"]["required"] == ["city"]
    assert again[0].validate({"city": "Rome"}) == {"city": "Rome"}
    call = tool.validate({"city": "Rome", "days": 3})
    assert callable(call) and call() == "Rome c 3"
    for one in (tool, again[0]):
        for wrong in ({"city": "Romeeeee"}, {"days": 3}, {"city": "a", "more": 1}):
            with pytest.raises(OutputInvalid):
                one.validate(wrong)
    assert json.loads(json.dumps(tool.definition())) == tool.definition()


def test_a_definition_of_another_form_is_refused() -> None:
    """Its parameters would be left out otherwise."""
    with pytest.raises(ConstraintError, match="it has no parameters, but 'input_schema'"):
        sg.tools([{"name": "f", "input_schema": {"type": "object"}}])
    assert sg.tools([{"name": "f", "description": "does it"}])
