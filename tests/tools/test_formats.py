"""Formats are data: users register their own, which the constraint, the parser and the renderer then know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from structgen.errors import OptionError
from structgen.tools import FORMATS, AssistantTurn, ToolCall, ToolFormat, XmlStyle, register_format, tools
from structgen.tools.formats import as_spec, tool_format

from .turns import fits
from .walks import weather

OWN = ToolFormat(
    "own",
    "a model of ours",
    call="<run id=$number>$name: $arguments</run>",
    marker="<run id=",
    between="\n",
    specials=("<run", "</run>"),
    source="this test",
)


@pytest.fixture
def own() -> Iterator[ToolFormat]:
    yield register_format(OWN)
    del FORMATS["own"]


def test_a_registered_format_is_known_by_its_name(own: ToolFormat) -> None:
    assert register_format(replace(own)) == own
    turn = tools([weather], format="own")
    wanted = AssistantTurn(
        "I look.", (ToolCall("weather", {"city": "Rome"}), ToolCall("weather", {"city": "</run>"}))
    )
    text = turn.render(wanted)
    assert text == (
        'I look.<run id=0>weather: {"city": "Rome"}</run>\n<run id=1>weather: {"city": "</run>"}</run>'
    )
    assert fits(turn, text.replace("id=1", "id=9999")) and not fits(turn, text.replace("id=1", "id=x"))
    with pytest.raises(OptionError, match="there is another tool format 'own'"):
        register_format(replace(own, between=None))


def test_an_unknown_family_says_which_are_known_and_how_to_register_one() -> None:
    with pytest.raises(OptionError) as caught:
        tools([weather], format="hermes2")
    shown = str(caught.value)
    assert "there is no tool format 'hermes2'" in shown and "structgen.tools.register_format" in shown
    assert all(name in shown for name in FORMATS)


@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_json_data(name: str) -> None:
    data = json.loads(json.dumps(FORMATS[name].as_data()))
    assert ToolFormat.from_data(data) == tool_format(data) == FORMATS[name]
    assert as_spec(FORMATS[name]) == name
    assert isinstance(as_spec(replace(FORMATS[name], models="others")), dict)


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_cites_its_source(name: str) -> None:
    assert FORMATS[name].source.startswith("https://") and FORMATS[name].models


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"call": "$arguments $name"}, "call needs \\$name once"),
        ({"call": "$name"}, "call needs \\$name once"),
        ({"call": "$name $name $arguments"}, "call needs \\$name once"),
        ({"marker": "x"}, "but not with marker, 'x'"),
        ({"specials": ("</run>",)}, "marker contains none of specials"),
        ({"marker": ""}, "but not with marker, ''"),
        ({"arguments": "yaml"}, "arguments is 'yaml'; it is one of json, python, xml, bare"),
        ({"arguments": "xml"}, "style and arguments='xml' belong together"),
        ({"arguments": "xml", "style": XmlStyle("x", "<$name>$value")}, "needs a text after \\$value"),
        ({"arguments": "bare"}, "quote and arguments='bare' belong together"),
        ({"think": ("", "")}, "think needs a text after the reasoning"),
        ({"at_start": True, "say": ("<a>", "</a>")}, "with at_start there are no markers"),
    ],
)
def test_descriptions_without_a_parser_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        replace(OWN, **changes)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"name": "x"}, "the field 'call' of a tool format is missing"),
        ({"calls": 1}, "'calls' .* is unknown"),
    ],
)
def test_data_with_wrong_fields(data: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ToolFormat.from_data(data)
