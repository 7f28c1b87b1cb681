"""Reasoning as an output type: the value of a call, the values of a stream, and annotations."""

from __future__ import annotations

import pickle
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel

import structgen as sg
from structgen.errors import OptionError, OutputInvalid, Truncated, TypeNotSupported
from structgen.models.memory import DistributionModel
from structgen.types import output_type
from tests.oracles.scripted_model import ScriptedModel


class Person(BaseModel):
    name: str
    age: int


class Other(BaseModel):
    name: str
    age: int


TEXT = '<think>Ann, 31.</think>\n\n{"name": "Ann", "age": 31}'
ANN = Person(name="Ann", age=31)


def test_the_value_has_the_reasoning_and_the_answer() -> None:
    model = ScriptedModel(TEXT)
    result = sg.run(model, "?", sg.reasoning(Person))
    assert result.value == sg.Thinking("Ann, 31.", ANN)
    assert result.value.thinking == "Ann, 31." and result.value.value == ANN
    assert result.text == TEXT
    assert sg.generate(ScriptedModel(TEXT), "?", sg.Thinking[Person]) == result.value


def test_special_tokens_are_read_as_markers() -> None:
    vocabulary = sg.Vocabulary.of_bytes(specials=["<think>", "</think>"])
    script = [257, *b"hm", 258, *b"true", 256]

    def after(tokens: tuple[int, ...]) -> list[float]:
        distribution = [1e-6] * vocabulary.size
        distribution[script[min(len(tokens), len(script) - 1)]] = 1.0
        return distribution

    model = DistributionModel(vocabulary, after)
    kind = sg.reasoning(bool, max_tokens=2)
    expected = sg.Thinking("hm", True)
    assert sg.generate(model, "?", kind, temperature=0) == expected
    assert list(sg.stream(model, "?", kind, temperature=0))[-1] == expected
    assert sg.inference.beam(model, "?", kind, width=1)[0].value == expected
    assert sg.sample(model, "?", kind, sampler="local", seed=1).values[0] == expected


def test_streams_show_reasoning_then_partial_values() -> None:
    seen = list(sg.stream(ScriptedModel(TEXT), "?", sg.reasoning(Person), temperature=0))
    assert all(isinstance(one, sg.Thinking) for one in seen)
    assert [one.thinking for one in seen[:4]] == ["", "A", "An", "Ann"]
    assert not any("<" in one.thinking for one in seen)  # no piece of the marker
    assert seen[-1].value == ANN
    assert [one.value for one in seen if one.thinking != "Ann, 31."] == [None] * sum(
        one.thinking != "Ann, 31." for one in seen
    )
    stream = sg.stream(ScriptedModel("So.</think>yes"), "?", sg.reasoning("yes", open=None), temperature=0)
    assert list(stream)[-1] == sg.Thinking("So.", "yes")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (sg.reasoning(int), "<think></think>7", sg.Thinking("", 7)),
        (sg.reasoning(str), "<think>a</think>\nfree", sg.Thinking("a", "free")),
        (sg.Thinking, "<think>a</think>free", sg.Thinking("a", "free")),
        (sg.reasoning(Literal["a", "b"], optional=True), "b", sg.Thinking("", "b")),
        (sg.reasoning("yes"), "<think>a</think>yes", sg.Thinking("a", "yes")),
        (sg.reasoning(sg.json_schema({"type": "integer"})), "<think>a</think>7", sg.Thinking("a", 7)),
        (
            Annotated[sg.Thinking[bool], sg.ReasoningOptions(open="[", close="]", max_tokens=4)],
            "[abcd]true",
            sg.Thinking("abcd", True),
        ),
        (Annotated[sg.Thinking[bool], "a note"], "<think>a</think>true", sg.Thinking("a", True)),
    ],
)
def test_answers_of_every_kind(kind: Any, text: str, value: Any) -> None:
    assert sg.generate(ScriptedModel(text), "?", kind, temperature=0) == value


def test_inside_other_types_it_is_an_object() -> None:
    text = '[{"thinking": "Ann, 31.", "value": {"name": "Ann", "age": 31}}]'
    assert sg.generate(ScriptedModel(text), "?", list[sg.Thinking[Person]]) == [sg.Thinking("Ann, 31.", ANN)]


def test_an_answer_of_tools() -> None:
    def find(name: str) -> None: ...

    done = sg.run_tools(ScriptedModel(TEXT), "?", [find], answer=sg.Thinking[Person])
    assert done.value == sg.Thinking("Ann, 31.", ANN)


def test_prompt_functions() -> None:
    @sg.prompt(ScriptedModel(TEXT), temperature=0)
    def extract(text: str) -> sg.Thinking[Person]:
        """Who? {{ text }}"""

    assert extract("Ann").value == ANN
    assert list(extract.stream("Ann"))[-1].thinking == "Ann, 31."
    assert [one.value for one in extract.map(["a", "b"])] == [ANN, ANN]


def test_the_cap_holds_and_the_answer_is_whole() -> None:
    wordy = ScriptedModel("<think>" + "word " * 50)
    value = sg.generate(wordy, "?", sg.reasoning(Literal["yes", "no"], max_tokens=12), seed=0)
    assert value.thinking == "word word wo" and value.value in ("yes", "no")


def test_types_of_equal_form_are_distinguished() -> None:
    assert type(sg.generate(ScriptedModel(TEXT), "?", sg.reasoning(Person)).value) is Person
    assert type(sg.generate(ScriptedModel(TEXT), "?", sg.reasoning(Other)).value) is Other


def test_truncated_and_refused_texts() -> None:
    with pytest.raises(Truncated) as caught:
        sg.generate(ScriptedModel(TEXT), "?", sg.reasoning(Person), max_tokens=40, temperature=0)
    assert caught.value.result.partial.thinking == "Ann, 31."
    with pytest.raises(OutputInvalid, match="does not end"):
        output_type(sg.reasoning(Person)).validate("<think>hm")


def test_descriptions_say_how_to_answer() -> None:
    model = ScriptedModel(TEXT)
    sg.generate(model, "Who?", sg.reasoning(Person), describe=True)
    assert "First reason after <think>, write </think>, then answer." in model.prompts[0]
    assert "age" in model.prompts[0]


def test_values_and_constraints_can_be_pickled() -> None:
    for one in (sg.Thinking("a", ANN), sg.reasoning(Person, max_tokens=3), sg.reasoning(Person)):
        assert pickle.loads(pickle.dumps(one)) == one


def test_a_server_cannot_keep_a_cap() -> None:
    model = sg.remote.RemoteModel.__new__(sg.remote.RemoteModel)
    for call in (sg.generate, sg.stream):
        with pytest.raises(OptionError, match="cannot count the tokens of reasoning"):
            call(model, "?", sg.reasoning(Person, max_tokens=3))


class Step(BaseModel):
    name: str


@pytest.mark.parametrize(
    "make",
    [
        lambda: Annotated[int, sg.ReasoningOptions(max_tokens=3)],
        lambda: list[Annotated[sg.Thinking[int], sg.ReasoningOptions(max_tokens=3)]],
        lambda: Annotated[bool, sg.ReasoningOptions()],
        lambda: Annotated[sg.Thinking[int], sg.ReasoningOptions()] | None,
        lambda: Annotated[Step, sg.ReasoningOptions()],
    ],
)
def test_options_without_effect_are_refused(make: Any) -> None:
    with pytest.raises(TypeNotSupported, match="have no effect") as caught:
        output_type(make())
    assert "whole output type" in str(caught.value.hint)


def test_optional_is_a_truth_value() -> None:
    with pytest.raises(OptionError, match="optional is 'yes'"):
        sg.reasoning(int, optional="yes")  # type: ignore[arg-type]


def test_thinking_alone_is_of_text() -> None:
    value = sg.generate(ScriptedModel("<think>a</think>b"), "?", sg.Thinking)
    assert value == sg.Thinking("a", "b")


def test_models_do_not_read_the_docstring() -> None:
    shown = output_type(list[sg.Thinking[Step]])
    assert "annotation" not in shown.description + str(shown.schema)
