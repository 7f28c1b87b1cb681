"""Streams have the same texts and calls as whole answers, also for several answers and after errors."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from .calls import CLOCK, PERSON, WEATHER, as_schema, ask, joined, note
from .conftest import Running
from .spoiled import spoil


def test_stop_strings_end_a_text(client: Any) -> None:
    whole = ask(client, temperature=0, max_tokens=12).choices[0].message.content
    stop = whole[len(whole) // 2 :][:2]
    answer = ask(client, temperature=0, max_tokens=12, stop=[stop]).choices[0]
    assert answer.message.content == whole[: whole.index(stop)] and answer.finish_reason == "stop"
    parts = list(ask(client, temperature=0, max_tokens=12, stop=stop, stream=True))
    assert "".join(one.choices[0].delta.content or "" for one in parts) == answer.message.content


def test_a_stream_is_the_same_text(client: Any) -> None:
    options = {"seed": 3, "max_tokens": 30, "response_format": as_schema(PERSON)}
    whole = ask(client, **options)
    parts = list(ask(client, stream=True, stream_options={"include_usage": True}, **options))
    assert parts[0].choices[0].delta.role == "assistant"
    choices = [one.choices[0] for one in parts if one.choices]
    assert "".join(one.delta.content or "" for one in choices) == whole.choices[0].message.content
    assert choices[-1].finish_reason == whole.choices[0].finish_reason
    assert parts[-1].usage == whole.usage and not parts[-1].choices
    assert len(parts) > 4


@pytest.mark.parametrize("seed", range(6))
def test_streams_of_several_answers_go_on_when_one_ends(client: Any, seed: int) -> None:
    options = {"n": 2 + seed % 3, "seed": seed, "extra": {"structured_outputs": {"regex": "[ab]{1,9}"}}}
    whole = ask(client, **options)
    texts = dict.fromkeys(range(options["n"]), "")
    ended: list[int] = []
    for part in ask(client, stream=True, **options):
        for choice in part.choices:
            assert choice.index not in ended
            texts[choice.index] += choice.delta.content or ""
            if choice.finish_reason:
                ended.append(choice.index)
    assert sorted(ended) == sorted(texts)
    assert list(texts.values()) == [choice.message.content for choice in whole.choices]


def test_streams_of_several_turns_with_tools(client: Any) -> None:
    options = {"n": 3, "tools": [WEATHER, CLOCK], "max_tokens": 24, "seed": 2}
    whole = ask(client, "The weather in Rome?", **options)
    parts = list(ask(client, "The weather in Rome?", stream=True, **options))
    for place, choice in enumerate(whole.choices):
        calls, content, reason = joined(parts, place)
        shown = choice.message.tool_calls or []
        assert [one[1:] for one in calls] == [(one.function.name, one.function.arguments) for one in shown]
        assert (content, reason) == (choice.message.content or "", choice.finish_reason)


def test_an_error_of_one_answer_comes_after_the_others(
    server: Running, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row fails because its matcher meets a limit, as with a slow constraint."""
    options = {"n": 3, "seed": 4, "extra": {"structured_outputs": {"regex": "[ab]{8,12}"}}}
    whole = ask(client, **options)
    texts = dict.fromkeys(range(3), "")
    ended: list[int] = []
    spoil(server, monkeypatch, row=1)
    with pytest.raises(openai.APIError, match="choice 1: a mask takes"):  # noqa: PT012
        for part in ask(client, stream=True, **options):
            for choice in part.choices:
                texts[choice.index] += choice.delta.content or ""
                ended += [choice.index] if choice.finish_reason else []
    assert sorted(ended) == [0, 2]
    for place in (0, 2):
        assert texts[place] == whole.choices[place].message.content
    assert whole.choices[1].message.content.startswith(texts[1])


@pytest.mark.parametrize("format", ["hermes", "pythonic", "harmony", "qwen3_coder"])
def test_streamed_arguments_are_those_of_the_whole_answer(client: Any, format: str) -> None:
    options: dict[str, Any] = {
        "tools": [WEATHER, CLOCK],
        "tool_choice": "required",
        "seed": 7,
        "max_tokens": 60,
        "extra": {"structgen": {"tool_format": format}},
    }
    message = ask(client, "The weather in Rome, and the time?", **options).choices[0]
    parts = list(ask(client, "The weather in Rome, and the time?", stream=True, **options))
    calls, content, reason = joined(parts)
    shown = message.message.tool_calls
    assert [one[1:] for one in calls] == [(one.function.name, one.function.arguments) for one in shown]
    assert (content, reason) == (message.message.content or "", message.finish_reason)
    assert len({one[0] for one in calls}) == len(calls)


def test_arguments_are_streamed_while_they_are_written(client: Any) -> None:
    parts = ask(
        client,
        tools=[note(40, 60)],
        tool_choice="required",
        parallel_tool_calls=False,
        stream=True,
        max_tokens=120,
        seed=1,
    )
    pieces = [
        delta.function.arguments
        for part in parts
        for delta in part.choices[0].delta.tool_calls or []
        if delta.function.arguments
    ]
    assert len(pieces) > 5 and 40 <= len(json.loads("".join(pieces))["text"]) <= 60


def test_streamed_text_is_not_a_call_when_tools_are_offered(client: Any) -> None:
    parts = list(ask(client, "Tell me a story.", tools=[CLOCK], stream=True, max_tokens=10, seed=1))
    text = "".join(one.choices[0].delta.content or "" for one in parts)
    calls = [one for one in parts if one.choices[0].delta.tool_calls]
    assert "<tool_call>" not in text and bool(text) != bool(calls)
