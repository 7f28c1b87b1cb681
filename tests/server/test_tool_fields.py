"""Tools of a request: calls that must be made, that are cut off, that are in an order, and conversations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import openai
import pytest

from structgen import _core
from structgen.tools import FORMATS, ToolFormat, register_format
from structgen.tools.partial_turn import PartialTurn

from .calls import CLOCK, WEATHER, as_schema, ask, joined, note


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "format",
    ["hermes", "llama3_json", "pythonic", "qwen3_coder", "glm47", "deepseek_v32", "gemma4", "cohere_command"],
)
def test_a_tool_that_must_be_called(client: Any, stream: bool, format: str) -> None:
    options: dict[str, Any] = {
        "tools": [WEATHER, CLOCK],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "stream": stream,
        "max_tokens": 200,  # for every possible call
        "extra": {"structgen": {"tool_format": format}},
    }
    answer = ask(client, "The weather in Rome?", **options)
    if stream:
        (call,), content, reason = joined(answer)
        assert not content
    else:
        (shown,) = answer.choices[0].message.tool_calls
        call = (shown.id, shown.function.name, shown.function.arguments)
        reason = answer.choices[0].finish_reason
    assert call[1] == "weather" and call[0]
    jsonschema.validate(json.loads(call[2]), WEATHER["function"]["parameters"])  # type: ignore[index]
    assert reason == "tool_calls"


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_is_cut_off_is_shown_as_far_as_it_goes(client: Any, stream: bool) -> None:
    options = {
        "tools": [note(30, 3000)],
        "tool_choice": "required",
        "max_tokens": 80,
        "stream": stream,
        "seed": 1,
    }
    answer = ask(client, "Note a long story of a dog and a cat in five sentences.", **options)
    if stream:
        ((_, name, arguments),), _, reason = joined(answer)
    else:
        (shown,) = answer.choices[0].message.tool_calls
        name, arguments = shown.function.name, shown.function.arguments
        reason = answer.choices[0].finish_reason
    assert reason == "length" and name == "note" and arguments.startswith('{"text": "')


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_read_without_work_in_the_core(
    client: Any, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading is done on the event loop, where nothing limits it."""
    feed, found = PartialTurn.feed, []

    def counted(turn: PartialTurn, text: str, **options: Any) -> Any:
        before = _core.work_done()
        events = feed(turn, text, **options)
        found.append((turn._forms, _core.work_done() - before))
        return events

    monkeypatch.setattr(PartialTurn, "feed", counted)
    options: dict[str, Any] = {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False}
    options["max_tokens"] = 100  # for every possible call
    extra = {"structgen": {"tool_format": "qwen3_coder"}}
    answer = ask(client, "The weather in Rome?", stream=stream, extra=extra, **options)
    if stream:
        assert [call for one in answer for call in one.choices[0].delta.tool_calls or []]
    else:
        assert answer.choices[0].message.tool_calls
    assert found and all(one == ({"weather": {"city": "string", "days": "json"}}, 0) for one in found)


@pytest.fixture
def own_format() -> Iterator[str]:
    format = ToolFormat(
        "ours",
        "",
        call="<run id=$number>$name $arguments</run>",
        marker="<run id=",
        specials=("<run", "</run>"),
    )
    yield register_format(format).name
    del FORMATS[format.name]


@pytest.mark.parametrize("stream", [False, True])
def test_a_format_that_the_operator_registered(client: Any, own_format: str, stream: bool) -> None:
    """The process that compiles constraints does not have it; the request carries it."""
    extra = {"structgen": {"tool_format": own_format}}
    options: dict[str, Any] = {"tools": [CLOCK], "tool_choice": "required", "stream": stream, "extra": extra}
    answer = ask(client, "What time is it?", max_tokens=60, **options)
    if stream:
        ((_, name, arguments),), _, reason = joined(answer)
    else:
        (call,) = answer.choices[0].message.tool_calls
        name, arguments, reason = call.function.name, call.function.arguments, answer.choices[0].finish_reason
    assert (name, arguments, reason) == ("clock", "{}", "tool_calls")


def test_an_unknown_format_says_which_are_known(client: Any) -> None:
    with pytest.raises(
        openai.BadRequestError, match="is not one of hermes, .*--tool-format FILE.json"
    ) as caught:
        ask(client, tools=[CLOCK], extra={"structgen": {"tool_format": "hermes9"}})
    assert caught.value.param == "structgen.tool_format"


def test_a_conversation_with_tools(client: Any) -> None:
    first = ask(client, "What time is it?", tools=[CLOCK], tool_choice="required", parallel_tool_calls=False)
    (call,) = first.choices[0].message.tool_calls
    assert (call.function.name, call.function.arguments) == ("clock", "{}")
    messages = [
        {"role": "user", "content": "What time is it?"},
        first.choices[0].message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "noon"},
    ]
    for choice in ("auto", "none"):
        second = ask(client, messages=messages, tools=[CLOCK], tool_choice=choice, max_tokens=12)
        assert second.choices[0].finish_reason in ("stop", "length", "tool_calls")


def test_calls_in_an_order(client: Any) -> None:
    answer = ask(
        client,
        "The weather.",
        tools=[WEATHER, CLOCK],
        tool_choice="required",
        max_tokens=120,
        extra={"structgen": {"ltl": ["!weather W clock", "F weather"]}},
    )
    calls = [call.function.name for call in answer.choices[0].message.tool_calls or ()]
    if answer.choices[0].finish_reason == "tool_calls":
        assert calls[0] == "clock"


COLOUR = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"]}


@pytest.mark.parametrize("format", ["hermes", "llama3_json", "harmony"])
def test_an_answer_has_its_format_when_tools_are_offered(client: Any, format: str) -> None:
    options = {
        "tools": [CLOCK],
        "parallel_tool_calls": False,
        "response_format": as_schema(COLOUR),
        "max_tokens": 60,
        "n": 3,
        "seed": 2,
        "extra": {"structgen": {"tool_format": format, "describe_tools": False}},
    }
    choices = ask(client, "Red or blue?", **options).choices
    for choice in choices:
        if choice.message.tool_calls:
            assert choice.finish_reason == "tool_calls" and not choice.message.content
        else:
            assert choice.finish_reason == "stop"
            jsonschema.validate(json.loads(choice.message.content), COLOUR)
    parts = list(ask(client, "Red or blue?", stream=True, **options))
    for place, choice in enumerate(choices):
        calls, content, reason = joined(parts, place)
        assert (content, reason) == (choice.message.content or "", choice.finish_reason)
        assert len(calls) == len(choice.message.tool_calls or [])


def test_a_required_call_comes_without_an_answer(client: Any) -> None:
    answer = ask(
        client, tools=[CLOCK], tool_choice="required", response_format=as_schema(COLOUR), max_tokens=60
    )
    assert answer.choices[0].message.tool_calls


def test_other_formats_when_tools_are_offered(client: Any) -> None:
    answer = ask(client, tools=[CLOCK], tool_choice="none", response_format=as_schema(COLOUR))
    jsonschema.validate(json.loads(answer.choices[0].message.content), COLOUR)
    answer = ask(client, tools=[CLOCK], response_format={"type": "text"}, max_tokens=3)
    assert answer.choices
    extra = {"structured_outputs": {"choice": ["yes", "no"]}, "structgen": {"describe_tools": False}}
    message = ask(client, "Yes or no?", tools=[CLOCK], extra=extra).choices[0].message
    assert message.content in ("yes", "no") or message.tool_calls
    tag = {"type": "structural_tag", "format": {"type": "any_text"}}
    with pytest.raises(openai.BadRequestError, match="combined with tools"):
        ask(client, tools=[CLOCK], response_format=tag)


def test_an_answer_that_may_begin_as_a_call_is_refused(client: Any) -> None:
    grammar = 'start: "<tool_call>\\n{\\"name\\": \\"x" | "(" start ")"'
    with pytest.raises(openai.BadRequestError, match="the answer may begin with"):
        ask(client, tools=[CLOCK], extra={"guided_grammar": grammar})
