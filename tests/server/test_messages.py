"""Message histories as OpenAI's server accepts them: clients send back the messages that they received."""

from __future__ import annotations

from typing import Any

import pytest

from structgen.server.errors import ApiError
from structgen.server.fields import Fields
from structgen.server.messages import read_messages
from structgen.server.tool_fields import read_requested_tools
from structgen.tools import FORMATS

CLOCK = {"type": "function", "function": {"name": "clock"}}


def read(*messages: Any, format: str | None = None) -> list[dict[str, Any]]:
    fields = Fields({"messages": list(messages), **({"tools": [CLOCK]} if format else {})})
    chosen = FORMATS[format or "hermes"]
    tools = read_requested_tools(fields, None, chosen)
    if tools is not None:
        tools.described = False
    return read_messages(fields, tools, chosen)


def call(arguments: Any, **more: Any) -> dict[str, Any]:
    function = {"name": "clock", "arguments": arguments, "parsed_arguments": None}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        **more,
    }


@pytest.mark.parametrize(
    "keys",
    [
        {"refusal": None, "annotations": [], "audio": None, "function_call": None, "tool_calls": None},
        {"parsed": {"a": 1}},
        {"reasoning_content": "I think.", "reasoning": "I think."},
        {"name": "bot", "refusal": ""},
        {"tool_calls": []},
        {"content": [{"type": "text", "text": "Hello"}]},
        {"content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo", "cache_control": {}}]},
        {"content": ["Hello"]},
    ],
)
def test_other_keys_of_received_messages_are_ignored(keys: dict[str, Any]) -> None:
    (message,) = read({"role": "assistant", "content": "Hello", **keys})
    assert message == {"role": "assistant", "content": "Hello"}


@pytest.mark.parametrize(
    "message",
    [
        {"content": None, "refusal": "No."},
        {"content": "", "refusal": "No."},
        {"content": [{"type": "refusal", "refusal": "No."}]},
        {"content": "No."},
    ],
)
def test_refusals_are_content_of_the_assistant(message: dict[str, Any]) -> None:
    assert read({"role": "assistant", **message}) == [{"role": "assistant", "content": "No."}]


def test_messages_without_content() -> None:
    assert read({"role": "assistant"}, {"role": "assistant", "content": None}) == 2 * [
        {"role": "assistant", "content": ""}
    ]


@pytest.mark.parametrize("role", ["developer", "system"])
def test_instructions(role: str) -> None:
    parts = [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]
    assert read({"role": role, "content": parts, "name": "ops"}) == [
        {"role": "system", "content": "Be brief."}
    ]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("", "{}"),
        ("{}", "{}"),
        (None, "{}"),
        ({"zone": "UTC"}, '{"zone": "UTC"}'),
        ('{"zone":"é"}', '{"zone": "é"}'),
        ('{"zone": "U', '{"zone": "U'),  # cut off
        ("{", "{"),
        ("noon", "noon"),
        ("[1]", "[1]"),
        ("null", "null"),
    ],
)
def test_arguments_of_earlier_calls(arguments: Any, shown: str) -> None:
    (message,) = read(call(arguments))
    assert message["content"] == '<tool_call>\n{"name": "clock", "arguments": ' + shown + "}\n</tool_call>"


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("arguments", ["", '{"a": 1}', '{"a": ', "5", None])
def test_arguments_in_every_format(format: str, arguments: Any) -> None:
    (message,) = read(call(arguments), format=format)
    assert "clock" in message["content"]
    if arguments == '{"a": ':
        assert arguments in message["content"]


def test_calls_and_their_results() -> None:
    given = [
        {"role": "user", "content": "What time is it?"},
        call("", refusal=None, annotations=[], audio=None, reasoning_content="Hm."),
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": [{"type": "text", "text": "no"}, {"type": "text", "text": "on"}],
        },
    ]
    _, called, result = read(*given)
    assert called["role"] == "assistant" and '"name": "clock"' in called["content"]
    assert result == {"role": "user", "content": "<tool_response>\nnoon\n</tool_response>"}
    assert read(given[0], given[1], {"role": "tool", "tool_call_id": "c1", "content": None})[2]["content"]


def test_the_older_form_of_calls() -> None:
    called, result = read(
        {"role": "assistant", "content": None, "function_call": {"name": "clock", "arguments": "{}"}},
        {"role": "function", "name": "clock", "content": "noon"},
        format="mistral",
    )
    assert '"clock"' in called["content"] and result == {"role": "tool", "content": "noon"}


def test_earlier_calls_are_shown_in_the_models_form_where_none_may_follow() -> None:
    chosen = FORMATS["mistral"]
    (message,) = read_messages(Fields({"messages": [call("{}")]}), None, chosen)
    assert message["content"].startswith("[TOOL_CALLS]"), message


def choices(choice: Any, *names: str, **fields: Any) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    read = Fields({"tools": tools, "tool_choice": choice, **fields})
    asked = read_requested_tools(read, None, FORMATS["hermes"])
    return (
        {}
        if asked is None
        else {**asked.spec, "tools": [one["function"]["name"] for one in asked.spec["tools"]]}
    )


def test_which_tools_may_be_called() -> None:
    named = {"type": "function", "function": {"name": "b"}}
    assert choices("none", "a") == {}
    assert choices(named, "a", "b")["tool_choice"] == "b"
    assert choices({"type": "function", "name": "b"}, "a", "b")["tool_choice"] == "b"
    for mode in ("auto", "required"):
        inner = {"mode": mode, "tools": [named]}
        for allowed in (
            {"type": "allowed_tools", "allowed_tools": inner},
            {"type": "allowed_tools", **inner},
        ):
            assert choices(allowed, "a", "b") == {"tools": ["b"], "format": "hermes", "tool_choice": mode}


@pytest.mark.parametrize("name", ["none", "auto", "required"])
def test_tools_that_are_called_as_modes_are(name: str) -> None:
    chosen = choices({"type": "function", "function": {"name": name}}, "a", name)
    assert chosen["tools"] == [name] and chosen["tool_choice"] == "required" and chosen["parallel"] is False


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "assistant", "content": "x", "contents": "y"}, "messages[0].contents"),
        ({"role": "assistant", "audio": {"id": "a"}}, "messages[0].audio"),
        ({"role": "assistant", "refusal": 3}, "messages[0].refusal"),
        ({"role": "assistant", "tool_calls": {}}, "messages[0].tool_calls"),
        ({"role": "assistant", "tool_calls": [{"id": "a"}]}, "messages[0].tool_calls[0]"),
        (call(5), "messages[0].tool_calls[0]"),
        ({"role": "assistant", "function_call": {"name": ""}}, "messages[0].function_call"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "messages[0].content[0]"),
        ({"role": "user", "content": 5}, "messages[0].content"),
        ({"role": "user", "content": "x", "parsed": 1}, "messages[0].parsed"),
    ],
)
def test_what_is_refused(message: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        read(message)
    assert caught.value.status == 400 and caught.value.param == param
