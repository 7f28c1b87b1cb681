"""An accepted type can be validated: a type that JSON cannot represent is refused where it is declared."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import ipaddress
import re
import uuid
import zoneinfo
from typing import Annotated, Any, Literal

import annotated_types as at
import pytest
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    AmqpDsn,
    AwareDatetime,
    Base64Encoder,
    Base64UrlBytes,
    BaseModel,
    ByteSize,
    ConfigDict,
    EncodedBytes,
    Field,
    FileUrl,
    FutureDate,
    ImportString,
    Json,
    MongoDsn,
    MySQLDsn,
    NaiveDatetime,
    NatsDsn,
    PastDate,
    PostgresDsn,
    RedisDsn,
    RootModel,
    Secret,
    SecretStr,
    StringConstraints,
    WebsocketUrl,
    conbytes,
    condecimal,
    conint,
    constr,
)

from structgen.errors import OutputInvalid, TypeNotSupported
from structgen.matcher import Matcher
from structgen.types import output_type
from structgen.vocabulary import Vocabulary

from .test_round_trip import draws
from .zoo import Person


class Pair(enum.Enum):
    A = (1, 2)


class Day(enum.Enum):
    A = dt.date(2020, 1, 1)


class Raw(enum.Enum):
    A = b"x"


class Empty(enum.Enum):
    pass


class Plain(enum.Enum):
    A = "a"
    B = "b"


class Number(enum.IntEnum):
    ONE = 1
    TEN = 10


class Mixed(enum.Enum):
    A = "x"
    B = 1.5
    C = None
    D = (1,)


@dataclasses.dataclass(frozen=True)
class Point:
    x: int


class Points(enum.Enum):
    A = Point(1)


class Deep(BaseModel):
    a: int = Field(validation_alias=AliasPath("x", "y"))


class Stripless(BaseModel):
    x: int


class Left(BaseModel):
    kind: Literal[Plain.A]


class Right(BaseModel):
    kind: Literal[Plain.B]


class TwiceCoded(BaseModel):
    model_config = ConfigDict(val_json_bytes="base64")
    a: list[Base64UrlBytes]


class TwiceHex(BaseModel):
    model_config = ConfigDict(val_json_bytes="hex")
    a: Annotated[bytes, EncodedBytes(encoder=Base64Encoder)]


@pytest.mark.parametrize(
    ("annotation", "where", "why"),
    [
        (list[Pair], "[0]", r"Pair cannot be an output type: its value \(1, 2\)"),
        (dict[str, Day], "[1]", "its value datetime.date"),
        (Points, "Points", "its value Point"),
        (list[Raw], "[0]", "its value b'x'"),
        (Literal[b"x"], "", "its value b'x'"),
        (list[Mixed], "[0]", r"its value \(1,\)"),
        (list[Empty], "[0]", "Empty cannot be an output type: it has no members"),
        (Empty, "Empty", "it has no members"),
        (list[Annotated[Left | Right, Field(discriminator="kind")]], "kind", "Derive the enum from str"),
        (Deep, "Deep", "its field 'a' is read from a path inside other values"),
        (set[Stripless], "set", "need a hash"),
        (frozenset[list[int]], "", "need a hash"),
        (Json[int], "", "is a string that contains JSON"),
        (list[Json[Any]], "[0]", "is a string that contains JSON"),
        (type[Person], "type", "a class cannot be read from JSON"),
        (ImportString, "", "would import any module"),
        (list[ImportString], "", "would import any module"),
        (dict[tuple[int, int], str], "dict", "its keys cannot be converted"),
        (dict[Literal[1, 2], str], "dict", "its key 1 cannot be converted from a string"),
        (dict[Annotated[float, Field(ge=1)], str], "dict", "its keys cannot be converted"),
        (dict[Annotated[int, Field(multiple_of=3)], str], "dict", "without close bounds"),
        (Annotated[dt.timedelta, Field(gt=dt.timedelta(seconds=1), lt=dt.timedelta(seconds=2))], "", "no whole number"),
        (Annotated[AwareDatetime, Field(gt=dt.datetime(2020, 1, 1), lt=dt.datetime(2021, 1, 1, tzinfo=dt.UTC))], "",
         "with and without a time zone"),
        (Annotated[str, Field(pattern="(?=a)")], "", "look-around"),
        (Annotated[str, Field(pattern="[a")], "", "unclosed character class"),
        (TwiceCoded, "TwiceCoded", "decoded twice, by val_json_bytes='base64'"),
        (TwiceHex, "TwiceHex", "decoded twice, by val_json_bytes='hex'"),
    ],
)  # fmt: skip
def test_types_whose_texts_cannot_be_validated_are_refused(annotation: Any, where: str, why: str) -> None:
    with pytest.raises(TypeNotSupported, match=why) as caught:
        output_type(annotation)
    assert where in (caught.value.where or "")
    assert caught.value.hint


class Stripped(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True, str_min_length=2, str_to_upper=True)
    a: str
    b: Annotated[str, Field(pattern="^[a-z ]+$")]


class Coded(BaseModel):
    model_config = ConfigDict(val_json_bytes="base64")
    a: bytes


class Hexed(BaseModel):
    model_config = ConfigDict(val_json_bytes="hex")
    a: Annotated[bytes, Field(min_length=1, max_length=3)]


class Pythons(BaseModel):
    model_config = ConfigDict(regex_engine="python-re")
    a: Annotated[str, Field(pattern=r"^(?=\w)[a-z]+\Z")]


class Choices(BaseModel):
    a: int = Field(validation_alias=AliasChoices(AliasPath("x", 0), "b"))
    c: list[Literal["x", 1, True, None]] = []


class Exact(BaseModel):
    model_config = ConfigDict(strict=True)
    a: decimal.Decimal
    b: tuple[dt.date, uuid.UUID]
    c: dict[int, bytes]
    d: set[float]


Dates = Annotated[
    dt.datetime, Field(ge=dt.datetime(2024, 2, 28, 23, 59, 58, 500), lt=dt.datetime(2024, 3, 1))
]


def pattern(source: Any) -> Any:
    return Annotated[str, Field(pattern=source)]


class TaggedA(BaseModel):
    k: Literal["a"] = "a"
    x: int


class TaggedB(BaseModel):
    k: Literal["b"] = "b"
    y: int


class Tagged(BaseModel):
    u: TaggedA | TaggedB = Field(discriminator="k")


class Named(BaseModel):
    enum: ipaddress.IPv4Network
    default: Base64UrlBytes


class Finite(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)
    a: float


class Both(BaseModel):
    model_config = ConfigDict(extra="allow", populate_by_name=True)
    a: int = Field(1, alias="b")


class Keyed(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[pattern("^x"), int] = Field(init=False)
    b: int = 0


D = decimal.Decimal
# A type, a text of it, and one that validation refuses.
NARROW: list[tuple[Any, str, str]] = [
    (Tagged, '{"u": {"k": "a", "x": 1}}', '{"u": {"x": 1}}'),
    (collections.OrderedDict[int, int], '{"1": 2}', '{"x": 1}'),
    (collections.Counter[int], '{"1": 2}', '{"x": 1}'),
    (Named, '{"enum": "10.0.0.1", "default": "aGk="}', '{"enum": "x", "default": "aGk="}'),
    (Annotated[float, Field(gt=0)], "1e-300", "1e-400"),
    (Annotated[float, Field(lt=1)], "0.5", "0.99999999999999999999"),
    (Finite, '{"a": 1e300}', '{"a": 1e400}'),
    (Annotated[D, Field(ge=D("0.1000000000000000000001"))], "0.2", "0.1"),
    (Annotated[D, Field(multiple_of=D("0.1"))], "1.1", "1e30"),
    (Annotated[D, Field(ge=D(10**17 + 1))], "100000000000000001", "100000000000000000"),
    (Both, '{"b": 1, "c": "x"}', '{"a": "x"}'),
    (Keyed, '{"b": 1, "xa": 2}', '{"a": 1, "b": 1}'),
    (FileUrl, "file://a", "file://a:9"),
    (dict[Annotated[int, Field(ge=1, le=5)], str], '{"3": "a"}', '{"7": "a"}'),
]


@pytest.mark.parametrize(("annotation", "good", "bad"), NARROW, ids=range(len(NARROW)))
def test_the_constraint_is_as_narrow_as_validation(annotation: Any, good: str, bad: str) -> None:
    kind = output_type(annotation)
    kind.validate(good)
    with pytest.raises(OutputInvalid):
        kind.validate(bad)
    matcher = Matcher(kind.constraint, Vocabulary.of_bytes())
    for text in (good, bad):
        fork = matcher.fork()
        assert (all(map(fork.advance, text.encode())) and fork.is_complete()) == (text == good), text


@pytest.mark.parametrize(
    "annotation",
    [Annotated[int, at.Predicate(lambda value: value > 0)], at.LowerCase[str], list[at.IsFinite[float]]],
)
def test_predicates_are_the_users_code(annotation: Any) -> None:
    assert output_type(annotation).constraint


READABLE: list[Any] = [
    *(annotation for annotation, _, _ in NARROW),
    Stripped,
    Coded,
    Hexed,
    Pythons,
    Choices,
    Exact,
    Dates,
    list[Dates],
    Annotated[
        dt.datetime,
        Field(gt=dt.datetime(2024, 1, 1, tzinfo=dt.UTC), le=dt.datetime(2024, 1, 2, tzinfo=dt.UTC)),
    ],
    Annotated[AwareDatetime, Field(ge=dt.datetime(2024, 1, 1), le=dt.datetime(2024, 1, 1, 0, 0, 1))],
    Annotated[NaiveDatetime, Field(gt=dt.datetime(2024, 1, 1), lt=dt.datetime(2024, 1, 1, 0, 0, 1, 5))],
    Annotated[dt.time, Field(gt=dt.time(9, 59, 59), le=dt.time(10, 0, 1))],
    Annotated[dt.time, Field(lt=dt.time(0, 0, 1))],
    Annotated[dt.timedelta, Field(ge=dt.timedelta(seconds=-75), lt=dt.timedelta(minutes=20))],
    Annotated[dt.timedelta, Field(gt=dt.timedelta(days=1))],
    dict[Annotated[int, Field(ge=1, le=5)], str],
    dict[Annotated[int, Field(gt=-120, lt=1300, multiple_of=7)], str],
    dict[Annotated[int, Field(ge=-5)], int],
    dict[constr(pattern="^[a-c]+$", max_length=2), int],
    dict[constr(strip_whitespace=True, min_length=2), int],
    dict[constr(pattern=r"^\W{1,3}$"), int],
    dict[Plain, int],
    dict[Number, int],
    dict[dt.date | Literal["never"], int],
    dict[uuid.UUID, int],
    dict[bool, int],
    dict[decimal.Decimal, int],
    dict[float, int],
    list[Plain | Number],
    PostgresDsn,
    list[PostgresDsn],
    RedisDsn,
    MongoDsn,
    NatsDsn,
    AmqpDsn,
    MySQLDsn,
    WebsocketUrl,
    FileUrl,
    zoneinfo.ZoneInfo,
    list[zoneinfo.ZoneInfo],
    conbytes(min_length=2, max_length=3),
    list[conbytes(max_length=2)],
    constr(strip_whitespace=True, min_length=2, to_upper=True),
    constr(strip_whitespace=True, pattern="^[a-z ]{2,4}$"),
    list[constr(strip_whitespace=True, pattern="^[a-z ]{2,4}$", max_length=3)],
    list[constr(to_lower=True, pattern="^[A-Za-z]+$")],
    pattern("^[[:alpha:]]{1,3}$"),
    pattern("^[a-z&&[^aeiou]]{2}$"),
    pattern(r"^\W\D\S$"),
    pattern("(?m)^b$"),
    pattern(r"(?i)^straße$"),
    pattern(re.compile("^ab c$", re.IGNORECASE | re.VERBOSE)),
    pattern(re.compile(r"^\w(?!b)[a-c]$")),
    list[pattern(r"^\S{2}$")],
    conint(ge=-3, lt=10, multiple_of=2),
    condecimal(max_digits=4, decimal_places=1, gt=decimal.Decimal("-2.5")),
    list[Secret[int] | SecretStr],
    fractions.Fraction,
    ByteSize,
    PastDate,
    Base64UrlBytes,
    collections.Counter[str],
    list[ipaddress.IPv6Network],
    RootModel[Annotated[str, StringConstraints(min_length=1, max_length=3)]],
]
NAMES = [f"{place}-{getattr(one, '__name__', '')}" for place, one in enumerate(READABLE)]


@pytest.mark.parametrize("annotation", READABLE, ids=NAMES)
def test_drawn_texts_are_valid(annotation: Any) -> None:
    kind = output_type(annotation)
    for text in draws(kind):
        kind.validate(text)
        kind.partial(text[: len(text) // 2])


def test_bounds_of_times_leave_out_what_is_outside() -> None:
    kind = output_type(Dates)
    matcher = Matcher(kind.constraint, Vocabulary.of_bytes())
    for text, fits in [
        ("2024-02-28T23:59:58", False),
        ("2024-02-28T23:59:59", True),
        ("2024-02-29T23:59:59.999999", True),
        ("2024-02-29T23:59:59Z", False),
        ("2024-03-01T00:00:00", False),
        ("2023-12-31T00:00:00", False),
    ]:
        fork = matcher.fork()
        assert (all(map(fork.advance, text.encode())) and fork.is_complete()) == fits, text


def test_a_type_with_user_code_is_not_judged_by_a_text() -> None:
    def never(value: Any) -> Any:
        raise ValueError("never")

    assert output_type(Annotated[int, AfterValidator(never)]).constraint
    assert output_type(FutureDate).constraint  # what is in the future is known at the end


def test_the_order_of_unions_and_literals_counts() -> None:
    class A(BaseModel):
        x: int

    class B(BaseModel):
        x: int
        y: int = 0

    for first, second in ((A, B), (B, A)):
        for annotation in (first | second, list[first | second], dict[str, first | second | None]):
            schema = str(output_type(annotation).schema)
            text = '{"x": 1}'
            value = output_type(first | second).validate(text)
            assert type(value) is first, schema
    assert output_type(Literal["a", "b"]).description != output_type(Literal["b", "a"]).description
    assert type(output_type(Literal[1, "a"]).validate("1")) is int
    assert output_type(Literal[True]).validate("true") is True
