"""Turns that are read while they are generated: reported values stay, and the last ones are those of the whole text."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import structgen as sg
from structgen.errors import OutputInvalid
from structgen.tools import FORMATS, ToolTurn, tools
from structgen.tools.partial_turn import PartialTurn

from .turns import TWO_CALLS, answer_markers, fits
from .walks import DEFINITION, FUNCTIONS, plain, walk, weather, with_specials


def growing(turn: ToolTurn) -> PartialTurn:
    format = turn.format
    think = None if turn.reasoning is False else format.think
    if turn.reasoning == "opened":
        think = ("", format.think[1])
    return PartialTurn(
        format,
        turn.tools,
        turn.forms,
        think=think,
        optional=turn.reasoning == "optional",
        answers=turn.options["answer"] is not None,
    )


def state(reader: PartialTurn) -> list[str]:
    parts = [reader.reasoning or "", reader.text]
    return [*parts, *(part for call in reader.calls for part in (call.name, call.arguments))]


def read_in_pieces(turn: ToolTurn, text: str, rng: random.Random) -> PartialTurn:
    """Feed random pieces; check that the reported values only grow."""
    reader, end, before = growing(turn), 0, [""]
    while True:
        reader.follow(text[:end], ends=end == len(text))
        now = state(reader)
        assert len(now) >= len(before)
        assert all(new.startswith(old) for new, old in zip(now, before, strict=False)), (before, now)
        before = now
        if end == len(text):
            return reader
        end = min(len(text), end + rng.choice((1, 1, 2, 7)))


def agrees(turn: ToolTurn, text: str, rng: random.Random) -> PartialTurn:
    reader, whole = read_in_pieces(turn, text, rng), turn.read(text)
    assert reader.is_whole, text
    assert (reader.text, reader.reasoning) == (whole.text, whole.reasoning), text
    assert [(call.name, json.loads(call.arguments)) for call in reader.calls] == [
        (call.name, call.arguments) for call in whole.calls
    ], text
    assert all(call.is_whole for call in reader.calls)
    return reader


def cut_off(turn: ToolTurn, text: str, whole: PartialTurn, rng: random.Random) -> None:
    """Read a truncated text as far as it goes, as if more text followed."""
    length = rng.randrange(len(text) + 1)
    reader = growing(turn)
    reader.feed(text[:length], ends=True)
    assert len(reader.calls) <= len(whole.calls)
    for call, complete in zip(reader.calls, whole.calls, strict=False):
        assert call.name == complete.name and complete.arguments.startswith(call.arguments)


@pytest.mark.parametrize("name", FORMATS)
def test_calls_as_the_models_write_them(name: str) -> None:
    for choice in ("auto", "required"):
        turn = tools(FUNCTIONS, format=name, tool_choice=choice)
        reader = agrees(turn, TWO_CALLS[name], random.Random(0))
        assert json.loads(reader.calls[0].arguments) == {"city": "Paris", "days": 2}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("choice", ["auto", "required", "visit"])
def test_random_turns(name: str, choice: str) -> None:
    format = FORMATS[name]
    given: list[Any] = [*FUNCTIONS, *([] if format.arguments == "python" else [DEFINITION])]
    turn = tools(
        given,
        format=name,
        tool_choice=choice,
        reasoning="optional" if choice == "auto" else False,
        max_reasoning=12 if choice == "auto" else None,
        max_text=12,
        max_calls=None if format.between is None else 3,
    )
    for seed in range(4):
        rng = random.Random(seed)
        text = walk(turn, with_specials(name) if seed % 2 else plain(), rng)
        whole = agrees(turn, text, rng)
        for _ in range(8):
            cut_off(turn, text, whole, rng)


@pytest.mark.parametrize("name", FORMATS)
def test_calls_or_an_answer_of_a_schema(name: str) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 9}},
        "required": ["name"],
    }
    answer = sg.json_schema({**schema, "additionalProperties": False}, whitespace="json.dumps")
    turn = tools([weather], format=name, answer=answer)
    for seed in range(6):
        rng = random.Random(seed)
        agrees(turn, walk(turn, plain(), rng), rng)


@pytest.mark.parametrize("name", FORMATS)
def test_an_answer_of_a_schema_may_hold_what_begins_calls(name: str) -> None:
    format = FORMATS[name]
    opening = format.begin + format.call.partition("$name")[0]
    schema = {"properties": {"name": {"const": f"x{opening}weather"}}, "required": ["name"], "type": "object"}
    answer = sg.json_schema({**schema, "additionalProperties": False}, whitespace="json.dumps")
    turn = tools([weather], format=name, answer=answer)
    written = json.dumps({"name": f"x{opening}weather"}, ensure_ascii=False)
    text = written.join(answer_markers(format))
    assert fits(turn, text)
    assert agrees(turn, text, random.Random(0)).text == written
    called = TWO_CALLS[name] if format.between is None else None
    if called is not None:
        assert agrees(turn, called, random.Random(0)).calls


def test_arguments_come_while_they_are_written() -> None:
    text = '<tool_call>\n{"name": "weather", "arguments": {"city": "Par'
    reader = growing(tools(FUNCTIONS))
    reader.feed(text)
    assert [(call.name, call.arguments) for call in reader.calls] == [("weather", '{"city": "Par')]
    reader = growing(tools(FUNCTIONS, format="pythonic"))
    reader.feed("[switch(on=Tr")
    assert reader.calls[0].arguments == '{"on": '
    reader.follow("[switch(on=True, level=0.")
    assert reader.calls[0].arguments == '{"on": true, "level": 0.'
    reader = growing(tools(FUNCTIONS, format="qwen3_coder"))
    reader.feed('<tool_call>\n<function=weather>\n<parameter=city>\na"b\n</para')
    assert reader.calls[0].arguments == '{"city": "a\\"b'


def test_escapes_are_reported_when_they_are_whole() -> None:
    reader = growing(tools(FUNCTIONS))
    start = '<tool_call>\n{"name": "weather", "arguments": {"city": "'
    for piece, shown in (
        ("a\\", "a"),
        ("a\\u", "a"),
        ("a\\u00", "a"),
        ("a\\u00e9", "a\\u00e9"),
        ("a\\n", "a\\n"),
    ):
        reader = growing(tools(FUNCTIONS))
        reader.feed(start + piece)
        assert reader.calls[0].arguments == '{"city": "' + shown


@pytest.mark.parametrize("text", ['<tool_call>\n{"name": "fly', "<tool_call>x", TWO_CALLS["hermes"] + "more"])
def test_texts_that_are_not_a_turn(text: str) -> None:
    reader = growing(tools(FUNCTIONS))
    with pytest.raises(OutputInvalid):
        reader.feed(text, ends=True)
