"""Partial values: correct at every prefix, in the classes of the whole value, with complete parts validated once."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import uuid
from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, model_validator

from structgen.types import output_type

from .view_zoo import VIEWS
from .zoo import ZOO, Cat, Dog, Person, send

JSON_TEXTS = [
    *VIEWS,
    *(
        (annotation, json.dumps(json.loads(text)))
        for annotation, good, _ in ZOO
        if output_type(annotation).is_json
        for text, _ in good
    ),
]
IDS = [f"{place}-{text[:40]}" for place, (_, text) in enumerate(JSON_TEXTS)]


def members(value: Any) -> Iterator[tuple[str, Any]]:
    """Return the named members of a value; those of sets have no names."""
    if isinstance(value, BaseModel):
        if "root" in type(value).model_fields:
            yield from members(value.root)
        else:
            yield from ((name, getattr(value, name)) for name in value.model_fields_set)
    elif dataclasses.is_dataclass(value):
        yield from ((one.name, getattr(value, one.name)) for one in dataclasses.fields(value))
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from zip(value._fields, value, strict=True)
    elif isinstance(value, dict):
        yield from ((str(key), item) for key, item in value.items())
    elif isinstance(value, (list, tuple)):
        yield from ((str(place), item) for place, item in enumerate(value))


def parts(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, value
    for name, inner in members(value):
        yield from parts(inner, (*path, name))


def at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = dict(members(value))[name]
    return value


def same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and left == right and repr(left) == repr(right)


@pytest.mark.parametrize(("annotation", "text"), JSON_TEXTS, ids=IDS)
def test_the_view_of_a_whole_text_is_the_validated_value(annotation: Any, text: str) -> None:
    kind = output_type(annotation)
    value = kind.validate(text)
    assert same(kind.growing()(text, whole=True), value)


@pytest.mark.parametrize(("annotation", "text"), JSON_TEXTS, ids=IDS)
def test_finished_parts_are_those_of_the_validated_value(annotation: Any, text: str) -> None:
    """At every prefix: the view does not depend on the steps to it, and what is finished is what it will be."""
    kind = output_type(annotation)
    value = kind.validate(text)
    growing = kind.growing()
    finished: set[tuple[str, ...]] = set()
    for end in range(len(text) + 1):
        view = growing(text[:end])
        assert repr(view) == repr(kind.partial(text[:end]))
        for path, whole in parts(value):
            if growing.is_complete(path):
                finished.add(path)
                try:
                    part = at(view, path)
                except KeyError:  # left to its default
                    continue
                assert same(part, whole), (text[:end], path)
            else:
                assert path not in finished
    growing(text, whole=True)
    assert growing.is_complete()


def test_that_holds_for_at_least_sixty_types() -> None:
    assert len({repr(annotation) for annotation, _ in JSON_TEXTS}) >= 60


@pytest.mark.parametrize(
    ("annotation", "prefix", "shown"),
    [
        (Person, '{"name": "An', {"name": "An", "age": None, "address": None, "tags": []}),
        (Person, '{"name": "Ann", "age": 3', {"name": "Ann", "age": None, "address": None, "tags": []}),
        (Person, '{"name": "Ann", "age": 3, "address": {"str', {"name": "Ann", "age": 3, "tags": []}),
    ],
)
def test_open_models_have_their_defaults_and_none(
    annotation: Any, prefix: str, shown: dict[str, Any]
) -> None:
    view = output_type(annotation).partial(prefix)
    assert type(view) is annotation
    assert {name: getattr(view, name) for name in shown} == shown


@pytest.mark.parametrize(
    "annotation", [list[Annotated[Cat | Dog, Field(discriminator="kind")]], list[Cat | Dog]]
)
def test_an_open_member_of_a_union_is_what_its_finished_members_fit(annotation: Any) -> None:
    view = output_type(annotation).partial('[{"kind": "dog", "go')
    assert type(view[0]) is Dog
    view = output_type(annotation).partial('[{"kind": "cat", "li')
    assert type(view[0]) is Cat and view[0].lives is None


class Left(BaseModel):
    child: Left | Right | None = None


class Right(BaseModel):
    child: Left | Right | None = None


def test_unions_inside_unions_do_not_multiply() -> None:
    kind = output_type(Left | Right)
    growing = kind.growing()
    text = '{"child": ' * 60
    for end in range(len(text)):
        growing(text[:end])
    assert max(len(frame.builders) for frame in growing._frames) <= 2


def test_an_id_stays_the_same_while_its_object_grows() -> None:
    class Task(BaseModel):
        id: uuid.UUID = Field(default_factory=uuid.uuid4)
        name: str

    growing = output_type(list[Task]).growing()
    first = growing('[{"name": "a')[0].id
    assert growing('[{"name": "ab')[0].id == first
    closed = growing('[{"name": "ab"}, ')[0].id
    assert growing('[{"name": "ab"}, {"name": "b"')[0].id == closed


def test_validators_that_refuse_or_fail_do_not_stop_a_view() -> None:
    def fail(value: Any) -> Any:
        raise RuntimeError("always")

    class Refused(BaseModel):
        a: Annotated[int, AfterValidator(fail)]
        b: Annotated[list[int], AfterValidator(fail)]

        @model_validator(mode="after")
        def check(self) -> Refused:
            raise KeyError("never right")

    text = '{"a": 1, "b": [2, 3]}'
    growing = output_type(Refused).growing()
    for end in range(len(text) + 1):
        view = growing(text[:end])
    assert type(view) is Refused and (view.a, view.b) == (1, [2, 3])


def test_validators_that_change_values_are_seen_in_finished_parts() -> None:
    kind = output_type(list[Annotated[str, AfterValidator(str.strip)]])
    assert kind.partial('[" a ", " b ') == ["a", " b "]


def test_text_that_is_not_json_is_shown_as_far_as_it_is() -> None:
    assert output_type(list[int]).partial("[1, 2, oops") == [1, 2]


def test_arguments_of_functions_are_views_too() -> None:
    assert output_type(send).partial('{"to": "Ann", "copies": 2, "urg') == {"to": "Ann", "copies": 2}


def test_texts_are_shown_where_they_are_strings() -> None:
    assert output_type(str).partial("ab") == "ab"
    assert output_type(dt.date).partial("2024-0") is None
    assert output_type(bool).partial("tr") is None


class Entry(BaseModel):
    name: str
    days: list[dt.date]
    inner: Entry | None = None
    more: dict[str, Any] = {}


DATES = st.lists(st.dates(), max_size=3)
ENTRIES = st.recursive(
    st.builds(Entry, name=st.text(max_size=4), days=DATES),
    lambda inner: st.builds(
        Entry,
        name=st.text(max_size=4),
        days=DATES,
        inner=inner,
        more=st.dictionaries(st.text(max_size=2), st.lists(st.integers(0, 3), max_size=2), max_size=2),
    ),
    max_leaves=3,
)


@given(entries=st.lists(ENTRIES, max_size=3), seed=st.integers(1, 7))
def test_a_growing_view_is_the_view_of_the_text(entries: list[Entry], seed: int) -> None:
    kind = output_type(list[Entry])
    text = json.dumps([entry.model_dump(mode="json") for entry in entries], ensure_ascii=False)
    growing = kind.growing()
    for end in range(0, len(text) + seed, seed):
        assert growing(text[:end]) == kind.partial(text[:end])
    assert growing(text) == entries
    assert growing(text[:5]) == kind.partial(text[:5])  # back, and on
    assert growing(text) == entries


def test_complete_parts_are_created_once() -> None:
    growing = output_type(list[Entry]).growing()
    start = '[{"name": "a", "days": ["2024-01-01"]}, {"name": "b'
    first = growing(start)
    second = growing(start + 'c"')
    assert second[0] is first[0]
    assert (first[1].name, second[1].name) == ("b", "bc")


def test_raw_containers_that_are_open_may_be_changed() -> None:
    growing = output_type(Any).growing()
    growing("[[1], [2]").append(9)
    assert growing("[[1], [2], [3]") == [[1], [2], [3]]


def test_deep_nesting_needs_no_recursion() -> None:
    view = output_type(Any).partial("[" * 20_000)
    depth = 0
    while view:
        (view,), depth = view, depth + 1
    assert depth == 19_999
