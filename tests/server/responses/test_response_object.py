"""Responses and their streams: the same answers, events in the order of the protocol, and errors at the end."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.request
from typing import Any

import jsonschema
import pytest

from ..calls import CLOCK, PERSON, WEATHER, note
from ..conftest import KEY, NAME, Running, until
from ..spoiled import spoil
from .calls import FLAT_WEATHER, Replay, body_of, respond

FLAT_CLOCK: dict[str, Any] = {"type": "function", **CLOCK["function"]}  # type: ignore[dict-item]
LOGPROBS = ["message.output_text.logprobs"]
GRAMMAR = 'start: NUMBER ("+" NUMBER)~1..3\nNUMBER: /[1-9]/'
NOTE = {"type": "function", **note(30, 3000)["function"]}
SUM = {
    "type": "custom",
    "name": "add",
    "format": {"type": "grammar", "syntax": "lark", "definition": GRAMMAR},
}
LONG = {"syntax": "regex", "definition": "[a-z ]{20,}"}
SITUATIONS: dict[str, dict[str, Any]] = {
    "text": {"max_output_tokens": 12},
    "schema": {
        "max_output_tokens": 60,
        "text": {"format": {"type": "json_schema", "name": "it", "schema": PERSON}},
    },
    "call": {"max_output_tokens": 100, "tools": [FLAT_WEATHER, FLAT_CLOCK], "tool_choice": "required"},
    "call that is cut off": {"max_output_tokens": 40, "tools": [NOTE], "tool_choice": "required"},
    "custom call": {
        "max_output_tokens": 100,
        "tools": [FLAT_CLOCK, SUM],
        "tool_choice": {"type": "custom", "name": "add"},
    },
    "custom call that is cut off": {
        "max_output_tokens": 40,
        "tools": [{"type": "custom", "name": "write", "format": {"type": "grammar", **LONG}}],
        "tool_choice": "required",
    },
    "text or call": {"max_output_tokens": 20, "tools": [FLAT_WEATHER, FLAT_CLOCK]},
    "reasoning": {
        "max_output_tokens": 80,
        "extra": {
            "structgen": {"reasoning": True, "max_reasoning": 12},
            "structured_outputs": {"regex": "[a-z]{3}"},
        },
        "include": LOGPROBS,
    },
    "reasoning that is cut off": {"max_output_tokens": 5, "extra": {"structgen": {"reasoning": True}}},
    "reasoning and call": {
        "max_output_tokens": 100,
        "tools": [FLAT_CLOCK],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "extra": {"structgen": {"reasoning": True, "max_reasoning": 12}},
    },
    "scores": {"max_output_tokens": 8, "include": LOGPROBS, "top_logprobs": 2, "extra": {"structgen": {}}},
}
CHANGING = ("id", "call_id", "created_at", "completed_at", "input_tokens_details")


def steady(value: Any, of_float: Any = float) -> Any:
    """Return the value without what differs between two equal responses, with its floats converted."""
    if isinstance(value, dict):
        return {key: steady(inner, of_float) for key, inner in value.items() if key not in CHANGING}
    if isinstance(value, float):
        return of_float(value)
    return [steady(inner, of_float) for inner in value] if isinstance(value, list) else value


def roughly(value: float) -> Any:
    """Return what compares equal to numbers that differ in the last digits, as logits do."""
    return pytest.approx(value, abs=1e-3)


def streamed(client: Any, **fields: Any) -> tuple[list[str], Replay]:
    """Return the types of the events of a stream, and what they add up to."""
    replay, kinds = Replay(), []
    for event in respond(client, stream=True, **fields):
        replay.feed(event.to_dict())
        kinds.append(event.type)
    return kinds, replay


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_stream_is_the_same_response(client: Any, situation: str) -> None:
    fields = {**SITUATIONS[situation], "temperature": 0.8}
    fields["extra"] = {"seed": 5, **fields.get("extra", {})}
    whole = respond(client, **fields).to_dict()
    kinds, replay = streamed(client, **fields)
    assert replay.response is not None and replay.output == replay.response["output"]
    assert steady(replay.response) == steady(whole, roughly)
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == f"response.{whole['status']}"


def test_the_fields_of_a_response(client: Any) -> None:
    response = respond(client, max_output_tokens=3, metadata={"a": "b"}, instructions="Be brief.")
    assert response.object == "response" and response.id.startswith("resp_") and response.model == NAME
    assert response.status == "incomplete" and response.incomplete_details.reason == "max_output_tokens"
    assert response.error is None and response.metadata == {"a": "b"} and response.instructions == "Be brief."
    (message,) = response.output
    assert message.id.startswith("msg_") and message.status == "incomplete" and message.role == "assistant"
    usage = response.usage
    assert usage.output_tokens == 3 and usage.total_tokens == usage.input_tokens + 3
    assert response.to_dict()["store"] is False and response.previous_response_id is None


def test_a_complete_answer_is_completed(client: Any) -> None:
    format = {"type": "json_schema", "name": "it", "schema": PERSON, "strict": True}
    response = respond(client, text={"format": format}, max_output_tokens=60)
    assert response.status == "completed" and response.incomplete_details is None and response.completed_at
    jsonschema.validate(json.loads(response.output_text), PERSON)
    assert response.text.format.to_dict() == format


def test_calls(client: Any) -> None:
    response = respond(
        client,
        tools=[FLAT_WEATHER, FLAT_CLOCK],
        tool_choice="required",
        parallel_tool_calls=False,
        max_output_tokens=100,
    )
    assert response.status == "completed" and response.parallel_tool_calls is False
    (call,) = response.output
    assert call.type == "function_call" and call.status == "completed" and call.call_id.startswith("call_")
    if call.name == "weather":
        jsonschema.validate(json.loads(call.arguments), WEATHER["function"]["parameters"])  # type: ignore[index]


def test_calls_of_custom_tools_and_their_results(client: Any) -> None:
    fields = {**SITUATIONS["custom call"], "input": [{"role": "user", "content": "1 + 2?"}]}
    response = respond(client, **fields)
    (call,) = response.output
    assert call.type == "custom_tool_call" and call.name == "add" and call.call_id.startswith("call_")
    assert re.fullmatch(r"[1-9](\+[1-9]){1,3}", call.input) and response.status == "completed"
    result = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "3"}
    again = respond(
        client, **{**fields, "input": [*fields["input"], call.to_dict(), result], "tool_choice": "auto"}
    )
    assert again.usage.input_tokens > response.usage.input_tokens


def test_reasoning_is_an_item_of_its_own_and_its_tokens_are_counted(client: Any, model: Any) -> None:
    response = respond(client, **SITUATIONS["reasoning"])
    thought, message = response.output
    assert (
        thought.type == "reasoning" and thought.summary == [] and thought.content[0].type == "reasoning_text"
    )
    assert re.fullmatch("[a-z]{3}", message.content[0].text)
    scored = message.content[0].logprobs
    assert b"".join(bytes(one.bytes) for one in scored).decode().endswith(message.content[0].text)
    details = response.usage.output_tokens_details
    written = f"<think>{thought.content[0].text}</think>"
    least = len(model.tokenizer.encode(written))  # the model may write it in more tokens
    assert details.reasoning_tokens + len(scored) <= response.usage.output_tokens
    assert details.reasoning_tokens >= min(least, response.usage.output_tokens - len(scored)) // 2
    assert respond(client).usage.output_tokens_details.reasoning_tokens == 0


def test_the_prompt_of_an_earlier_request_is_cached(client: Any) -> None:
    fields = {
        "instructions": "Be brief, and answer each question with one word of English. " * 8,
        "max_output_tokens": 1,
    }
    respond(client, **fields)
    usage = respond(client, **fields).usage
    assert 50 < usage.input_tokens_details.cached_tokens < usage.input_tokens


def test_a_sampler_answers(client: Any) -> None:
    extra = {
        "structgen": {"sampler": {"name": "smc", "particles": 2}},
        "structured_outputs": {"choice": ["red", "blue"]},
    }
    response = respond(client, extra=extra)
    assert response.output_text in ("red", "blue") and response.status == "completed"
    assert response.to_dict()["structgen"]["sampler"] == "smc"


def test_events_have_names_and_no_done_follows(server: Running) -> None:
    request = urllib.request.Request(
        f"{server.url}/v1/responses",
        json.dumps(body_of(stream=True)).encode(),
        {"Authorization": f"Bearer {KEY}"},
    )
    with urllib.request.urlopen(request) as answer:
        text = answer.read().decode()
    events = text.strip().split("\n\n")
    for event in events:
        name, data = event.split("\n")
        assert name == f"event: {json.loads(data.removeprefix('data: '))['type']}"
    assert "[DONE]" not in text


def test_an_answer_that_fails_ends_its_stream_with_the_error(
    server: Running, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(server, monkeypatch, row=0)
    extra = {"structured_outputs": {"regex": "[ab]{8,12}"}}
    replay, kinds = Replay(), []
    for event in respond(client, stream=True, max_output_tokens=30, extra=extra):
        replay.feed(event.to_dict())
        kinds.append(event.type)
    assert kinds[-1] == "response.failed" and replay.response is not None
    assert replay.response["error"]["code"] == "server_error"
    assert "a mask takes too long" in replay.response["error"]["message"]
    (item,) = replay.response["output"]
    assert item["status"] == "incomplete" and item["content"] == replay.items[0]["content"]
    import openai

    with pytest.raises(openai.APIStatusError, match="a mask takes too long") as caught:
        respond(client, max_output_tokens=30, extra=extra)
    assert caught.value.status_code == 422


def test_a_client_that_disconnects_frees_its_row(server: Running) -> None:
    service = server.service

    async def hang_up(read: int) -> None:
        async with server.async_client() as client:
            pending = asyncio.ensure_future(
                respond(client, stream=read > 0, max_output_tokens=2000, input="A long story.")
            )
            if read:
                events = await pending
                for _ in range(read):
                    await anext(events)
                await events.close()
            else:
                while not service.model_thread.batch.running:
                    await asyncio.sleep(0.02)
                pending.cancel()

    for read in (0, 1, 6):
        asyncio.run(hang_up(read))
        until(lambda: service.open == 0 and service.model_thread.batch.is_idle)
