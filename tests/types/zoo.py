"""One of every kind of output type, with texts that are values and texts that are not."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import ipaddress
import uuid
from decimal import Decimal
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypeVar,
    Union,
)

import annotated_types as at
import pydantic.dataclasses
from pydantic import (
    AnyUrl,
    AwareDatetime,
    Base64Bytes,
    BaseModel,
    ConfigDict,
    Field,
    HttpUrl,
    IPvAnyAddress,
    NaiveDatetime,
    RootModel,
    SecretStr,
    StringConstraints,
)
from pydantic.types import UUID4
from typing_extensions import TypedDict


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Address(BaseModel):
    street: str
    number: int = Field(ge=1, le=9999)


class Person(BaseModel):
    name: str = Field(min_length=1, description="The full name.")
    age: int = Field(ge=0, le=150)
    address: Address | None = None
    tags: list[str] = []


class Tree(BaseModel):
    label: str
    children: list[Tree] = Field(default=[], max_length=2)


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=0, le=9)]


class Dog(BaseModel):
    kind: Literal["dog"]
    good: bool = True


T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    inside: T


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Aliased(BaseModel):
    first_name: str = Field(alias="firstName")


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


Code = NewType("Code", str)


@pydantic.dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pixel:
    x: int
    y: int = Field(ge=0)
    colour: Colour = Colour.BLUE


class Row(NamedTuple):
    id: int
    text: str = ""


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


def send(to: str, copies: Annotated[int, Field(ge=1, le=9)] = 1, *, urgent: bool = False) -> str:
    """Send a letter."""
    return f"{to} {copies} {urgent}"


# annotation, [(text, value)], [texts outside]
ZOO: list[tuple[Any, list[tuple[str, Any]], list[str]]] = [
    (str, [("", ""), ("any text\n", "any text\n")], []),
    (int, [("0", 0), ("-12", -12)], ["1.5", '"1"', "", "01"]),
    (float, [("1.5", 1.5), ("-3", -3.0)], ['"1"', "nan"]),
    (bool, [("true", True), ("false", False)], ["True", "1"]),
    (None, [("null", None)], ["None", ""]),
    (Literal["a", "b"], [("a", "a"), ("b", "b")], ['"a"', "c", ""]),
    (Literal["a", "b"] | None, [("a", "a"), ("null", None)], ["None"]),
    (Literal["a", 1, True], [("a", "a"), ("1", 1), ("true", True)], ["2"]),
    (Colour, [("red", Colour.RED)], ["RED", '"red"']),
    (Level, [("3", Level.HIGH)], ["2"]),
    (Access, [("1", Access.READ), ("3", Access.READ | Access.WRITE), ("0", Access(0))], ["4", "-1"]),
    (Optional[int], [("null", None), ("3", 3)], ["x"]),  # noqa: UP045
    (Union[int, str], [("3", 3), ('"x"', "x")], ["x"]),  # noqa: UP007
    (list[int], [("[]", []), ("[1,2]", [1, 2])], ["[1,]", '["1"]']),
    (tuple[int, str], [('[1,"a"]', (1, "a"))], ["[1]", '[1,"a",2]']),
    (tuple[int, ...], [("[1,2,3]", (1, 2, 3))], ['["a"]']),
    (set[int], [("[1,2]", {1, 2})], ['["a"]']),
    (frozenset[Literal["a", "b"]], [('["a"]', frozenset("a"))], ['["c"]']),
    (dict[str, int], [('{"a":1}', {"a": 1})], ['{"a":"1"}']),
    (dict[int, str], [('{"1":"a"}', {1: "a"})], ['{"a":"a"}']),
    (dict[Colour, int], [('{"red":1}', {Colour.RED: 1})], ['{"green":1}']),
    (dict[dt.date, int], [('{"2024-02-29":1}', {dt.date(2024, 2, 29): 1})], ['{"2023-02-29":1}']),
    (Annotated[int, at.Ge(3), at.Lt(6)], [("3", 3), ("5", 5)], ["2", "6"]),
    (Annotated[int, at.MultipleOf(5)], [("10", 10)], ["3"]),
    (Annotated[list[int], at.Len(1, 2)], [("[1]", [1])], ["[]", "[1,2,3]"]),
    (Annotated[str, StringConstraints(min_length=2, max_length=3)], [("ab", "ab")], ["a", "abcd"]),
    (Annotated[str, StringConstraints(pattern="^[a-c]+$")], [("abc", "abc")], ["d", ""]),
    (dt.date, [("2024-02-29", dt.date(2024, 2, 29))], ["2023-02-29", "2024-13-01", "0000-01-01", '"2024-02-29"']),
    (Annotated[dt.date, Field(gt=dt.date(2019, 12, 30), lt=dt.date(2020, 3, 1))],
     [("2019-12-31", dt.date(2019, 12, 31)), ("2020-02-29", dt.date(2020, 2, 29))],
     ["2019-12-30", "2020-03-01", "1999-12-31", "2021-01-01"]),
    (dt.time, [("23:59:59", dt.time(23, 59, 59))], ["24:00:00", "23:59:60"]),
    (dt.datetime, [("2024-01-01T10:00:00", dt.datetime(2024, 1, 1, 10))], ["2024-01-01", "2024-01-01T25:00:00"]),
    (NaiveDatetime, [("2024-01-01T10:00:00", dt.datetime(2024, 1, 1, 10))], ["2024-01-01T10:00:00Z"]),
    (AwareDatetime, [("2024-01-01T10:00:00Z", dt.datetime(2024, 1, 1, 10, tzinfo=dt.UTC))], ["2024-01-01T10:00:00"]),
    (dt.timedelta, [("P1DT2H", dt.timedelta(days=1, hours=2)), ("-PT0.5S", -dt.timedelta(seconds=0.5))], ["P", "PT"]),
    (uuid.UUID, [("12345678-1234-5678-1234-567812345678", uuid.UUID("12345678123456781234567812345678"))], ["1234"]),
    (UUID4, [("12345678-1234-4678-9234-567812345678", uuid.UUID("12345678-1234-4678-9234-567812345678"))],
     ["12345678-1234-5678-9234-567812345678"]),
    (Decimal, [("1.5", Decimal("1.5")), ('"0.10000000000000000001"', Decimal("0.10000000000000000001"))], ['"x"']),
    (Annotated[Decimal, Field(gt=0, decimal_places=2, max_digits=4)], [("1.25", Decimal("1.25"))],
     ["0", "1.255", "100", '"1"']),
    (Annotated[Decimal, Field(max_digits=3)],
     [("1.25", Decimal("1.25")), ("125", Decimal(125)), ("0.125", Decimal("0.125"))],
     ["1.255", "1250", "0.1255", '"1"']),
    (Annotated[Decimal, Field(max_digits=3, multiple_of=Decimal("0.5"))], [("12.5", Decimal("12.5"))],
     ["122.5", "1.2"]),
    (Annotated[Decimal, Field(max_digits=2, decimal_places=2)], [("0.25", Decimal("0.25"))], ["0", "1", "0.255"]),
    (Path, [("a/b", Path("a/b"))], [""]),
    (HttpUrl, [("https://example.com/a?b=c", HttpUrl("https://example.com/a?b=c"))], ["ftp://a.b", "https://"]),
    (AnyUrl, [("ftp://example.com", AnyUrl("ftp://example.com"))], ["no url"]),
    (bytes, [("abc", b"abc")], []),
    (ipaddress.IPv4Address, [("10.0.0.255", ipaddress.IPv4Address("10.0.0.255"))], ["10.0.0.256", "010.0.0.1"]),
    (ipaddress.IPv6Address, [("::1", ipaddress.IPv6Address("::1"))], [":::1", "1"]),
    (ipaddress.IPv4Network,
     [("10.0.0.1", ipaddress.IPv4Network("10.0.0.1")), ("10.8.0.0/13", ipaddress.IPv4Network("10.8.0.0/13"))],
     ["10", "10.4.0.0/13", "10.0.0.0/33"]),
    (ipaddress.IPv4Interface, [("10.4.0.9/13", ipaddress.IPv4Interface("10.4.0.9/13"))], ["10.4.0.9/33", "10/8"]),
    (list[IPvAnyAddress], [('["::1"]', [ipaddress.ip_address("::1")])], ['["1"]']),
    (Base64Bytes, [("aGk=", b"hi")], ["a"]),
    (complex, [("1.5-2j", 1.5 - 2j)], ["i"]),
    (SecretStr, [("abc", SecretStr("abc"))], []),
    (RootModel[list[int]], [("[1]", RootModel[list[int]]([1]))], ['{"root":[1]}']),
    (Code, [("ab", Code("ab"))], []),
    (list[Point | Row], [('[{"x":1},{"id":2}]', [Point(1.0), Row(2)])], ['[{"z":1}]']),
    (Pixel, [('{"x":1,"y":2,"colour":"red"}', Pixel(x=1, y=2, colour=Colour.RED))], ['{"x":1}']),
    (Any, [("null", None), ('{"a":[1]}', {"a": [1]})], ["{"]),
    (Address, [('{"street":"a","number":3}', Address(street="a", number=3))],
     ['{"street":"a"}', '{"street":"a","number":0}', '{"street":"a","number":3,"x":1}']),
    (Person, [('{"name":"Ann","age":31,"address":null}', Person(name="Ann", age=31))],
     ['{"name":"","age":3}', '{"age":3,"name":"Ann"}']),
    (Tree, [('{"label":"a","children":[{"label":"b"}]}', Tree(label="a", children=[Tree(label="b")]))],
     ['{"label":"a","children":[{"children":[]}]}']),
    (Union[Cat, Dog], [('{"kind":"dog"}', Dog(kind="dog"))], ['{"kind":"cat"}', '{"kind":"cow"}']),  # noqa: UP007
    (Annotated[Cat | Dog, Field(discriminator="kind")], [('{"kind":"cat","lives":9}', Cat(kind="cat", lives=9))],
     ['{"kind":"cat","lives":10}', '{"lives":1}']),
    (Box[int], [('{"inside":1}', Box[int](inside=1))], ['{"inside":"a"}']),
    (Box[list[Colour]], [('{"inside":["red"]}', Box[list[Colour]](inside=[Colour.RED]))], ['{"inside":["x"]}']),
    (Open, [('{"a":1,"b":[2]}', Open(a=1, b=[2]))], ['{"b":1}']),
    (Aliased, [('{"firstName":"x"}', Aliased(firstName="x"))], ['{"first_name":"x"}']),
    (Point, [('{"x":1}', Point(1.0)), ('{"x":1,"y":2.5}', Point(1.0, 2.5))], ['{"y":1}', '{"x":1,"z":2}']),
    (Row, [('{"id":1,"text":"a"}', Row(1, "a")), ('{"id":1}', Row(1))], ['{"text":"a"}', '[1,"a"]']),
    (Movie, [('{"title":"M"}', {"title": "M"}), ('{"title":"M","year":1931}', {"title": "M", "year": 1931})],
     ['{"year":1931}', '{"title":"M","x":1}']),
    (list[Movie], [('[{"title":"M"}]', [{"title": "M"}])], ['[{}]']),
]  # fmt: skip

NAMES = [str(getattr(annotation, "__name__", annotation)).replace("typing.", "") for annotation, _, _ in ZOO]
