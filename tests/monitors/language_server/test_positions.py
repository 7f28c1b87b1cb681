"""Offsets and positions agree with the slow reference of the fake server, in each encoding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structgen.monitors.language_server.positions import (
    ENCODINGS,
    Encoding,
    encodable,
    offset_of,
    position_of,
)
from tests.monitors.language_server import fake_server

TEXTS = st.text(alphabet="ab\n\r\té€\u2028\U0001f600\U00010000 .", max_size=30)


def slow_units(text: str, encoding: Encoding) -> int:
    width = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    name = encoding if encoding == "utf-8" else f"{encoding}-le"
    return len(text.encode(name)) // width


def is_inside_break(text: str, offset: int) -> bool:
    return text[max(0, offset - 1) : offset + 1] == "\r\n"


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(text=TEXTS, data=st.data())
def test_an_offset_comes_back_from_its_position(encoding: Encoding, text: str, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(text)))
    line, column = position_of(text, offset, encoding)
    if is_inside_break(text, offset):
        offset -= 1
    assert offset_of(text, line, column, encoding) == offset
    before = fake_server.lines(text[:offset])
    # a text that is cut after \r has one line more, unless \n follows
    assert line == len(before) - 1
    assert column == slow_units(before[-1], encoding)


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(text=TEXTS, line=st.integers(0, 9), column=st.integers(0, 99))
def test_every_position_is_brought_into_the_text(
    encoding: Encoding, text: str, line: int, column: int
) -> None:
    offset = offset_of(text, line, column, encoding)
    assert 0 <= offset <= len(text)
    assert not is_inside_break(text, offset)
    found, units = position_of(text, offset, encoding)
    assert (found, units) <= (line, column)


def test_astral_characters_count_as_the_encoding_says() -> None:
    text = "a\U0001f600b"
    assert [position_of(text, 2, encoding)[1] for encoding in ("utf-32", "utf-16", "utf-8")] == [2, 3, 5]
    assert offset_of(text, 0, 2, "utf-16") == 1  # in the middle of the pair: before it


def test_lone_surrogates_are_replaced_in_place() -> None:
    assert encodable("a\ud800b") == "a\ufffdb"
    assert encodable("plain") == "plain"
