"""Response requests are read like chats; what is unknown, contradictory or needs storage is refused by its field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from structgen.errors import StructgenError
from structgen.server.completion_request import CompletionRequest, read_request
from structgen.server.errors import ApiError
from structgen.server.reasoning import ChatTemplate
from structgen.server.responses.response_request import read_response_request
from structgen.server.settings import ServerSettings

from ..calls import CLOCK, PERSON, WEATHER, as_schema, post
from ..conftest import NAME, Running
from ..test_reasoning import TEMPLATES, with_template
from .calls import FLAT_WEATHER, body_of, respond, send

FLAT_CLOCK: dict[str, Any] = {"type": "function", **CLOCK["function"], "strict": True}  # type: ignore[dict-item]
FORMAT = {"type": "json_schema", "name": "it", "schema": PERSON, "strict": True}
GRAMMAR = {"syntax": "regex", "definition": r"[1-9]\+[1-9]"}
SUM: dict[str, Any] = {"type": "custom", "name": "add", "format": {"type": "grammar", **GRAMMAR}}
SUM_OF_CHAT = {"type": "custom", "custom": {"name": "add", "format": {"type": "grammar", "grammar": GRAMMAR}}}
NAMED = {"type": "function", "name": "clock"}
ALLOWED = {"type": "allowed_tools", "mode": "required", "tools": [NAMED]}


@pytest.fixture(scope="module")
def template(model: Any) -> ChatTemplate:
    return ChatTemplate(model)


def read(template: ChatTemplate, **fields: Any) -> CompletionRequest:
    return read_response_request(body_of(**fields), ServerSettings(model_name=NAME), template)


@pytest.mark.parametrize(
    ("fields", "of_chat"),
    [
        ({}, {}),
        ({"text": {"format": {"type": "text"}}}, {}),
        ({"text": {"format": {"type": "json_object"}, "verbosity": "medium"}},
         {"response_format": {"type": "json_object"}}),
        ({"text": {"format": FORMAT}}, {"response_format": as_schema(PERSON)}),
        ({"tools": [FLAT_WEATHER, FLAT_CLOCK]}, {"tools": [WEATHER, CLOCK]}),
        ({"tools": [SUM], "tool_choice": {"type": "custom", "name": "add"}},
         {"tools": [SUM_OF_CHAT], "tool_choice": {"type": "custom", "custom": {"name": "add"}}}),
        ({"tools": [FLAT_CLOCK], "text": {"format": FORMAT}}, {"tools": [CLOCK], "response_format": as_schema(PERSON)}),
        ({"tools": [FLAT_WEATHER, FLAT_CLOCK], "tool_choice": NAMED},
         {"tools": [WEATHER, CLOCK], "tool_choice": {"type": "function", "function": {"name": "clock"}}}),
        ({"tools": [FLAT_WEATHER, FLAT_CLOCK], "tool_choice": ALLOWED},
         {"tools": [WEATHER, CLOCK],
          "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [CLOCK]}}}),
        ({"tools": [FLAT_WEATHER], "tool_choice": "required", "parallel_tool_calls": False},
         {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False}),
        ({"tools": [FLAT_WEATHER], "tool_choice": "none"}, {"tools": [WEATHER], "tool_choice": "none"}),
        ({"temperature": 0.5, "top_p": 0.9, "seed": 3, "top_k": 5, "frequency_penalty": 1},
         {"frequency_penalty": 1, "temperature": 0.5, "top_p": 0.9, "seed": 3, "top_k": 5}),
        ({"structured_outputs": {"regex": "a+"}}, {"structured_outputs": {"regex": "a+"}}),
        ({"structgen": {"grammar": {"name": "sql"}, "close_within_budget": True}},
         {"structgen": {"grammar": {"name": "sql"}, "close_within_budget": True}}),
        ({"structgen": {"reasoning": True, "max_reasoning": 9}, "text": {"format": FORMAT}},
         {"structgen": {"reasoning": True, "max_reasoning": 9}, "response_format": as_schema(PERSON)}),
        ({"include": ["message.output_text.logprobs"], "top_logprobs": 2}, {"logprobs": True, "top_logprobs": 2}),
    ],
)  # fmt: skip
def test_a_request_is_that_of_a_chat(template: ChatTemplate, fields: Any, of_chat: Any) -> None:
    found = read(template, **fields)
    messages = [{"role": "user", "content": "A colour?"}]
    body = {"model": NAME, "messages": messages, "max_tokens": 4, **of_chat}
    chat = read_request(body, "chat", ServerSettings(model_name=NAME), template)
    if SUM not in fields.get("tools", []):  # whose definition is passed on as it is
        assert found.compiler_spec() == chat.compiler_spec()
    assert (found.prompt, found.options, found.variables) == (chat.prompt, chat.options, chat.variables)
    assert (found.logprobs, found.top_logprobs) == (chat.logprobs, chat.top_logprobs)
    assert found.reasoning == chat.reasoning
    assert (found.tools is None) == (chat.tools is None) and found.details == chat.details


def test_fields_that_the_response_repeats(template: ChatTemplate) -> None:
    request = read(
        template,
        instructions="Be brief.",
        metadata={"run": "7"},
        tools=[FLAT_WEATHER],
        tool_choice="required",
        text={"format": FORMAT},
        temperature=0.25,
        reasoning={"effort": "high", "summary": "auto"},
        user="me",
        store=False,
        truncation="disabled",
        include=["reasoning.encrypted_content"],
        max_tool_calls=3,
    )
    assert request.echoed == {
        "instructions": "Be brief.",
        "max_output_tokens": 4,
        "metadata": {"run": "7"},
        "parallel_tool_calls": True,
        "reasoning": {"effort": None, "summary": None},  # the template has no such variable
        "temperature": 0.25,
        "text": {"format": FORMAT},
        "tool_choice": "required",
        "tools": [{**FLAT_WEATHER, "strict": True}],
        "top_logprobs": 0,
        "top_p": 1.0,
    }
    assert not read(template, tools=[FLAT_WEATHER], parallel_tool_calls=False).echoed["parallel_tool_calls"]


@pytest.mark.parametrize(
    ("name", "effort", "variables", "shown"),
    [
        ("effort", "low", {"reasoning_effort": "low"}, "low"),
        ("decides", "none", {"enable_thinking": False}, "none"),
        ("decides", "high", {"enable_thinking": True}, "high"),
        ("none", "high", {}, None),
    ],
)
def test_the_effort_sets_variables_of_the_template(
    model: Any, name: str, effort: str, variables: Any, shown: str | None
) -> None:
    template = ChatTemplate(with_template(model, TEMPLATES[name]))
    request = read(template, reasoning={"effort": effort, "summary": "detailed"})
    assert request.variables == variables
    assert request.echoed["reasoning"] == {"effort": shown, "summary": None}
    assert (request.reasoning is None) == (effort == "none" or name == "none")


BAD: list[tuple[dict[str, Any], str | None, str]] = [
    ({"model": None}, "model", "missing"),
    ({"input": None}, "input", "missing"),
    ({"messages": []}, "messages", "not supported"),
    ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0]", "image"),
    ({"input": "\ud800"}, "input", "a lone surrogate"),
    ({"instructions": ["x"]}, "instructions", "not a text"),
    ({"store": True}, "store", "nothing is stored"),
    ({"store": 0}, "store", "store=0 is not supported"),
    ({"background": True}, "background", "nothing is stored"),
    ({"previous_response_id": "resp_1"}, "previous_response_id", "send the earlier items"),
    ({"conversation": "conv_1"}, "conversation", "send the earlier items"),
    ({"prompt": {"id": "pmpt_1"}}, "prompt", "no prompts are stored"),
    ({"truncation": "auto"}, "truncation", "never shortened"),
    ({"context_management": [{"type": "compaction"}]}, "context_management", "never shortened"),
    ({"max_tokens": 5}, "max_tokens", "Did you mean 'max_output_tokens'"),
    ({"max_output_tokens": 0}, "max_output_tokens", "0"),
    ({"max_output_tokens": 10**6}, "max_output_tokens", "4096"),
    ({"response_format": {"type": "json_object"}}, "response_format", "not supported"),
    ({"text": {"format": {"type": "yaml"}}}, "text.format.type", "yaml"),
    ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema", "missing"),
    ({"text": {"format": as_schema(PERSON)}}, "text.format.schema", "the form of chats"),
    ({"text": {"format": {**FORMAT, "schema": {"type": "strnig"}}}}, "text.format", "strnig"),
    ({"text": {"verbosity": "low"}}, "text.verbosity", "instructions"),
    ({"text": {"fromat": {}}}, "text.fromat", "Did you mean 'format'"),
    ({"text": {"format": FORMAT}, "structured_outputs": {"regex": "a"}}, "structured_outputs.regex", "one constraint"),
    ({"n": 2}, "n", "one answer"),
    ({"n": True}, "n", "n=true is not supported"),
    ({"stop": ["x"]}, "stop", "stop sequences are not part of this endpoint"),
    ({"stream": True, "stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation", "padded"),
    ({"stream_options": {}}, "stream_options", "stream=true"),
    ({"include": ["x"]}, "include[0]", "it is one of"),
    ({"include": "x"}, "include", "not a list"),
    ({"top_logprobs": 2}, "top_logprobs", "include"),
    ({"metadata": {"a": 1}}, "metadata.a", "not a text"),
    ({"metadata": {str(i): "x" for i in range(17)}}, "metadata", "17 keys"),
    ({"metadata": {"k" * 65: "x"}}, "metadata", "64 characters"),
    ({"reasoning": {"effort": "huge"}}, "reasoning.effort", "it is one of"),
    ({"reasoning": {"context": "all_turns"}}, "reasoning.context", "earlier reasoning"),
    ({"reasoning": {"depth": 3}}, "reasoning.depth", "not supported"),
    ({"tools": {"type": "function"}}, "tools", "not a list"),
    ({"tools": ["f"]}, "tools[0]", "not an object"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type", "runs no tools itself"),
    ({"tools": [WEATHER]}, "tools[0].function", "the form of chats"),
    ({"tools": [{**FLAT_CLOCK, "defer_loading": True}]}, "tools[0].defer_loading", "all tools"),
    ({"tools": [{**FLAT_CLOCK, "parms": {}}]}, "tools[0].parms", "not supported"),
    ({"tools": [{"type": "function"}]}, "tools", "name"),
    ({"tools": [FLAT_CLOCK, FLAT_CLOCK]}, "tools", "two tools"),
    ({"tools": [{**FLAT_CLOCK, "name": f"f{i}"} for i in range(129)]}, "tools", "128"),
    ({"tools": [{"type": "custom", "custom": {"name": "run"}}]}, "tools[0].custom", "the form of chats"),
    ({"tools": [{"type": "custom", "name": "run", "format": {"type": "yaml"}}]}, "tools[0].format", "yaml"),
    ({"tools": [FLAT_CLOCK, SUM | {"format": {**SUM["format"], "definition": "(a"}}]}, "tools[1].format",
     "not closed"),
    ({"tools": [SUM], "tool_choice": {"type": "function", "name": "add"}}, "tool_choice", "custom tool"),
    ({"tool_choice": "required"}, "tool_choice", "no tools"),
    ({"tools": [FLAT_CLOCK], "tool_choice": {"type": "function", "name": "g"}}, "tool_choice", "'g'"),
    ({"tools": [FLAT_CLOCK], "tool_choice": {"type": "web_search"}}, "tool_choice", "it is"),
    ({"tools": [FLAT_CLOCK], "parallel_tool_calls": "no"}, "parallel_tool_calls", "true or false"),
    ({"structgen": {"sampler": "smc"}, "stream": True}, "stream", "sampler"),
    ({"structgen": {"spell": 1}}, "structgen.spell", "not supported"),
    ({"temprature": 1}, "temprature", "Did you mean 'temperature'"),
    ({"moderation": {"model": "x"}}, "moderation", "not supported"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "param", "message"), BAD, ids=[str(one[1]) for one in BAD])
def test_a_refusal_names_the_field(server: Running, fields: Any, param: str | None, message: str) -> None:
    status, body = send(server, **fields)
    assert status == 400, body
    error = body["error"]
    assert (
        error["type"] == "invalid_request_error" and error["param"] == param and message in error["message"]
    ), error


def test_limits_and_bodies_that_are_not_requests(server: Running) -> None:
    for body in (b"", b"[]", b"{", b"[" * 50_000):
        status, answer = post(server, body, "/v1/responses")
        assert status == 400 and answer["error"]["message"]
    status, answer = send(server, input="x" * 120_000)
    assert status == 413
    status, answer = send(server, input="a b " * 9000)
    assert status == 400 and answer["error"]["code"] == "context_length_exceeded"
    assert answer["error"]["param"] == "input"
    status, answer = send(server, structured_outputs={"regex": "[a-z]{500}"})
    assert status == 400 and "max_output_tokens" in answer["error"]["message"], answer
    status, answer = send(server, model="gpt")
    assert status == 404 and answer["error"]["code"] == "model_not_found"
    status, answer = post(server, body_of(), "/v1/responses", key="wrong")
    assert status == 401


def test_stored_responses_are_not_found(client: Any, server: Running) -> None:
    import openai

    response = respond(client)
    calls = [client.responses.retrieve, client.responses.delete, client.responses.cancel]
    for call in (*calls, client.responses.input_items.list):
        with pytest.raises(openai.NotFoundError, match="nothing is stored"):
            call(response.id)


def test_every_json_value_is_answered_or_refused(server: Running, template: ChatTemplate) -> None:
    """Replace each field of a large request by values of all types: no value leads to another error than a refusal."""
    body = body_of(
        instructions="Be brief.",
        input=[
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}], "id": "m"},
            {"type": "reasoning", "summary": [], "id": "r"},
            {"type": "function_call", "call_id": "c", "name": "clock", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "noon"},
        ],
        tools=[FLAT_WEATHER, FLAT_CLOCK],
        tool_choice=ALLOWED,
        text={"format": FORMAT},
        reasoning={"effort": "low"},
        include=["message.output_text.logprobs"],
        metadata={"a": "b"},
        stream_options={},
        stream=True,
        structgen={"closed": True},
    )
    values: list[Any] = [None, True, 0, -1.5, 10**30, "", "x", [], [[]], [None], {}, {"type": {}}, {"a": [1]}]

    def variants(value: Any) -> list[Any]:
        found: list[Any] = list(values)
        pairs = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        for key, inner in pairs:
            for other in variants(inner):
                changed = json.loads(json.dumps(value))
                changed[key] = other
                found.append(changed)
        return found

    settings = ServerSettings(model_name=NAME)
    for changed in variants(body)[len(values) :]:
        try:
            read_response_request(changed, settings, template)
        except ApiError as error:
            assert error.status == 400 and error.body["error"]["message"], changed
        except StructgenError as error:
            raise AssertionError(f"{error!r} of {changed!r}") from error
