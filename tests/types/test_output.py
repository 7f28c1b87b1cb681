"""Output types: values, labels, functions, errors; the schema against pydantic's own verdict."""

from __future__ import annotations

import enum
import functools
import json
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter
from typing_extensions import TypeAliasType

from structgen.errors import OutputInvalid, TypeNotSupported
from structgen.types import BoundCall, constraint_for_type, output_type, patterns
from structgen.types.labels import labels_of
from structgen.types.schemas import generating_schema

from .zoo import NAMES, ZOO, Colour, Level, Person, Tree, send


@pytest.mark.parametrize(("annotation", "good", "bad"), ZOO, ids=NAMES)
def test_texts_become_values(annotation: Any, good: list[tuple[str, Any]], bad: list[str]) -> None:
    kind = output_type(annotation)
    for text, value in good:
        made = kind.validate(text)
        assert made == value
        assert type(made) is type(value)


@pytest.mark.parametrize(("annotation", "good", "bad"), ZOO, ids=NAMES)
def test_schemas_agree_with_the_zoo(annotation: Any, good: list[tuple[str, Any]], bad: list[str]) -> None:
    if annotation is str or labels_of(annotation):
        return
    schema = generating_schema(TypeAdapter(annotation))
    formats = jsonschema.Draft202012Validator.FORMAT_CHECKER
    validator = jsonschema.Draft202012Validator(schema, format_checker=formats)
    is_text = schema.get("type") == "string"
    for text, _ in good:
        assert validator.is_valid(text if is_text else json.loads(text))
    for text in bad:
        try:
            value = text if is_text else json.loads(text)
        except ValueError:
            continue
        if annotation in (Person,) and list(value) == ["age", "name"]:
            continue  # only the order is wrong, which a schema does not constrain
        assert not validator.is_valid(value), text


PATTERNS = {
    "date": (patterns.date(), "datetime.date"),
    "datetime": (patterns.date_time(None), "datetime.datetime"),
    "aware": (patterns.date_time("aware"), "pydantic.AwareDatetime"),
    "naive": (patterns.date_time("naive"), "pydantic.NaiveDatetime"),
    "time": (patterns.time(None), "datetime.time"),
    "duration": (patterns.DURATION, "datetime.timedelta"),
    "uuid": (patterns.uuid(None), "uuid.UUID"),
    "uuid4": (patterns.uuid(4), "pydantic.UUID4"),
    "uuid7": (patterns.uuid(7), "pydantic.UUID7"),
    "url": (patterns.url(None), "pydantic.AnyUrl"),
    "http": (patterns.url(["http", "https"]), "pydantic.HttpUrl"),
}


@pytest.mark.parametrize("name", PATTERNS)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_text_of_a_pattern_is_valid(name: str, data: st.DataObject) -> None:
    pattern, where = PATTERNS[name]
    module, _, attribute = where.rpartition(".")
    adapter = TypeAdapter(getattr(__import__(module), attribute))
    text = data.draw(st.from_regex(pattern.removesuffix("$") + r"\Z"))
    adapter.validate_json(json.dumps(text))


# -- labels


class Empty(enum.Enum):
    NOTHING = ""
    SOME = "some"


class Mixed(enum.Enum):
    PAIR = (1, 2)


class Bits(enum.Flag):
    A = 1
    B = 2


def test_finite_types_are_labels() -> None:
    assert labels_of(Literal["a", "b"] | None) == {"a": "a", "b": "b", "null": None}
    assert labels_of(Colour) == {"red": Colour.RED, "blue": Colour.BLUE}
    assert labels_of(Level | bool) == {"1": Level.LOW, "3": Level.HIGH, "true": True, "false": False}
    assert labels_of(Literal[Colour.RED]) == {"red": Colour.RED}


@pytest.mark.parametrize("annotation", [str, int, list[bool], Literal["a"] | int, Empty, Mixed, Bits, Person])
def test_other_types_are_not(annotation: Any) -> None:
    assert labels_of(annotation) is None


def test_labels_that_collide_are_json() -> None:
    assert labels_of(Literal["null"] | None) is None
    assert labels_of(Literal["1", 1]) is None
    kind = output_type(Literal["null"] | None)
    assert kind.validate('"null"') == "null"
    assert kind.validate("null") is None


# -- functions


def test_a_function_gives_a_call() -> None:
    call = output_type(send).validate('{"to":"Ann","urgent":true}')
    assert isinstance(call, BoundCall)
    assert call.arguments == {"to": "Ann", "urgent": True}
    assert call() == "Ann 1 True"
    assert repr(call) == "<call send(to='Ann', urgent=True)>"


def test_every_kind_of_parameter() -> None:
    def everything(a: int, /, b: str = "b", *c: int, _d: float, copy: bool = False, **e: int) -> Any:
        return a, b, c, _d, copy, e

    call = output_type(everything).validate('{"a":1,"c":[2,3],"_d":4,"e":{"x":5}}')
    assert call() == (1, "b", (2, 3), 4.0, False, {"x": 5})
    assert output_type(everything).validate('{"a":1,"b":"z","_d":4}')() == (1, "z", (), 4.0, False, {})


def test_partials_and_methods_are_functions() -> None:
    assert output_type(functools.partial(send, "Ann")).validate('{"copies":2}')() == "Ann 2 False"
    assert output_type("a,b".split).validate('{"sep":","}')() == ["a", "b"]


def test_a_default_that_json_cannot_represent_is_ignored() -> None:
    def later(what: int, marker: object = object()) -> int:
        return what

    assert output_type(later).validate('{"what": 1}')() == 1


def test_arguments_are_validated() -> None:
    with pytest.raises(OutputInvalid, match="copies"):
        output_type(send).validate('{"to":"a","copies":10}')


def test_a_function_that_cannot_be_read() -> None:
    def unknown(a: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821, UP037
        """Has an annotation that does not resolve."""

    with pytest.raises(TypeNotSupported, match="unknown.*Nowhere"):
        output_type(unknown)


# -- values and constraints

Nested = TypeAliasType("Nested", "list[Nested] | int")


def test_python_validators_run_at_the_end() -> None:
    def even(value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value

    with pytest.raises(OutputInvalid, match="must be even") as caught:
        output_type(Annotated[int, AfterValidator(even)]).validate("3")
    assert caught.value.text == "3"


def test_constraints_combine_with_types() -> None:
    assert constraint_for_type(Literal["a"]) == constraint_for_type(Literal["a"])
    joined = constraint_for_type(Literal["a"]) + " and " + constraint_for_type(bool)
    assert joined.regular() is not None
    kind = output_type(joined)
    assert kind.validate("a and true") == "a and true"


def test_types_are_kept() -> None:
    assert output_type(Person) is output_type(Person)
    assert output_type(output_type(Person)) is output_type(Person)


# -- partial views


def test_partial_objects_have_the_type_s_shape() -> None:
    partial = output_type(Person).partial
    assert partial("") is None
    started = partial('{"name": "An')
    assert isinstance(started, Person)
    assert (started.name, started.age, started.tags) == ("An", None, [])
    nested = partial('{"name": "Ann", "age": 31, "address": {"street": "Hig')
    assert nested.age == 31 and nested.address.street == "Hig" and nested.address.number is None
    deep = output_type(Tree).partial('{"label":"a","children":[{"label":"b"},{"lab')
    assert [child.label for child in deep.children] == ["b", None]


def test_partial_leaves_wait_until_they_are_whole() -> None:
    class Event(BaseModel):
        day: Colour
        at: float

    partial = output_type(Event).partial
    assert partial('{"day": "re').day is None
    assert partial('{"day": "red"').day is Colour.RED
    assert partial('{"day": "red", "at": 1.').at is None


@pytest.mark.parametrize(("annotation", "good", "bad"), ZOO, ids=NAMES)
def test_partial_views_never_fail(annotation: Any, good: list[tuple[str, Any]], bad: list[str]) -> None:
    kind = output_type(annotation)
    for text, _ in good:
        growing = kind.growing()
        for end in range(len(text) + 1):
            assert repr(growing(text[:end])) == repr(kind.partial(text[:end]))
        assert repr(growing(text[:2])) == repr(kind.partial(text[:2]))


# -- descriptions


def test_a_description_states_fields_and_limits() -> None:
    description = output_type(Person).description
    assert "- name (string): The full name. (length at least 1)" in description
    assert "- age (integer): (at least 0, at most 150)" in description
    assert "  - street (string)" in description
    assert "optional" in description


def test_recursive_types_are_described_once() -> None:
    description = output_type(Tree).description
    assert description.count("- label") == 1


def test_a_recursive_alias_is_described_by_its_name() -> None:
    assert "a list of Nested" in output_type(Nested).description


def test_choices_are_listed() -> None:
    assert output_type(Colour).description == "Answer with one of: red, blue."
    assert "one of" in output_type(Annotated[list[Colour], Field()]).description
