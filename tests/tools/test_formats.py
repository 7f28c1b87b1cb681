"""Formats are data: users register their own, which the constraint, the parser and the renderer then know."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from pydantic import Field

from structgen.errors import OptionError, OutputInvalid
from structgen.tools import FORMATS, AssistantTurn, ToolCall, ToolFormat, XmlStyle, register_format, tools
from structgen.tools.formats import as_spec, tool_format
from structgen.tools.xml_styles import STYLES

from .turns import fits
from .walks import plain, walk, weather

Word = Annotated[str, Field(max_length=6)]
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
        ({"arguments": "yaml"}, "arguments is 'yaml'; it is one of json, python, keywords, xml, bare"),
        ({"arguments": "xml"}, "style and arguments='xml' belong together"),
        ({"arguments": "xml", "style": XmlStyle("x", "<$name>$value")}, "needs a text after \\$value"),
        ({"arguments": "bare"}, "quote and arguments='bare' belong together"),
        ({"think": ("", "")}, "think needs a text after the reasoning"),
        ({"at_start": True, "say": ("<a>", "</a>")}, "with at_start there are no markers"),
        ({"call": "<run id=$name$number $arguments</run>"}, "a text between \\$name and \\$number"),
        ({"call": "<run id=$name-$number $arguments</run>"}, "after \\$name comes '-'"),
        ({"call": "<run id=$number$name: $arguments</run>"}, "after \\$number comes '\\$name'"),
        ({"call": "<run id=$number0$name: $arguments"}, "after \\$number comes '0'"),
        ({"arguments": "python"}, "needs '\\)' after \\$arguments"),
        ({"call": "$name: $arguments", "begin": "<run id=", "between": ""}, "calls have no beginning"),
        ({"end": "\n<run id="}, "may begin as the next call does"),
        ({"specials": ("<run", "")}, "specials contains an empty text"),
        ({"think": ("<think>", "so <run")}, "needs to begin with one of specials"),
        ({"arguments": "bare", "quote": "{"}, "quote, '{'"),
        ({"arguments": "bare", "quote": '""'}, "begins and ends alike"),
        ({"arguments": "keywords"}, "needs '\\)' after \\$arguments"),
        ({"margin": "x"}, "margin is white space"),
        ({"margin": "\n"}, "with it call begins with a placeholder"),
        (
            {"margin": "\n", "call": "$number:$name$arguments", "begin": "<run id=", "end": "\n1"},
            "may begin as the next call does",
        ),
        ({"reply": ("<a>", "")}, "reply needs two texts"),
        ({"reply": ("<a>", "</a>")}, "the end of reply contains none of specials"),
        ({"reply": ("<a>", "<run id=</run>")}, "calls may begin as reply ends"),
        (
            {"reply": ("```\n", "```"), "specials": ("<run", "```")},
            "the end of reply, '```', begins and ends",
        ),
        ({"reply": ("<a>", "\n</run>\n")}, "the end of reply, .*, begins and ends alike"),
        ({"reply": ("<a>", "run id=</run>")}, "calls may begin as reply ends"),
        ({"reply": ("<think>\n", "</run>")}, "reply may begin as the reasoning does"),
        ({"reply": ("<a>", "</run>"), "say": ("<s>", "</s>")}, "reply excludes at_start and the markers"),
    ],
)
def test_descriptions_without_a_parser_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        replace(OWN, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"element": "<p>$value</p>"}, "needs \\$name, \\$value, once each"),
        ({"element": "<p $name>$name$value</p>"}, "once each and in this order"),
        ({"element": "<p $name $type>$value</p>"}, "once each and in this order"),
        ({"element": "$name>$value</p>"}, "a text before \\$name"),
        ({"element": "<p $name: $value</p>"}, "after \\$name an element of style needs"),
        ({"element": "<p $name>$value0"}, "may be part of a number"),
        ({"element": "<p $name>$value</p></"}, "begins and ends alike"),
        (
            {"element": "<$name>$value</p>"},
            "what follows the elements may begin as an element does, with '<'",
        ),
        ({"nested": ("object",)}, "nested elements are for structural tags"),
        ({"escapes": {"&": "&amp;"}}, "escapes needs types"),
        ({"never": ("",)}, "never contains an empty text"),
        ({"types": {"string": "s"}}, "needs \\$name, \\$type, \\$value"),
        ({"element": "<p $name>$type$value</p>", "types": {"string": "s"}}, "types does not tell strings"),
    ],
)
def test_elements_without_a_parser_are_refused(changes: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"name": "x", "element": "<p $name>$value</p>", **changes}
    with pytest.raises(OptionError, match=message):
        replace(OWN, arguments="xml", style=XmlStyle(**given))


def weather1(city: Word, note: Word | None = None) -> str:
    """Tell the weather of a city."""
    return f"{city} {note}"


def end(on: bool, level: Annotated[int, Field(ge=0, le=99)] = 0) -> str:
    """End."""
    return f"{on} {level}"


CALLS = st.lists(
    st.sampled_from(["<run", ">", " ", ":", "-", "1", "a", "\n", "$id", "$number", "$name"]), max_size=6
)
ELEMENTS = st.lists(
    st.sampled_from(["<p ", ">", " ", "$gap", "$name", "$type", "$value", "</p>", "\n", "1", '"']), max_size=8
)


@given(
    data=st.data(),
    call=st.one_of(
        CALLS,
        CALLS.map(lambda pieces: ["<run", *pieces, "$name", ">"]),
        CALLS.map(lambda pieces: ["$name", ">", *pieces]),
    ),
    begin=st.sampled_from(["", "<run", "<run>\n"]),
    after=st.sampled_from([")", ")</run>", "</run>", "\n", "", "<"]),
    texts=st.tuples(*[st.sampled_from(["", "\n", "<run", "</all>", "\nend"])] * 2),
    arguments=st.sampled_from(["json", "python", "keywords", "xml", "bare"]),
    reply=st.sampled_from([("", ""), ("<a>", "</a>"), ("\n", "\n</a>")]),
    margin=st.sampled_from(["", "\n"]),
    seed=st.integers(0, 99),
)
@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.filter_too_much],
)
def test_each_description_is_refused_or_read(
    data: st.DataObject,
    call: list[str],
    begin: str,
    after: str,
    texts: tuple[str, str],
    arguments: str,
    reply: tuple[str, str],
    margin: str,
    seed: int,
) -> None:
    more: dict[str, Any] = {}
    if arguments == "xml":
        pieces = data.draw(
            st.one_of(ELEMENTS, ELEMENTS.map(lambda pieces: ["<p ", "$name", ">", *pieces, "$value", "</p>"]))
        )
        types = dict.fromkeys(("number", "boolean", "null", "array", "object"), "j")
        shown = {"string": "s", **types} if "$type" in pieces else {}
        between = data.draw(st.sampled_from(["", "\n", "<p", ", "]))
        more["style"] = XmlStyle(
            "x", "".join(pieces), types=shown, never=("<p", "</", "<run"), between=between
        )
    if arguments == "bare":
        more["quote"] = data.draw(st.sampled_from(["<q>", "''", "|", "-"]))
    try:
        format = ToolFormat(
            "drawn", "", "".join([*call, "$arguments", after]), "<run", begin=begin, between=texts[0],
            end=texts[1], arguments=arguments, specials=("<run", "</a>"), reply=reply, margin=margin, **more,  # type: ignore[arg-type]
        )  # fmt: skip
    except OptionError:
        reject()
    turn = tools([weather, weather1, end], format=format, tool_choice="required", max_calls=3)
    read = turn.read(walk(turn, plain(), random.Random(seed)))
    assert read.calls and read.text == ""
    for each in read.calls:
        next(tool for tool in turn.tools if tool.name == each.name).validate(each.arguments)


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


def test_gaps_and_counters_are_read_as_they_are_written() -> None:
    style = replace(STYLES["glm_xml"], element=STYLES["glm_xml"].element.replace("$value", "$value$gap"))
    for call in ("<run $id$name>$arguments</run>", "<run $number:$id$name>$arguments</run>"):
        format = replace(OWN, call=call, marker="<run", arguments="xml", style=style)
        turn = tools([weather], format=format)
        wanted = AssistantTurn("", (ToolCall("weather", {"city": "Rome"}),))
        text = turn.render(wanted)
        assert "$gap" not in text and turn.read(text) == wanted
        assert not fits(turn, text.replace("call00000", "call0000"))
        with pytest.raises(OutputInvalid):
            turn.read(text.replace("call00000", "call0000:"))
