"""Custom tools through OpenAI's own client: inputs of a grammar, streams, histories, choices, and refusals."""

from __future__ import annotations

import re
from typing import Any

import openai
import pytest

from .calls import CLOCK, MESSAGES, WEATHER, ask, chat, post
from .conftest import NAME, Running

SUM = 'start: NUMBER ("+" NUMBER)~1..3\nNUMBER: /[1-9]/\n%ignore " "'


def custom(name: str, syntax: str | None = None, definition: Any = None) -> dict[str, Any]:
    inner: dict[str, Any] = {"name": name, "description": "Compute."}
    if syntax is not None:
        inner["format"] = {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}}
    return {"type": "custom", "custom": inner}


def only(name: str) -> dict[str, Any]:
    return {"type": "custom", "custom": {"name": name}}


def joined(parts: Any) -> tuple[list[tuple[str, str, str]], str]:
    """Return the calls (id, name, input) of a stream's first choice, and the finish reason."""
    calls: list[list[str]] = []
    reason = ""
    for part in parts:
        for choice in part.choices:
            reason = choice.finish_reason or reason
            for delta in choice.delta.tool_calls or []:
                if delta.index == len(calls):
                    assert delta.type == "custom" and delta.custom["input"] == "" and delta.function is None
                    calls.append([delta.id, delta.custom["name"], ""])
                else:
                    assert delta.id is None and delta.custom.keys() == {"input"}
                    calls[delta.index][2] += delta.custom["input"]
    return [(one[0], one[1], one[2]) for one in calls], reason


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("format", ["hermes", "pythonic", "qwen3_coder", "harmony", "mistral_args"])
@pytest.mark.parametrize(
    ("tool", "pattern"),
    [
        (custom("add", "lark", SUM), r" *[1-9] *(\+ *[1-9] *){1,3}"),
        (custom("quote", "regex", r'"[a-c]{2}\\\n"'), r'"[a-c]{2}\\\n"'),
    ],
)
def test_an_input_has_its_grammar(
    client: Any, stream: bool, format: str, tool: dict[str, Any], pattern: str
) -> None:
    name = tool["custom"]["name"]
    extra = {"structgen": {"tool_format": format, "close_within_budget": True}}
    answer = ask(
        client, "What is 1 + 2?", tools=[CLOCK, tool], tool_choice=only(name), stream=stream, max_tokens=120,
        seed=1, extra=extra,
    )  # fmt: skip
    if stream:
        (call,), reason = joined(answer)
    else:
        (shown,) = answer.choices[0].message.tool_calls
        assert shown.type == "custom"
        call, reason = (shown.id, shown.custom.name, shown.custom.input), answer.choices[0].finish_reason
    assert call[0].startswith("call_") and call[1] == name and reason == "tool_calls"
    assert re.fullmatch(pattern, call[2])


@pytest.mark.parametrize("stream", [False, True])
def test_an_input_of_any_text_may_be_cut_off(client: Any, stream: bool) -> None:
    answer = ask(
        client,
        "A story!",
        tools=[custom("write")],
        tool_choice="required",
        stream=stream,
        max_tokens=40,
        seed=4,
        temperature=5.0,
    )
    if stream:
        ((_, name, text),), reason = joined(answer)
    else:
        (shown,) = answer.choices[0].message.tool_calls
        name, text, reason = shown.custom.name, shown.custom.input, answer.choices[0].finish_reason
    assert name == "write" and text and reason in ("length", "tool_calls")


def test_functions_and_custom_tools_side_by_side(client: Any) -> None:
    tools = [WEATHER, custom("pick", "regex", "a|b")]
    names = set()
    for seed in range(6):
        answer = ask(client, "?", tools=tools, tool_choice="required", parallel_tool_calls=False, seed=seed,
                     temperature=50.0, max_tokens=100, extra={"structgen": {"close_within_budget": True}})  # fmt: skip
        (call,) = answer.choices[0].message.tool_calls
        names.add(call.type)
        assert call.type == "function" or call.custom.input in ("a", "b")
    assert names == {"function", "custom"}


def test_a_call_and_its_result_go_back(client: Any) -> None:
    tools = [custom("add", "lark", SUM)]
    messages: list[Any] = [{"role": "user", "content": "1 + 2?"}]
    first = ask(client, messages=messages, tools=tools, tool_choice="required", parallel_tool_calls=False,
                max_tokens=60, extra={"structgen": {"close_within_budget": True}})  # fmt: skip
    message = first.choices[0].message
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "3"}
    again = client.chat.completions.create(
        model=NAME, messages=[*messages, message, result], tools=tools, max_tokens=5
    )
    assert again.choices[0].finish_reason in ("length", "stop", "tool_calls")


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_allowed_tools(client: Any, mode: str) -> None:
    tools = [CLOCK, custom("pick", "regex", "a|b"), custom("other", "regex", "c")]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [only("pick")]}}
    for seed in range(4):
        answer = ask(client, "?", tools=tools, tool_choice=choice, seed=seed, temperature=2.0, max_tokens=60,
                     extra={"structgen": {"close_within_budget": True}})  # fmt: skip
        calls = answer.choices[0].message.tool_calls or []
        assert calls or mode == "auto"
        assert all(call.custom.name == "pick" and call.custom.input in "ab" for call in calls)


FORMAT = "tools[1].custom.format"


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"tools": [CLOCK, custom("f", "lark", "start: nothing")]}, FORMAT, "nothing"),
        ({"tools": [CLOCK, custom("f", "lark", 'start: "a')]}, FORMAT, ""),
        ({"tools": [CLOCK, custom("f", "lark", "start: start")]}, FORMAT, "no finite text"),
        ({"tools": [CLOCK, custom("f", "regex", "(a")]}, FORMAT, "not closed"),
        ({"tools": [CLOCK, custom("f", "gbnf", "root ::= [a]")]}, FORMAT, "gbnf"),
        ({"tools": [CLOCK, custom("f", "lark", 5)]}, FORMAT, "5"),
        (
            {"tools": [CLOCK, {"type": "custom", "custom": {"name": "f", "format": []}}]},
            FORMAT,
            "not an object",
        ),
        ({"tools": [CLOCK, custom("f", "lark", 'start: "a" %json {}')]}, FORMAT, "JSON"),
        ({"tools": [CLOCK, custom("clock")]}, "tools", "two tools have the name"),
        ({"tools": [{"type": "custom"}]}, "tools", "no name"),
        ({"tools": [{"type": "web_search"}]}, "tools", "web_search"),
        ({"tools": [CLOCK], "tool_choice": only("clock")}, "tool_choice", "it is a function tool"),
        (
            {"tools": [custom("f")], "tool_choice": {"type": "function", "function": {"name": "f"}}},
            "tool_choice",
            "it is a custom tool",
        ),
        (
            {
                "tools": [custom("f")],
                "tool_choice": {"type": "allowed_tools", "mode": "none", "tools": [only("f")]},
            },
            "tool_choice",
            "allowed_tools",
        ),
        (
            {"tools": [custom("f")], "tool_choice": {"type": "allowed_tools", "tools": [only("g")]}},
            "tool_choice",
            "'g'",
        ),
        ({"tools": [CLOCK], "parallel_tool_calls": "no"}, "parallel_tool_calls", "true or false"),
        (
            {
                "messages": [
                    *MESSAGES,
                    {
                        "role": "assistant",
                        "tool_calls": [{"type": "custom", "id": "a", "custom": {"name": "f"}}],
                    },
                ]
            },
            "messages[1].tool_calls[0]",
            "an input",
        ),
    ],
)
def test_refusals_name_the_field(server: Running, fields: dict[str, Any], param: str, message: str) -> None:
    status, body = post(server, chat(**fields))
    assert status == 400 and body["error"]["param"] == param, body
    assert message in body["error"]["message"]


def test_a_grammar_that_only_an_unchosen_tool_has_is_named_by_its_place(client: Any) -> None:
    tools = [CLOCK, custom("g", "regex", "a"), custom("f", "regex", "(a")]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [only("f")]}}
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, "?", tools=tools, tool_choice=choice)
    assert refused.value.param == "tools[2].custom.format"


def test_parallel_calls_are_allowed_or_not(client: Any) -> None:
    options: dict[str, Any] = {
        "tools": [CLOCK, custom("pick", "regex", "a|b")],
        "tool_choice": "required",
        "temperature": 50.0,
        "max_tokens": 100,
        "extra": {"structgen": {"close_within_budget": True}},
    }
    counts: dict[Any, set[int]] = {}
    for parallel in (True, False):
        answers = [ask(client, "?", parallel_tool_calls=parallel, seed=seed, **options) for seed in range(5)]
        counts[parallel] = {len(answer.choices[0].message.tool_calls) for answer in answers}
    assert max(counts[True]) > 1 and counts[False] == {1}
