"""Under ``from __future__ import annotations`` an error names the undefined name, and how to fix it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

import structgen as sg
from structgen.errors import PromptError, TypeNotSupported
from structgen.types import output_type
from tests.oracles.scripted_model import ScriptedModel

if TYPE_CHECKING:
    from decimal import Decimal as Money

MODEL = ScriptedModel("")


class Later(BaseModel):
    name: NotDefinedYet  # type: ignore[name-defined]  # noqa: F821


class Billed(BaseModel):
    money: dict[str, Money] | None


def refused(annotation: Any) -> str:
    with pytest.raises(TypeNotSupported, match="not defined where the type is evaluated") as caught:
        output_type(annotation)
    return str(caught.value)


def test_a_forward_reference_that_is_never_defined() -> None:
    said = refused(list[Later])
    assert "'NotDefinedYet'" in said and "Later" in said and ".name" in said


def test_an_import_for_type_checkers() -> None:
    said = refused(Billed)
    assert "Billed.money" in said and "'Money'" in said and "TYPE_CHECKING" in said


def test_local_models_find_what_is_above_them_only() -> None:
    class Above(BaseModel):
        a: int

    class Fine(BaseModel):
        above: dict[str, list[Above]]

    class Broken(BaseModel):
        below: list[Below]

    class Below(BaseModel):
        a: int

    assert output_type(Fine).validate('{"above": {"x": [{"a": 1}]}}').above["x"] == [Above(a=1)]
    said = refused(Broken)
    assert "Broken.below" in said and "'Below'" in said and "above the line" in said


def test_local_records_do_not_see_local_names() -> None:
    class Inner(BaseModel):
        a: int

    @dataclass
    class Data:
        inner: list[Inner]

    class Typed(TypedDict):
        inner: Inner

    class Tuple(NamedTuple):
        inner: Inner

    for kind in (Data, Typed, Tuple):
        said = refused(dict[str, kind])  # type: ignore[valid-type]
        assert ".inner" in said and "'Inner'" in said and "out of the function" in said, said


def test_return_annotations_of_prompt_functions() -> None:
    class Local(BaseModel):
        a: int

    def nested() -> Any:
        @sg.prompt(MODEL)
        def ask(text: str) -> list[Local]:
            """{{ text }}"""

        return ask

    # Local is a name of the function around `nested`, which no one but the annotation's text mentions.
    assert nested().output.validate('[{"a": 1}]') == [Local(a=1)]

    with pytest.raises(PromptError, match="names Money, which is not defined") as caught:

        @sg.prompt(MODEL)
        def pay(text: str) -> list[Money]:
            """{{ text }}"""

    assert "TYPE_CHECKING" in str(caught.value)

    with pytest.raises(PromptError, match="names Locol, which is not defined"):

        @sg.prompt(MODEL)
        def spelt(text: str) -> dict[str, list[Locol]]:  # type: ignore[name-defined]  # noqa: F821
            """{{ text }}"""

    with pytest.raises(PromptError, match="cannot be read"):

        @sg.prompt(MODEL)
        def indexed(text: str) -> int[str]:  # type: ignore[type-arg]
            """{{ text }}"""


def test_parameters_of_local_types() -> None:
    class Local(BaseModel):
        a: int

    def tool(x: Local) -> int:
        return x.a

    assert sg.tools([tool]).tools[0].parameters["properties"]["x"] is not None
    assert output_type(tool).validate('{"x": {"a": 3}}')() == 3


def gone() -> Any:
    class Local(BaseModel):
        a: int

    def tool(x: Local) -> int:
        return x.a

    return tool


@pytest.mark.parametrize("use", [output_type, lambda function: sg.tools([function])])
def test_parameters_whose_types_are_gone(use: Any) -> None:
    with pytest.raises(
        TypeNotSupported, match="an annotation of tool uses Local, which is not defined"
    ) as caught:
        use(gone())
    assert "Inside a function" in str(caught.value.hint)
