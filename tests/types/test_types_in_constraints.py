"""Every public function that takes a constraint also takes a type, and refuses other values as `generate` does."""

from __future__ import annotations

import datetime
import enum
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

import structgen as sg
from structgen.diffusion import Canvas, Hole
from structgen.errors import CombinationError, OptionError, TypeNotSupported
from structgen.matcher import compile_constraint, open_matcher
from structgen.models.memory import DistributionModel
from structgen.models.repetition import RPG
from structgen.tools import run_tools
from tests.oracles.scripted_model import BYTES, ScriptedModel


class Person(BaseModel):
    name: str
    age: int


@dataclass
class Point:
    x: int
    y: int


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


def book(city: str, nights: int = 1) -> None:
    """Book a room."""


TYPES: dict[str, tuple[Any, str, str]] = {
    "int": (int, "42", "4x"),
    "bool": (bool, "true", "yes"),
    "model": (Person, '{"name": "Ann", "age": 31}', '{"name": "Ann"}'),
    "dataclass": (Point, '{"x": 1, "y": 2}', '{"x": 1}'),
    "enum": (Color, "red", "green"),
    "literal": (Literal["cat", "dog"], "cat", "cow"),
    "optional": (int | None, "null", "none"),
    "list": (list[int], "[1, 2]", "[1, x]"),
    "date": (datetime.date, "2024-02-29", "2023-02-29"),
    "bounded": (Annotated[int, Field(ge=10, le=12)], "11", "13"),
    "function": (book, '{"city": "Rome"}', '{"town": "Rome"}'),
    "constraint": (sg.regex("a+b"), "aab", "aa"),
    "schema": (sg.json_schema({"type": "integer"}), "7", "x"),
}
"""A type, a text of it, and a text that is not."""

COMBINATORS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "reasoning": (sg.reasoning, "<think>so</think>{}"),
    "repeat": (lambda kind: sg.repeat(kind, 2, 2, separator=";"), "{};{}"),
    "repeat_separator": (lambda kind: sg.repeat("-", 2, 2, separator=kind), "-{}-"),
    "optional": (sg.optional, "{}"),
    "dispatch": (lambda kind: sg.dispatch({"<call>": sg.regex("") + kind + "</call>"}), "so <call>{}</call>"),
    "dispatch_value": (lambda kind: sg.dispatch({"<call>": kind}, stop_after_first=True), "so <call>{}"),
    "tools_answer": (lambda kind: sg.tools([book], answer=kind), "{}"),
    "ltl_over": (lambda kind: sg.ltl.ltl_over({"a": kind, "b": "zz"}, "a"), "[{}, zz]"),
    "ltl_over_separator": (lambda kind: sg.ltl.ltl_over({"a": "x"}, "a & X a", separator=kind), "[x{}x]"),
    "ltl_over_open": (lambda kind: sg.ltl.ltl_over({"a": "x"}, "a", open=kind, max_items=1), "{}x]"),
    "ltl_over_close": (lambda kind: sg.ltl.ltl_over({"a": "x"}, "a", close=kind, max_items=1), "[x{}"),
    "or": (lambda kind: sg.regex("zz") | kind, "{}"),
    "or_reflected": (lambda kind: sg.types.constraint_for_type(kind | sg.regex("zz")), "{}"),
    "add": (lambda kind: sg.regex("z") + kind, "z{}"),
    "add_reflected": (lambda kind: kind + sg.regex("z"), "{}z"),
    "lark": (lambda kind: sg.lark('start: "z" @kind', constraints={"kind": kind}), "z{}"),
    "constraint_for_type": (sg.types.constraint_for_type, "{}"),
    "matcher": (lambda kind: sg.Matcher(kind, BYTES).constraint, "{}"),
    "open_matcher": (lambda kind: open_matcher(kind, BYTES).constraint, "{}"),
    "canvas": (lambda kind: Canvas(kind, BYTES, [Hole(3)]).constraint, "{}"),
    "rpg": (lambda kind: RPG(kind).constraint, "{}"),
}


def accepts(constraint: sg.Constraint, text: str) -> bool:
    return sg.Matcher(constraint, BYTES).explain(text).ok


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("entry", COMBINATORS)
def test_a_type_stands_for_the_texts_of_its_values(entry: str, kind: str) -> None:
    make, form = COMBINATORS[entry]
    annotation, right, wrong = TYPES[kind]
    constraint = make(annotation)
    assert accepts(constraint, form.replace("{}", right))
    assert not accepts(constraint, form.replace("{}", wrong))


@pytest.mark.parametrize("kind", ["bool", "enum", "literal", "date"])
def test_regular_types_take_part_in_what_is_regular(kind: str) -> None:
    annotation, right, wrong = TYPES[kind]
    for joined in (
        sg.regex(r"[\s\S]{1,20}") & annotation,
        annotation & sg.regex(r"[\s\S]{1,20}"),
        sg.forbid(annotation, "qq"),
        sg.monitored(annotation, []).constraint,
        sg.code("sql", within=annotation, monitors=[]).constraint,
    ):
        assert accepts(joined, right) and not accepts(joined, wrong)


def test_json_types_join_with_schemas() -> None:
    joined = sg.types.constraint_for_type(Person) & Person
    assert accepts(joined, TYPES["model"][1]) and not accepts(joined, TYPES["model"][2])
    with pytest.raises(CombinationError, match="not regular"):
        _ = sg.regex("[a-z]+") & Person


def test_typing_forms_on_the_left_of_a_union() -> None:
    whole = sg.types.constraint_for_type(Literal["cat"] | sg.regex("[0-9]+"))
    assert accepts(whole, "cat") and accepts(whole, "12") and not accepts(whole, "dog")


def test_functions_that_draw() -> None:
    model = DistributionModel(BYTES, lambda tokens: [1 / 257] * 257)
    short: Any = Annotated[int, Field(ge=10, le=12)]
    assert sg.inference.beam(model, "Ten or eleven?", short, width=2)[0].value in (10, 11, 12)
    assert sg.sample(model, "Ten or eleven?", short, n=1, sampler="local", seed=0).values[0] in (10, 11, 12)
    filled = sg.infill(model, "I am {{age}} years old.", age=short, prompt="Age?")
    assert filled.holes["age"] in ("10", "11", "12")
    bounded = sg.infill(model, '{"x": {{x}}, "y": 2}', within=Point, prompt="Fill.", max_tokens=4)
    assert json.loads(bounded.text)["y"] == 2


def test_the_answer_of_a_tool_loop() -> None:
    done = run_tools(ScriptedModel(TYPES["model"][1]), "Who?", [book], answer=Person)
    assert json.loads(done.messages[-1]["content"]) == {"name": "Ann", "age": 31}


def test_programs_of_types_are_shared() -> None:
    assert compile_constraint(Person, BYTES) is compile_constraint(
        sg.types.constraint_for_type(Person), BYTES
    )


def test_a_monitor_may_suggest_a_type() -> None:
    asked = sg.monitors.after(r"at ", lambda context: Color)
    assert sg.generate(ScriptedModel("at red"), "?", sg.monitored(sg.regex("at [a-z]+"), [asked])) == "at red"


def test_processors_of_other_libraries() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from structgen.integrations.transformers import ConstraintProcessor

    for annotation, _, _ in TYPES.values():
        ConstraintProcessor(annotation, BYTES)
    with pytest.raises(TypeNotSupported, match="is a value, not a type"):
        ConstraintProcessor(3, BYTES)


WRONG: dict[str, Any] = {
    "a number": 3,
    "a list": ["a", "b"],
    "an object": object(),
    "a vocabulary": BYTES,
    "a potential": sg.inference.potential(lambda text: True),
}
NOT_REFUSING = ("or", "or_reflected", "add", "add_reflected", "dispatch")
"""Operators: see below."""


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize("entry", [entry for entry in COMBINATORS if entry not in NOT_REFUSING])
def test_other_values_get_the_error_of_generate(entry: str, value: str) -> None:
    with pytest.raises(TypeNotSupported, match="is a value, not a type") as caught:
        COMBINATORS[entry][0](WRONG[value])
    if value != "a potential":  # `generate` refers these to `sample`
        with pytest.raises(TypeNotSupported) as of_generate:
            sg.generate(ScriptedModel(""), "?", WRONG[value])
        assert str(of_generate.value) == str(caught.value)


@pytest.mark.parametrize(
    "entry", ["reasoning", "repeat", "optional", "dispatch_value", "ltl_over", "lark", "matcher"]
)
def test_none_is_an_argument_that_is_missing(entry: str) -> None:
    with pytest.raises(TypeNotSupported, match="None is a value, not a type"):
        COMBINATORS[entry][0](None)


@pytest.mark.parametrize("entry", ["matcher", "constraint_for_type"])
def test_a_string_is_no_type_where_one_constraint_is_wanted(entry: str) -> None:
    with pytest.raises(TypeNotSupported, match="'text' is a text, not a type"):
        COMBINATORS[entry][0]("text")


def test_a_string_where_a_grammar_may_be_meant() -> None:
    for make in (
        lambda: Canvas("json", BYTES, [Hole(3)]),
        lambda: sg.infill(ScriptedModel(""), "{{a}}", within="json"),
    ):
        with pytest.raises(OptionError, match="sg.grammar\\('json'\\)"):
            make()


@pytest.mark.parametrize("value", [3, None, ["a"], object()])
def test_operators_leave_other_values_to_python(value: Any) -> None:
    for operate in (
        lambda: sg.regex("a") | value,
        lambda: sg.regex("a") + value,
        lambda: sg.regex("a") & value,
    ):
        with pytest.raises(TypeError, match="unsupported operand"):
            operate()
