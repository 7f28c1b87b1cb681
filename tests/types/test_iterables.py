"""Iterable types give lists, which may be read many times."""

from __future__ import annotations

import collections.abc as abc
import typing
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from structgen.errors import TypeNotSupported
from structgen.types import output_type


class User(BaseModel):
    name: str


@pytest.mark.parametrize(
    "annotation",
    [
        typing.Iterable[int],
        typing.Sequence[int],
        abc.Iterable[int],
        abc.Sequence[int],
        abc.MutableSequence[int],
        abc.Collection[int],
        abc.Reversible[int],
        abc.Container[int],
        abc.Iterable,
        Annotated[abc.Iterable[int], "said"],
        abc.Iterable[int] | None,
    ],
)
def test_a_list_comes_back(annotation: Any) -> None:
    value = output_type(annotation).validate("[1, 2]")
    assert type(value) is list
    assert list(value) == list(value) == [1, 2]


def test_inside_other_types() -> None:
    (users,) = output_type(dict[str, abc.Iterable[User]]).validate('{"a": [{"name": "Ann"}]}').values()
    assert users == [User(name="Ann")]
    assert output_type(tuple[int, abc.Collection[int]]).validate("[1, [2]]") == (1, [2])
    limited = Annotated[abc.Iterable[int], Field(max_length=2)]
    assert (
        output_type(limited).constraint == output_type(Annotated[list[int], Field(max_length=2)]).constraint
    )


def test_types_without_iterables_stay_as_they_are() -> None:
    assert output_type(list[int]) is output_type(list[int])
    assert output_type(dict[str, User]).name == "dict[str, tests.types.test_iterables.User]"


@pytest.mark.parametrize(
    "annotation",
    [
        abc.Iterator[User],
        abc.Generator[User, None, None],
        abc.AsyncIterator[User],
        abc.AsyncIterable[User],
        typing.Iterator[User],
        list[abc.Iterator[User]],
    ],
)
def test_types_that_can_be_read_only_once_are_refused(annotation: Any) -> None:
    with pytest.raises(TypeNotSupported, match="can be read only once") as caught:
        output_type(annotation)
    assert "list[User]" in str(caught.value) and "stream" in str(caught.value)
