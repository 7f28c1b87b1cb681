"""Growing JSON: the events of any division of a text into pieces describe what `json.loads` returns."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structgen.partial import JsonReader

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


class Built:
    """A builder that makes the value of a text from the events, in the obvious way."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree: list[Any] = [[]]
        self.keys: list[str] = []

    def put(self, value: Any) -> None:
        if isinstance(self.tree[-1], dict):
            self.tree[-1][self.keys.pop()] = value
        else:
            self.tree[-1].append(value)

    def on_open(self, is_object: bool, start: int) -> None:
        assert self.text[start] == ("{" if is_object else "[")
        self.tree.append({} if is_object else [])

    def on_key(self, key: str) -> None:
        self.keys.append(key)

    def on_value(self, start: int, end: int) -> None:
        self.put(json.loads(self.text[start:end]))

    def on_close(self, start: int, end: int) -> None:
        value = self.tree.pop()
        assert value == json.loads(self.text[start:end])
        self.put(value)


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.integers(1, 9))
def test_events_describe_the_text(text: str, step: int) -> None:
    built = Built(text)
    reader = JsonReader(built)
    for at in range(0, len(text), step):
        reader.feed(text[at : at + step])
    reader.finish()
    assert built.tree == [[json.loads(text)]]
    assert reader.is_complete


@pytest.mark.parametrize(
    ("prefix", "string"),
    [
        ("", None),
        ("12", None),
        ('"ab', "ab"),
        ('{"a', None),
        ('{"a": "x\\', "x"),
        ('{"a": "x\\u00', "x"),
        ('{"a": "x\\ud83d', "x"),
        ('{"a": "x\\ud83d\\ude0', "x"),
        ('{"a": "x\\ud83d\\ude00', "x😀"),
        ('{"a": "x\\\\u00', "x\\u00"),
        ('{"a": "x"', None),
    ],
)
def test_the_open_string_leaves_out_escapes_that_are_not_whole(prefix: str, string: str | None) -> None:
    reader = JsonReader()
    reader.feed(prefix)
    assert reader.open_string == string


@pytest.mark.parametrize(
    "text",
    ["}", "[1 2", '{"a" 1', "{1", "[,", "nul]", "01,", "[1,]", '{"a":1,}', "1 2", "nope ", "[}", '"\n"'],
)
def test_text_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="JSON|control character"):
        JsonReader().feed(text + " ")


def test_a_refusal_says_where() -> None:
    reader = JsonReader()
    reader.feed("[1, ")
    with pytest.raises(ValueError, match="not JSON at character 5: ',' cannot stand here"):
        reader.feed(" , 2")


def test_finishing_early_is_an_error() -> None:
    reader = JsonReader()
    reader.feed("[1")
    with pytest.raises(ValueError, match="ends early"):
        reader.finish()


def test_long_numbers_are_numbers() -> None:
    reader = JsonReader()
    reader.feed("1" * 10_000)
    reader.finish()


def test_long_streams_stay_linear() -> None:
    """Feeding a character at a time must not read the text again: 200k characters, a second or so."""
    reader = JsonReader()
    reader.feed('{"a": "')
    for _ in range(100_000):
        reader.feed("x")
        reader.feed("\\n")
        assert reader.open_string is not None
    assert reader.open_string == "x\n" * 100_000
    reader.feed('"}')
    assert reader.is_complete
