"""The loop with a scripted model, and a few runs of the embedded one."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

import structgen as sg
from structgen.errors import OptionError, PromptError, Truncated
from structgen.tools import FORMATS, ToolCall, run_tools
from tests.embedded import embedded_model
from tests.oracles.scripted_model import ScriptedModel

from .scripted import call, scripted


def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


def fail(why: str) -> None:
    """Fail."""
    raise ValueError(why)


def test_a_call_its_result_and_the_answer() -> None:
    model = scripted("I add. " + call("add", first=2, second=3), "It is 5.")
    done = run_tools(model, "What is 2 + 3?", [add, fail])
    assert done.answer == "It is 5."
    assert [(one.call, one.value) for one in done.results] == [
        (ToolCall("add", {"first": 2, "second": 3}), 5)
    ]
    assert done.rounds[0].turn.text == "I add. "
    assert [message["role"] for message in done.messages] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert done.messages[3]["content"] == "<tool_response>\n5\n</tool_response>"
    assert '"name": "add"' in done.messages[0]["content"] and "<tool_call>" in done.messages[0]["content"]
    assert model.prompts[1] == done.messages[:-1]


def test_several_calls_in_one_turn_and_an_exception_of_a_function() -> None:
    both = call("add", first=1, second=1) + "\n" + call("fail", why="no")
    done = run_tools(scripted(both, "Done."), "Go.", [add, fail])
    first, second = done.results
    assert first.content == "2" and first.error is None
    assert isinstance(second.error, ValueError) and second.content == '{"error": "ValueError: no"}'


def test_the_last_round_must_answer() -> None:
    """A model that only calls tools gets a last round without calls."""
    model = ScriptedModel(call("add", first=1, second=1))
    done = run_tools(model, "Go.", [add], max_rounds=2, max_text=5, max_tokens=200)
    assert len(done.results) == 2 and len(done.rounds) == 3
    assert not done.rounds[2].turn.calls


def test_required_calls_then_an_answer_by_schema() -> None:
    schema = sg.json_schema({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    done = run_tools(
        scripted(call("add", first=2, second=2), '{"n": 4}'),
        "2 + 2?",
        [add],
        tool_choice="add",
        answer=schema,
    )
    assert json.loads(done.answer) == {"n": 4}


@pytest.mark.parametrize("name", ["llama3_json", "pythonic", "qwen3_coder"])
def test_other_formats(name: str) -> None:
    texts = {
        "llama3_json": '{"name": "add", "parameters": {"first": 1, "second": 2}}',
        "pythonic": "[add(first=1, second=2)]",
        "qwen3_coder": "<tool_call>\n<function=add>\n<parameter=first>\n1\n</parameter>\n<parameter=second>\n2\n"
        "</parameter>\n</function>\n</tool_call>",
    }
    done = run_tools(scripted(texts[name], "3"), "1 + 2?", [add], format=name)
    assert [one.value for one in done.results] == [3] and done.answer == "3"
    assert done.messages[-2]["role"] == FORMATS[name].result_role


def test_definitions_need_someone_to_run_them() -> None:
    definition = {"type": "function", "function": {"name": "now", "parameters": {}}}
    with pytest.raises(OptionError, match="the tool now has no function"):
        run_tools(scripted("x"), "Go.", [definition])
    done = run_tools(
        scripted(call("now"), "Noon."), "Time?", [definition], execute=lambda one: f"{one.name}: 12:00"
    )
    assert done.results[0].content == "now: 12:00"


def test_messages_keep_their_system_message() -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    done = run_tools(scripted("Hi."), messages, [add])
    assert done.messages[0]["content"].startswith("Be brief.\n\nYou can call functions")
    assert run_tools(scripted("Hi."), messages, [add], describe=False).messages[0] == messages[0]
    with pytest.raises(PromptError, match="a text or a list of messages"):
        run_tools(scripted("Hi."), [], [add])


def test_the_instructions_say_how_to_answer() -> None:
    class Offer(BaseModel):
        fruit: str
        price: float

    def shown(answer: Any, text: str) -> str:
        return str(run_tools(scripted(text), "Hi", [add], answer=answer).messages[0]["content"])

    assert "answer in words" in shown(None, "Hi.")
    typed = shown(Offer, '{"fruit": "fig", "price": 2.0}')
    assert "in words" not in typed and "Answer with JSON" in typed and "- fruit (string)" in typed
    assert "answer" not in shown(sg.regex("[a-z]+"), "hello")


def test_a_truncated_turn_raises_an_error() -> None:
    with pytest.raises(Truncated):
        run_tools(scripted(call("add", first=1, second=1)), "Go.", [add], max_tokens=20)
    with pytest.raises(OptionError, match="max_rounds is -1"):
        run_tools(scripted("x"), "Go.", [add], max_rounds=-1)


def temperature(
    city: Annotated[str, Field(min_length=1, max_length=20)],
    unit: Literal["celsius", "fahrenheit"] = "celsius",
) -> dict[str, Any]:
    """Tell the temperature in a city."""
    return {"city": city, "unit": unit, "degrees": 21}


@pytest.mark.parametrize("name", ["hermes", "pythonic"])
def test_the_embedded_model_calls_and_answers(name: str) -> None:
    model = embedded_model()
    done = run_tools(
        model,
        "What is the temperature in Paris?",
        [temperature],
        format=name,
        tool_choice="required",
        parallel=False,
        max_rounds=1,
        max_text=60,
        max_tokens=120,
        seed=1,
    )
    (result,) = done.results
    assert result.error is None and result.value["degrees"] == 21
    assert len(done.rounds) == 2 and len(done.answer) <= 60
