"""Types whose partial values are difficult, each with a text: unions, aliases, generics, factories, other classes."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, Optional, TypeVar

import pydantic.dataclasses
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    RootModel,
    SecretStr,
    StringConstraints,
    Tag,
)
from typing_extensions import TypeAliasType, TypedDict

from .zoo import Address, Aliased, Box, Cat, Colour, Dog, Level, Movie, Open, Person, Pixel, Point, Row, Tree

T = TypeVar("T")
K = TypeVar("K")


class Counts(RootModel[dict[str, int]]):
    pass


class Names(RootModel[list[str]]):
    pass


class People(RootModel[list[Person]]):
    pass


class Title(RootModel[str]):
    pass


class Posted(BaseModel):
    """`model_post_init` needs fields that a partial object lacks."""

    a: int
    b: int
    _sum: int = PrivateAttr(0)

    def model_post_init(self, context: Any) -> None:
        self._sum = self.a + self.b


class Derived(BaseModel):
    first: str
    last: str
    full: str = Field(default_factory=lambda data: f"{data['first']} {data['last']}")


class Collected(BaseModel):
    items: list[int] = Field(default_factory=list)
    more: dict[str, int] = {}
    name: str = "none"


class Chosen(BaseModel):
    name: str = Field(validation_alias=AliasChoices("fullName", "name"))
    age: int


class ByBoth(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    first_name: str = Field(alias="firstName")


class Typed(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int] = Field(init=False)
    a: str


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    day: dt.date
    tags: set[str]
    pair: tuple[int, float]


class Lowered(BaseModel):
    model_config = ConfigDict(str_to_lower=True)
    word: str


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)
    a: int
    b: str = ""


@dataclasses.dataclass
class Limited:
    count: int = Field(default=3, ge=0)
    names: list[str] = Field(default_factory=list)  # noqa: RUF009
    label: str = dataclasses.field(default="x")


@dataclasses.dataclass
class Pair(Generic[K]):
    left: K
    right: K


@dataclasses.dataclass
class Chain:
    value: int
    next: Optional[Chain] = None  # noqa: UP045


@pydantic.dataclasses.dataclass(slots=True)
class Slotted:
    a: int
    b: list[str] = dataclasses.field(default_factory=list)


class Node(BaseModel, Generic[T]):
    value: T
    children: list[Node[T]] = []


class Couple(TypedDict, Generic[K]):
    left: K
    right: K


class Nested(TypedDict, total=False):
    person: Person
    movies: list[Movie]


class Shelf(NamedTuple):
    rows: list[Row]
    name: str = "top"


class Shape(enum.StrEnum):
    CIRCLE = "circle"
    SQUARE = "square"


class Circle(BaseModel):
    shape: Literal[Shape.CIRCLE]
    radius: float


class Square(BaseModel):
    shape: Literal[Shape.SQUARE]
    side: float


class Wide(BaseModel):
    a: int
    b: int = 0
    c: int = 0


class Narrow(BaseModel):
    a: int
    d: str


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]
JsonLike = TypeAliasType("JsonLike", "dict[str, JsonLike] | list[JsonLike] | str | int | bool | None")
Alias = TypeAliasType("Alias", list[Person])


def _form(value: Any) -> str:
    return "list" if isinstance(value, list) else "one"


VIEWS: list[tuple[Any, str]] = [
    (Counts, '{"a": 1, "b": 2}'),
    (Names, '["a", "b"]'),
    (People, '[{"name": "Ann", "age": 31, "address": null, "tags": ["x"]}]'),
    (list[Title], '["a", "bc"]'),
    (dict[str, Counts], '{"x": {"a": 1}, "y": {}}'),
    (list[Posted], '[{"a": 1, "b": 2}]'),
    (list[Derived], '[{"first": "Ann", "last": "Bo"}, {"first": "Cy", "last": "Do", "full": "C"}]'),
    (list[Collected], '[{}, {"items": [1, 2], "more": {"a": 1}, "name": "n"}]'),
    (Chosen, '{"fullName": "Ann", "age": 3}'),
    (list[ByBoth], '[{"firstName": "Ann"}]'),
    (Typed, '{"a": "x", "b": 1, "c": 2}'),
    (Strict, '{"day": "2024-02-29", "tags": ["a", "b"], "pair": [1, 2.5]}'),
    (Lowered, '{"word": "ABC"}'),
    (list[Frozen], '[{"a": 1}, {"a": 2, "b": "x"}]'),
    (list[Limited], '[{}, {"count": 4, "names": ["a"], "label": "y"}]'),
    (Pair[int], '{"left": 1, "right": 2}'),
    (Pair[Person], '{"left": {"name": "A", "age": 1}, "right": {"name": "B", "age": 2}}'),
    (Chain, '{"value": 1, "next": {"value": 2, "next": {"value": 3}}}'),
    (list[Slotted], '[{"a": 1, "b": ["x"]}, {"a": 2}]'),
    (Node[int], '{"value": 1, "children": [{"value": 2, "children": []}, {"value": 3}]}'),
    (Node[dt.date], '{"value": "2024-01-02", "children": [{"value": "2024-01-03"}]}'),
    (Couple[dt.date], '{"left": "2024-01-02", "right": "2024-01-03"}'),
    (Nested, '{"person": {"name": "Ann", "age": 1}, "movies": [{"title": "M", "year": 1931}]}'),
    (Shelf, '{"rows": [{"id": 1, "text": "a"}, {"id": 2}], "name": "low"}'),
    (list[Pet], '[{"kind": "cat", "lives": 9}, {"kind": "dog", "good": false}, {"kind": "dog"}]'),
    (list[Cat | Dog], '[{"kind": "dog", "good": true}, {"kind": "cat", "lives": 3}]'),
    (list[Annotated[Circle | Square, Field(discriminator="shape")]],
     '[{"shape": "square", "side": 2.5}, {"shape": "circle", "radius": 1.5}]'),
    (list[Wide | Narrow], '[{"a": 1, "d": "x"}, {"a": 1, "b": 2}, {"a": 3}]'),
    (list[Annotated[
        Annotated[list[int], Tag("list")] | Annotated[Person, Tag("one")], Discriminator(_form)]],
     '[[1, 2], {"name": "Ann", "age": 1}]'),
    (list[int | str], '[42, "42", 7, "x"]'),
    (list[str | int], '["42", 42]'),
    (list[bool | int], "[true, 1, 0, false]"),
    (list[int | float], "[1, 1.5, 2]"),
    (list[dt.date | str], '["2024-01-02", "soon"]'),
    (list[uuid.UUID | int], '["12345678-1234-5678-1234-567812345678", 5]'),
    (list[list[int] | dict[str, int] | str], '[[1], {"a": 2}, "x"]'),
    (list[set[int] | list[str]], '[[1, 2], ["a", "a"]]'),
    (list[tuple[int, str] | tuple[str, int]], '[["a", 1], [1, "a"]]'),
    (dict[str, Cat | Dog | None], '{"a": null, "b": {"kind": "cat", "lives": 1}}'),
    (list[Movie | Row | Point], '[{"title": "M"}, {"id": 1}, {"x": 1.5}]'),
    (list[Literal["a", 1] | None], '["a", null, 1]'),
    (JsonLike, '{"a": [1, "x", {"b": null}], "c": true}'),
    (Alias, '[{"name": "Ann", "age": 1}]'),
    (set[dt.date], '["2024-01-02", "2024-01-03"]'),
    (frozenset[str], '["a", "b"]'),
    (set[Frozen], '[{"a": 1, "b": "x"}, {"a": 2}]'),
    (tuple[Person, ...], '[{"name": "Ann", "age": 1}, {"name": "Bo", "age": 2}]'),
    (tuple[int, Person], '[1, {"name": "Ann", "age": 1}]'),
    (collections.deque[int], "[1, 2]"),
    (collections.OrderedDict[str, list[int]], '{"b": [1], "a": []}'),
    (collections.defaultdict[str, list[int]], '{"b": [1], "a": []}'),
    (Sequence[int], "[1, 2]"),
    (Mapping[str, Person], '{"x": {"name": "Ann", "age": 1}}'),
    (dict[int, str], '{"1": "a", "-2": "b"}'),
    (dict[dt.date, Level], '{"2024-01-02": 1}'),
    (dict[Colour, list[Colour]], '{"red": ["blue", "red"]}'),
    (Annotated[dict[str, int], Field(min_length=2)], '{"a": 1, "b": 2}'),
    (Annotated[list[str], Field(min_length=2, max_length=3)], '["a", "b"]'),
    (Annotated[set[int], Field(min_length=2)], "[1, 2]"),
    (list[Annotated[str, StringConstraints(to_upper=True)]], '["ab", "c"]'),
    (list[SecretStr], '["ab", "c"]'),
    (list[Decimal], '[1.25, "0.10000000000000000001"]'),
    (list[bytes], '["abc"]'),
    (Tree, '{"label": "a", "children": [{"label": "b", "children": []}, {"label": "c"}]}'),
    (list[Aliased | Address], '[{"street": "a", "number": 1}, {"firstName": "x"}]'),
    (Open, '{"a": 1, "b": [2, {"c": null}]}'),
    (list[Pixel], '[{"x": 1, "y": 2, "colour": "red"}, {"x": 3, "y": 4}]'),
    (Box[Box[list[Pet]]], '{"inside": {"inside": [{"kind": "dog"}]}}'),
    (Any, '{"a": [1, 2.5, "x", null, {"b": []}]}'),
    (dict[str, Any], '{"a": [1, {"b": []}], "c": "d"}'),
    (list[object], '[1, "a"]'),
]  # fmt: skip
