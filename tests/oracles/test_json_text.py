"""The exact reader against the standard one where they agree, and by example where they do not."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.json_text import JSONTextError, Value, exact, identity, parse

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(values, st.booleans(), st.sampled_from([None, 1]))
def test_reads_what_json_writes(value: Value, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert identity(parse(text)) == identity(exact(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9007199254740993", Fraction(9007199254740993)),
        ("0.1", Fraction(1, 10)),
        ("1e400", Fraction(10**400)),
        ("-0", Fraction(0)),
        (r'"\ud83d\ude00"', "\U0001f600"),
        (r'"\ud83d"', "\ud83d"),
        (r'"\u0061\/"', "a/"),
        (' [ 1 , {"a" : null } ]\n', [Fraction(1), {"a": None}]),
    ],
)
def test_exact_values(text: str, value: Value) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "NaN",
        "tru",
        '"',
        '"\n"',
        r'"\x"',
        r'"\u12"',
        "[1,]",
        "[1 2]",
        "1 1",
    ]
    + ["{", '{"a"}', '{"a":1,}', "{a:1}", '{"a":1,"\\u0061":2}', "'a'", "[", "\x00", b"\xff"],
)
def test_refused(text: str | bytes) -> None:
    with pytest.raises(JSONTextError):
        parse(text)


def test_true_is_not_one_and_one_is_one() -> None:
    assert identity(parse("true")) != identity(parse("1"))
    assert identity(parse("[1.0, 1e0]")) == identity(parse("[1, 1]"))
    assert identity(parse('{"a":1,"b":2}')) == identity(parse('{"b":2,"a":1}'))
