"""Types that cannot be output types: the error names the part at fault, with its path."""

from __future__ import annotations

import datetime as dt
import enum
import functools
from collections.abc import Callable
from typing import Annotated, Any, ForwardRef, Union

import pytest
from pydantic import BaseModel, Field

from structgen.errors import TypeNotSupported
from structgen.tools import tools
from structgen.types import output_type

from .zoo import send


class Opaque:
    pass


class Holder(BaseModel):
    class Inner(BaseModel):
        callbacks: dict[str, Callable[[], int]]

    inner: list[Inner]


@pytest.mark.parametrize(
    ("annotation", "path"),
    [
        (Opaque, "Opaque"),
        (list[Opaque], "list"),
        (Holder, "Holder.inner[0].callbacks[1]"),
        (memoryview, "memoryview"),
        (dict[str, tuple[int, Callable[[], int]]], "[1][1]"),
    ],
)
def test_a_type_without_a_schema_is_named(annotation: Any, path: str) -> None:
    with pytest.raises(TypeNotSupported, match="has no JSON Schema") as caught:
        output_type(annotation)
    assert caught.value.where is not None and path in caught.value.where
    assert "pydantic" in str(caught.value)


def with_opaque(count: int, thing: list[Opaque]) -> None: ...
def with_callable(*things: Callable[[], int]) -> None: ...


@pytest.mark.parametrize(
    ("function", "where", "what"),
    [
        (with_opaque, "the parameter thing of with_opaque", "Opaque has no JSON Schema"),
        (with_callable, "the parameter things of with_callable", "has no JSON Schema"),
        (
            functools.partial(with_opaque, 3),
            "the parameter thing of with_opaque",
            "Opaque has no JSON Schema",
        ),
    ],
)
@pytest.mark.parametrize("use", [output_type, lambda function: tools([function])])
def test_a_parameter_without_a_schema_is_named(
    function: Any, where: str, what: str, use: Callable[[Any], Any]
) -> None:
    with pytest.raises(TypeNotSupported) as caught:
        use(function)
    assert caught.value.where == where
    assert what in caught.value.message


def test_undefined_names() -> None:
    with pytest.raises(TypeNotSupported, match="the name 'Nowhere' is not defined") as caught:
        output_type(list["Nowhere"])  # type: ignore[name-defined]  # noqa: F821
    assert "structgen.choice()" in str(caught.value)


def test_texts_are_not_evaluated() -> None:
    for text in ("int", "[].append(1)", "raise_me()", r"20[12]\d"):
        for annotation in (text, ForwardRef(text) if text != r"20[12]\d" else text):
            with pytest.raises(TypeNotSupported, match="is a text, not a type") as caught:
                output_type(annotation)
            assert "structgen.regex()" in str(caught.value)


def test_what_pydantic_says_at_other_times_and_in_other_ways() -> None:
    class Strange(enum.Enum):
        ANY = object()

    with pytest.raises(TypeNotSupported, match="Strange has no JSON Schema: Unable to serialize"):
        output_type(Strange)

    class Needy:
        @classmethod
        def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
            raise ImportError("needs-a-package is not installed")

    with pytest.raises(TypeNotSupported, match="needs-a-package is not installed"):
        output_type(list[Needy])


def test_limits_that_contradict_each_other_name_the_type() -> None:
    kind = output_type(Annotated[str, Field(min_length=5, max_length=2)])
    assert kind.constraint.describe() == "the type Annotated[str, ...]"
    assert output_type(dt.date).constraint.describe() == "the type date"


@pytest.mark.parametrize("value", [{"type": "object"}, ["a", "b"], 3, b"x"])
def test_values_are_not_types(value: Any) -> None:
    with pytest.raises(TypeNotSupported, match="is a value, not a type"):
        output_type(value)


def test_a_function_inside_a_type_is_refused_because_validation_would_call_it() -> None:
    def delete(path: str) -> str:
        raise AssertionError("called")

    class Job(BaseModel):
        action: delete  # type: ignore[valid-type]

    for annotation, path in ((list[delete], "[0]"), (Union[delete, send], "[0]"), (Job, "Job.action")):  # type: ignore[valid-type]  # noqa: UP007
        with pytest.raises(TypeNotSupported, match="delete.*can only be the whole output type") as caught:
            output_type(annotation)
        assert path in str(caught.value.where)
