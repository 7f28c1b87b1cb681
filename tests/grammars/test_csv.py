"""The shelf's CSV is RFC 4180, with LF as a line end and Unicode."""

from __future__ import annotations

import csv
import io
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.corpora.csv_files import is_valid
from tests.grammars.reading import assert_accepted, assert_rejected, disagreements, reader

ACCEPTED = [
    "a", "a\n", "a,b\r\n1,2\r\n", "a,b\n1,2", ",", ",,\n,,\n", '""', '"",""\n', '"a"\n"b"\n', "a b, c \n",
    '"x ""y"" z",2\n', '"one\ntwo\r\nthree",3\n', '"""",""""""\n', '"a,b",c\n', "é,日\n\U0001f600,\u00a0\n",
    "'a',b\n", "a\tb,c\n", "1\n2,3\n4,5,6\n", "\na\n", "a\n\nb\n\n", "a\n\n\n\nb\n\n\n\n", "#,;|\\\n",
]  # fmt: skip

REJECTED = [
    "‸", "\n‸", "\n\n\n‸\n", ",\n\n\n\n‸\na", 'a‸"b', 'a,b‸"', '"a"‸b', '"a"‸ ,b', '"a""‸', '"a‸', "a\r‸b",
    "\r\n‸", "a‸\x00", '"a‸\x1bb"', "a\n\n\n\n‸\nb", '"a,b\nc‸', "x,y\r‸\r\n", "a‸\x7f", ' ‸"a"',
]  # fmt: skip

fields = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from('",\n "')) | st.integers()


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepted(text: str) -> None:
    assert is_valid(text)
    assert_accepted("csv", text)


@pytest.mark.parametrize("text", REJECTED)
def test_rejected(text: str) -> None:
    assert_rejected("csv", text)


@given(
    st.lists(st.lists(fields, min_size=1), min_size=1), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
)
def test_what_python_writes(rows: list[list[str | int]], quoting: Literal[0, 1]) -> None:
    file = io.StringIO(newline="")
    csv.writer(file, quoting=quoting).writerows(rows)
    assert reader("csv").accepts(file.getvalue())


@pytest.mark.parametrize("seed", range(20))
def test_edited_texts_have_the_verdict_of_python(seed: int) -> None:
    """Empty lines are nothing to Python, and any number of them; the grammar allows three in a row."""

    def is_valid_record(text: str) -> bool:
        return is_valid(text) and text.strip("\r\n") != ""

    texts = [text for text in ACCEPTED if "\n\n\n" not in text]
    assert disagreements("csv", texts, is_valid_record, seed=seed) == []
