"""Requests whose fields contradict each other are refused with status 400 and the name of one of the fields."""

from __future__ import annotations

from typing import Any

import pytest

from structgen.server.completion_request import read_request
from structgen.server.errors import ApiError
from structgen.server.reasoning import ChatTemplate
from structgen.server.responses.response_request import read_response_request
from structgen.server.settings import ServerSettings

from .calls import MESSAGES, WEATHER, as_schema, chat, post
from .conftest import NAME, Running
from .test_reasoning import TEMPLATES, with_template

CUSTOM = {"type": "custom", "custom": {"name": "weather"}}
TEXT_FORMAT = {"format": {"type": "json_object"}}
FUNCTION = {"type": "function", "name": "f", "parameters": {}}
SAMPLER = {"structgen": {"sampler": "smc"}, "guided_regex": "[ab]"}
ALLOWED_CUSTOM = {"mode": "auto", "tools": [{"type": "custom", "custom": {"name": "weather"}}]}

CHATS: list[tuple[dict[str, Any], str, str]] = [
    ({"max_tokens": 3, "max_completion_tokens": 4}, "max_tokens", "differ"),
    ({"seed": 1, "structgen": {"seed": 2}}, "structgen.seed", "differ"),
    ({"prompt": "x"}, "prompt", "not supported"),
    ({"input": "x"}, "input", "not supported"),
    ({"logprobs": False, "top_logprobs": 2}, "top_logprobs", "needs logprobs=true"),
    ({"stream": False, "stream_options": {}}, "stream_options", "stream=true"),
    # constraints
    ({"guided_json": {}, "guided_regex": "a"}, "guided_regex", "at most one constraint"),
    ({"guided_regex": "a", "structgen": {"grammar": 'root ::= "a"'}}, "structgen.grammar", "one constraint"),
    ({"structured_outputs": {"json": {}, "json_object": True}}, "structured_outputs", "has one of"),
    (
        {"response_format": {"type": "text", "json_schema": {}}},
        "response_format.json_schema",
        "not supported",
    ),
    ({"response_format": {"type": "json_object"}, "guided_choice": ["a"]}, "guided_choice", "one constraint"),
    ({"response_format": as_schema(True), "stop": ["}"]}, "stop", "cannot be combined"),
    # tools
    ({"tools": [], "tool_choice": "required"}, "tool_choice", "no tools"),
    ({"tools": [WEATHER, WEATHER]}, "tools", "two tools have the name"),
    ({"tools": [WEATHER, CUSTOM]}, "tools", "two tools have the name"),
    ({"tools": [WEATHER], "tool_choice": CUSTOM}, "tool_choice", "it is a function tool"),
    (
        {"tools": [WEATHER], "tool_choice": {"type": "allowed_tools", "allowed_tools": ALLOWED_CUSTOM}},
        "tool_choice",
        "it is a function tool",
    ),
    (
        {"tools": [WEATHER], "tool_choice": "none", "structgen": {"ltl": "F weather"}},
        "structgen.ltl",
        "tools",
    ),
    (
        {"tools": [WEATHER], "response_format": {"type": "structural_tag", "format": {"type": "any_text"}}},
        "response_format",
        "cannot be combined with tools",
    ),
    ({"tools": [WEATHER], "tool_choice": "required", "stop": "x"}, "stop", "cannot be combined"),
    # reasoning
    ({"structgen": {"reasoning": False, "max_reasoning": 9}}, "structgen.max_reasoning", "without reasoning"),
    ({"structgen": {"max_reasoning_tokens": 9}}, "structgen.max_reasoning_tokens", "without reasoning"),
    # samplers
    ({**SAMPLER, "stream": True}, "stream", "structgen.sampler"),
    ({**SAMPLER, "logprobs": True}, "logprobs", "structgen.sampler"),
    ({**SAMPLER, "temperature": 0}, "temperature", "above 0"),
    ({**SAMPLER, "top_k": 3}, "top_k", "structgen.sampler"),
    ({**SAMPLER, "top_p": 0.5}, "top_p", "structgen.sampler"),
    ({**SAMPLER, "min_p": 0.5}, "min_p", "structgen.sampler"),
    ({"structgen": {"max_calls": 5}}, "structgen.max_calls", "needs structgen.sampler"),
]
COMPLETIONS: list[tuple[dict[str, Any], str, str]] = [
    ({"messages": MESSAGES}, "messages", "not supported"),
    ({"tools": [WEATHER]}, "tools", "not supported"),
    ({"max_completion_tokens": 3}, "max_completion_tokens", "not supported"),
    ({"best_of": 2, "n": 2}, "best_of", "use n"),
    ({"suffix": "y"}, "suffix", "completions continue"),
    ({"top_logprobs": 3}, "top_logprobs", "Did you mean 'logprobs'"),
]
RESPONSES: list[tuple[dict[str, Any], str, str]] = [
    ({"messages": MESSAGES}, "messages", "not supported"),
    ({"max_tokens": 3}, "max_tokens", "Did you mean 'max_output_tokens'"),
    ({"text": TEXT_FORMAT, "guided_regex": "a"}, "guided_regex", "at most one constraint"),
    ({"text": TEXT_FORMAT, "response_format": TEXT_FORMAT["format"]}, "response_format", "not supported"),
    ({"top_logprobs": 3}, "top_logprobs", "needs include"),
    ({"tools": [FUNCTION], "tool_choice": {"type": "function", "name": "g"}}, "tool_choice", "'g'"),
    ({"tool_choice": "required"}, "tool_choice", "no tools"),
    ({"background": True, "stream": True}, "background", "nothing is stored"),
    ({"store": False, "previous_response_id": "resp_1"}, "previous_response_id", "nothing is stored"),
    ({**SAMPLER, "stream": True}, "stream", "structgen.sampler"),
    ({**SAMPLER, "temperature": 0}, "temperature", "above 0"),
]
ALL = [
    *(("/v1/chat/completions", {"messages": MESSAGES}, *one) for one in CHATS),
    *(("/v1/completions", {"prompt": "x"}, *one) for one in COMPLETIONS),
    *(("/v1/responses", {"input": "x"}, *one) for one in RESPONSES),
]


@pytest.mark.parametrize(
    ("path", "base", "fields", "param", "message"), ALL, ids=[f"{a[0]}-{a[3]}" for a in ALL]
)
def test_contradictory_fields(
    server: Running, path: str, base: dict[str, Any], fields: dict[str, Any], param: str, message: str
) -> None:
    before = server.service.compiler.stats.misses
    status, body = post(server, {"model": NAME, **base, **fields}, path)
    assert status == 400 and body.keys() == {"error"}, body
    error = body["error"]
    assert error.keys() == {"message", "type", "param", "code", "request_id"}
    assert error["type"] == "invalid_request_error" and message in error["message"], error
    assert error["param"] == param, error
    if not base.get("tools"):
        assert server.service.compiler.stats.misses == before, "nothing was compiled for it"


def test_fields_that_agree_are_accepted(server: Running) -> None:
    for fields in (
        {"max_tokens": 3, "max_completion_tokens": 3},
        {"seed": 4, "structgen": {"seed": 4}},
        {"logprobs": False, "top_logprobs": 0},
        {"response_format": {"type": "text"}, "guided_regex": "a"},
        {"tools": [], "tool_choice": "none"},
        {"tools": [WEATHER], "tool_choice": "none"},
        {"stop": [], "guided_regex": "a"},
        {"repetition_penalty": 1, "presence_penalty": 0, "logit_bias": {}, **SAMPLER},
    ):
        status, body = post(server, chat(**fields))
        assert status == 200, (fields, body)


@pytest.mark.parametrize(
    ("effort", "variables"),
    [
        ("none", {"enable_thinking": True}),
        ("high", {"enable_thinking": False}),
        ("high", {"reasoning_effort": "low"}),
    ],
)
def test_two_statements_about_reasoning(model: Any, effort: str, variables: dict[str, Any]) -> None:
    source = TEMPLATES["decides"] + "{{ reasoning_effort }}"
    template, settings = ChatTemplate(with_template(model, source)), ServerSettings(model_name=NAME)
    name = next(iter(variables))
    chat_fields = {"model": NAME, "messages": MESSAGES, "chat_template_kwargs": variables}
    with pytest.raises(ApiError) as refused:
        read_request({**chat_fields, "reasoning_effort": effort}, "chat", settings, template)
    assert refused.value.status == 400 and refused.value.param == f"chat_template_kwargs.{name}"
    assert "reasoning_effort" in refused.value.message
    response = {"model": NAME, "input": "x", "chat_template_kwargs": variables}
    with pytest.raises(ApiError) as refused:
        read_response_request({**response, "reasoning": {"effort": effort}}, settings, template)
    assert refused.value.param == f"chat_template_kwargs.{name}"
    agreed = {name: {"enable_thinking": effort != "none", "reasoning_effort": effort}[name]}
    read_request(
        {**chat_fields, "reasoning_effort": effort, "chat_template_kwargs": agreed},
        "chat",
        settings,
        template,
    )
