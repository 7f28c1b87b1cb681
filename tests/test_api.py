"""`generate`, `run`, `stream`: from a prompt to a value, and what happens without one."""

from __future__ import annotations

import gc
import math
import subprocess
import sys
import weakref
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, Field

import structgen as sg
from structgen.api import with_description
from structgen.errors import (
    DeadEnd,
    GenerationError,
    LimitExceeded,
    OptionError,
    OutputInvalid,
    PromptError,
    Truncated,
)
from structgen.types import output_type
from tests.oracles.scripted_model import ScriptedModel


class Person(BaseModel):
    name: str = Field(description="The full name.")
    age: int = Field(ge=0, le=150)


ANN = '{"name": "Ann", "age": 31}'


def test_generate_gives_a_validated_object() -> None:
    assert sg.generate(ScriptedModel(ANN), "Who?", Person) == Person(name="Ann", age=31)


def test_the_constraint_holds_against_the_model() -> None:
    value = sg.generate(ScriptedModel('{"age": 31, "name": "Ann"}'), "Who?", Person, max_tokens=64,
                        close_within_budget=True)  # fmt: skip
    assert isinstance(value, Person)


def test_the_tour_s_choice() -> None:
    kind = Literal["a", "b"] | None
    assert sg.generate(ScriptedModel("b"), "Pick one", kind, seed=7) == "b"
    assert sg.generate(ScriptedModel("null"), "Pick one", kind) is None


def test_free_text_and_constraints_as_types() -> None:
    assert sg.generate(ScriptedModel("Hi é!"), "Say hi") == "Hi é!"
    assert sg.generate(ScriptedModel("yes"), "?", sg.choice(["yes", "no"])) == "yes"
    assert sg.generate(ScriptedModel("AB-12"), "?", sg.regex(r"[A-Z]+-\d+")) == "AB-12"
    short = sg.regex(r"[a-z]+") & sg.regex(r".{3}") | sg.choice(["none"])
    assert sg.generate(ScriptedModel("abcd"), "?", short) == "abc"
    assert sg.generate(ScriptedModel('{"a":1}'), "?", sg.json_schema({"type": "object"})) == {"a": 1}
    assert (
        sg.generate(ScriptedModel("yes 1"), "?", sg.choice(["yes", "no"]) + " " + sg.choice(["1"])) == "yes 1"
    )


def test_run_reports_everything() -> None:
    result = sg.run(ScriptedModel(ANN), "Who?", Person)
    assert result.value == Person(name="Ann", age=31)
    assert (result.text, result.finish, result.error) == (ANN, "complete", None)
    assert bytes(result.tokens).decode() == ANN
    assert result.logprob is not None and result.logprob < 0
    assert result.log_weight is not None and result.logprob <= result.log_weight <= 0
    assert result.timing.total > 0 and result.timing.tokens_per_second(len(result.tokens)) > 0
    assert "complete" in repr(result) and "Ann" in repr(result)


TALKATIVE = '{"name": "Ann of a long and noble line", "age": 31}'


def test_a_cut_off_text_is_never_a_value() -> None:
    model = ScriptedModel(TALKATIVE)
    result = sg.run(model, "Who?", Person, max_tokens=24)
    assert result.finish == "length" and isinstance(result.error, Truncated)
    assert result.partial.name == "Ann of a long " and result.partial.age is None
    with pytest.raises(Truncated, match="cut off after 24 tokens") as caught:
        sg.generate(model, "Who?", Person, max_tokens=24)
    assert caught.value.text == TALKATIVE[:24]
    assert caught.value.result.finish == "length"
    with pytest.raises(Truncated):  # "31" would be a valid int, but not the one that was meant
        sg.generate(ScriptedModel("3141"), "?", int, max_tokens=2)
    assert sg.generate(ScriptedModel("Hello"), "?", str, max_tokens=4) == "Hell"


class Uncalled(ScriptedModel):
    """A model that must not be called."""

    def start(self, prompts: Any) -> Any:
        raise AssertionError("the model was called")


def test_a_budget_that_no_value_fits_is_reported_before_the_model_is_called() -> None:
    for options in ({}, {"close_within_budget": True}):
        result = sg.run(Uncalled(ANN), "Who?", Person, max_tokens=12, **options)
        assert result.finish == "failed" and result.tokens == []
        with pytest.raises(LimitExceeded, match="takes 22 tokens, and 12 are left for it") as caught:
            sg.generate(Uncalled(ANN), "Who?", Person, max_tokens=12, **options)
        assert caught.value.limit == "max_tokens" and "Raise max_tokens: that text takes 22" in str(
            caught.value
        )
    required = {"type": "object", "required": [f"key{index}" for index in range(100)]}
    with pytest.raises(LimitExceeded, match="max_tokens"):
        sg.generate(Uncalled("{}"), "?", sg.json_schema(required))
    with pytest.raises(LimitExceeded, match="takes 22 tokens, and 21"):
        sg.generate(Uncalled(ANN), "?", Person, max_tokens=21)
    assert sg.generate(ScriptedModel('{"name": "", "age": 7}'), "?", Person, max_tokens=22).age == 7


def test_closing_within_the_budget() -> None:
    value = sg.generate(
        ScriptedModel('{"name": "' + "x" * 99), "?", Person, max_tokens=40, close_within_budget=True
    )
    assert value.name.startswith("xxx") and value.age == 0
    with pytest.raises(LimitExceeded, match="takes 22 tokens, and 5 are left for it"):
        sg.generate(ScriptedModel(ANN), "?", Person, max_tokens=5, close_within_budget=True)


def test_python_validators_refuse_with_the_text() -> None:
    def small(value: int) -> int:
        if value > 9:
            raise ValueError("too large")
        return value

    result = sg.run(ScriptedModel("31"), "?", Annotated[int, AfterValidator(small)])
    assert isinstance(result.error, OutputInvalid) and result.finish == "complete"
    assert result.error.text == "31" and result.error.result is result
    with pytest.raises(OutputInvalid, match="too large"):
        _ = result.value


def test_refused_values_do_not_stay_in_memory() -> None:
    def never(value: int) -> int:
        raise ValueError("never")

    def draw() -> weakref.ref[Any]:
        model = ScriptedModel("3")
        result = sg.run(model, "?", Annotated[int, AfterValidator(never)])
        assert isinstance(result.error, OutputInvalid)
        return weakref.ref(model)

    drawn = draw()
    gc.collect()
    assert drawn() is None


def test_weights_are_exact_unless_declined() -> None:
    exact = sg.run(ScriptedModel("b"), "?", Literal["a", "b"])
    z = (1.0 + 1e-4) / (1.0 + 256e-4)
    assert exact.log_weight == pytest.approx(math.log(z) + math.log(1.0 / (1.0 + 256e-4)), abs=1e-6)
    fast = sg.run(ScriptedModel("b"), "?", Literal["a", "b"], exact_weight=False)
    assert fast.log_weight is None and fast.value == "b"


def test_stream_grows_to_the_validated_value() -> None:
    seen = list(sg.stream(ScriptedModel(ANN), "Who?", Person))
    assert seen[-1] == Person(name="Ann", age=31)
    names = [partial.name for partial in seen]
    assert names == sorted(names, key=lambda name: len(name or ""))
    assert "A" in names and "An" in names
    assert all(isinstance(partial, Person) for partial in seen)
    assert list(sg.stream(ScriptedModel("abc"), "?", str)) == ["a", "ab", "abc", "abc"]
    assert list(sg.stream(ScriptedModel("b"), "?", Literal["a", "b"])) == ["b"]


def test_a_truncated_stream_ends_with_the_error() -> None:
    seen = []

    def watch() -> None:
        for partial in sg.stream(ScriptedModel(TALKATIVE), "?", Person, max_tokens=24):
            seen.append(partial.name)

    with pytest.raises(Truncated):
        watch()
    assert seen[-1] == "Ann of a long "


def test_cancelling() -> None:
    result = sg.run(ScriptedModel(ANN), "?", Person, cancel=lambda: True)
    assert result.finish == "cancelled"
    with pytest.raises(GenerationError, match="cancelled"):
        _ = result.value


def test_describe_reaches_the_prompt() -> None:
    model = ScriptedModel(ANN)
    sg.generate(model, "Who?", Person, describe=True)
    assert model.prompts[-1].startswith("Answer with JSON") and model.prompts[-1].endswith("\n\nWho?")
    assert "The full name." in model.prompts[-1]
    sg.generate(model, [{"role": "user", "content": "Who?"}], Person, describe=True)
    assert "The full name." in model.prompts[-1][-1]["content"]
    sg.generate(
        model, [{"role": "user", "content": [{"type": "text", "text": "Who?"}]}], Person, describe=True
    )
    assert [part["type"] for part in model.prompts[-1][-1]["content"]] == ["text", "text"]
    for messages in ([], [{"role": "user"}]):
        with pytest.raises(PromptError, match="last message has no content"):
            sg.generate(model, messages, Person, describe=True)
    sg.generate(model, "Who?", Person, describe=False)
    assert model.prompts[-1] == "Who?"


def test_fields_of_one_object_are_described_by_default() -> None:
    class Pet(BaseModel):
        kind: Literal["pet"]

    @dataclass
    class Data:
        name: str

    model = ScriptedModel("")

    def is_described(output: Any, prompt: Any = "Who?", describe: bool | None = None) -> bool:
        return "Answer with JSON" in str(with_description(model, prompt, output_type(output), describe))

    for one in (Person, list[Person], Person | None, Data, list[Data | None], Annotated[Person, "said"]):
        assert is_described(one), one
    # A choice of several objects, types without fields, labels and constraints are not.
    for other in (Person | Pet, list[Person | Pet], dict[str, int], list[int], int, bool, str):
        assert not is_described(other), other
        assert not is_described(sg.json_schema(Person.model_json_schema()))
    question = {"role": "user", "content": "Who?"}
    assert is_described(Person, [{"role": "system", "content": "Be brief."}, question])
    assert not is_described(Person, [question, {"role": "assistant", "content": ANN}, question])
    assert is_described(Person | Pet, describe=True) and not is_described(Person, describe=False)
    answering = ScriptedModel(ANN)
    assert (
        list(sg.stream(answering, "Who?", Person))[-1].age == sg.generate(answering, "Who?", Person).age == 31
    )
    assert all(str(prompt).startswith("Answer with JSON") for prompt in answering.prompts)


def test_bad_options_are_named() -> None:
    with pytest.raises(OptionError, match="temprature"):
        sg.generate(ScriptedModel("x"), "?", str, temprature=1)


def test_an_argument_that_is_not_a_model_is_reported() -> None:
    with pytest.raises(OptionError, match="is a str, not a model"):
        sg.generate("Who?", Person)  # type: ignore[arg-type]


def test_text_nested_too_deeply_for_pydantic_is_not_a_crash() -> None:
    text = "[" * 900 + "]" * 900
    result = sg.run(ScriptedModel(text), "?", Any, max_tokens=2000, exact_weight=False)
    assert result.text == text and isinstance(result.error, OutputInvalid)
    assert result.partial is not None


def test_a_model_without_mass_is_a_dead_end() -> None:
    class Silent(ScriptedModel):
        def _logits(self, tokens, prompt):  # type: ignore[no-untyped-def]
            logits = super()._logits(tokens, prompt)
            logits[[ord("b"), ord("c")]] = -math.inf
            return logits

    with pytest.raises(DeadEnd, match="no token continues"):
        sg.generate(Silent("b"), "?", sg.choice(["b", "c"]))


def test_importing_structgen_is_quick_and_loads_nothing() -> None:
    code = (
        "import sys, time; start = time.process_time(); import structgen; "
        "spent = time.process_time() - start; "
        "print(spent, [m for m in ('torch', 'numpy', 'pydantic', 'transformers') if m in sys.modules])"
    )
    reported = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split(" ", 1)
    assert float(reported[0]) < 0.5  # of CPU time; 0.01 is usual
    assert reported[1].strip() == "[]"


def test_every_name_can_be_imported() -> None:
    for name in sg.__all__:
        assert getattr(sg, name) is not None
    assert set(sg.__all__) <= set(dir(sg))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sg.nothing
