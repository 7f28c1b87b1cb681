"""Reasoning of families that write it, and the answer, between markers of their own: gpt-oss, Cohere, Kimi, Hunyuan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

import structgen as sg
from structgen.server.answers import whole_turn
from structgen.server.completion_request import CompletionRequest, read_request
from structgen.server.errors import ApiError
from structgen.server.reasoning import ChatTemplate, ReasoningFormat
from structgen.server.service import Service
from structgen.server.settings import ServerSettings
from structgen.serving.requests import constraint_of
from structgen.tools import FORMATS

from .calls import WEATHER, as_schema, ask
from .conftest import NAME, Running
from .test_reasoning import COLOUR, with_template

USERS = "{%- for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{%- endfor %}"
TEMPLATES = {
    "harmony": "{{- 'Reasoning: ' + (reasoning_effort or 'medium') }}"
    + USERS
    + "{#- '<|channel|>analysis<|message|>' '<|channel|>final<|message|>' 'commentary' #}{{- '<|start|>assistant' }}",
    "cohere_command": USERS
    + "{#- <|START_RESPONSE|> <|START_ACTION|> #}{{- '<|CHATBOT_TOKEN|>' }}"
    + "{%- if reasoning is false %}{{- '<|START_THINKING|><|END_THINKING|>' }}{%- endif %}",
    "kimi_k3": "{%- macro tag(name) %}{{- '<|open|>' + name + '<|sep|>' }}{%- endmacro %}{#- <|close|> #}"
    + USERS
    + "{{- tag('think' if thinking is not false else 'response') }}",
    "hunyuan_a13b": USERS
    + "{#- <tool_calls>[ #}{{- '<|extra_0|>' }}"
    + "{%- if enable_thinking is false %}{{- '<think>\n\n</think>\n' }}{%- endif %}",
}
OFF: dict[str, dict[str, Any]] = {
    "harmony": {"structgen": {"reasoning": False}},
    "cohere_command": {"chat_template_kwargs": {"reasoning": False}},
    "kimi_k3": {"chat_template_kwargs": {"thinking": False}},
    "hunyuan_a13b": {"chat_template_kwargs": {"enable_thinking": False}},
}
ANSWER = '{"colour": "red"}'


def requested(model: Any, name: str, **body: Any) -> CompletionRequest:
    template = ChatTemplate(with_template(model, TEMPLATES[name]))
    whole = {"model": NAME, "messages": [{"role": "user", "content": "?"}], **body}
    return read_request(whole, "chat", ServerSettings(), template)


def turn_of(name: str, thought: str | None, answer: str, *, is_off: bool = False) -> str:
    """Return the text that a model of the family writes after the prompt of its template."""
    format = FORMATS[name]
    begin, end = format.think
    opened = name == "kimi_k3"
    text = "" if thought is None else ("" if opened else begin) + thought + end
    begin, end = format.reply if format.reply[0] else format.answer
    return text + ("" if opened and is_off else begin) + answer + end


def allows(request: CompletionRequest, text: str) -> bool:
    compiled = request.compiler_spec()
    assert compiled is not None
    matcher = sg.Matcher(constraint_of(*json.loads(json.dumps(compiled))), sg.Vocabulary.of_bytes())
    return all(map(matcher.advance, text.encode())) and matcher.is_complete()


def test_formats_are_read_from_templates(model: Any) -> None:
    def found(name: str, **variables: Any) -> ReasoningFormat | None:
        return ChatTemplate(with_template(model, TEMPLATES[name])).reasoning_format(variables)

    for name in ("harmony", "cohere_command", "hunyuan_a13b"):
        format = FORMATS[name]
        assert found(name) == ReasoningFormat(*format.think, optional=True, frame=format)
    cohere, kimi = FORMATS["cohere_command"], FORMATS["kimi_k3"]
    assert found("cohere_command", reasoning=False) == ReasoningFormat(
        *cohere.think, frame=cohere, is_off=True
    )
    hunyuan = FORMATS["hunyuan_a13b"]
    off = found("hunyuan_a13b", enable_thinking=False)
    assert off == ReasoningFormat(*hunyuan.think, frame=hunyuan, is_off=True)
    assert found("kimi_k3") == ReasoningFormat("", kimi.think[1], frame=kimi)
    assert found("kimi_k3", thinking=False) == ReasoningFormat(
        *kimi.think, frame=kimi, is_off=True, is_answer_opened=True
    )


def test_the_tool_format_is_found_by_name_and_template(model: Any) -> None:
    found = {name: ChatTemplate(with_template(model, text)) for name, text in TEMPLATES.items()}
    assert found["kimi_k3"].tool_format("structgen").name == "kimi_k3"
    assert found["harmony"].tool_format("structgen").name == "harmony"
    plain = ChatTemplate(model)
    assert plain.tool_format("structgen").name == "hermes"
    assert plain.tool_format("Llama-4-Scout-17B-16E-Instruct").name == "pythonic"
    named = {"model": NAME, "messages": [{"role": "user", "content": "?"}], "tools": [WEATHER]}
    for settings, wanted in (
        (ServerSettings(model_name="gemma-4-31b-it"), "gemma4"),
        (ServerSettings(model_name="gemma-4-31b-it", tool_format="hermes"), "hermes"),
    ):
        request = read_request(named, "chat", settings, plain)
        assert request.tools is not None and request.tools.format.name == wanted
    own = {**named, "structgen": {"tool_format": "glm47"}}
    request = read_request(own, "chat", ServerSettings(), plain)
    assert request.tools is not None and request.tools.format.name == "glm47"


def test_the_chosen_format_decides_whether_answers_have_markers(model: Any) -> None:
    """A server with `--tool-format hermes` writes no `<answer>`, with any template."""
    other = USERS + "{#- <think> #}"
    body = {"model": NAME, "messages": [{"role": "user", "content": "?"}]}
    for template, chosen, has_markers in (
        (TEMPLATES["hunyuan_a13b"], "auto", True),
        (TEMPLATES["hunyuan_a13b"], "hunyuan_a13b", True),
        (TEMPLATES["hunyuan_a13b"], "hermes", False),
        (other, "auto", False),
        (other, "hunyuan_a13b", True),
    ):
        settings = ServerSettings(model_name=NAME, tool_format=chosen, compilers=0)
        service = Service(with_template(model, template), settings)
        given = {**body, "response_format": as_schema(COLOUR)}
        plain = service.read(json.dumps(given).encode(), "chat")
        given = {**body, "tools": [WEATHER], "structgen": {"tool_format": "auto"}}
        called = service.read(json.dumps(given).encode(), "chat")
        service.close()
        assert allows(plain, ANSWER) is not has_markers
        assert allows(plain, ANSWER.join(FORMATS["hunyuan_a13b"].reply)) is has_markers
        wanted = "hunyuan_a13b" if has_markers else "hermes"
        assert called.tools is not None and called.tools.format.name == wanted


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("has_schema", [True, False])
def test_only_the_final_channel_is_constrained(model: Any, name: str, has_schema: bool) -> None:
    body = {"response_format": as_schema(COLOUR)} if has_schema else {}
    request = requested(model, name, **body)
    thought, wrong = "red? {no}", "red!"
    for answer in (ANSWER, wrong):
        text = turn_of(name, thought, answer)
        assert allows(request, text) is (answer == ANSWER or not has_schema), text
        reader = request.reader()
        assert reader is not None
        turn = whole_turn(reader, text)
        assert (turn.reasoning, turn.text) == (thought, answer)
    if name != "kimi_k3":  # whose prompt has opened the reasoning
        assert allows(request, turn_of(name, None, ANSWER))
    assert not allows(request, ANSWER)


@pytest.mark.parametrize("name", TEMPLATES)
def test_without_reasoning_the_answer_has_its_markers(model: Any, name: str) -> None:
    request = requested(model, name, response_format=as_schema(COLOUR), **OFF[name])
    text = turn_of(name, None, ANSWER, is_off=True)
    assert allows(request, text) and not allows(request, turn_of(name, "hm", ANSWER))
    reader = request.reader()
    assert reader is not None
    assert (whole_turn(reader, text).reasoning, reader.text) == (None, ANSWER)


@pytest.mark.parametrize("name", TEMPLATES)
def test_budgets_hold_in_channels(model: Any, name: str) -> None:
    for own in ({"max_reasoning": 3}, {"max_reasoning_tokens": 3}):
        request = requested(model, name, response_format=as_schema(COLOUR), structgen=own)
        assert allows(request, turn_of(name, "abc", ANSWER))  # with a byte for each token
        assert not allows(request, turn_of(name, "abcd", ANSWER))
    closed = requested(model, "kimi_k3", structgen={"reasoning": False})
    assert allows(closed, turn_of("kimi_k3", "", "No.")) and not allows(
        closed, turn_of("kimi_k3", "a", "No.")
    )


def test_tools_after_a_prompt_that_opened_the_answer(model: Any) -> None:
    call = (
        '<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool="weather" index="1"<|sep|>'
        '<|open|>argument key="city" type="string"<|sep|>Rome<|close|>argument<|sep|>'
        '<|open|>argument key="days" type="number"<|sep|>3<|close|>argument<|sep|>'
        "<|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>"
    )
    request = requested(model, "kimi_k3", tools=[WEATHER], **OFF["kimi_k3"])
    assert allows(request, "I look." + call) and allows(request, call)
    assert not allows(request, "<|open|>response<|sep|>I look." + call)
    reader = request.reader()
    assert reader is not None
    turn = whole_turn(reader, "I look." + call)
    assert (turn.text, turn.reasoning, [each.name for each in turn.calls]) == ("I look.", None, ["weather"])
    other = requested(
        model, "kimi_k3", tools=[WEATHER], structgen={"tool_format": "hermes"}, **OFF["kimi_k3"]
    )
    assert allows(other, "Hello.")


def test_requests_override_the_template(model: Any) -> None:
    request = requested(model, "cohere_command", structgen={"reasoning": True})
    assert allows(request, turn_of("cohere_command", "a", "b"))
    assert not allows(request, turn_of("cohere_command", None, "b"))
    assert requested(model, "cohere_command", reasoning_effort="none").variables == {"reasoning": False}
    request = requested(
        model,
        "cohere_command",
        chat_template_kwargs={"reasoning": False},
        structgen={"reasoning": "optional"},
    )
    assert allows(request, turn_of("cohere_command", "a", "b"))
    with pytest.raises(ApiError, match="has started the answer"):
        requested(model, "kimi_k3", chat_template_kwargs={"thinking": False}, structgen={"reasoning": True})
    with pytest.raises(ApiError, match="without reasoning"):
        requested(model, "harmony", structgen={"reasoning": False, "max_reasoning": 5})
    assert requested(model, "harmony", stop=["END"]).spec is not None  # free text may be cut off


@pytest.fixture(scope="module", params=TEMPLATES)
def family(request: pytest.FixtureRequest, model: Any) -> Iterator[tuple[str, Any]]:
    """Return the name of a family, and a client of a server with such a chat template."""
    settings = ServerSettings(model_name="smol", compilers=1)  # the tool format is found by the template, too
    running = Running(with_template(model, TEMPLATES[request.param]), settings)
    with running.client() as client:
        yield request.param, client
    running.stop()


@pytest.mark.parametrize("kind", ["schema", "text"])
def test_a_server_separates_reasoning_from_content(family: tuple[str, Any], kind: str) -> None:
    _, client = family
    options: dict[str, Any] = {"seed": 3, "max_tokens": 200 if kind == "schema" else 90}
    options["extra"] = {"structgen": {"reasoning": True, "max_reasoning_tokens": 6}}
    if kind == "schema":
        options["response_format"] = as_schema(COLOUR)
    answer = ask(client, **options)
    message = answer.choices[0].message
    assert message.reasoning_content is not None
    deltas = [part.choices[0].delta for part in ask(client, stream=True, **options)]
    content = "".join(one.content or "" for one in deltas)
    shown = "".join(getattr(one, "reasoning_content", None) or "" for one in deltas)
    for text in (content, shown, message.content, message.reasoning_content):
        assert not any(mark in text for mark in ("<|", "|>"))
    if kind == "schema":
        jsonschema.validate(json.loads(message.content), COLOUR)
        assert (content, shown) == (message.content, message.reasoning_content)


def test_a_server_calls_tools_after_reasoning(family: tuple[str, Any]) -> None:
    _, client = family
    own = {"reasoning": True, "max_reasoning_tokens": 5, "describe_tools": False, "close_within_budget": True}
    extra = {"structgen": own}
    answer = ask(client, tools=[WEATHER], tool_choice="required", max_tokens=200, extra=extra, seed=1)
    (call,) = answer.choices[0].message.tool_calls[:1]
    assert call.function.name == "weather" and json.loads(call.function.arguments)
    assert answer.choices[0].message.reasoning_content is not None
