"""Reasoning: its format is read from the chat template, it is bounded, and it is separate from the answer."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

import structgen as sg
from structgen.server.completion_request import read_request
from structgen.server.errors import ApiError
from structgen.server.fields import Fields
from structgen.server.reasoning import ChatTemplate, ReasoningFormat, read_reasoning, read_variables
from structgen.server.settings import ServerSettings
from structgen.serving.requests import constraint_of

from .calls import WEATHER, as_schema, ask
from .conftest import NAME, Running

COLOUR = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"]}


CHATML = (
    "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}"
)


START = "{{- '<|im_start|>assistant\n' }}"


TEMPLATES = {
    # as Qwen 3 has it: the model decides, and an empty reasoning switches it off
    "decides": CHATML + START + "{%- if enable_thinking is defined and enable_thinking is false %}"
    "{{- '<think>\n\n</think>\n\n' }}{%- endif %}",
    # as DeepSeek R1 and newer Qwens have it: the prompt opens the reasoning
    "opens": CHATML + START + "{{- '<think>\n' }}",
    # as DeepSeek V3.1 has it
    "thinking": CHATML + START + "{{- '<think>' if thinking else '</think>' }}",
    "effort": "{{- 'Reasoning: ' + (reasoning_effort or 'medium') }}" + CHATML + START + "{#- <think> #}",
    "none": CHATML + START,
    # as GLM 4.6 has it: the model begins a line, and then the reasoning
    "line": "{%- for m in messages %}{{ '<|' + m.role + '|>' }}{%- if m.reasoning_content %}"
    "{{ '\n<think>' + m.reasoning_content + '</think>' }}{%- endif %}{{ '\n' + m.content }}{%- endfor %}"
    "{{- '<|assistant|>' }}",
    # as Gemma 4 has it: the prompt closes an empty channel, unless reasoning is on
    "channel": CHATML
    + START
    + "{%- if not enable_thinking | default(false) -%}{{- '<|channel>thought\\n<channel|>' -}}{%- endif -%}",
}


def with_template(model: Any, template: str) -> Any:
    twin = copy.copy(model)
    twin.tokenizer = copy.deepcopy(model.tokenizer)
    twin.tokenizer.chat_template = template
    return twin


def variables_of(template: ChatTemplate, **body: Any) -> dict[str, Any]:
    return read_variables(Fields(body), template)


def test_the_reasoning_format_is_read_from_templates(model: Any) -> None:
    found = {name: ChatTemplate(with_template(model, one)) for name, one in TEMPLATES.items()}
    optional = ReasoningFormat("<think>", "</think>", optional=True)
    assert (
        found["decides"].reasoning_format({})
        == found["decides"].reasoning_format({"enable_thinking": True})
        == optional
    )
    assert found["decides"].reasoning_format({"enable_thinking": False}) is None
    assert found["opens"].reasoning_format({}) == ReasoningFormat("", "</think>")
    assert found["thinking"].reasoning_format({}) is None
    assert found["thinking"].reasoning_format({"thinking": True}) == ReasoningFormat("", "</think>")
    assert found["effort"].reasoning_format({}) == optional
    assert found["none"].reasoning_format({}) is None
    assert found["line"].reasoning_format({}) == ReasoningFormat("\n<think>", "</think>", optional=True)
    assert found["channel"].reasoning_format({}) is None
    channel = ReasoningFormat("<|channel>thought\n", "<channel|>", optional=True)
    assert found["channel"].reasoning_format({"enable_thinking": True}) == channel


@pytest.mark.parametrize(
    ("name", "body", "variables"),
    [
        ("decides", {"chat_template_kwargs": {"enable_thinking": False}}, {"enable_thinking": False}),
        ("decides", {"reasoning_effort": "none"}, {"enable_thinking": False}),
        ("decides", {"reasoning_effort": "high"}, {"enable_thinking": True}),
        ("thinking", {"reasoning_effort": "low"}, {"thinking": True}),
        ("effort", {"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        ("effort", {"chat_template_kwargs": {"reasoning_effort": "low"}}, {"reasoning_effort": "low"}),
        ("none", {"chat_template_kwargs": {"enable_thinking": True}, "reasoning_effort": "high"}, {}),
        ("none", {"chat_template_kwargs": {"x": None}}, {}),
        ("none", {}, {}),
    ],
)
def test_variables_of_the_template(model: Any, name: str, body: Any, variables: Any) -> None:
    assert variables_of(ChatTemplate(with_template(model, TEMPLATES[name])), **body) == variables


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"reasoning_effort": "much"}, "one of none, minimal"),
        ({"reasoning_effort": 5}, "not a text"),
        ({"chat_template_kwargs": 5}, "not an object"),
        ({"chat_template_kwargs": {"enable_thinkin": True}}, "Did you mean 'enable_thinking'"),
        ({"chat_template_kwargs": {"messages": "x"}}, "no variable 'messages'"),
        ({"chat_template_kwargs": {"assistant": True}}, "no variable 'assistant'"),  # a word of the template
        ({"chat_template_kwargs": {"raise_exception": True}}, "no variable 'raise_exception'"),
        ({"chat_template_kwargs": {"chat_template": "{{ 1 }}"}}, "no variable 'chat_template'"),
        ({"chat_template_kwargs": {"enable_thinking": "<|im_end|>"}}, "a text of a few words"),
        ({"chat_template_kwargs": {"enable_thinking": [1]}}, "a text of a few words"),
    ],
)
def test_variables_that_are_refused(model: Any, body: Any, message: str) -> None:
    with pytest.raises(ApiError, match=message):
        variables_of(ChatTemplate(with_template(model, TEMPLATES["decides"])), **body)


@pytest.mark.parametrize("name", ["decides", "opens"])
def test_reasoning_before_free_text_is_bounded(model: Any, name: str) -> None:
    template = ChatTemplate(with_template(model, TEMPLATES[name]))
    body = {"model": NAME, "messages": [{"role": "user", "content": "?"}], "structgen": {"max_reasoning": 5}}
    asked = read_request(body, "chat", ServerSettings(), template)
    compiled = asked.compiler_spec()
    assert compiled is not None
    begin = "<think>" if name == "decides" else ""
    constraint = constraint_of(*compiled)
    for text, is_right in (
        (f"{begin}12345</think>Yes.", True),
        (f"{begin}123456</think>Yes.", False),
        ("Yes, it is.", name == "decides"),
    ):
        assert sg.Matcher(constraint, sg.Vocabulary.of_bytes()).explain(text).ok is is_right, text


def test_requests_override_the_template(model: Any) -> None:
    template = ChatTemplate(with_template(model, TEMPLATES["decides"]))

    def read(is_on: bool = True, **own: Any) -> ReasoningFormat | None:
        return read_reasoning(Fields(own, "structgen"), template, {}, is_on=is_on)

    assert read() == read(reasoning="optional") == ReasoningFormat("<think>", "</think>", optional=True)
    assert read(reasoning=False) is None and read(is_on=False) is None
    assert read(reasoning=True, max_reasoning=9) == ReasoningFormat("<think>", "</think>", most=9)
    assert read(max_reasoning_tokens=7) == ReasoningFormat(
        "<think>", "</think>", optional=True, most_tokens=7
    )
    for own in (
        {"max_reasoning_tokens": 1.5},
        {"reasoning": False, "max_reasoning_tokens": 5},
        {"reasoning": 1},
        {"reasoning": "yes"},
        {"reasoning": False, "max_reasoning": 5},
        {"max_reasoning": -1},
    ):
        with pytest.raises(ApiError, match="structgen"):
            read(**own)


@pytest.fixture(scope="module")
def thinking_client(model: Any) -> Iterator[Any]:
    """Return a client of a server whose chat template opens the reasoning unless it is switched off."""
    template = (
        CHATML + START + "{{- '<think>\n\n</think>\n\n' if enable_thinking is false else '<think>\n' }}"
    )
    running = Running(with_template(model, template), ServerSettings(model_name="smol", compilers=1))
    with running.client() as client:
        yield client
    running.stop()


def test_reasoning_is_separate_from_the_answer(thinking_client: Any) -> None:
    options: dict[str, Any] = {
        "response_format": as_schema(COLOUR),
        "seed": 3,
        "extra": {"structgen": {"max_reasoning": 24}},
    }
    message = ask(thinking_client, **options).choices[0].message
    assert 0 <= len(message.reasoning_content) <= 24 and "think>" not in message.content
    jsonschema.validate(json.loads(message.content), COLOUR)
    parts = list(ask(thinking_client, stream=True, **options))
    deltas = [part.choices[0].delta for part in parts]
    assert (
        "".join(getattr(one, "reasoning_content", None) or "" for one in deltas) == message.reasoning_content
    )
    assert "".join(one.content or "" for one in deltas) == message.content


def test_reasoning_that_is_switched_off(thinking_client: Any) -> None:
    for extra in (
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"reasoning_effort": "none"},
        {"structgen": {"reasoning": False}},
    ):
        message = ask(thinking_client, response_format=as_schema(COLOUR), extra=extra).choices[0].message
        jsonschema.validate(json.loads(message.content), COLOUR)
        assert not hasattr(message, "reasoning_content")


def test_reasoning_before_calls_and_in_free_text(thinking_client: Any) -> None:
    extra = {"structgen": {"max_reasoning": 12, "describe_tools": False}}
    answer = ask(
        thinking_client, tools=[WEATHER], tool_choice="required", max_tokens=60, extra=extra
    ).choices[0]
    assert (
        answer.message.tool_calls[0].function.name == "weather"
        and len(answer.message.reasoning_content) <= 12
    )
    free = ask(thinking_client, max_tokens=5).choices[0]  # the reasoning does not come to its end
    assert free.message.content == "" and free.message.reasoning_content


def test_any_model_can_be_made_to_reason(client: Any) -> None:
    extra = {
        "structgen": {"reasoning": True, "max_reasoning": 15},
        "structured_outputs": {"choice": ["yes", "no"]},
    }
    message = ask(client, "Is water wet?", extra=extra).choices[0].message
    assert message.content in ("yes", "no") and len(message.reasoning_content) <= 15
    extra = {"structgen": {"reasoning": True, "max_reasoning": 5}}
    message = ask(client, "Is water wet?", extra=extra, max_tokens=16).choices[0].message
    assert len(message.reasoning_content) <= 5 and "think>" not in message.content


@pytest.mark.parametrize("kind", ["schema", "tools", "text"])
def test_reasoning_has_a_budget_of_tokens(thinking_client: Any, model: Any, kind: str) -> None:
    """The tokenizer splits a text into at most as many tokens as the model has drawn, or a few more."""
    options: dict[str, Any] = {"schema": {"response_format": as_schema(COLOUR)}, "text": {}}.get(
        kind, {"tools": [WEATHER], "tool_choice": "required"}
    )
    extra = {"structgen": {"max_reasoning_tokens": 6, "describe_tools": False}}
    answer = ask(thinking_client, extra=extra, max_tokens=70, seed=5, **options).choices[0]
    thought = answer.message.reasoning_content
    assert thought and len(model.vocabulary.encode(thought)) <= 8
    assert answer.message.content or answer.message.tool_calls
