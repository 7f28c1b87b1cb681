"""Messages of the OpenAI protocol become what chat templates take, here as in the server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.errors import PromptError
from structgen.models.messages import HERMES, plain_messages, prompt_of
from structgen.server.fields import Fields
from structgen.server.messages import read_messages
from structgen.tools import FORMATS, run_tools
from tests.models.tiny import tiny_model, tiny_tokenizer
from tests.oracles.scripted_model import ScriptedModel

TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sky"}'}}
HISTORY: list[dict[str, Any]] = [
    {"role": "developer", "content": "be brief"},
    {"role": "user", "content": [{"type": "text", "text": "What "}, {"type": "text", "text": "is up?"}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "blue"},
    {"role": "assistant", "content": "Blue."},
    {"role": "user", "content": "Thanks"},
]
PLAIN = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "What is up?"},
    {
        "role": "assistant",
        "content": '<tool_call>\n{"name": "look", "arguments": {"at": "sky"}}\n</tool_call>',
    },
    {"role": "user", "content": "<tool_response>\nblue\n</tool_response>"},
    {"role": "assistant", "content": "Blue."},
    {"role": "user", "content": "Thanks"},
]


def test_a_history_in_texts() -> None:
    assert plain_messages(HISTORY) == PLAIN
    assert plain_messages(PLAIN) == PLAIN


def test_the_server_writes_the_same() -> None:
    fields = Fields({"messages": json.loads(json.dumps(HISTORY))}, "")
    assert read_messages(fields, None, FORMATS["hermes"]) == PLAIN


def test_the_default_is_the_format_of_hermes() -> None:
    hermes = FORMATS["hermes"]
    assert (HERMES.result, HERMES.result_role) == (hermes.result, hermes.result_role)
    calls = [("look", {"at": "é", "n": [1, None]}), ("cut", '{"at": "s')]
    assert HERMES.write_calls(calls) == hermes.write_calls(calls)


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_other_notations(format: str) -> None:
    (written,) = plain_messages([HISTORY[2]], FORMATS[format])
    assert "look" in written["content"] and "sky" in written["content"]


def test_turns_that_were_cut_off_are_shown_as_they_are() -> None:
    def shown(arguments: Any) -> str:
        call = {"id": "1", "function": {"name": "f", "arguments": arguments}}
        (message,) = plain_messages([{"role": "assistant", "tool_calls": [call]}])
        return str(message["content"])

    assert '"arguments": {}}' in shown("") and '"arguments": {}}' in shown(None)
    assert '"arguments": {"a": 1}}' in shown({"a": 1})
    assert '"arguments": {"a": }' in shown('{"a": ')


def test_keys_that_say_nothing_are_dropped_and_others_kept_for_the_template() -> None:
    given = {
        "role": "assistant",
        "content": "hi",
        "refusal": None,
        "annotations": [],
        "parsed": {},
        "name": "x",
    }
    assert plain_messages([given]) == [{"role": "assistant", "content": "hi", "name": "x"}]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("hello", r"messages\[0\]: a message is 'hello', a str"),
        ({"content": "x"}, r"messages\[0\]: the message has no role"),
        ({"role": "human", "content": "x"}, "Did you mean user"),
        ({"role": "sytem", "content": "x"}, "Did you mean system"),
        ({"role": "user", "content": 5}, r"messages\[0\].content: the content is 5, an int"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {}}]},
            r"content\[0\]: .* is an image",
        ),
        ({"role": "user", "content": [{"type": "input_audio"}]}, "is a sound"),
        ({"role": "user", "content": [{"type": "text"}]}, r"content\[0\]"),
        ({"role": "assistant", "tool_calls": "x"}, r"tool_calls: tool_calls is 'x'"),
        ({"role": "assistant", "tool_calls": [{"id": "1"}]}, r"tool_calls\[0\]: the call has no function"),
    ],
)
def test_what_is_no_text_is_refused_by_its_place(message: Any, said: str) -> None:
    with pytest.raises(PromptError, match=said):
        plain_messages([message])


def test_a_model_takes_the_history() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = TEMPLATE
    model = sg.wrap(tiny_model("llama"), tokenizer)
    asked = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    assert model.encode(asked) == model.encode([{"role": "user", "content": "ab"}])
    assert sg.generate(model, asked, sg.choice(["a", "b"])) in ("a", "b")
    with pytest.raises(PromptError, match="an image"):
        sg.generate(model, [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}], int)
    with pytest.raises(PromptError, match="empty"):
        sg.generate(model, [], int)


def test_the_older_form_of_calls() -> None:
    history = [
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a": 1}'}},
        {"role": "function", "name": "f", "content": "5"},
    ]
    newer = [
        {
            "role": "assistant",
            "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": '{"a": 1}'}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "5"},
    ]
    for format in FORMATS.values():
        plain = plain_messages(history, format)
        assert plain == plain_messages(newer, format) == plain_messages(plain, format)
    alone = [{"role": "function", "name": "f", "content": "5"}]  # as a template of its own may want it
    assert plain_messages(alone) == alone


class ClientMessage(BaseModel):
    """As the official client's answers hold it."""

    role: str = "assistant"
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[dict[str, Any]] | None = None


def test_messages_that_are_objects() -> None:
    scripted = ScriptedModel("fine")
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    history = [{"role": "user", "content": "Hello"}, ClientMessage(tool_calls=[call])]
    sg.generate(scripted, history, sg.choice(["fine", "bad"]))  # type: ignore[call-overload]
    assert scripted.prompts[-1] == [history[0], {"role": "assistant", "tool_calls": [call]}]
    assert len(history) == 2 and isinstance(history[1], ClientMessage)


def test_a_conversation_goes_on() -> None:
    scripted = ScriptedModel("fine")

    def look(at: str) -> str:
        """Look somewhere."""
        return at

    conversation = run_tools(scripted, "Hello", [look], tool_choice="none", describe=False)
    conversation.messages.append({"role": "user", "content": "And now?"})
    assert sg.generate(scripted, conversation, sg.choice(["fine", "bad"])) == "fine"  # type: ignore[call-overload]
    assert scripted.prompts[-1] == conversation.messages

    def count(place: int) -> int:
        return str(again.messages[place]["content"]).count("You can call functions")

    first = run_tools(scripted, "Hello", [look], tool_choice="none")
    again = run_tools(scripted, first, [look], tool_choice="none")  # type: ignore[arg-type]
    assert [one["role"] for one in again.messages] == ["system", "user", "assistant", "assistant"]
    assert count(0) == 1


@pytest.mark.parametrize("role", ["system", "developer"])
def test_tools_join_the_system_message_in_any_form(role: str) -> None:
    def look(at: str) -> str:
        """Look somewhere."""
        return at

    messages = [
        {"role": role, "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": "Hi"},
    ]
    done = run_tools(ScriptedModel("fine"), messages, [look], tool_choice="none")
    assert [one["role"] for one in done.messages] == ["system", "user", "assistant"]
    assert done.messages[0]["content"].startswith("Be brief.\n\nYou can call functions")


def test_earlier_calls_are_written_as_the_ones_to_come() -> None:
    def look(at: str) -> str:
        """Look somewhere."""
        return at

    call = {"id": "1", "function": {"name": "look", "arguments": '{"at": "x"}'}}
    history = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "blue"},
        {"role": "user", "content": "And now?"},
    ]
    done = run_tools(ScriptedModel("fine"), history, [look], tool_choice="none", format="pythonic")
    assert done.messages[2]["content"] == plain_messages(history, FORMATS["pythonic"])[1]["content"]
    assert "<tool_call>" not in str(done.messages)
    for wrong in (5, None, {"role": "user", "content": "Hi"}, ["Hi"], []):
        with pytest.raises(PromptError, match="a prompt must be a text or a list of messages"):
            run_tools(ScriptedModel("fine"), wrong, [look])  # type: ignore[arg-type]


def test_refusals_are_what_the_assistant_said() -> None:
    for message in (
        {"content": None, "refusal": "No."},
        {"content": [{"type": "refusal", "refusal": "No."}]},
    ):
        assert plain_messages([{"role": "assistant", **message}])[0]["content"] == "No."


def test_kinds_of_parts_may_be_anything() -> None:
    with pytest.raises(PromptError, match="the model reads text only"):
        plain_messages([{"role": "user", "content": [{"type": ["text"], "text": "x"}]}])


def test_calls_of_the_official_client_in_a_message_of_ones_own() -> None:
    from openai.types.chat import ChatCompletionMessageToolCall as Call
    from openai.types.chat.chat_completion_message_tool_call import Function

    call = Call(id="1", type="function", function=Function(name="look", arguments="{}"))
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    plain = {**message, "tool_calls": [call.model_dump()]}
    assert plain_messages(prompt_of([message])) == plain_messages([plain])
