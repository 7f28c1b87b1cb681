"""Validators are user code: after any exception of theirs, the text is kept and other items are not lost."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, ValidationError, field_validator

import structgen as sg
from structgen.errors import OutputInvalid
from tests.oracles.scripted_model import ScriptedModel


class Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Priced(BaseModel):
    item: str

    @field_validator("item")
    @classmethod
    def has_price(cls, item: str) -> str:
        {"tea": 1}[item]
        return item


@pytest.mark.parametrize(
    "error", [KeyError("k"), TypeError("t"), ZeroDivisionError("z"), StopIteration("s"), Odd()]
)
def test_any_exception_is_an_invalid_output_with_it_as_the_cause(error: Exception) -> None:
    def refuse(value: int) -> int:
        raise error

    kind: Any = Annotated[int, AfterValidator(refuse)]
    with pytest.raises(OutputInvalid, match=f"raised {type(error).__name__}") as caught:
        sg.generate(ScriptedModel("5"), "?", kind)
    assert caught.value.__cause__ is error and caught.value.text == "5"
    assert "ValueError or AssertionError" in str(caught.value.hint)


def test_other_items_are_not_lost() -> None:
    model = ScriptedModel(lambda prompt: f'{{"item": "{prompt}"}}')

    @sg.prompt(model, describe=False)
    def ask(text: str) -> Priced:
        """{{ text }}"""

    good, bad, again = ask.map(["tea", "gold", "tea"], return_errors=True)
    assert good == again == Priced.model_construct(item="tea")
    assert isinstance(bad, OutputInvalid) and isinstance(bad.__cause__, KeyError)


def test_streams_say_the_same() -> None:
    with pytest.raises(OutputInvalid, match="raised KeyError"):
        list(sg.stream(ScriptedModel('{"item": "gold"}'), "?", Priced))
    seen = []
    with pytest.raises(OutputInvalid, match=r"item 1 of .* raised KeyError"):
        seen.extend(
            one.item
            for one in sg.stream_items(
                ScriptedModel('[{"item": "tea"}, {"item": "gold"}]'), "?", list[Priced]
            )
        )


def test_attempts_show_what_was_raised_and_keep_the_cause() -> None:
    answers = ['{"item": "gold"}', '{"item": "tea"}']
    model = ScriptedModel(lambda prompt: answers.pop(0))
    assert sg.generate(model, "?", Priced, attempts=2, describe=False) == Priced.model_construct(item="tea")
    assert "raised KeyError: 'gold'" in model.prompts[1][-1]["content"]
    with pytest.raises(OutputInvalid, match="no valid answer in 2 attempts") as caught:
        sg.generate(ScriptedModel('{"item": "gold"}'), "?", Priced, attempts=2)
    assert isinstance(caught.value.__cause__, KeyError)

    def small(value: int) -> int:
        assert value < 3
        return value

    with pytest.raises(OutputInvalid, match="no valid answer in 2 attempts") as caught:
        sg.generate(ScriptedModel("5"), "?", Annotated[int, AfterValidator(small)], attempts=2)  # type: ignore[call-overload]
    assert isinstance(caught.value.__cause__, ValidationError)


def test_tools_report_it_to_the_model() -> None:
    def buy(what: Priced) -> int:
        """Buy."""
        return 1

    text = '<tool_call>\n{"name": "buy", "arguments": {"what": {"item": "gold"}}}\n</tool_call>'
    for run in (sg.run_tools, lambda *given: asyncio.run(sg.tools.run_tools_async(*given))):
        answers = [text, "Done."]
        done = run(ScriptedModel(lambda prompt: answers.pop(0)), "?", [buy])  # noqa: B023
        assert "raised KeyError: 'gold'" in done.results[0].content
