"""Partial JSON against the whole: every prefix of a text says what the whole text says, as far as it goes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.partial import MISSING, PartialJson, Unfinished, parse_partial

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
TEXTS = st.builds(
    lambda value, ascii_only, indent: json.dumps(value, ensure_ascii=ascii_only, indent=indent),
    VALUES,
    st.booleans(),
    st.sampled_from([None, 2]),
)


def is_part(part: Any, whole: Any) -> bool:
    """Whether `part` is what may be known of `whole`: fewer items and keys, the last string shorter."""
    if isinstance(part, Unfinished):
        return isinstance(whole, str) and whole.startswith(part)
    if isinstance(part, list):
        return isinstance(whole, list) and len(part) <= len(whole) and all(map(is_part, part, whole))
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(k in whole and is_part(v, whole[k]) for k, v in part.items())
    return type(part) is type(whole) and part == whole


@settings(max_examples=150, deadline=None)
@given(TEXTS)
def test_every_prefix_is_part_of_the_whole(text: str) -> None:
    whole = json.loads(text)
    parser = PartialJson()
    before: Any = MISSING
    for at, character in enumerate(text):
        parser.feed(character)
        value = parser.value
        assert is_part(value, whole) or value is MISSING
        assert value == parse_partial(text[: at + 1])
        assert before is MISSING or is_part(before, value)
        before = value
    assert parser.finish() == whole


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("", MISSING),
        ("  ", MISSING),
        ("12", MISSING),
        ("tru", MISSING),
        ('{"a": null', {"a": None}),
        ('"ab', "ab"),
        ('{"a', {}),
        ('{"a":', {}),
        ('{"a": 1', {}),
        ('{"a": 1,', {"a": 1}),
        ('{"a": [true, fal', {"a": [True]}),
        ('{"a": "x\\', {"a": "x"}),
        ('{"a": "x\\u00', {"a": "x"}),
        ('{"a": "x\\ud83d', {"a": "x"}),
        ('{"a": "x\\ud83d\\ude0', {"a": "x"}),
        ('{"a": "x\\ud83d\\ude00', {"a": "x😀"}),
        ('{"a": "x\\\\u00', {"a": "x\\u00"}),
        ('{"a": 1, "a": "tw', {"a": "tw"}),
        ("[[[", [[[]]]),
    ],
)
def test_what_a_prefix_says(prefix: str, expected: Any) -> None:
    assert parse_partial(prefix) == expected


def test_only_the_open_string_is_unfinished() -> None:
    value = parse_partial('["a", "b')
    assert not isinstance(value[0], Unfinished) and isinstance(value[1], Unfinished)


def test_values_are_copies() -> None:
    parser = PartialJson()
    parser.feed('{"a": [1, ')
    first = parser.value
    first["a"].append("mine")
    parser.feed("2, ")
    assert parser.value == {"a": [1, 2]}


@pytest.mark.parametrize(
    "text", ["}", "[1 2", '{"a" 1', "{1", "[,", "nul]", "01,", "[1,]", '{"a":1,}', "1 2", "nope "]
)
def test_text_that_is_not_json_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(ValueError, match="not JSON at character"):
        parse_partial(text + " ")


def test_finishing_early_is_an_error() -> None:
    parser = PartialJson()
    parser.feed("[1")
    with pytest.raises(ValueError, match="ends early"):
        parser.finish()


def test_long_streams_stay_linear() -> None:
    """Feeding a character at a time must not read the text again: 200k characters, a second or so."""
    parser = PartialJson()
    parser.feed('{"a": "')
    for _ in range(200_000):
        parser.feed("x")
    parser.feed('"}')
    assert len(parser.value["a"]) == 200_000
