"""Items of the input become the messages of a chat; what the model cannot see is refused by its place."""

from __future__ import annotations

from typing import Any

import pytest

from structgen.server.errors import ApiError
from structgen.server.fields import Fields
from structgen.server.messages import read_messages
from structgen.server.responses.input_items import read_input
from structgen.tools import FORMATS

HERMES = FORMATS["hermes"]
CALL = {"type": "function_call", "call_id": "c1", "name": "clock", "arguments": '{"zone": "Rome"}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "noon"}
USER = {"role": "user", "content": "The time?"}
TEXT_PART = {"type": "output_text", "text": "Wait.", "annotations": [], "logprobs": []}
SAID = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [TEXT_PART]}
THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "Hm."}],
}


def messages_of(given: Any, instructions: str | None = None) -> list[dict[str, Any]]:
    return read_input(Fields({"input": given, "instructions": instructions}), None, HERMES)[1]


def chat(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the chat endpoint makes of the messages."""
    return read_messages(Fields({"messages": list(messages)}), None, HERMES)


SHOWN = {"id": "c1", "type": "function", "function": {"name": "clock", "arguments": '{"zone": "Rome"}'}}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "noon"}


@pytest.mark.parametrize(
    ("items", "messages"),
    [
        ("Hello", [{"role": "user", "content": "Hello"}]),
        ([USER], [USER]),
        ([{"role": "user", "content": [{"type": "input_text", "text": "The "}, "time?"]}], [USER]),
        ([{"type": "message", "role": "developer", "content": "Be brief."}, USER],
         [{"role": "system", "content": "Be brief."}, USER]),
        ([USER, THOUGHT, SAID, USER], [USER, {"role": "assistant", "content": "Wait."}, USER]),
        ([USER, CALL, OUTPUT], [USER, {"role": "assistant", "tool_calls": [SHOWN]}, RESULT]),
        ([USER, THOUGHT, SAID, CALL, OUTPUT],
         [USER, {"role": "assistant", "content": "Wait.", "tool_calls": [SHOWN]}, RESULT]),
        ([USER, CALL, {**CALL, "call_id": "c2", "status": "completed", "id": "fc_2"}, OUTPUT],
         [USER, {"role": "assistant", "tool_calls": [SHOWN, {**SHOWN, "id": "c2"}]}, RESULT]),
        ([USER, CALL, {**OUTPUT, "output": [{"type": "input_text", "text": "noon"}]}],
         [USER, {"role": "assistant", "tool_calls": [SHOWN]}, RESULT]),
        ([USER, {**CALL, "arguments": '{"zone": "Ro'}, OUTPUT],
         [USER, {"role": "assistant", "tool_calls": [
             {**SHOWN, "function": {"name": "clock", "arguments": '{"zone": "Ro'}}]}, RESULT]),
        ([USER, {"type": "custom_tool_call", "call_id": "c1", "name": "run", "input": "1+1", "id": "ctc_1"},
          {"type": "custom_tool_call_output", "call_id": "c1", "output": "noon"}],
         [USER, {"role": "assistant", "tool_calls": [
             {"id": "c1", "type": "custom", "custom": {"name": "run", "input": "1+1"}}]}, RESULT]),
        ([USER, {**SAID, "content": [{"type": "refusal", "refusal": "No."}]}, USER],
         [USER, {"role": "assistant", "content": "No."}, USER]),
    ],
)  # fmt: skip
def test_items_are_the_messages_of_a_chat(items: Any, messages: list[dict[str, Any]]) -> None:
    assert messages_of(items) == chat(*messages)


def test_instructions_come_first_and_join_a_system_message() -> None:
    assert messages_of("Hello", "Be brief.") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
    ]
    joined = messages_of([{"role": "developer", "content": "No jokes."}, USER], "Be brief.")
    assert joined == [{"role": "system", "content": "Be brief.\n\nNo jokes."}, USER]
    assert messages_of([USER, {"role": "system", "content": "Be kind."}], "") == [
        USER,
        {"role": "system", "content": "Be kind."},
    ]


@pytest.mark.parametrize(
    ("items", "place", "message"),
    [
        (None, "input", "missing"),
        ([], "input", "empty list"),
        (5, "input", "a text, or a list"),
        ({"role": "user", "content": "x"}, "input", "a text, or a list"),
        ([THOUGHT], "input", "only reasoning"),
        (["x"], "input[0]", "not an object"),
        ([USER, {"type": "messge"}], "input[1].type", "Did you mean message?"),
        ([{"content": "x"}], "input[0].type", "None"),
        ([{"role": "tool", "content": "x"}], "input[0].role", "function_call_output"),
        ([{"role": "user"}], "input[0].content", "not a text or a list"),
        ([{**USER, "colour": "red"}], "input[0].colour", "not supported"),
        ([USER, {"role": "user", "content": [{"type": "input_text", "text": "x"}, {"type": "input_image"}]}],
         "input[1].content[1]", "an image"),
        ([USER, CALL, {**OUTPUT, "output": [{"type": "input_file", "file_id": "f"}]}], "input[2].content[0]", "a file"),
        ([OUTPUT], "input[0].call_id", "Nothing is stored"),
        ([CALL, {**OUTPUT, "call_id": "c2"}], "input[1].call_id", "'c2'"),
        ([CALL, {**OUTPUT, "output": None}], "input[1].output", "not a text or a list"),
        ([{**CALL, "name": ""}], "input[0].name", "missing"),
        ([{"type": "custom_tool_call", "call_id": "c1", "name": "run"}], "input[0].input", "missing"),
        ([{**CALL, "arguments": {}}], "input[0].arguments", "not a text"),
        ([{**CALL, "namespace": "x"}], "input[0].namespace", "no namespaces"),
        ([{"type": "item_reference", "id": "msg_1"}], "input[0].type", "nothing is stored"),
        ([{"type": "web_search_call", "id": "ws_1"}], "input[0].type", "does not have"),
        ([{"type": ["message"]}], "input[0].type", "it is one of"),
    ],
)  # fmt: skip
def test_refusals_name_the_item(items: Any, place: str, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        messages_of(items)
    assert caught.value.status == 400 and caught.value.param == place
    assert message in caught.value.message
