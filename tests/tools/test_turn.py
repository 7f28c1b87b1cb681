"""Turns: texts as models write them, random walks through masks, and what is read back."""

from __future__ import annotations

import functools
import inspect
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import structgen as sg
from structgen.errors import OptionError, OutputInvalid, UnsupportedKeyword
from structgen.tools import FORMATS, AssistantTurn, ToolCall, tools
from tests.real_tokenizers import NAMES, tokenizer_path

from .turns import TWO_CALLS, answer_markers, fits
from .walks import DEFINITION, FUNCTIONS, plain, visit, walk, weather, with_specials

PARIS = ToolCall("weather", {"city": "Paris", "days": 2})


LIGHT = ToolCall("switch", {"on": True})


@pytest.mark.parametrize("name", FORMATS)
def test_calls_as_the_models_write_them(name: str) -> None:
    text = TWO_CALLS[name]
    wanted = (PARIS, LIGHT) if FORMATS[name].between is not None else (PARIS,)
    for choice in ("auto", "required"):
        turn = tools(FUNCTIONS, format=name, tool_choice=choice)
        assert fits(turn, text)
        assert turn.read(text) == AssistantTurn("", wanted)
    assert not fits(tools(FUNCTIONS, format=name, tool_choice="none"), text)
    assert not fits(tools(FUNCTIONS, format=name, tool_choice="stop"), text)
    assert not fits(tools([visit], format=name), text)
    assert fits(tools(FUNCTIONS, format=name, parallel=False), text) == (len(wanted) == 1)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("choice", ["auto", "required", "visit"])
@pytest.mark.parametrize("has_specials", [False, True])
def test_random_walks_parse_and_validate(name: str, choice: str, has_specials: bool) -> None:
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
    vocabulary = with_specials(name) if has_specials else plain()
    by_name = {tool.name: tool for tool in turn.tools}
    called = 0
    for seed in range(6):
        text = walk(turn, vocabulary, random.Random(seed))
        read = turn.read(text)
        called += len(read.calls)
        assert read.calls or choice == "auto", text
        assert len(read.calls) <= 3
        for call in read.calls:
            assert choice in ("auto", "required", call.name)
            by_name[call.name].validate(call.arguments)
        assert fits(turn, text) or (has_specials and text.endswith("}")), text
    assert called or choice == "auto"


@pytest.mark.parametrize("name", FORMATS)
def test_text_before_calls_and_alone(name: str) -> None:
    format = FORMATS[name]
    turn = tools(FUNCTIONS, format=name)
    begin, end = answer_markers(format)
    assert fits(turn, f"{begin}No tool is needed.{end}")
    assert turn.read(f"{begin}No tool is needed.{end}") == AssistantTurn("No tool is needed.")
    if format.is_framed and not format.say[0]:
        assert not fits(turn, f"I look.{TWO_CALLS[name]}")  # these models write no text before calls
        return
    before = "".join(format.say) if format.says_always else format.reply[0]
    calls = TWO_CALLS[name].removeprefix(before)
    said = f"{format.reply[0]}{format.say[0]}I look.{format.say[1]}{calls}"
    assert fits(turn, said)  # where text and calls exclude one another it is text
    assert bool(turn.read(said).calls) != format.at_start
    if not format.at_start:
        assert turn.read(said).text == "I look." and turn.read(said).calls[0] == PARIS
        for special in format.specials:
            assert not fits(turn, f"{begin}a {special} b{end}"), special
    assert not fits(tools(FUNCTIONS, format=name, tool_choice="required"), f"{begin}No.{end}")


@pytest.mark.parametrize("name", FORMATS)
def test_reasoning(name: str) -> None:
    format = FORMATS[name]
    begin, end = format.think
    thought, calls = f"{begin}Let me see.{end}", TWO_CALLS[name]
    lines = "" if format.marks_answers else "\n\n"
    on, optional = (
        tools(FUNCTIONS, format=name, reasoning=kind, max_reasoning=11) for kind in (True, "optional")
    )
    opened = tools(FUNCTIONS, format=name, reasoning="opened")
    for turn in (on, optional):
        assert fits(turn, thought + lines + calls)
        read = turn.read(thought + lines + calls)
        assert (read.reasoning, read.text, read.calls[0]) == ("Let me see.", "", PARIS)
        assert not fits(turn, f"{begin}Let me see it{end}{calls}")
    assert not fits(on, calls) and fits(optional, calls) and optional.read(calls).reasoning is None
    assert fits(opened, thought.removeprefix(begin) + calls)
    assert opened.read(thought.removeprefix(begin) + calls).reasoning == "Let me see."
    with pytest.raises(OutputInvalid, match="reasoning has no end"):
        on.read(f"{begin}Let me")
    assert on.read(thought + "Sure.".join(answer_markers(format))) == AssistantTurn(
        "Sure.", (), "Let me see."
    )


@pytest.mark.parametrize("name", FORMATS)
def test_tools_and_a_schema_for_the_answer(name: str) -> None:
    format = FORMATS[name]
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    turn = tools(FUNCTIONS, format=name, answer=sg.json_schema(schema, whitespace="compact"))
    answer = '{"ok":true}'.join(answer_markers(format))
    assert fits(turn, answer) and turn.read(answer) == AssistantTurn('{"ok":true}')
    assert fits(turn, TWO_CALLS[name]) and turn.read(TWO_CALLS[name]).calls[0] == PARIS
    assert not fits(turn, "Sure.".join(answer_markers(format)))
    alone = tools(FUNCTIONS, format=name, answer="yes", tool_choice="none")
    assert fits(alone, "yes".join(answer_markers(format))) and not fits(alone, TWO_CALLS[name])


def test_a_special_token_that_ends_texts_may_end_a_call() -> None:
    """gpt-oss ends texts with <|call|>: the call needs it, and then the text has ended."""
    known = with_specials("harmony")
    turn = tools([weather], format="harmony", tool_choice="required")
    matcher = sg.Matcher(turn, known)
    names = known.specials
    before = [names["<|channel|>"], *b"commentary to=functions.weather ", names["<|constrain|>"], *b"json"]
    for token in [*before, names["<|message|>"], *b'{"city":"Rome"}']:
        assert matcher.advance(token), matcher.text
    assert not matcher.is_complete()
    assert not matcher.fork().advance(256)
    text = known.spelled(matcher.tokens)
    assert turn.read(text).calls == (
        ToolCall("weather", {"city": "Rome"}),
    )  # samplers leave the end out of the text
    assert matcher.advance(names["<|call|>"]) and matcher.is_complete()
    assert turn.read(known.spelled(matcher.tokens)) == turn.read(text)


def test_markers_inside_arguments_are_text() -> None:
    turn = tools([weather], format="hermes")
    text = '<tool_call>\n{"name": "weather", "arguments": {"city": "</tool"}}\n</tool_call>'
    assert fits(turn, text) and turn.read(text).calls[0].arguments == {"city": "</tool"}

    def note(text: str) -> None: ...

    turn = tools([note], format="mistral")
    text = '[TOOL_CALLS][{"name": "note", "arguments": {"text": "[TOOL_CALLS][{"}}]'.replace(
        '[{"}', '[{\\""}'
    )
    assert fits(turn, text) and turn.read(text).calls[0].arguments == {"text": '[TOOL_CALLS][{"'}


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "weather", "arguments": {"city": "Pa',
        '<tool_call>\n{"name": "nothing", "arguments": {}}\n</tool_call>',
        '<tool_call>\n{"name": "weather", "arguments": []}\n</tool_call>',
        '<tool_call>\n{"name": "weather", "arguments": {"city": "a"}}\n</tool_call> more',
    ],
)
def test_texts_that_are_not_a_complete_turn(text: str) -> None:
    with pytest.raises(OutputInvalid) as caught:
        tools(FUNCTIONS).read(text)
    assert caught.value.text == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "gpt"}, "there is no tool format 'gpt'"),
        ({"tool_choice": "cook"}, "tool_choice is 'cook', which is not a tool"),
        ({"format": "harmony", "parallel": True}, "has at most one call"),
        ({"parallel": False, "max_calls": 2}, "without parallel calls"),
        ({"max_calls": 0}, "max_calls is 0; it must be a whole number of 1 or more"),
        ({"max_text": -1}, "max_text is -1"),
        ({"reasoning": "often"}, "reasoning is 'often'"),
        ({"reasoning": 0}, "reasoning is 0; it is True, False"),
        ({"max_reasoning": 9}, "max_reasoning is 9 without reasoning\nGive reasoning=True"),
        ({"max_reasoning": 0, "tool_choice": "none"}, "max_reasoning is 0 without reasoning"),
        ({"parallel": "x"}, "parallel is 'x'; it is True, False or None"),
        ({"tool_choice": {"function": {"name": "weather"}}}, "Write tool_choice='weather'."),
        ({"answer": "yes", "max_text": 5}, "max_text is 5, but with answer= there is no free text"),
    ],
)
def test_invalid_options(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        tools(FUNCTIONS, **arguments)
    assert message in str(caught.value)


def test_the_package_can_be_called() -> None:
    program = (
        "import structgen as sg\nassert sg.tools\n"
        "import structgen.tools as package\nassert package is sg.tools and callable(sg.tools)\n"
        "assert sg.tools.FORMATS is package.FORMATS"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert sg.tools([weather]) == tools([weather])
    assert inspect.signature(sg.tools) == inspect.signature(tools)
    assert sg.tools.__call__.__doc__ == tools.__doc__ and '"hermes"' in str(tools.__doc__)
    assert sg.tools([weather]).format.name == "hermes"


def test_xml_strings_are_as_they_are() -> None:
    def f(x: str, y: str | None = None) -> None: ...

    turn = tools([f], format="qwen3_coder", tool_choice="required")
    for value in ("", "\n", "a\n\nb\n", '"quoted" \\ <b>', "</param", "é"):
        text = f"<tool_call>\n<function=f>\n<parameter=x>\n{value}\n</parameter>\n</function>\n</tool_call>"
        assert fits(turn, text), value
        assert turn.read(text).calls[0].arguments == {"x": value}
    for value in ("</parameter>", "a <parameter=y> b", "</function>"):
        assert not fits(turn, text.replace("é", value))
    for written, value in (("null", None), ("a", "a"), ('"null"', '"null"'), ("", "")):
        more = text.replace("</function>", f"<parameter=y>\n{written}\n</parameter>\n</function>")
        assert fits(turn, more), written
        assert turn.read(more).calls[0].arguments == {"x": "é", "y": value}
    with pytest.raises(UnsupportedKeyword, match="anyOf in the parameters of g cannot be followed"):
        tools([{"name": "g", "parameters": {"anyOf": [{}]}}], format="qwen3_coder")


def test_the_page_lists_every_format() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "tools.md").read_text("utf-8")
    listed = re.findall(r"^\| `(\w+)` \| .* \| `", page, re.MULTILINE)
    assert listed == list(FORMATS)


@pytest.mark.parametrize("tokenizer", NAMES)
@pytest.mark.parametrize("name", FORMATS)
def test_random_walks_over_real_tokenizers(name: str, tokenizer: str) -> None:
    """Tokens begin in one part of a call and end in another; the markers of DeepSeek are tokens of its tokenizer."""
    vocabulary = _real(tokenizer)
    turn = tools(FUNCTIONS, format=name, tool_choice="required", parallel=False)
    for seed in range(3):
        rng = random.Random(seed)
        matcher = sg.Matcher(turn, vocabulary)
        while not matcher.is_complete():
            allowed = np.flatnonzero(np.unpackbits(matcher.mask().view(np.uint8), bitorder="little"))
            assert matcher.advance(int(rng.choice(allowed)))
        (call,) = turn.read(vocabulary.spelled(matcher.tokens)).calls
        next(tool for tool in turn.tools if tool.name == call.name).validate(call.arguments)


@functools.cache
def _real(tokenizer: str) -> sg.Vocabulary:
    return sg.Vocabulary.from_tokenizer(tokenizer_path(tokenizer))
